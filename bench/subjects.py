"""The servers that compare.py measures, each configured as its own documentation recommends."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from data import SECRET
from environment import MARIADB, POSTGRESQL, ROOT, SQLITE, Database, free_port, running
from load import Endpoint
from results import Names

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


def gunicorn(app: str, port: int, processes: int) -> Sequence[object]:
    """Run a WSGI application in 16 threads, because they wait for the disk.

    This is twice what gunicorn recommends for two cores.
    """
    return (
        *(sys.executable, "-m", "gunicorn", app, "--bind", f"127.0.0.1:{port}"),
        *("--workers", processes, "--threads", 16, "--log-level", "warning"),
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """A server on a database, or without one.

    `refusal` is its status for a request without the secret, and `packages` the packages it needs
    that the extra dev does not install. `driver` is that of the database's URL, if it is not the
    usual one. `tree` contains hookrow's source, and `version` its commit if it is not this one.
    """

    server: str
    command: Command
    processes: int = 1
    database: str | None = POSTGRESQL
    endpoint: Endpoint = Endpoint()  # noqa: RUF009 - frozen
    refusal: int = 401
    packages: tuple[str, ...] = ()
    driver: str = ""
    tree: Path = ROOT
    version: str = ""

    @property
    def name(self) -> str:
        """The name in tables."""
        parts = (self.server, self.version, self.database, self.driver, f"x{self.processes}")
        return ", ".join(filter(None, parts))

    @property
    def names(self) -> Names:
        """The same, and the database of the subjects with which it is compared."""
        return self.name, self.database or POSTGRESQL

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]

    @contextmanager
    def running(self, database: Database | None) -> Iterator[tuple[int, int]]:
        """Run the server until the block ends; yield its port and its process id."""
        port = free_port()
        variables = {
            "HOOKROW_DATABASE_URL": self._url(database.url) if database else "",
            "HOOKROW_SECRET": SECRET,
            "PYTHONPATH": str(self.tree / "src"),
        }
        with running(self.command(port, self.processes), port, variables) as pid:
            yield port, pid

    def _url(self, url: str) -> str:
        scheme, separator, rest = url.partition("://")
        return f"{scheme}+{self.driver}{separator}{rest}" if self.driver else url


SERVE = partial(Subject, "hookrow serve", serve)
FASTAPI = partial(
    Subject,
    "FastAPI, SQLAlchemy",
    partial(uvicorn, "peers.fastapi_orm:app"),
    packages=("asyncpg",),
)
BASIC = b64encode(f"postmark:{SECRET}".encode()).decode()

SUBJECTS = (
    SERVE(),
    SERVE(processes=2),
    Subject(
        "Django, anymail",
        partial(gunicorn, "peers.django_anymail:application"),
        processes=2,
        endpoint=Endpoint("/anymail/postmark/tracking/", f"Authorization: Basic {BASIC}"),
        refusal=400,
        packages=("anymail",),
    ),
    FASTAPI(processes=2),
    SERVE(database=MARIADB),
    SERVE(database=MARIADB, driver="mysqldb", packages=("MySQLdb",)),
    SERVE(database=SQLITE),
    FASTAPI(database=SQLITE),
    Subject("floor", partial(uvicorn, "peers.floor:app"), database=None, refusal=200),
)
