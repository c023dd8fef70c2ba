"""The contract of a host, in `examples/starlette_app.py` under uvicorn."""

from __future__ import annotations

from host import HostContract
from process import uvicorn


class TestStarlette(HostContract):
    command = staticmethod(uvicorn)
    app = "starlette_app:app"
