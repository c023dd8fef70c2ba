"""The server that the benchmarks load: `server.py PORT DATABASE_URL`.

With `--sweep`, parked notifications are retried without a pause; with `--metrics`, Prometheus
metrics are on; with `--watched`, the statistics are read as by twenty open dashboards; `--group`
is the largest number of notifications that share a commit.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from time import sleep

import uvicorn

from data import SECRET
from hookrow.receiver import receiver
from hookrow.server import app as server
from hookrow.server.protocol import NotificationProtocol
from hookrow.server.settings import Settings
from hookrow.statistics import Figures, Period
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore

PAUSE = 0.01
"""In seconds; between two sweeps."""

TABS = 20
ASKING = 5.0
"""In seconds; how often each of them reads the newest notifications and the overview."""


def watch(url: str) -> None:
    """Read the overview and the newest notifications, without end."""
    store = SQLStore(url)
    assert store.log is not None
    figures = Figures(store)
    while True:
        figures.overview(Period.MONTH, datetime.now(UTC))
        newest = store.log.newest(Query(), limit=50, bodies=False)
        after = newest[-1].id if newest else 0
        store.log.oldest(Query(), after=after, limit=50, bodies=False)
        sleep(ASKING / TABS)


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("url")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--watched", action="store_true")
    parser.add_argument("--group", type=int, default=256)
    given = parser.parse_args()
    if given.watched:
        Thread(target=watch, args=(given.url,), daemon=True).start()
    vars(receiver)["SWEEP_EVERY"] = PAUSE
    vars(server)["Receiver"] = partial(receiver.Receiver, group=given.group)
    settings = Settings(
        secrets=(SECRET,),
        database_url=given.url,
        sweep=given.sweep,
        metrics=given.metrics,
    )
    config = uvicorn.Config(
        server.Server(settings),
        port=given.port,
        loop="uvloop",
        http=NotificationProtocol,
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
