"""The demo: a server on a temporary database, and traffic that shows what becomes of it."""

from __future__ import annotations

import logging
import secrets
import shutil
import signal
import socket
import sqlite3
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias

import click
import uvicorn

from hookrow import migrations, testing
from hookrow.core.schema import Schema
from hookrow.describe import describe_outcome
from hookrow.http import ENDPOINT
from hookrow.receiver.receiver import Receiver
from hookrow.server.app import Server
from hookrow.server.settings import DashboardAccess, Settings
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore

EARLY = "message-saved-too-late"

PEOPLE = ("ada@example.com", "bea@example.com", "carl@example.com", "dora@example.com")

Snapshot: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Every row that a notification can change, by what a reader calls it."""

_SHARES = (30, 29, 41)
"""In percent; of the terminal's width, what each column of the table has."""


@dataclass(frozen=True, slots=True)
class Step:
    """One notification of the traffic. `secret` is another than the right one."""

    title: str
    payload: object
    secret: str | None = None


def run(*, stay: bool) -> None:
    """Run the traffic and print what became of it; with `stay` serve on until Ctrl-C."""
    logging.getLogger("hookrow").setLevel(logging.ERROR)  # refusals are shown in the table
    # What a signal raises may come up within a library, which logs it or drops it.
    stopped = Event()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda *_: stopped.set())
    with tempfile.TemporaryDirectory(prefix="hookrow-demo-") as folder:
        database = Path(folder) / "demo.db"
        url = f"sqlite:///{database}"
        _fill(database)
        secret = secrets.token_urlsafe()
        drawn = find_spec("jinja2") is not None  # of the extra `dashboard`
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        address, access = f"http://127.0.0.1:{port}", DashboardAccess.generate(port)
        settings = Settings(
            secrets=(secret,), database_url=url, dashboard=drawn, dashboard_access=access
        )
        server = Server(settings)
        with listener, _serving(server, listener):
            click.echo(f"A server at {address} records in a temporary SQLite file.")
            if drawn:
                click.echo("The dashboard shows notifications as they arrive:")
                click.echo(f"  {address}/dashboard/?token={access.token}")
            click.echo()
            shown = chain(
                _show_traffic(database, address + ENDPOINT, secret),
                _show_parked(database, server.receiver),
                _stay(database, address + ENDPOINT, secret) if stay else (),
            )
            for _ in shown:
                if stopped.is_set():
                    with suppress(OSError):  # of a window that is closed
                        click.echo()
                    break


def _message_id(person: str) -> str:
    return f"message-for-{person.partition('@')[0]}"


def _fill(database: Path) -> None:
    """Create the tables, two lists, and for each person a subscription and a dispatch."""
    migrations.upgrade(f"sqlite:///{database}", Schema())
    with _opened(database) as connection:
        connection.execute("INSERT INTO hookrow_lists (name) VALUES ('news'), ('offers')")
        for number, person in enumerate(PEOPLE, 1):
            row = {"email": person, "id": number, "list": 1 + number % 2}
            connection.execute("INSERT INTO hookrow_subscribers (email) VALUES (:email)", row)
            connection.execute(
                "INSERT INTO hookrow_subscriptions (subscriber_id, list_id) VALUES (:id, :list)",
                row,
            )
            _send(connection, _message_id(person), number, 1 + number % 2)


def _send(connection: sqlite3.Connection, message_id: str, subscriber: int, list_: int) -> None:
    connection.execute(
        "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id, list_id) "
        "VALUES (?, ?, ?)",
        (message_id, subscriber, list_),
    )


@contextmanager
def _opened(database: Path) -> Iterator[sqlite3.Connection]:
    """Connect as an application would, and commit at the end of the block."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        yield connection


@contextmanager
def _serving(app: Server, listener: socket.socket) -> Iterator[None]:
    """Serve in a thread while the block runs."""
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _traffic() -> Iterator[Step]:
    """Yield notifications of every kind, and of every refusal."""
    ada, bea, carl, _ = PEOPLE
    now = datetime.now(UTC)
    delivery = testing.delivery(ada, _message_id(ada), at=now)
    bounce = testing.suppression(carl, _message_id(carl), at=now)
    yield Step(f"Delivery to {ada}", delivery)
    yield Step("the same, sent again", delivery)
    yield Step(f"Open by {ada}", testing.opening(ada, _message_id(ada), at=now))
    yield Step(f"Delivery to {bea}", testing.delivery(bea, _message_id(bea), at=now))
    yield Step(f"Suppression of {carl}", bounce)
    later = now + timedelta(seconds=1)
    yield Step(f"Reactivation of {carl}", testing.reactivation(carl, _message_id(carl), at=later))
    yield Step("the suppression again, too late", bounce)
    complaint = testing.suppression(bea, None, at=now, reason="SpamComplaint")
    yield Step(f"Complaint of {bea}, of no message", complaint)
    yield Step(f"Open by {bea} of {ada}'s message", testing.opening(bea, _message_id(ada), at=now))
    yield Step("Delivery to a stranger", testing.delivery("eve@example.com", None, at=now))
    yield Step("Delivery of a message not saved yet", testing.delivery(ada, EARLY, at=now))
    yield Step("Bounce, which is not supported", {"RecordType": "Bounce", "Email": ada})
    yield Step("Delivery without a time", delivery | {"DeliveredAt": None})
    yield Step("Delivery with a wrong secret", delivery, secret="wrong")  # noqa: S106 - a wrong one


def _show_traffic(database: Path, url: str, secret: str) -> Iterator[None]:
    """Post it; yield where it may be stopped, as the others do."""
    statuses: Counter[int] = Counter()
    _print("What is posted", "What is answered", "What it changes")
    _print(*("-" * width for width in _widths()))
    before = _rows(database)
    for step in _traffic():
        status, text = testing.post(url, step.payload, secret=step.secret or secret)
        statuses[status] += 1
        after = _rows(database)
        _print(step.title, f"{status} {text}", "\n".join(_changes(before, after)) or "nothing")
        before = after
        yield
    counts = ", ".join(f"{count} answered {status}" for status, count in sorted(statuses.items()))
    click.echo(f"\n{statuses.total()} notifications: {counts}.")


def _show_parked(database: Path, receiver: Receiver) -> Iterator[None]:
    """Save the dispatch whose delivery came too early, as an application would."""
    click.echo("\nOne delivery outran the application, and is parked in the log:\n")
    _tell(database, EARLY)
    yield
    with _opened(database) as connection:
        _send(connection, EARLY, subscriber=1, list_=2)
    before = _rows(database)
    receiver.retry_now(EARLY).result()
    click.echo("\nThe application saves the dispatch, and calls receiver.retry_now():\n")
    for change in _changes(before, _rows(database)):
        click.echo(f"  {change}")
    _tell(database, EARLY)
    yield


def _tell(database: Path, message_id: str) -> None:
    with closing(SQLStore(f"sqlite:///{database}")) as store:
        for entry in store.log.newest(Query(message_id=message_id), limit=1) if store.log else ():
            text = textwrap.fill(
                describe_outcome(entry), 100, initial_indent="  ", subsequent_indent="  "
            )
            click.echo(text)


def _stay(database: Path, url: str, secret: str) -> Iterator[None]:
    dora = PEOPLE[-1]
    click.echo(
        f"\nThe server goes on. Post one of your own from another terminal:\n\n"
        f"  hookrow simulate open {dora} {_message_id(dora)} \\\n"
        f"    --url {url} \\\n    --secret {secret}\n\n"
        "What it changes is shown here. Ctrl-C stops."
    )
    before = _rows(database)
    while True:
        time.sleep(0.3)
        yield
        after = _rows(database)
        for change in _changes(before, after):
            click.echo(f"  {change}")
        before = after


def _rows(database: Path) -> Snapshot:
    rows: dict[str, Mapping[str, Any]] = {}
    with _opened(database) as connection:
        for name in ("subscriber", "subscription", "dispatch"):
            plural = "dispatches" if name == "dispatch" else f"{name}s"
            for row in connection.execute(f"SELECT * FROM hookrow_{plural}"):  # noqa: S608 - names are ours
                rows[f"{name} {row['id']}"] = dict(row)
    return rows


def _changes(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield what became of each row, in a few words."""
    for name, row in after.items():
        for column in ("delivered_at", "opened_at"):
            if row.get(column) != before[name].get(column):
                yield f"{name}: {column} {row[column][:19]}"
        if row["suppression_changed_at"] != before[name]["suppression_changed_at"]:
            reason = row["suppression_reason"]
            yield f"{name}: suppressed, {reason}" if reason else f"{name}: active"


def _widths() -> list[int]:
    columns = min(shutil.get_terminal_size((120, 24)).columns, 120) - 2 * len(_SHARES)
    return [columns * share // 100 for share in _SHARES]


def _print(*cells: str) -> None:
    """Print a row of the table, in as many lines as its longest cell needs."""
    widths = _widths()
    columns = [
        [part for line in cell.splitlines() for part in textwrap.wrap(line, width)]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for line in zip_longest(*columns, fillvalue=""):
        padded = (f"{part:{width}}" for part, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
