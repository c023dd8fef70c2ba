"""The contract of a host, in `examples/fastapi_app.py` under uvicorn."""

from __future__ import annotations

from host import HostContract
from process import uvicorn


class TestFastAPI(HostContract):
    command = staticmethod(uvicorn)
    app = "fastapi_app:app"
