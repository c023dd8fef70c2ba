"""The contract of a host, in `examples/asgi_app.py` under uvicorn."""

from __future__ import annotations

from host import HostContract
from process import uvicorn


class TestASGI(HostContract):
    command = staticmethod(uvicorn)
    app = "asgi_app:app"
