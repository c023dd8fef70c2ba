"""The contract of a host, in `examples/wsgi_app.py` under gunicorn."""

from __future__ import annotations

from host import GunicornContract


class TestWSGI(GunicornContract):
    app = "wsgi_app:app"
