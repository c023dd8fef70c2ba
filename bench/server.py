"""The server under load: `server.py SOCKET_FD DATABASE_URL`, or `server.py SOCKET_FD floor`.

The floor is the least that an ASGI application can do: read the body, answer 200.
"""

from __future__ import annotations

import gc
import sys
from socket import socket

import uvicorn

from data import SECRET
from hookrow.asgi import Receive, Scope, Send
from hookrow.server import Server
from hookrow.settings import Settings


async def floor(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 as hookrow does, and do nothing."""
    if scope["type"] == "lifespan":
        await receive()
        gc.freeze()  # as hookrow's own server does
        await send({"type": "lifespan.startup.complete"})
        return
    while (await receive()).get("more_body", False):
        pass
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def main(descriptor: int, target: str) -> None:
    """Serve on a socket that listens already, until terminated."""
    app = floor if target == "floor" else Server(Settings(secrets=(SECRET,), database_url=target))
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
