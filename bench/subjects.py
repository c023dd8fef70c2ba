"""The servers that compare.py measures, each configured as its own documentation recommends."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TypeAlias

from data import SECRET
from environment import POSTGRESQL, SQLITE, Database, free_port, running
from load import Endpoint

Command: TypeAlias = Callable[[int, int], Sequence[object]]
"""Returns the command line for a port and a number of processes."""


def serve(port: int, processes: int) -> Sequence[object]:
    """Run hookrow's own server."""
    return (
        *(sys.executable, "-m", "hookrow", "serve", "--port", port),
        *("--workers", processes, "--log-level", "error"),
    )


def uvicorn(app: str, port: int, processes: int) -> Sequence[object]:
    """Run an ASGI application with the settings of hookrow's own server."""
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
class Subject:
    """A server on a database, or without one.

    `refusal` is its status for a request without the secret, `log` whether it writes hookrow's log,
    and `packages` the packages it needs that the extra dev does not install.
    """

    server: str
    command: Command
    processes: int = 1
    database: str | None = POSTGRESQL
    log: bool = False
    endpoint: Endpoint = Endpoint()  # noqa: RUF009 - frozen
    refusal: int = 401
    packages: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in tables."""
        database = f", {self.database}" if self.database else ""
        return f"{self.server}{database}, x{self.processes}"

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]

    @contextmanager
    def running(self, database: Database | None) -> Iterator[tuple[int, int]]:
        """Run the server until the block ends; yield its port and its process id."""
        port = free_port()
        variables = {
            "HOOKROW_DATABASE_URL": database.url if database else "",
            "HOOKROW_SECRET": SECRET,
        }
        with running(self.command(port, self.processes), port, variables) as pid:
            yield port, pid


SERVE = partial(Subject, "hookrow serve", serve, log=True)
FASTAPI = partial(
    Subject,
    "FastAPI, SQLAlchemy",
    partial(uvicorn, "peers.fastapi_orm:app"),
    packages=("asyncpg",),
)
BASIC = b64encode(f"postmark:{SECRET}".encode()).decode()

SUBJECTS = (
    # hookrow's documentation recommends as many threads as notifications may arrive at once.
    Subject("hookrow WSGI", partial(gunicorn, "peers.wsgi:app", 64), log=True),
    SERVE(),
    SERVE(processes=2),
    # Sixteen threads, because they wait for the disk: twice what gunicorn recommends for two cores.
    Subject(
        "Django, anymail",
        partial(gunicorn, "peers.django_anymail:application", 16),
        processes=2,
        endpoint=Endpoint("/anymail/postmark/tracking/", f"Authorization: Basic {BASIC}"),
        refusal=400,
        packages=("anymail",),
    ),
    FASTAPI(processes=2),
    SERVE(database=SQLITE),
    FASTAPI(database=SQLITE),
    Subject("floor", partial(uvicorn, "peers.floor:app"), database=None, refusal=200),
)
