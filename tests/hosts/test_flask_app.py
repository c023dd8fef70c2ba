"""The contract of a host, in `examples/flask_app.py` under gunicorn."""

from __future__ import annotations

from host import GunicornContract


class TestFlask(GunicornContract):
    app = "flask_app:app"
