"""Load from 16 keep-alive connections, with a note of all that was posted and answered.

Each client posts to rows of its own, one notification after the other and each with
a later time than the one before: what a row has to hold in the end is known.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

from sqlalchemy import Connection as Database
from sqlalchemy import func, insert, select

from hookrow import testing
from hookrow.stores.engines import opened
from hookrow.stores.tables import dispatches, lists, notifications, subscribers, subscriptions
from wire import PATIENCE, Connection, eventually, request

CLIENTS = 16

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
"""When the first notification happened; each other a millisecond after the one before."""

MAKERS: dict[str, Callable[[str, str, datetime], testing.Payload]] = {
    "delivered_at": lambda email, message, at: testing.delivery(email, message, at=at),
    "opened_at": lambda email, message, at: testing.opening(email, message, at=at),
    "suppressed_at": lambda email, message, at: testing.suppression(email, message, at=at),
    "reactivated_at": lambda email, message, at: testing.reactivation(email, message, at=at),
}

COLUMNS = {
    "delivered_at": "delivered_at",
    "opened_at": "opened_at",
    "suppressed_at": "suppression_changed_at",
    "reactivated_at": "suppression_changed_at",
}
"""Where a row keeps the time of a notification, by its kind."""


@dataclass(frozen=True, slots=True)
class Try:
    """One post: when, how long its answer took, in seconds, and its status; None if none came."""

    begun: float
    seconds: float
    status: int | None


@dataclass(slots=True)
class Note:
    """A notification for a row, and each time that it was posted."""

    row: int
    kind: str
    at: datetime
    tries: list[Try] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """What is posted."""
        payload = MAKERS[self.kind](f"s{self.row}@example.com", f"m{self.row}", self.at)
        return json.dumps(payload).encode()

    @property
    def column(self) -> str:
        """Where its row keeps its time."""
        return COLUMNS[self.kind]

    @property
    def statuses(self) -> list[int | None]:
        """How it was answered, each time."""
        return [each.status for each in self.tries]

    def precedes(self, other: Note) -> bool:
        """Tell whether a row that has this one's time has missed the other.

        Of changes of a suppression the later one counts; of times, that which was
        processed last, and what was answered before the other was posted is not.
        """
        if self.at >= other.at:
            return False
        last = self.tries[-1]
        return (
            self.column == "suppression_changed_at"
            or last.begun + last.seconds < other.tries[0].begun
        )


class Client:
    """Posts on one connection, and goes from row to row."""

    def __init__(self, rows: Sequence[int], clock: Iterator[int]) -> None:
        self.notes: list[Note] = []
        self._rows = rows
        self._clock = clock
        self._turn = count()

    def run(self, port: int, over: Event, pause: float) -> None:
        """Post until it is over; what got no answer is posted again before all else."""
        connection = None
        while not over.wait(pause):
            try:
                connection = connection or Connection(port)
            except OSError:  # nobody listens: nothing is posted
                over.wait(0.05)
                continue
            if not self.notes or self.notes[-1].statuses[-1] is not None:
                self.notes.append(self._new())
            if not self.post(connection, self.notes[-1]):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def post(self, connection: Connection, note: Note) -> bool:
        """Post and wait for the answer, which is noted; tell whether the connection goes on."""
        begun, answer = monotonic(), None
        try:
            connection.send(request(note.body))
            answer = connection.answer()
        except (OSError, ValueError):  # it is cut, and maybe in the middle of a line
            pass
        status = answer.status if answer else None
        note.tries.append(Try(begun, monotonic() - begun, status))
        return answer is not None and answer.header("connection") != "close"

    def _new(self) -> Note:
        turn, place = divmod(next(self._turn), len(self._rows))
        at = NEW_YEAR + next(self._clock) * timedelta(milliseconds=1)
        return Note(self._rows[place], list(MAKERS)[turn % len(MAKERS)], at)


class Load:
    """The clients, and the rows of a database with our tables that they post to.

    Each has `rows` of its own, numbered from `first` on; `shared`, all have the same.
    They pause for so many seconds after each answer.
    """

    def __init__(
        self,
        database_url: str,
        *,
        first: int = 1,
        rows: int = 8,
        shared: bool = False,
        pause: float = 0.0,
    ) -> None:
        self.url = database_url
        self._pause = pause
        clock = count()
        numbers = range(first, first + rows * (1 if shared else CLIENTS))
        self.clients = [
            Client(numbers if shared else numbers[each * rows : (each + 1) * rows], clock)
            for each in range(CLIENTS)
        ]
        fill(database_url, numbers)

    @contextmanager
    def on(self, *ports: int) -> Iterator[None]:
        """Post to these ports, client by client in turn, until the block ends."""
        over = Event()
        threads = [
            Thread(target=client.run, args=(ports[n % len(ports)], over, self._pause), daemon=True)
            for n, client in enumerate(self.clients)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(2 * PATIENCE)
        assert not any(thread.is_alive() for thread in threads), "a client hangs"

    @property
    def notes(self) -> list[Note]:
        """All that was posted."""
        return list(chain.from_iterable(list(client.notes) for client in self.clients))

    @property
    def slowest(self) -> float:
        """How long the slowest answer took, in seconds."""
        return max(each.seconds for note in self.notes for each in note.tries)

    def statuses(self, *, since: float = 0.0) -> Counter[int | None]:
        """Count the answers to what was posted since then (of `monotonic`)."""
        tries = chain.from_iterable(note.tries for note in self.notes)
        return Counter(each.status for each in tries if each.begun >= since)

    def lost(self, *, answered: int | None = 200) -> list[str]:
        """Tell of which that were answered so, or of all, the log or the row does not know."""
        meant = [note for note in self.notes if answered is None or answered in note.statuses]
        holders = {(note.row, note.column, note.at): note for note in self.notes}
        with opened(self.url) as engine, engine.connect() as database:
            log, rows = logged(database), states(database)
        told = []
        for note in meant:
            outcome, _ = log.get(note.body, ("not in the log", 0))
            if outcome != "recorded":
                told.append(f"{note}: {outcome}")
            for where, row in rows[note.row].items():
                at = row.get(note.column, note.at)
                if at is None or holders[note.row, note.column, at].precedes(note):
                    told.append(f"{note}: {where} has {at}")
        return told

    def miscounted(self) -> list[str]:
        """Tell which the log counts more often than it was posted, or less than answered 200."""
        with opened(self.url) as engine, engine.connect() as database:
            log = logged(database)
        return [
            f"{note}: {attempts} attempts"
            for note in self.notes
            for _, attempts in [log.get(note.body, ("", 0))]
            if not note.statuses.count(200) <= attempts <= len(note.tries)
        ]

    def unposted(self) -> list[str]:
        """Tell which rows hold what nobody posted, or a suppression that is not its last change."""
        posted: defaultdict[tuple[int, str], dict[datetime, str]] = defaultdict(dict)
        for note in self.notes:
            posted[note.row, note.column][note.at] = note.kind
        with opened(self.url) as engine, engine.connect() as database:
            rows = states(database)
        told = []
        for number, held in rows.items():
            for where, row in held.items():
                at = row["suppression_changed_at"]
                kind = posted[number, "suppression_changed_at"].get(at)
                right = at if kind == "suppressed_at" else None
                if (at is not None and kind is None) or row["suppressed_at"] != right:
                    told.append(f"{where} {number}: {row}")
            for column in ("delivered_at", "opened_at"):
                at = held["dispatch"][column]
                if at is not None and at not in posted[number, column]:
                    told.append(f"dispatch {number}: {column} {at}")
        return told

    def wait_until_recorded(self, seconds: float) -> None:
        """Wait until all that was posted is on its row and in the log."""
        until = monotonic() + seconds
        while lost := self.lost(answered=None):
            assert monotonic() < until, (self.told(), lost[:10])
            sleep(0.2)

    def recorded(self) -> int:
        """Count what the log says was recorded."""
        with opened(self.url) as engine, engine.connect() as database:
            recorded = select(func.count()).where(notifications.c.outcome == "recorded")
            return int(database.scalar(recorded) or 0)

    def told(self) -> str:
        """Return the counts, in words."""
        statuses = self.statuses()
        answers = ", ".join(
            f"{number} {status or 'unanswered'}" for status, number in statuses.most_common()
        )
        return (
            f"{len(self.notes)} notifications, {sum(statuses.values())} posts: {answers}; "
            f"{self.recorded()} recorded; slowest answer {self.slowest:.1f} s"
        )


def report(*counts: object) -> None:
    """Say what was seen, for who runs the tests with `-s` and for the documentation."""
    print(*counts)


def is_well(load: Load) -> bool:
    """Tell whether all that is posted for a second from now on is answered 200."""
    begun = monotonic()
    sleep(1)
    return set(load.statuses(since=begun)) == {200}


def fill(database_url: str, numbers: Sequence[int]) -> None:
    """Make a subscriber, a dispatch and a subscription of each number, in a list of their own."""
    list_ = numbers[0]
    with opened(database_url) as engine, engine.begin() as database:
        database.execute(insert(lists), {"id": list_, "name": "news"})
        database.execute(
            insert(subscribers), [{"id": n, "email": f"s{n}@example.com"} for n in numbers]
        )
        both = [{"list_id": list_, "subscriber_id": n} for n in numbers]
        database.execute(insert(subscriptions), both)
        database.execute(
            insert(dispatches),
            [
                {"id": n, "provider_message_id": f"m{n}", "list_id": list_, "subscriber_id": n}
                for n in numbers
            ],
        )


def logged(database: Database) -> dict[bytes, tuple[str, int]]:
    """Read the log: how each body ended, and how often it came."""
    column = notifications.c
    rows = database.execute(select(column.body, column.outcome, column.attempts))
    return {body.encode(): (outcome, attempts) for body, outcome, attempts in rows}


def states(database: Database) -> dict[int, dict[str, dict[str, Any]]]:
    """Read what the notifications set, by the number of the rows and what they are."""
    tables = {
        "dispatch": (dispatches, dispatches.c.id),
        "subscriber": (subscribers, subscribers.c.id),
        "subscription": (subscriptions, subscriptions.c.subscriber_id),
    }
    held: defaultdict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for name, (table, number) in tables.items():
        for row in database.execute(select(number.label("number"), table)).mappings():
            held[row["number"]][name] = {
                column: value for column, value in row.items() if column.endswith("_at")
            }
    return held


def see_through(load: Load, spool: Path, *, seconds: float = 20) -> None:
    """See an outage to its end: the spool is emptied, and all is recorded as it was posted.

    There was an outage, and what was answered in it was 503 and nothing else.
    """
    eventually(lambda: spooled(spool) == 0, seconds=seconds)
    load.wait_until_recorded(seconds)
    report(load.told())
    assert set(load.statuses()) == {200, 503}, load.told()
    assert load.unposted() == []


def spooled(spool: Path) -> int:
    """Count what waits in a spool."""
    with closing(sqlite3.connect(f"file:{spool}?mode=ro", uri=True)) as connection:
        (waiting,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
    return int(waiting)
