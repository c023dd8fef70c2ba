"""The contract of a host, in `examples/flask_app.py` under gunicorn."""

from __future__ import annotations

from host import HostContract
from process import gunicorn


class TestFlask(HostContract):
    command = staticmethod(gunicorn)
    app = "flask_app:app"
    continues_first = True
    drops_unread = True  # after 64 KiB that it reads for nothing
    overshoot = 1024  # it reads no less at a time
