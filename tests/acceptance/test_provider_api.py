"""A season with the provider: registration, an outage, a rotation under load, reconciliation.

The provider is its stand-in, with a virtual clock; hookrow is a server in another process.
"""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from subprocess import CompletedProcess
from threading import Event, Thread

import pytest

from command import HOOKROW, Command, Serving
from stand_in import Fault, PostmarkStandIn, Trigger
from wire import ENDPOINT, SECRET, eventually, free_port

pytestmark = pytest.mark.never_flaky

PEOPLE = 240
HOUR = timedelta(hours=1)


class Home:
    """A folder with hookrow's database, its secret file and its commands."""

    def __init__(self, command: Command, api: PostmarkStandIn, people: int) -> None:
        self.command, self.api = command, api
        self.printed: list[str] = []
        self.secrets = command.folder / "secrets"
        self.secrets.write_text(f"{SECRET}\n")
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}{ENDPOINT}"
        self._variables: dict[str, str] = {
            "HOOKROW_SECRET": "",
            "HOOKROW_SECRET_FILE": str(self.secrets),
            "HOOKROW_PROVIDER_TOKEN": api.token,
            "HOOKROW_PROVIDER_API": api.address,
            "HOOKROW_PORT": str(self._port),
            "HOOKROW_ACKNOWLEDGE_TESTS": "true",
        }
        self.run("db", "upgrade")
        self.messages = self._fill(people)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the commands."""
        return self.command.environment(self._variables)

    def run(self, *arguments: str, status: int = 0) -> CompletedProcess[str]:
        done = self.command.run(*arguments, **self._variables)
        self.printed += [done.stdout, done.stderr]
        assert done.returncode == status, done.stderr
        return done

    @contextmanager
    def serving(self) -> Iterator[Serving]:
        with self.command.serving("--workers", "2", **self._variables) as serving:
            yield serving
        self.printed.append(serving.log)

    def happen(self, messages: Sequence[str]) -> None:
        """Deliver and open messages."""
        for each in messages:
            self.api.deliver(each)
            self.api.open(each)

    @property
    def secrets_at_the_provider(self) -> set[str]:
        return {each.headers[0]["Value"] for each in self.api.webhooks}

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.command.folder / "hookrow.db")) as database:
            return database.execute(sql).fetchall()

    def _fill(self, people: int) -> list[str]:
        """Create a person and a dispatch for each message that the provider has sent."""
        emails = [f"person-{number}@example.com" for number in range(people)]
        messages = [self.api.send(each) for each in emails]
        with closing(sqlite3.connect(self.command.folder / "hookrow.db")) as database, database:
            database.executemany(
                "INSERT INTO hookrow_subscribers (id, email) VALUES (?, ?)", enumerate(emails, 1)
            )
            database.executemany(
                "INSERT INTO hookrow_dispatches (subscriber_id, provider_message_id, created_at) "
                "VALUES (?, ?, strftime('%Y-%m-%d %H:%M:%f000', 'now'))",
                enumerate(messages, 1),
            )
        return messages


def test_a_rotation_that_is_killed(command: Command) -> None:
    """One webhook already has the new secret; the next run continues with this secret.

    `tests/postmark_api` proves the same for a kill at each request, without processes.
    """
    with PostmarkStandIn() as api:
        home = Home(command, api, people=0)
        with home.serving() as serving:
            home.run("provider", "register", "--url", home.url)
            api.inject(Fault.TIMEOUT_AFTER_CHANGE, method="PUT")
            with subprocess.Popen(
                [HOOKROW, "provider", "rotate"], cwd=home.command.folder, env=home.environment
            ) as rotating:
                eventually(lambda: len(home.secrets.read_text().split()) == 2)
                serving.send(signal.SIGHUP)
                eventually(lambda: home.secrets_at_the_provider != {SECRET})
                rotating.kill()
            home.run("provider", "rotate")
            new, old = home.secrets.read_text().split()
            assert old == SECRET
            assert home.secrets_at_the_provider == {new}


def test_nothing_is_lost(command: Command) -> None:
    with PostmarkStandIn() as api:
        home = Home(command, api, PEOPLE)
        quarter = PEOPLE // 4
        first, second, third, last = (
            home.messages[start : start + quarter] for start in range(0, PEOPLE, quarter)
        )
        with home.serving():
            home.run("provider", "register", "--url", home.url)
            assert len(api.webhooks) == 2
            home.happen(first)
            api.flush()
        # An outage of an hour: the provider's repetitions end the loss.
        home.happen(second)
        api.flush()
        api.advance(HOUR)
        with home.serving() as serving:
            api.advance(HOUR)
            assert all(each.delivered for each in api.events)
            rotate_under_load(home, serving, third)
            refused = home.run("provider", "rotate", "--finish", status=1)
            assert "for another 72 minutes" in refused.stderr
        # A longer outage: the provider gives up, and only its API has the events.
        home.happen(last)
        api.suppress("person-0@example.com")
        api.advance(3 * HOUR)
        lost = [each for each in api.events if not each.delivered]
        assert len(lost) == 2 * quarter + 1
        with home.serving():
            since = f"{datetime.now(UTC) - timedelta(days=3):%Y-%m-%d}"
            done = home.run("provider", "reconcile", "--since", since)
            totals = f"1 suppression, {quarter} opens and {quarter} deliveries."
            assert done.stdout == f"Recorded {totals}\n"
            again = home.run("provider", "reconcile", "--since", since)
            assert again.stdout == "Recorded 0 suppressions, 0 opens and 0 deliveries.\n"
            home.run("provider", "register", "--url", home.url)
            found = json.loads(home.run("provider", "status", "--json").stdout)
            assert not [text for each in found["webhooks"] for text in each["drift"]]
        check_rows(home)
        secrets = [api.token, *home.secrets.read_text().split()]
        assert len(secrets) == 3
        assert not [text for text in home.printed for each in secrets if each in text]


def rotate_under_load(home: Home, serving: Serving, messages: Sequence[str]) -> None:
    """Rotate the secret while events arrive; each of them is accepted at the first attempt."""
    rotated = Event()
    before = len(home.api.events)

    def load() -> None:
        left = [*messages]
        while left or not rotated.is_set():
            if left:
                home.happen([left.pop()])
            home.api.flush()

    def reload() -> None:
        eventually(lambda: len(home.secrets.read_text().split()) == 2)
        serving.send(signal.SIGHUP)

    threads = [Thread(target=load), Thread(target=reload)]
    for each in threads:
        each.start()
    try:
        home.run("provider", "rotate")
    finally:
        rotated.set()
        for each in threads:
            each.join()
    newest = home.secrets.read_text().split()[0]
    assert home.secrets_at_the_provider == {newest}
    events = home.api.events[before:]
    assert len(events) == 2 * len(messages)
    assert all([attempt.status for attempt in each.attempts] == [200] for each in events)


def check_rows(home: Home) -> None:
    """Each event is on its row, and in the log once."""
    rows = home.rows("SELECT provider_message_id, delivered_at, opened_at FROM hookrow_dispatches")
    for message, delivered_at, opened_at in rows:
        at = dict(home.api.state.messages[str(message)].events)
        assert delivered_at == f"{at['Delivered']:%Y-%m-%d %H:%M:%S.%f}"
        assert opened_at == f"{at['Opened']:%Y-%m-%d %H:%M:%S.%f}"
    [(suppressed,)] = home.rows(
        "SELECT count(*) FROM hookrow_subscribers WHERE suppressed_at IS NOT NULL"
    )
    assert suppressed == 1
    logged = home.rows(
        "SELECT record_type, count(*) FROM hookrow_notifications "
        "WHERE outcome = 'recorded' GROUP BY record_type"
    )
    expected = {(Trigger.DELIVERY, PEOPLE), (Trigger.OPEN, PEOPLE), (Trigger.CHANGE, 1)}
    assert {*logged} == expected
