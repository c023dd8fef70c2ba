"""The contract of a host, in `examples/litestar_app.py` under granian."""

from __future__ import annotations

from host import HostContract
from process import granian


class TestLitestar(HostContract):
    command = staticmethod(granian)
    app = "litestar_app:app"
