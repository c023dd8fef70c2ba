"""`hookrow demo`: a server on a temporary database, and sample notifications."""

from __future__ import annotations

import logging
import shlex
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from secrets import token_urlsafe
from tempfile import TemporaryDirectory

import click
import uvicorn

from hookrow import _migrations, testing
from hookrow._core.schema import Schema
from hookrow._http import ENDPOINT
from hookrow._receiver.receiver import Receiver
from hookrow._server.app import Server
from hookrow._server.settings import EntrySettings, Settings

ADA, BEA, CARL = "ada@example.com", "bea@example.com", "carl@example.com"

_INSERT_ROWS = """
INSERT INTO hookrow_lists (name) VALUES ('news'), ('offers');
INSERT INTO hookrow_subscribers (email)
    VALUES ('ada@example.com'), ('bea@example.com'), ('carl@example.com'), ('dora@example.com');
INSERT INTO hookrow_subscriptions (subscriber_id, list_id)
    SELECT id, 1 + id % 2 FROM hookrow_subscribers;
INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id, list_id)
    SELECT 'm-' || id, id, 1 + id % 2 FROM hookrow_subscribers;
"""

_LATE_ROW = "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m-5', 1)"

_SHOWN_COLUMNS = (
    ("subscriber", "hookrow_subscribers", "suppressed_at"),
    ("subscription", "hookrow_subscriptions", "suppressed_at"),
    ("dispatch", "hookrow_dispatches", "suppressed_at"),
    ("dispatch", "hookrow_dispatches", "delivered_at"),
    ("dispatch", "hookrow_dispatches", "opened_at"),
)

_VALUES = " UNION ALL ".join(
    f"SELECT '{row} ' || id || ': {column} ' || coalesce(substr({column}, 1, 19), 'null') "  # noqa: S608 - constant names
    f"FROM {table}"
    for row, table, column in _SHOWN_COLUMNS
)
"""Selects a line for each value that a notification may change."""

_WRONG = "Delivery with a wrong secret"

_STOP = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class _Server(uvicorn.Server):
    """A server that receives the signals of `_STOP` only once it handles them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals, including those that have arrived before."""
        with super().capture_signals():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
            yield


def run(*, stay: bool) -> None:
    """Run the demo; with `stay`, keep the server running until SIGINT, SIGTERM or SIGHUP."""
    logging.getLogger("hookrow").setLevel(logging.ERROR)  # the demo itself prints the refusals
    # An exception that a handler raises elsewhere might be lost, or leave `_show` waiting.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    for signum in (signal.SIGINT, signal.SIGTERM):
        # When uvicorn has stopped, it raises the signal again, for the handler that it replaced.
        signal.signal(signum, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    with (
        TemporaryDirectory(prefix="hookrow-demo-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        settings = Settings(
            entries=[EntrySettings(credentials=(token_urlsafe(),))],
            database_url=f"sqlite:///{folder}/demo.db",
            acknowledge_tests=True,
            port=listener.getsockname()[1],
            dashboard=find_spec("jinja2") is not None,  # from the extra `dashboard`
        )
        _migrations.upgrade(settings.database_url, Schema())
        _serve(settings, listener, stay=stay)


def _serve(settings: Settings, listener: socket.socket, *, stay: bool) -> None:
    """Serve in this thread, which receives the signals, while another one posts notifications."""
    with closing(Server(settings)) as app, ThreadPoolExecutor(1) as executor:
        # Without lifespan events, the application does not replace the handler of SIGHUP.
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
        server = _Server(config)

        def stop(shown: Future[None]) -> None:
            server.should_exit |= not stay or shown.exception() is not None

        shown = executor.submit(_show, app, settings, stay=stay)
        shown.add_done_callback(stop)
        server.run([listener])
        shown.result()


def _show(app: Server, settings: Settings, *, stay: bool) -> None:
    """Save rows, post notifications, and print what happens."""
    address, secret = f"http://127.0.0.1:{settings.port}", settings.entries[0].secrets()[0]
    click.echo(f"The server at {address} uses a temporary SQLite file.")
    if settings.dashboard:
        click.echo("The dashboard shows notifications as they arrive:")
        click.echo(f"  {address}{settings.dashboard_path}/")
        click.echo(f"  user hookrow, password {settings.generated_password}")
    click.echo()
    url = f"{address}{ENDPOINT}"
    path = settings.database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = _Rows(connection)
        _post_samples(url, secret, rows)
        _retry(app.receiver, rows)
    if stay:
        click.echo(
            "\nThe server keeps running. Post your own notification from another terminal:\n\n"
            f"  {shlex.quote(sys.argv[0])} simulate open dora@example.com m-4 \\\n"
            f"    --url {url} \\\n    --secret {secret}\n\n"
            "Press Ctrl-C to stop."
        )


class _Rows:
    """The rows of an application, with which it prints what notifications change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.save(_INSERT_ROWS)

    def save(self, script: str) -> None:
        """Insert rows."""
        self._connection.executescript(script)
        self._values = self._read()

    def print_changes(self) -> None:
        """Print the values that have changed since the last call."""
        before, self._values = self._values, self._read()
        for line in self._values:
            if line not in before:
                click.echo(f"  {line}")

    def _read(self) -> Sequence[str]:
        return [line for (line,) in self._connection.execute(_VALUES)]


def _post_samples(url: str, secret: str, rows: _Rows) -> None:
    """Post notifications, and print the responses and the changes."""
    click.echo(f"{'Notification':34}Response and changed rows\n{'-' * 80}")
    for title, payload in _samples().items():
        sent = "wrong" if title == _WRONG else secret
        status, text = testing.post(url, payload, secret=sent)
        click.echo(f"{title:34}{status} {text}".rstrip())
        rows.print_changes()


def _retry(receiver: Receiver, rows: _Rows) -> None:
    """Save the dispatch whose delivery arrived too early, and retry the delivery.

    An application would do the same.
    """
    click.echo(
        "\nThe delivery of the unsaved message is parked in the log. The application saves\n"
        "the message, and calls receiver.retry_now():\n"
    )
    rows.save(_LATE_ROW)
    receiver.retry_now("m-5").result()
    rows.print_changes()


def _samples() -> dict[str, testing.Payload]:
    """Return payloads by title: every kind of notification, and the most frequent refusals."""
    now = datetime.now(UTC)
    delivery = testing.delivery(ADA, "m-1", at=now)
    suppression = testing.suppression(CARL, "m-3", at=now)
    return {
        "Delivery to ada": delivery,
        "Open by ada": testing.opening(ADA, "m-1", at=now),
        "Suppression of carl": suppression,
        "Reactivation of carl": testing.reactivation(CARL, "m-3", at=now + timedelta(seconds=1)),
        "The suppression again, too late": suppression,
        "Open of ada's message by bea": testing.opening(BEA, "m-1", at=now),
        "Delivery of an unsaved message": testing.delivery(ADA, "m-5", at=now),
        "Bounce, which is not supported": testing.bounce(ADA, "m-1", at=now),
        _WRONG: delivery,
    }
