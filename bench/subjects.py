"""What is measured side by side: hookrow in each of its forms, its peers, and the floor.

Each runs as its own documentation advises for production.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from data import SECRET
from load import Door
from places import POSTGRESQL, SQLITE, Place
from processes import HERE, free_port, running

Command: TypeAlias = Callable[[int, int], Sequence[object]]
"""Makes a command line of a port and a number of processes."""


def serve(port: int, processes: int) -> Sequence[object]:
    """Run hookrow's own server."""
    return (
        *(Path(sys.executable).with_name("hookrow"), "serve", "--port", port),
        *("--workers", processes, "--log-level", "error"),
    )


def uvicorn(app: str, port: int, processes: int) -> Sequence[object]:
    """Run an ASGI application, with the settings of hookrow's own server."""
    return (
        *(sys.executable, "-m", "uvicorn", app, "--port", port, "--workers", processes),
        *("--loop", "uvloop", "--http", "httptools", "--no-access-log"),
        *("--no-server-header", "--log-level", "warning"),
    )


def gunicorn(app: str, threads: int, port: int, processes: int) -> Sequence[object]:
    """Run a WSGI application."""
    return (
        *(sys.executable, "-m", "gunicorn", app, "--bind", f"127.0.0.1:{port}"),
        *("--workers", processes, "--threads", threads, "--log-level", "warning"),
    )


@dataclass(frozen=True, slots=True)
class Family:
    """Who answers, and how it is started. `refusal` is how it answers without the secret."""

    name: str
    command: Command
    door: Door = Door()  # noqa: RUF009 - frozen
    refusal: int = 401


BASIC = b64encode(f"postmark:{SECRET}".encode()).decode()
ANYMAIL_DOOR = Door("/anymail/postmark/tracking/", f"Authorization: Basic {BASIC}")

# As hookrow's documentation advises: as many threads as notifications may come at once.
# A view that works by itself gets twice what gunicorn's advises for two cores, for its
# threads wait for the disk; more of them would leave PostgreSQL no connections.
SERVE = Family("hookrow serve", serve)
WSGI = Family("hookrow WSGI", partial(gunicorn, "peers.hookrow_wsgi:app", 64))
MOUNTED = Family("hookrow Django", partial(gunicorn, "peers.django_app:application", 64))
ANYMAIL = Family(
    "Django anymail", partial(gunicorn, "peers.django_app:application", 16), ANYMAIL_DOOR, 400
)
FASTAPI = Family("FastAPI ORM", partial(uvicorn, "peers.fastapi_orm:app"))
FLOOR = Family("floor ASGI", partial(uvicorn, "peers.floor:asgi"), refusal=200)
FLOOR_WSGI = Family("floor WSGI", partial(gunicorn, "peers.floor:wsgi", 64), refusal=200)


@dataclass(frozen=True, slots=True)
class Subject:
    """A family on a database, or on none, in so many processes; hookrow with the log or without."""

    family: Family
    processes: int
    database: str | None = None
    log: bool = False

    @property
    def name(self) -> str:
        """What it is called in tables."""
        database = f", {self.database}{' log' if self.log else ''}" if self.database else ""
        return f"{self.family.name}{database}, x{self.processes}"

    @property
    def targeted(self) -> bool:
        """Tell whether it is of what hookrow is to reach."""
        ours = self.family is SERVE and self.log
        theirs = self.family in (ANYMAIL, FASTAPI)
        return self.family is FLOOR or (self.database == POSTGRESQL and (ours or theirs))

    @contextmanager
    def running(self, place: Place | None) -> Iterator[tuple[int, int]]:
        """Run it until the block ends; yield its port and the id of its first process."""
        port, url = free_port(), place.url if place else ""
        variables = {
            "BENCH_DATABASE_URL": url,
            "BENCH_LOG": str(int(self.log)),
            "HOOKROW_DATABASE_URL": url,
            "HOOKROW_SECRET": SECRET,
            **({} if self.log else {"HOOKROW_CONFIG": str(HERE / "no_log.toml")}),
        }
        with running(self.family.command(port, self.processes), port, variables) as pid:
            yield port, pid


def quick() -> Iterator[Subject]:
    """List what tells most in little time."""
    for processes in (1, 2):
        yield Subject(SERVE, processes, POSTGRESQL, log=True)
    yield Subject(SERVE, 1, POSTGRESQL)
    yield Subject(WSGI, 1, POSTGRESQL, log=True)
    yield Subject(ANYMAIL, 2, POSTGRESQL)
    yield Subject(FASTAPI, 2, POSTGRESQL)
    yield Subject(SERVE, 1, SQLITE, log=True)
    yield Subject(FASTAPI, 1, SQLITE)
    yield Subject(FLOOR, 1)


def full() -> Iterator[Subject]:
    """List all that there is; what has to be compared with each other stands together, last."""
    yield from sorted(_all(), key=lambda each: each.targeted)


def _all() -> Iterator[Subject]:
    for processes in (1, 2):
        for database in (POSTGRESQL, SQLITE):
            for family in (SERVE, WSGI):
                for log in (True, False):
                    yield Subject(family, processes, database, log=log)
            yield Subject(MOUNTED, processes, database, log=True)
            yield Subject(ANYMAIL, processes, database)
            yield Subject(FASTAPI, processes, database)
        yield Subject(FLOOR, processes)
        yield Subject(FLOOR_WSGI, processes)
    yield Subject(ANYMAIL, 5, POSTGRESQL)  # gunicorn's advice: twice the cores, and one
