"""Load from 16 keep-alive connections, with a record of all requests and responses.

Each client posts notifications for its own rows, one after the other, each with a later time than
the previous one, so the final state of each row is known.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, cycle, pairwise, product
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
"""The time of the first notification; each later one is a millisecond after the previous."""

KINDS: dict[str, tuple[Callable[..., testing.Payload], str]] = {
    "delivery": (testing.delivery, "delivered_at"),
    "opening": (testing.opening, "opened_at"),
    "suppression": (testing.suppression, "suppression_changed_at"),
    "reactivation": (testing.reactivation, "suppression_changed_at"),
}
"""The function that creates a payload, and the column for its time."""

ROWS = {
    "subscriber": (subscribers, subscribers.c.id),
    "dispatch": (dispatches, dispatches.c.id),
    "subscription": (subscriptions, subscriptions.c.subscriber_id),
}


class Attempt(NamedTuple):
    """A request: its start, the seconds until its response, and the status, or None without one."""

    begun: float
    seconds: float
    status: int | None


@dataclass(slots=True)
class Posting:
    """A notification for a row, and all attempts to post it."""

    row: int
    kind: str
    at: datetime
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The body of the request."""
        make, _ = KINDS[self.kind]
        return json.dumps(make(f"s{self.row}@example.com", f"m{self.row}", at=self.at)).encode()

    @property
    def column(self) -> str:
        """The column for its time."""
        return KINDS[self.kind][1]

    @property
    def statuses(self) -> list[int | None]:
        """The status of each attempt."""
        return [each.status for each in self.attempts]

    def precedes(self, other: Self) -> bool:
        """Return whether a row with the time of this notification lacks the other one.

        The later of two suppressions wins. Of other times, the one processed last wins: that is
        not this one if its response of 200 was sent before the other was posted. After a 503, it
        may have been processed later.
        """
        last = self.attempts[-1]
        is_over = last.status == 200 and last.begun + last.seconds < other.attempts[0].begun
        return self.at < other.at and (self.column == "suppression_changed_at" or is_over)


class Client:
    """Posts on one connection, for each of its rows in turn."""

    def __init__(self, rows: Sequence[int], clock: Iterator[int]) -> None:
        self.postings: list[Posting] = []
        self._rows = rows
        self._clock = clock
        self._turn = count()

    @property
    def attempts(self) -> list[Attempt]:
        """The requests that got a response, or failed."""
        return [each for posting in list(self.postings) for each in list(posting.attempts)]

    def run(self, connect: Callable[[], Connection], over: Event, pause: float) -> None:
        """Post until the event is set; repeat a request that got no response."""
        while not over.wait(pause):
            with suppress(OSError), closing(connect()) as connection:
                while not over.wait(pause):
                    if not self.postings or self.postings[-1].statuses[-1] is not None:
                        self.postings.append(self._new())
                    if not self._post(connection, self.postings[-1]):
                        break
                continue
            over.wait(0.05)  # the server is not listening

    def _post(self, connection: Connection, posting: Posting) -> bool:
        """Post, and store the response; return whether the connection stays open."""
        begun, answer = monotonic(), None
        try:
            connection.send(request(posting.body))
            answer = connection.answer()
        except (OSError, ValueError):  # the connection was closed, perhaps in the middle of a line
            pass
        posting.attempts.append(
            Attempt(begun, monotonic() - begun, answer.status if answer else None)
        )
        return answer is not None and answer.header("connection") != "close"

    def _new(self) -> Posting:
        turn, place = divmod(next(self._turn), len(self._rows))
        at = NEW_YEAR + next(self._clock) * timedelta(milliseconds=1)
        return Posting(self._rows[place], list(KINDS)[turn % len(KINDS)], at)


class Load:
    """The clients, and the rows of their notifications in a database with hookrow's tables.

    Each client has `rows` separate rows, numbered from `first`; if `shared`, all have the same
    rows. A client pauses for `pause` seconds after each response. The log and the rows are checked
    at all `urls` of the database, to which those of other nodes or of a standby may be added.
    Notifications that are known to be lost are `left_out`, by their bodies.
    """

    def __init__(
        self,
        url: str,
        *,
        first: int = 1,
        rows: int = 8,
        shared: bool = False,
        pause: float = 0.0,
    ) -> None:
        self.url = url
        self.left_out: set[bytes] = set()
        self.urls = [url]
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
        """Post to these ports until the block ends; each client uses one port."""
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
    def interrupted(self, port: int, spool: Path, *, refuses: bool = True) -> Iterator[None]:
        """Post before, during and after a fault in the block; check that nothing is lost."""
        with self.on(port):
            self.wait_for(100, 200)
            yield
            self.wait_until_healthy()
        self.check_recovery(spool, refuses=refuses)

    @property
    def postings(self) -> list[Posting]:
        """All notifications that were posted."""
        return [posting for client in self.clients for posting in list(client.postings)]

    @property
    def slowest(self) -> float:
        """The time until the slowest response, in seconds."""
        attempts = (each for client in self.clients for each in client.attempts)
        return max((each.seconds for each in attempts), default=0.0)

    def statuses(self, *, since: float = 0.0) -> Counter[int | None]:
        """Count the statuses of requests since a time of `monotonic`."""
        attempts = (each for client in self.clients for each in client.attempts)
        return Counter(each.status for each in attempts if each.begun >= since)

    def wait_for(self, number: int, status: int) -> None:
        """Wait until this number of new requests have got this status."""
        begun = monotonic()
        eventually(lambda: self.statuses(since=begun)[status] >= number, seconds=60)

    def wait_until_healthy(self) -> None:
        """Wait until all responses within half a second are 200."""

        def is_healthy() -> bool:
            begun = monotonic()
            sleep(0.5)
            return set(self.statuses(since=begun)) == {200}

        eventually(is_healthy, seconds=60)

    def lost(self, *, answered: int | None = 200) -> list[str]:
        """List the notifications with this status, or any, that the log or their rows lack."""
        return [each for url in self.urls for each in self._lost(url, answered)]

    def _lost(self, url: str, answered: int | None) -> list[str]:
        log, rows = logged(url), states(url)
        holders = {(posting.row, posting.column, posting.at): posting for posting in self.postings}
        missed = []
        for posting in self.postings:
            is_unanswered = answered is not None and answered not in posting.statuses
            if is_unanswered or posting.body in self.left_out:
                continue
            outcome, _ = log.get(posting.body, ("not in the log", 0))
            if outcome != "recorded":
                missed.append(f"{posting}: {outcome}")
            for where, row in rows[posting.row].items():
                at = row.get(posting.column, posting.at)
                if at is None or holders[posting.row, posting.column, at].precedes(posting):
                    missed.append(f"{posting}: {where} has {at}")
        return missed

    def miscounted(self) -> list[str]:
        """List notifications that the log counts more often than posted, or less often than 200."""
        log = logged(self.url)
        attempts = [(posting, log.get(posting.body, ("", 0))[1]) for posting in self.postings]
        return [
            f"{posting}: {number} attempts"
            for posting, number in attempts
            if not posting.statuses.count(200) <= number <= len(posting.attempts)
        ]

    def unposted(self) -> list[str]:
        """List the rows with a time that was not posted, or with a wrong suppression."""
        posted = {
            (posting.row, posting.column, posting.at): posting.kind for posting in self.postings
        }
        wrong = []
        held = [states(url) for url in self.urls]
        for number, by_number in product(self.numbers, held):
            for where, row in by_number[number].items():
                times = [(number, name, row.get(name)) for _, name in KINDS.values()]
                last = row["suppression_changed_at"]
                suppressed = posted.get((number, "suppression_changed_at", last)) == "suppression"
                if row["suppressed_at"] != (last if suppressed else None) or any(
                    each[2] is not None and each not in posted for each in times
                ):
                    wrong.append(f"{where} {number}: {row}")
        return wrong

    def wait_until_recorded(self, seconds: float = 60, *, answered: int | None = None) -> None:
        """Wait until the log and the rows contain the notifications with this status, or any."""
        until = monotonic() + seconds
        while lost := self.lost(answered=answered):
            assert monotonic() < until, (str(self), lost[:10])
            sleep(0.2)

    def check(self, *statuses: int | None) -> None:
        """Assert that there were no other statuses, and that each 200 was recorded."""
        assert set(self.statuses()) <= set(statuses), str(self)
        assert self.lost() == []
        assert self.unposted() == []

    def check_recovery(self, spool: Path, *, refuses: bool = True) -> None:
        """Assert that after an outage the spool is emptied, and all notifications are recorded.

        Some got a 503, if the outage `refuses` any.
        """
        eventually(lambda: spooled(spool) == 0, seconds=60)
        self.wait_until_recorded()
        print(self)
        statuses = set(self.statuses())
        assert statuses == {200, 503} or (not refuses and statuses == {200}), str(self)
        assert self.unposted() == []

    def __str__(self) -> str:
        statuses = self.statuses()
        responses = ", ".join(
            f"{number} of {status or 'none'}" for status, number in statuses.most_common()
        )
        return (
            f"{len(self.postings)} notifications, {sum(statuses.values())} requests; "
            f"responses: {responses}; the slowest after {self.slowest:.1f} s"
        )


class OneRequest(Connection):
    """A connection for a single request, as many clients make one for each."""

    def send(self, data: bytes) -> None:
        """Send a request that closes the connection."""
        super().send(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


class Counted:
    """Connects, and counts the connections that failed."""

    failed = 0

    def __init__(self, connect: Callable[[int], Connection]) -> None:
        self._connect = connect

    def __call__(self, port: int) -> Connection:
        """Connect to a port."""
        try:
            return self._connect(port)
        except OSError:
            self.failed += 1
            raise


def longest_pause(attempts: Iterable[Attempt]) -> float:
    """Return the longest time between two responses of 200, in seconds."""
    times = sorted(each.begun + each.seconds for each in attempts if each.status == 200)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def fill(url: str, numbers: Sequence[int]) -> None:
    """Insert a subscriber, a dispatch and a subscription for each number, on one list."""
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
    """Read the log: the outcome and the number of attempts by body."""
    column = notifications.c
    with opened(url) as engine, engine.connect() as database:
        rows = database.execute(select(column.body, column.outcome, column.attempts))
        return {body.encode(): (outcome, attempts) for body, outcome, attempts in rows}


def states(url: str) -> dict[int, dict[str, dict[str, Any]]]:
    """Read the times of all rows, by number and kind."""
    times_by_row: defaultdict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    with opened(url) as engine, engine.connect() as database:
        for name, (table, number) in ROWS.items():
            times = [column for column in table.c if column.name.endswith("_at")]
            for row in database.execute(select(number.label("number"), *times)).mappings():
                values = {column.name: row[column.name] for column in times}
                times_by_row[row["number"]][name] = values
    return times_by_row


def spooled(spool: Path) -> int:
    """Count the notifications that wait in a spool."""
    with closing(sqlite3.connect(f"file:{spool}?mode=ro", uri=True)) as connection:
        (waiting,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
    return int(waiting)
