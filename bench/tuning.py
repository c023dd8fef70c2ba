"""Tuning: what PostgreSQL's settings, room in the pages and partitions of the log are worth.

What they are worth shows between two checkpoints and beyond: a load lasts for several of them,
as they come with the defaults, and the rows are so many that hardly any is changed twice.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from large import fill_large, sized
from load import post
from places import POSTGRESQL, Place, postgres
from postgres import Server
from sample import Sample, Turns, sampled, serving

DEFAULTS = "defaults"
UNSAFE = "synchronous_commit = off"

PLAIN, FULL, PARTED = "plain", "full", "parted"
NO_ROOM = "ALTER TABLE hookrow_dispatches SET (fillfactor = 100)"
PARTITIONS = Path(__file__).parents[1] / "docs" / "scale" / "partition.sql"


@dataclass(frozen=True, slots=True)
class Case:
    """What is compared: a database, and what PostgreSQL is told."""

    database: str = PLAIN
    told: Mapping[str, str] = field(default_factory=dict)


_DURABLE = {"wal_compression": "on", "max_wal_size": "16GB", "shared_buffers": "4GB"}

CASES = {
    DEFAULTS: Case(),
    **{f"{name} = {value}": Case(told={name: value}) for name, value in _DURABLE.items()},
    "fillfactor = 100": Case(FULL),
    "the log in partitions": Case(PARTED),
    UNSAFE: Case(told={"synchronous_commit": "off"}),
}

CLIENTS = 64
WARM_UP = 20
"""In seconds; a cache of pages is empty when PostgreSQL was started anew."""

SECONDS = 30
MOST = 3_000_000
"""Rows."""

TURNS = 2
"""The most; a turn takes seven minutes."""


def tuning(rows: int, turns: int) -> Turns:
    """Measure each case in turns, and PostgreSQL started anew for each."""
    rows, turns = min(rows, MOST), min(turns, TURNS)
    with postgres() as server:
        urls = {name: _database(server, name, rows) for name in (PLAIN, FULL, PARTED)}
        return Turns(rows, list(_samples(server, urls, rows, turns)))


def _database(server: Server, name: str, rows: int) -> str:
    place = Place(POSTGRESQL, server.create(), server.pid)
    fill_large(place, rows, *([NO_ROOM] if name == FULL else []))
    if name == PARTED:
        psql = (server.binaries / "psql", place.url, "--no-psqlrc", "--quiet")
        subprocess.run([*psql, "--file", PARTITIONS], check=True)
    return place.url


def _samples(server: Server, urls: Mapping[str, str], rows: int, turns: int) -> Iterator[Sample]:
    names = list(CASES)
    for turn in range(turns):
        first = turn * len(names) // turns
        for name in names[first:] + names[:first]:
            case = CASES[name]
            _tell(server, case.told)
            place = Place(POSTGRESQL, urls[case.database], server.pid)
            with serving(place, HOOKROW_KEEP="forever") as running:
                post(running.port, CLIENTS, WARM_UP, size=sized(rows))
                yield sampled(name, turn, running, CLIENTS, SECONDS, sized(rows))


def _tell(server: Server, told: Mapping[str, str]) -> None:
    """Start PostgreSQL anew with these settings, and its defaults for all others."""
    server.execute("ALTER SYSTEM RESET ALL")
    for name, value in told.items():
        server.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    server.restart()
