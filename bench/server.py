"""The server under load: `server.py SOCKET_FD DATABASE_URL`, or `server.py SOCKET_FD floor`.

The floor is the least that an ASGI application can do: read the body, answer 200.
With `--no-log` nothing is logged; with `--sweep` what is parked is swept all the time; with
`--metrics` all is counted; with `--watched` the figures are asked for as by twenty
dashboards that are open.
"""

from __future__ import annotations

import argparse
import gc
from datetime import UTC, datetime
from socket import socket
from threading import Thread
from time import sleep

import uvicorn

from data import SECRET
from hookrow import Schema, receiver
from hookrow.asgi import Receive, Scope, Send
from hookrow.figures import Figures, Period
from hookrow.protocol import LimitedProtocol
from hookrow.server import Server
from hookrow.settings import Settings
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore

PAUSE = 0.01
"""In seconds; between two sweeps."""

TABS = 20
ASKING = 5.0
"""In seconds; how often each of them asks for what is new, and for the overview."""


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


def watch(url: str) -> None:
    """Ask for the overview, and for what is new, without an end."""
    store = SQLStore(url)
    assert store.log is not None
    figures = Figures(store)
    while True:
        figures.overview(Period.MONTH, datetime.now(UTC))
        newest = store.log.newest(Query(), limit=50)
        store.log.oldest(Query(), after=newest[-1].id if newest else 0, limit=50)
        sleep(ASKING / TABS)


def main() -> None:
    """Serve on a socket that listens already, until terminated."""
    parser = argparse.ArgumentParser()
    parser.add_argument("descriptor", type=int)
    parser.add_argument("target")
    parser.add_argument("--no-log", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--watched", action="store_true")
    given = parser.parse_args()
    if given.watched:
        Thread(target=watch, args=(given.target,), daemon=True).start()
    vars(receiver)["SWEEP_EVERY"] = PAUSE
    settings = Settings(
        secrets=(SECRET,),
        database_url=given.target,
        schema=Schema(log=None) if given.no_log else Schema(),
        sweep=given.sweep,
        metrics=given.metrics,
    )
    is_floor = given.target == "floor"
    config = uvicorn.Config(
        floor if is_floor else Server(settings),
        loop="uvloop",
        http="httptools" if is_floor else LimitedProtocol,
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[socket(fileno=given.descriptor)])


if __name__ == "__main__":
    main()
