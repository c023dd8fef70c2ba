"""Applications for gunicorn with threads: `threaded:floor`, or `threaded:app` on a database.

The floor is the least that a WSGI application can do: read the body, answer 200.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from data import SECRET
from hookrow import Postmark, Receiver
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI

_url = os.environ["BENCH_DATABASE_URL"]
if _url:
    app = WSGI(Receiver(Postmark(SECRET), SQLStore(_url)))


def floor(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer 200 as hookrow does, and do nothing."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", "0")]
    start_response("200 OK", headers)
    return []
