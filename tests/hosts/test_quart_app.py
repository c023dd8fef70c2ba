"""The contract of a host, in `examples/quart_app.py` under hypercorn."""

from __future__ import annotations

from host import HostContract
from process import hypercorn


class TestQuart(HostContract):
    command = staticmethod(hypercorn)
    app = "quart_app:app"
    continues_first = True
    drops_unread = True
