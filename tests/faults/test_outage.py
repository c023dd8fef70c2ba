"""PostgreSQL goes away in the middle of the load, and comes back: nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from traffic import Load, is_well, report, see_through

from command import Command
from postgres import Server
from wire import eventually

DEADLINE = 5.0
"""In seconds; when the server answers at the latest. Tests give it two more."""


def survive(url: str, folder: Path, outage: Callable[[], object]) -> None:
    """Have an outage in the middle of the load, and see it through.

    Meanwhile there are only 200 and 503, all in time; then only 200 again.
    """
    load = Load(url, pause=0.02)
    spool = folder / "spool"
    with Command(folder).serving("--database-url", url, "--spool", spool) as serving:
        with load.on(serving.port):
            time.sleep(1)
            outage()
            eventually(lambda: is_well(load), seconds=30)
        see_through(load, spool, seconds=60)
    assert load.slowest < DEADLINE + 2, load.told()
    assert load.lost(answered=None) == []
    assert "a fault to be reported" not in serving.log, serving.log
    report("counted more often than posted:", len(load.miscounted()))


def test_an_immediate_restart(postgres: Server, postgres_url: str, tmp_path: Path) -> None:
    """The database crashes and recovers."""

    def outage() -> None:
        postgres.crash()
        time.sleep(1)
        postgres.start()

    survive(postgres_url, tmp_path, outage)


@pytest.mark.slow
def test_a_stop_of_20_seconds(postgres: Server, postgres_url: str, tmp_path: Path) -> None:
    """The database is stopped, and there for nobody for 20 seconds."""

    def outage() -> None:
        postgres.stop()
        time.sleep(20)
        postgres.start()

    survive(postgres_url, tmp_path, outage)


def test_connections_are_terminated(postgres: Server, postgres_url: str, tmp_path: Path) -> None:
    """All connections are cut, again and again."""

    def outage() -> None:
        for _ in range(20):
            eventually(lambda: postgres.terminate(postgres_url))
            time.sleep(0.03)

    survive(postgres_url, tmp_path, outage)


@pytest.mark.slow
def test_a_freeze_of_8_seconds(postgres: Server, postgres_url: str, tmp_path: Path) -> None:
    """The database takes what it is sent and says nothing for 8 seconds."""

    def outage() -> None:
        with postgres.frozen():
            time.sleep(8)

    survive(postgres_url, tmp_path, outage)
