"""`hookrow demo`: a server on a temporary database, and sample notifications."""

from __future__ import annotations

import logging
import shlex
import signal
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from threading import Event, Thread

import click
import uvicorn

from hookrow import migrations, testing
from hookrow.core.schema import Schema
from hookrow.describe import describe_outcome
from hookrow.http import ENDPOINT
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.reconcile import Reconciliation
from hookrow.postmark_api.register import Wanted, register
from hookrow.postmark_api.webhooks import read_streams
from hookrow.providers.postmark import Postmark
from hookrow.server.app import Server
from hookrow.server.settings import Settings
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing.postmark_api import PostmarkStandIn

ADA, BEA, CARL = "ada@example.com", "bea@example.com", "carl@example.com"

DAY = timedelta(days=1)

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

_STATE = """
SELECT row || ': ' || name || ' ' || coalesce(substr(time, 1, 19), 'null')
    || coalesce(', ' || reason, '')
FROM (
    SELECT 'subscriber ' || id AS row, 'suppressed_at' AS name, suppressed_at AS time,
        suppression_reason AS reason FROM hookrow_subscribers
    UNION ALL SELECT 'subscription ' || id, 'suppressed_at', suppressed_at, suppression_reason
        FROM hookrow_subscriptions
    UNION ALL SELECT 'dispatch ' || id, 'suppressed_at', suppressed_at, suppression_reason
        FROM hookrow_dispatches
    UNION ALL SELECT 'dispatch ' || id, 'delivered_at', delivered_at, NULL FROM hookrow_dispatches
    UNION ALL SELECT 'dispatch ' || id, 'opened_at', opened_at, NULL FROM hookrow_dispatches
)
"""
"""Selects a line for each value that a notification may change."""

_WRONG = "Delivery with a wrong secret"


def run(*, stay: bool, provider: bool = False) -> None:
    """Run the demo; with `stay`, continue to show changes until SIGINT, SIGTERM or SIGHUP.

    With `provider`, a stand-in for the provider posts the notifications.
    """
    logging.getLogger("hookrow").setLevel(logging.ERROR)  # the demo itself prints the refusals
    # An exception raised by a signal handler could interrupt a library, or be caught by it.
    stopped = Event()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda *_: stopped.set())
    with (
        suppress(KeyboardInterrupt),
        TemporaryDirectory(prefix="hookrow-demo-") as folder,
        _serving(Path(folder) / "demo.db", stopped) as demo,
    ):
        if provider:
            demo.show_provider()
        else:
            demo.post_samples()
            demo.retry()
        if stay:
            demo.watch()


@dataclass(frozen=True, slots=True)
class Demo:
    """A running server, and the application's connection to its database.

    Each method raises `KeyboardInterrupt` soon after `stopped` is set.
    """

    server: Server
    settings: Settings
    url: str
    connection: sqlite3.Connection
    stopped: Event

    def post_samples(self) -> None:
        """Post notifications, and print the responses and the changes."""
        statuses: Counter[int] = Counter()
        click.echo(f"{'Notification':34}Response and changed rows\n{'-' * 80}")
        before = self._state()
        for title, payload in _samples().items():
            secret = "wrong" if title == _WRONG else self.settings.secrets[0]
            status, text = testing.post(self.url, payload, secret=secret)
            statuses[status] += 1
            click.echo(f"{title:34}{status} {text}".rstrip())
            before = self._print_changes(before)
        counts = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
        click.echo(f"\n{statuses.total()} responses: {counts}.")

    def retry(self) -> None:
        """Save the dispatch whose delivery arrived too early, as an application would."""
        click.echo(
            "\nOne delivery arrived before its dispatch was saved. It is parked in the log:\n"
        )
        self._print_entry()
        self.connection.execute(_LATE_ROW)
        before = self._state()
        self.server.receiver.retry_now("m-5").result()
        click.echo("\nThe application saves the dispatch and calls receiver.retry_now():\n")
        self._print_changes(before)
        self._print_entry()

    def show_provider(self) -> None:
        """Register a webhook at a stand-in for the provider, and let events happen there."""
        before = self._state()
        with PostmarkStandIn() as api:
            client = PostmarkAPI(api.token, api.address)
            wanted = Wanted(url=self.url, secrets=self.settings.secrets)
            streams = read_streams(client, ["outbound"])
            click.echo(f"A stand-in for the provider's API runs at {api.address}.\n")
            for each in register(client, wanted, streams):
                click.echo(
                    f"It has tested and saved webhook {each.id}. Now it delivers a message:\n"
                )
            api.deliver(api.send(ADA, message_id="m-1"))
            before = self._print_posts(api, before)
            click.echo(
                "\nFor half an hour, this server cannot be reached, so the provider repeats:\n"
            )
            [webhook] = api.webhooks
            webhook.url = f"http://127.0.0.1:1{ENDPOINT}"
            api.open("m-1")
            api.flush()
            api.advance(timedelta(minutes=30))
            webhook.url = self.url
            api.advance(timedelta(hours=1))
            before = self._print_posts(api, before)
            click.echo(
                "\nWhile its webhook is paused, the provider posts nothing; afterwards, "
                "`hookrow provider reconcile`\nreads what was missed from the provider's API:\n"
            )
            webhook.verified.clear()
            api.deliver(api.send(BEA, message_id="m-2"))
            api.suppress(CARL)
            with closing(SQLStore(self.settings.database_url)) as store:
                missed = Reconciliation(client, store, Postmark, streams, since=api.now - DAY)
                for _ in missed.steps():
                    self._raise_if_stopped()
            self._print_changes(before)

    def _print_posts(self, api: PostmarkStandIn, before: Sequence[str]) -> Sequence[str]:
        """Post the events that are due; print the attempts of the newest, and the changes."""
        api.flush()
        attempts = api.events[-1].attempts
        for each in attempts:
            minutes = round((each.at - attempts[0].at) / timedelta(minutes=1))
            response = each.status or "no response"
            click.echo(f"{api.events[-1].trigger}, after {minutes:2} min    {response}")
        return self._print_changes(before)

    def watch(self) -> None:
        """Print the changes that the user's own notifications make."""
        click.echo(
            "\nThe server keeps running. Post your own notification from another terminal:\n\n"
            f"  {shlex.quote(sys.argv[0])} simulate open dora@example.com m-4 \\\n"
            f"    --url {self.url} \\\n    --secret {self.settings.secrets[0]}\n\n"
            "This terminal shows the rows that it changes. Press Ctrl-C to stop."
        )
        before = self._state()
        while True:
            self.stopped.wait(POLL)
            before = self._print_changes(before)

    def _print_changes(self, before: Sequence[str]) -> Sequence[str]:
        """Print the lines that have changed; return all current lines."""
        self._raise_if_stopped()
        state = self._state()
        for line in state:
            if line not in before:
                click.echo(f"  {line}")
        return state

    def _raise_if_stopped(self) -> None:
        if self.stopped.is_set():
            with suppress(OSError):  # the terminal may be closed
                click.echo()
            raise KeyboardInterrupt

    def _state(self) -> Sequence[str]:
        return [line for (line,) in self.connection.execute(_STATE)]

    def _print_entry(self) -> None:
        """Print the result of the delivery that arrived too early."""
        with closing(SQLStore(self.settings.database_url)) as store:
            for entry in store.log.newest(Query(message_id="m-5"), limit=1) if store.log else ():
                click.echo(f"  {describe_outcome(entry)}")


@contextmanager
def _serving(database: Path, stopped: Event) -> Iterator[Demo]:
    """Serve a new database in a thread, and print the addresses."""
    migrations.upgrade(f"sqlite:///{database}", Schema())
    with (
        closing(sqlite3.connect(database, isolation_level=None)) as connection,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        connection.executescript(_ROWS)
        settings = Settings(
            secrets=(token_urlsafe(),),
            database_url=f"sqlite:///{database}",
            acknowledge_tests=True,
            port=listener.getsockname()[1],
            dashboard=find_spec("jinja2") is not None,  # from the extra `dashboard`
        )
        app = Server(settings)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = Thread(target=server.run, args=([listener],))
        try:
            thread.start()
            address = f"http://127.0.0.1:{settings.port}"
            click.echo(f"The server at {address} uses a temporary SQLite file.")
            if settings.dashboard:
                click.echo("The dashboard shows notifications as they arrive:")
                click.echo(f"  {address}/dashboard/")
                click.echo(f"  user hookrow, password {settings.generated_password}")
            click.echo()
            yield Demo(app, settings, address + ENDPOINT, connection, stopped)
        finally:
            server.should_exit = True
            thread.join()


def _samples() -> dict[str, testing.Payload]:
    """Return payloads by title: every kind of notification, and every refusal."""
    now = datetime.now(UTC)
    delivery = testing.delivery(ADA, "m-1", at=now)
    suppression = testing.suppression(CARL, "m-3", at=now)
    return {
        "Delivery to ada": delivery,
        "The same delivery again": delivery,
        "Open by ada": testing.opening(ADA, "m-1", at=now),
        "Delivery to bea": testing.delivery(BEA, "m-2", at=now),
        "Suppression of carl": suppression,
        "Reactivation of carl": testing.reactivation(CARL, "m-3", at=now + timedelta(seconds=1)),
        "The suppression again, too late": suppression,
        "Complaint by bea": testing.suppression(BEA, None, at=now, reason="SpamComplaint"),
        "Open of ada's message by bea": testing.opening(BEA, "m-1", at=now),
        "Delivery to an unknown address": testing.delivery("eve@example.com", None, at=now),
        "Delivery of an unsaved message": testing.delivery(ADA, "m-5", at=now),
        "Bounce, which is not supported": testing.bounce(ADA, "m-1", at=now),
        "Delivery without a time": delivery | {"DeliveredAt": None},
        _WRONG: delivery,
    }
