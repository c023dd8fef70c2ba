"""The server under load: `server.py SOCKET_FD DATABASE_URL`, or `server.py SOCKET_FD floor`.

The floor is the least that an ASGI application can do: read the body, answer 200.
"""

from __future__ import annotations

import sys
from socket import socket

import uvicorn

from data import SECRET
from hookrow import Postmark, Receiver
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.stores.sql import SQLStore


async def floor(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 as hookrow does, and do nothing."""
    assert scope["type"] == "http"
    while (await receive()).get("more_body", False):
        pass
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def main(descriptor: int, target: str) -> None:
    """Serve on a socket that listens already, until terminated."""
    app = floor if target == "floor" else ASGI(Receiver(Postmark(SECRET), SQLStore(target)))
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
