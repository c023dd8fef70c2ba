"""The floor: the least that an application can do is to read the body and answer 200.

`asgi` is for uvicorn, `wsgi` for gunicorn.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from hookrow.asgi import Receive, Scope, Send


async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 as hookrow does, and do nothing."""
    if scope["type"] == "lifespan":
        await receive()
        gc.freeze()  # as hookrow's own server does
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body", False):
        pass
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def wsgi(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer 200 as hookrow does, and do nothing."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", "0")]
    start_response("200 OK", headers)
    return []
