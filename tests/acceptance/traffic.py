"""Load from 16 keep-alive connections, with a record of everything posted and answered.

Each client posts to rows of its own, one notification after the other, each with a later time
than the one before. So the final state of each row is known.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, cycle
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

from sqlalchemy import insert, select

from engines import opened
from hookrow import testing
from own_tables import dispatches, lists, notifications, subscribers, subscriptions
from wire import PATIENCE, Connection, eventually, request

CLIENTS = 16

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
"""The time of the first notification; each of the others is a millisecond after the previous."""

KINDS: dict[str, tuple[Callable[..., testing.Payload], str]] = {
    "delivery": (testing.delivery, "delivered_at"),
    "opening": (testing.opening, "opened_at"),
    "suppression": (testing.suppression, "suppression_changed_at"),
    "reactivation": (testing.reactivation, "suppression_changed_at"),
}
"""How to make a notification, and the column that holds its time."""

ROWS = {
    "subscriber": (subscribers, subscribers.c.id),
    "dispatch": (dispatches, dispatches.c.id),
    "subscription": (subscriptions, subscriptions.c.subscriber_id),
}


class Try(NamedTuple):
    """One post: when it began, how many seconds its answer took, and its status, if any."""

    begun: float
    seconds: float
    status: int | None


@dataclass(slots=True)
class Note:
    """A notification for a row, and each time it was posted."""

    row: int
    kind: str
    at: datetime
    tries: list[Try] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The body of the request."""
        make, _ = KINDS[self.kind]
        return json.dumps(make(f"s{self.row}@example.com", f"m{self.row}", at=self.at)).encode()

    @property
    def column(self) -> str:
        """The column that holds its time."""
        return KINDS[self.kind][1]

    @property
    def statuses(self) -> list[int | None]:
        """The status of each post."""
        return [each.status for each in self.tries]

    def precedes(self, other: Self) -> bool:
        """Return whether a row that holds this one's time has missed the other.

        Of suppressions the later one wins. Of other times the one processed last wins: not this
        one, if it was answered before the other was posted.
        """
        last = self.tries[-1]
        return self.at < other.at and (
            self.column == "suppression_changed_at"
            or last.begun + last.seconds < other.tries[0].begun
        )


class Client:
    """Posts on one connection, to each of its rows in turn."""

    def __init__(self, rows: Sequence[int], clock: Iterator[int]) -> None:
        self.notes: list[Note] = []
        self._rows = rows
        self._clock = clock
        self._turn = count()

    def run(self, connect: Callable[[], Connection], over: Event, pause: float) -> None:
        """Post until the event is set; first post again whatever was not answered."""
        while not over.wait(pause):
            with suppress(OSError), closing(connect()) as connection:
                while not over.wait(pause):
                    if not self.notes or self.notes[-1].statuses[-1] is not None:
                        self.notes.append(self._new())
                    if not self._post(connection, self.notes[-1]):
                        break
                continue
            over.wait(0.05)  # the server does not listen

    def _post(self, connection: Connection, note: Note) -> bool:
        """Post, wait for the answer and record it; return whether the connection stays open."""
        begun, answer = monotonic(), None
        try:
            connection.send(request(note.body))
            answer = connection.answer()
        except (OSError, ValueError):  # the connection was cut, maybe in the middle of a line
            pass
        note.tries.append(Try(begun, monotonic() - begun, answer.status if answer else None))
        return answer is not None and answer.header("connection") != "close"

    def _new(self) -> Note:
        turn, place = divmod(next(self._turn), len(self._rows))
        at = NEW_YEAR + next(self._clock) * timedelta(milliseconds=1)
        return Note(self._rows[place], list(KINDS)[turn % len(KINDS)], at)


class Load:
    """The clients, and the rows in a database with hookrow's tables that they post to.

    Each client has `rows` of its own, numbered from `first` on; if `shared`, all have the same.
    They pause for that many seconds after each answer.
    """

    def __init__(
        self, url: str, *, first: int = 1, rows: int = 8, shared: bool = False, pause: float = 0.0
    ) -> None:
        self._url = url
        self._pause = pause
        clock = count()
        self.numbers = numbers = range(first, first + rows * (1 if shared else CLIENTS))
        self.clients = [
            Client(numbers if shared else numbers[each * rows : (each + 1) * rows], clock)
            for each in range(CLIENTS)
        ]
        fill(url, numbers)

    @contextmanager
    def on(self, *ports: int, connect: Callable[[int], Connection] = Connection) -> Iterator[None]:
        """Post to these ports, each client to one of them, until the block ends."""
        over = Event()
        with ThreadPoolExecutor(CLIENTS) as threads:
            running = [
                threads.submit(client.run, partial(connect, port), over, self._pause)
                for client, port in zip(self.clients, cycle(ports), strict=False)
            ]
            try:
                yield
            finally:
                over.set()
            for each in running:
                each.result(4 * PATIENCE)

    @contextmanager
    def interrupted(self, port: int, spool: Path) -> Iterator[None]:
        """Post before, during and after a fault in the block; check that nothing is lost."""
        with self.on(port):
            self.wait_for(100, 200)
            yield
            self.wait_until_well()
        self.see_through(spool)

    @property
    def notes(self) -> list[Note]:
        """Everything that was posted."""
        return [note for client in self.clients for note in list(client.notes)]

    @property
    def slowest(self) -> float:
        """How many seconds the slowest answer took."""
        return max((each.seconds for note in self.notes for each in note.tries), default=0.0)

    def statuses(self, *, since: float = 0.0) -> Counter[int | None]:
        """Count the answers to the posts since then (of `monotonic`)."""
        tries = [each for note in self.notes for each in list(note.tries)]
        return Counter(each.status for each in tries if each.begun >= since)

    def wait_for(self, number: int, status: int) -> None:
        """Wait until so many posts from now on have been answered with this status."""
        begun = monotonic()
        eventually(lambda: self.statuses(since=begun)[status] >= number, seconds=60)

    def wait_until_well(self) -> None:
        """Wait until everything that is posted for half a second is answered 200."""

        def is_well() -> bool:
            begun = monotonic()
            sleep(0.5)
            return set(self.statuses(since=begun)) == {200}

        eventually(is_well, seconds=60)

    def lost(self, *, answered: int | None = 200) -> list[str]:
        """List what had this answer, or any if None, and is not in the log or not on its rows."""
        log, rows = logged(self._url), states(self._url)
        holders = {(note.row, note.column, note.at): note for note in self.notes}
        missed = []
        for note in self.notes:
            if answered is not None and answered not in note.statuses:
                continue
            outcome, _ = log.get(note.body, ("not in the log", 0))
            if outcome != "recorded":
                missed.append(f"{note}: {outcome}")
            for where, row in rows[note.row].items():
                at = row.get(note.column, note.at)
                if at is None or holders[note.row, note.column, at].precedes(note):
                    missed.append(f"{note}: {where} has {at}")
        return missed

    def miscounted(self) -> list[str]:
        """List what the log counts more often than it was posted, or less often than answered."""
        log = logged(self._url)
        attempts = [(note, log.get(note.body, ("", 0))[1]) for note in self.notes]
        return [
            f"{note}: {number} attempts"
            for note, number in attempts
            if not note.statuses.count(200) <= number <= len(note.tries)
        ]

    def unposted(self) -> list[str]:
        """List the rows that hold what was not posted, or a suppression not as last changed."""
        posted = {(note.row, note.column, note.at): note.kind for note in self.notes}
        held = states(self._url)
        wrong = []
        for number in self.numbers:
            for where, row in held[number].items():
                times = [(number, name, row.get(name)) for _, name in KINDS.values()]
                last = row["suppression_changed_at"]
                suppressed = posted.get((number, "suppression_changed_at", last)) == "suppression"
                if row["suppressed_at"] != (last if suppressed else None) or any(
                    each[2] is not None and each not in posted for each in times
                ):
                    wrong.append(f"{where} {number}: {row}")
        return wrong

    def wait_until_recorded(self) -> None:
        """Wait until everything that was posted is on its rows and in the log."""
        until = monotonic() + 60
        while lost := self.lost(answered=None):
            assert monotonic() < until, (str(self), lost[:10])
            sleep(0.2)

    def check(self, *statuses: int | None) -> None:
        """Check that there were no other answers, and that what was answered 200 was recorded."""
        assert set(self.statuses()) <= set(statuses), str(self)
        assert self.lost() == []
        assert self.unposted() == []

    def see_through(self, spool: Path) -> None:
        """Check that after an outage the spool is emptied, and everything posted is recorded."""
        eventually(lambda: spooled(spool) == 0, seconds=60)
        self.wait_until_recorded()
        print(self)
        assert set(self.statuses()) == {200, 503}, str(self)
        assert self.unposted() == []

    def __str__(self) -> str:
        statuses = self.statuses()
        answers = ", ".join(
            f"{number} {status or 'unanswered'}" for status, number in statuses.most_common()
        )
        return (
            f"{len(self.notes)} notifications, {sum(statuses.values())} posts: {answers}; "
            f"slowest answer {self.slowest:.1f} s"
        )


def fill(url: str, numbers: Sequence[int]) -> None:
    """Insert a subscriber, a dispatch and a subscription for each number, in a list."""
    list_ = numbers[0]
    members = [{"list_id": list_, "subscriber_id": n} for n in numbers]
    sent = [{"id": n, "provider_message_id": f"m{n}"} for n in numbers]
    with opened(url) as engine, engine.begin() as database:
        database.execute(insert(lists), {"id": list_, "name": "news"})
        people = [{"id": n, "email": f"s{n}@example.com"} for n in numbers]
        database.execute(insert(subscribers), people)
        database.execute(insert(subscriptions), members)
        rows = [one | other for one, other in zip(sent, members, strict=True)]
        database.execute(insert(dispatches), rows)


def logged(url: str) -> dict[bytes, tuple[str, int]]:
    """Read the log: the outcome of each body, and how often it arrived."""
    column = notifications.c
    with opened(url) as engine, engine.connect() as database:
        rows = database.execute(select(column.body, column.outcome, column.attempts))
        return {body.encode(): (outcome, attempts) for body, outcome, attempts in rows}


def states(url: str) -> dict[int, dict[str, dict[str, Any]]]:
    """Read the times of all rows, by their number and kind."""
    held: defaultdict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    with opened(url) as engine, engine.connect() as database:
        for name, (table, number) in ROWS.items():
            times = [column for column in table.c if column.name.endswith("_at")]
            for row in database.execute(select(number.label("number"), *times)).mappings():
                held[row["number"]][name] = {column.name: row[column.name] for column in times}
    return held


def spooled(spool: Path) -> int:
    """Count the notifications that wait in a spool."""
    with closing(sqlite3.connect(f"file:{spool}?mode=ro", uri=True)) as connection:
        (waiting,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
    return int(waiting)
