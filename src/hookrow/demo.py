"""`hookrow demo`: a server on a temporary database, and notifications that show its effects."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TypeAlias

import click
import uvicorn

from hookrow import migrations, testing
from hookrow.core.schema import Schema
from hookrow.describe import describe_outcome
from hookrow.http import ENDPOINT
from hookrow.server.app import Server
from hookrow.server.settings import DashboardAccess, Settings
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore

ADA, BEA, CARL = "ada@example.com", "bea@example.com", "carl@example.com"

POLL = 0.3
"""In seconds; how often the demo checks whether the user's own notifications changed a row."""

_ROWS = """
INSERT INTO hookrow_lists (name) VALUES ('news'), ('offers');
INSERT INTO hookrow_subscribers (email)
    VALUES ('ada@example.com'), ('bea@example.com'), ('carl@example.com'), ('dora@example.com');
INSERT INTO hookrow_subscriptions (subscriber_id, list_id)
    SELECT id, 1 + id % 2 FROM hookrow_subscribers;
INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id, list_id)
    SELECT 'm-' || id, id, 1 + id % 2 FROM hookrow_subscribers;
"""

_LATE_ROW = "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m-5', 1)"

_VALUES = """
SELECT 'subscriber', id, 'suppressed_at', suppressed_at, suppression_reason FROM hookrow_subscribers
UNION ALL SELECT 'subscription', id, 'suppressed_at', suppressed_at, suppression_reason
    FROM hookrow_subscriptions
UNION ALL SELECT 'dispatch', id, 'suppressed_at', suppressed_at, suppression_reason
    FROM hookrow_dispatches
UNION ALL SELECT 'dispatch', id, 'delivered_at', delivered_at, NULL FROM hookrow_dispatches
UNION ALL SELECT 'dispatch', id, 'opened_at', opened_at, NULL FROM hookrow_dispatches
"""

Value: TypeAlias = tuple[str, int, str, str | None, str | None]
"""The kind and the id of a row, a column with its time, and the reason of a suppression."""


def run(*, stay: bool) -> None:
    """Run the demo; with `stay`, continue to show changes until SIGINT, SIGTERM or SIGHUP."""
    logging.getLogger("hookrow").setLevel(logging.ERROR)  # the demo itself prints the refusals
    # A library could catch an exception raised by a signal handler.
    stopped = Event()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda *_: stopped.set())
    with TemporaryDirectory(prefix="hookrow-demo-") as folder, _serving(Path(folder)) as demo:
        for _ in chain(demo.post_samples(), demo.retry(), demo.watch(stopped) if stay else ()):
            if stopped.is_set():
                with suppress(OSError):  # the terminal may be closed
                    click.echo()
                break


@dataclass(frozen=True, slots=True)
class Demo:
    """A server that is running. Each method yields where the demo may be stopped."""

    server: Server
    database: Path
    url: str
    secret: str

    def post_samples(self) -> Iterator[None]:
        """Post notifications, and print the responses and the changes."""
        statuses: Counter[int] = Counter()
        click.echo(f"{'Notification':34}Response, and changed rows\n{'-' * 80}")
        before = self._values()
        for title, payload, secret in _samples(self.secret):
            status, text = testing.post(self.url, payload, secret=secret)
            statuses[status] += 1
            click.echo(f"{title:34}{status} {text}".rstrip())
            before = self._print_changes(before)
            yield
        counts = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
        click.echo(f"\n{statuses.total()} responses: {counts}.")

    def retry(self) -> Iterator[None]:
        """Save the dispatch whose delivery arrived too early, as an application would."""
        click.echo(
            "\nOne delivery arrived before its dispatch was saved. It is parked in the log:\n"
        )
        self._print_entry()
        yield
        with _connect(self.database) as connection:
            connection.execute(_LATE_ROW)
        before = self._values()
        self.server.receiver.retry_now("m-5").result()
        click.echo("\nThe application saves the dispatch and calls receiver.retry_now():\n")
        self._print_changes(before)
        self._print_entry()
        yield

    def watch(self, stopped: Event) -> Iterator[None]:
        """Print what the user's own notifications change."""
        click.echo(
            "\nThe server continues to run. Post your own notification from another terminal:\n\n"
            "  hookrow simulate open dora@example.com m-4 \\\n"
            f"    --url {self.url} \\\n    --secret {self.secret}\n\n"
            "The changed rows are shown here. Press Ctrl-C to stop."
        )
        before = self._values()
        while True:
            stopped.wait(POLL)
            yield
            before = self._print_changes(before)

    def _print_changes(self, before: Sequence[Value]) -> Sequence[Value]:
        """Print the values that are not the same as before; return all current ones."""
        values = self._values()
        for value in values:
            if value not in before:
                kind, id_, column, time, reason = value
                changed = f"  {kind} {id_}: {column} {time[:19] if time else 'null'}"
                click.echo(f"{changed}, {reason}" if reason else changed)
        return values

    def _values(self) -> Sequence[Value]:
        with _connect(self.database) as connection:
            return connection.execute(_VALUES).fetchall()

    def _print_entry(self) -> None:
        """Print the result of the delivery that arrived too early."""
        with closing(SQLStore(f"sqlite:///{self.database}")) as store:
            for entry in store.log.newest(Query(message_id="m-5"), limit=1) if store.log else ():
                click.echo(f"  {describe_outcome(entry)}")


@contextmanager
def _serving(folder: Path) -> Iterator[Demo]:
    """Serve a new database in a thread, and print the addresses."""
    database, secret = folder / "demo.db", secrets.token_urlsafe()
    migrations.upgrade(f"sqlite:///{database}", Schema())
    with _connect(database) as connection:
        connection.executescript(_ROWS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        address, access = f"http://127.0.0.1:{port}", DashboardAccess.generate(port)
        settings = Settings(
            secrets=(secret,),
            database_url=f"sqlite:///{database}",
            dashboard=find_spec("jinja2") is not None,  # of the extra `dashboard`
            dashboard_access=access,
        )
        app = Server(settings)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            click.echo(f"The server at {address} uses a temporary SQLite file.")
            if settings.dashboard:
                click.echo("The dashboard shows notifications as they arrive:")
                click.echo(f"  {address}/dashboard/?token={access.token}")
            click.echo()
            yield Demo(app, database, address + ENDPOINT, secret)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _connect(database: Path) -> Iterator[sqlite3.Connection]:
    """Connect as an application would, and commit at the end of the block."""
    with closing(sqlite3.connect(database)) as connection, connection:
        yield connection


def _samples(secret: str) -> Iterator[tuple[str, testing.Payload, str]]:
    """Yield notifications of every kind and with every refusal: title, payload and secret."""
    now = datetime.now(UTC)
    delivery = testing.delivery(ADA, "m-1", at=now)
    suppression = testing.suppression(CARL, "m-3", at=now)
    reactivation = testing.reactivation(CARL, "m-3", at=now + timedelta(seconds=1))
    complaint = testing.suppression(BEA, None, at=now, reason="SpamComplaint")
    yield "Delivery to ada", delivery, secret
    yield "The same delivery again", delivery, secret
    yield "Open by ada", testing.opening(ADA, "m-1", at=now), secret
    yield "Delivery to bea", testing.delivery(BEA, "m-2", at=now), secret
    yield "Suppression of carl", suppression, secret
    yield "Reactivation of carl", reactivation, secret
    yield "The suppression again, too late", suppression, secret
    yield "Complaint by bea", complaint, secret
    yield "Open by bea of ada's message", testing.opening(BEA, "m-1", at=now), secret
    yield (
        "Delivery to an unknown address",
        testing.delivery("eve@example.com", None, at=now),
        secret,
    )
    yield "Delivery of an unsaved message", testing.delivery(ADA, "m-5", at=now), secret
    yield "Bounce, which is not supported", testing.bounce(ADA, "m-1", at=now), secret
    yield "Delivery without a time", delivery | {"DeliveredAt": None}, secret
    yield "Delivery with a wrong secret", delivery, "wrong"
