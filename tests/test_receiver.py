"""The receiver: from a request to a committed row and back, with real threads and real stores."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path
from threading import TIMEOUT_MAX, Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

import world
from hookrow import (
    ConfigurationError,
    Handler,
    Head,
    Postmark,
    Receiver,
    Request,
    Response,
    Schema,
    testing,
)
from hookrow.entry import PARKED, Ending, Logged
from hookrow.notification import (
    Arrival,
    Delivered,
    Mentioned,
    Outcome,
    Recorded,
    Refusal,
    Rows,
)
from hookrow.promise import Promise
from hookrow.receiver import endpoint_path
from hookrow.recording import record
from hookrow.spool import Spool
from hookrow.stores import Conflict, Transaction, Unavailable
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""

SECRET = "S3cret-of_the~provider"
CASES = Path(__file__).parent / "cases"

ADA = "ada@example.com"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}

OK = Response(200, b"", PLAIN)
UNSUPPORTED = Response(422, b"Webhook payload not supported", PLAIN)
LATER = Response(503, b"Try again later", PLAIN | {"Retry-After": "30"})


def _world() -> MemoryStore:
    """Return the rows that every case starts from, with ids from 1 on."""
    told = json.loads((CASES / "world.json").read_text())
    people = {row["email"]: id_ for id_, row in enumerate(told["subscribers"], 1)}
    lists = {name: id_ for id_, name in enumerate(told["lists"], 1)}
    return MemoryStore(
        subscribers={people[row["email"]]: {"email": row["email"]} for row in told["subscribers"]},
        dispatches={
            id_: {
                "provider_message_id": row["message_id"],
                "subscriber_id": people[row["subscriber"]],
                "list_id": lists[row["list"]],
            }
            for id_, row in enumerate(told["dispatches"], 1)
        },
        subscriptions={
            (lists[row["list"]], people[row["subscriber"]]): {} for row in told["subscriptions"]
        },
    )


def _people(*names: str, log: bool = True) -> MemoryStore:
    """Return a store with a subscriber and a dispatch for each name, ids from 1 on."""
    return MemoryStore(
        log=MemoryLog() if log else None,
        subscribers={id_: {"email": f"{name}@example.com"} for id_, name in enumerate(names, 1)},
        dispatches={
            id_: {"provider_message_id": f"m-{name}", "subscriber_id": id_, "list_id": None}
            for id_, name in enumerate(names, 1)
        },
    )


def _rows(store: MemoryStore) -> list[object]:
    """Return every row of a store."""
    return [store.subscribers, store.dispatches, store.subscriptions]


def _head(
    path: str = "/provider/webhooks", method: str = "POST", secret: str | None = SECRET
) -> Head:
    headers = [(b"content-type", b"application/json")]
    if secret is not None:
        headers.append((b"x-provider-secret", secret.encode()))
    return Head(method, path, headers)


def _request(body: bytes | dict[str, object]) -> Request:
    return Request(_head(), body if isinstance(body, bytes) else json.dumps(body).encode())


def _delivery(name: str, at: str = "2026-03-04T05:06:07Z", **more: object) -> Request:
    return _request(
        {
            "RecordType": "Delivery",
            "Recipient": f"{name}@example.com",
            "MessageID": f"m-{name}",
            "DeliveredAt": at,
            **more,
        }
    )


def _suppression(name: str, **more: object) -> Request:
    return _request(
        {
            "RecordType": "SubscriptionChange",
            "Recipient": f"{name}@example.com",
            "SuppressSending": True,
            "SuppressionReason": "HardBounce",
            **more,
        }
    )


def _queued(answer: Response | Promise[Response]) -> Promise[Response]:
    """Check that the request was queued, and return its future."""
    assert isinstance(answer, Promise)
    return answer


class _GatedStore(MemoryStore):
    """A memory that keeps every transaction waiting until the gate is opened."""

    __slots__ = ("groups", "opened", "reached", "threads")

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.subscribers, store.dispatches, store.subscriptions, log=store.log)
        self.reached = Event()
        self.opened = Event()
        self.groups: list[set[str]] = []
        self.threads: list[Thread] = []

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[Any]:
        """Wait at the gate, then begin; keep who came, and what each transaction mentions."""
        self.threads.append(threading.current_thread())
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        with super().transaction(skip_locked=skip_locked) as transaction:
            yield _Watched(transaction, self.groups)


class _Watched:
    """A transaction that keeps what it was asked to find."""

    def __init__(self, transaction: Transaction, groups: list[set[str]]) -> None:
        self._groups = groups
        self._transaction = transaction
        self.lock = transaction.lock
        self.write = transaction.write

    def find(self, mentioned: Mentioned) -> Rows:
        self._groups.append(set(mentioned.emails))
        return self._transaction.find(mentioned)


class _FaultyStore:
    """A memory that meets the given faults, one a transaction, as it commits."""

    def __init__(self, store: MemoryStore, *met: Exception) -> None:
        self.transactions = 0
        self.log = store.log
        self.census = store.census
        self.reading = store.reading
        self._store = store
        self._met: Iterator[Exception] = iter(met)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[Transaction]:
        self.transactions += 1
        with self._store.transaction(skip_locked=skip_locked) as transaction:
            yield transaction
            if (fault := next(self._met, None)) is not None:
                raise fault


def test_an_intruder_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who comes without the secret is logged, but not a hundred thousand times."""
    receiver = Receiver(Postmark(SECRET), _people())
    with caplog.at_level(logging.DEBUG, "hookrow"):
        for _ in range(1000):
            receiver.admit(_head(secret="wrong-secret"))
    assert caplog.messages == ["Somebody came without the secret, and was answered 401: request ."]


class TestAdmit:
    """The order of checks: path, method, secret; and all of it before a byte of the body."""

    @pytest.mark.parametrize(
        ("head", "refusal"),
        [
            pytest.param(_head(), None, id="all is right"),
            pytest.param(_head("/provider/webhooks/"), None, id="a slash at the end"),
            pytest.param(_head("/"), Refusal.NO_SUCH_PATH, id="path"),
            pytest.param(_head("/x", "GET"), Refusal.NO_SUCH_PATH, id="path before method"),
            pytest.param(_head("/x", secret=None), Refusal.NO_SUCH_PATH, id="path before secret"),
            pytest.param(_head(method="GET"), Refusal.METHOD_NOT_ALLOWED, id="method"),
            pytest.param(_head(method="HEAD"), Refusal.METHOD_NOT_ALLOWED, id="another method"),
            pytest.param(_head(method="post"), Refusal.METHOD_NOT_ALLOWED, id="case of the method"),
            pytest.param(
                _head(method="GET", secret=None),
                Refusal.METHOD_NOT_ALLOWED,
                id="method before secret",
            ),
        ],
    )
    def test_order_of_checks(self, head: Head, refusal: Refusal | None) -> None:
        """The first check that a head fails is its answer; one that fails none is admitted."""
        response = Receiver(Postmark(SECRET), _world()).admit(head)
        if refusal is None:
            assert response is None
        else:
            assert response == Response(
                refusal.status, refusal.text.encode(), PLAIN | dict(refusal.headers)
            )

    @pytest.mark.parametrize(
        ("secret", "error"), [(None, "missing"), ("", "missing"), ("wrong", "wrong")]
    )
    def test_secret(self, secret: str | None, error: str) -> None:
        """Without the secret the answer tells whether another one came."""
        challenge = {"WWW-Authenticate": f'Secret error="{error}"'}
        response = Receiver(Postmark(SECRET), _world()).admit(_head(secret=secret))
        assert response == Response(401, b"Cannot verify webhook", PLAIN | challenge)

    @pytest.mark.parametrize(
        ("path", "root", "there"),
        [
            ("/mail/provider/webhooks", "", True),
            ("/api/mail/provider/webhooks", "/api", True),
            ("/provider/webhooks", "", False),
            ("/x/mail/provider/webhooks", "", False),
        ],
    )
    def test_mount_path(self, path: str, root: str, *, there: bool) -> None:
        """A receiver that is told its mount path compares the whole path."""
        receiver = Receiver(Postmark(SECRET), _world(), mount_path="/mail")
        head = Head("POST", path, _head().headers, root)
        assert (receiver.admit(head) is None) is there

    def test_is_a_handler(self) -> None:
        """A receiver is what a host carries, and its calls do not block."""
        handler: Handler = Receiver(Postmark(SECRET), _world())
        assert handler.blocking is False


class TestQueued:
    def test_in_its_own_thread(self) -> None:
        """A queued notification is recorded in the receiver's thread, and answered there."""
        store = _GatedStore(_people("ada"))
        receiver = Receiver(Postmark(SECRET), store)
        answer = _queued(receiver(_delivery("ada")))
        assert not answer.done()
        store.opened.set()
        assert answer.result(PATIENCE) == OK
        assert threading.current_thread() not in store.threads
        receiver.close()

    def test_not_supported(self) -> None:
        """Without a log what is not supported is answered at once, and never queued."""
        store = _GatedStore(_people("ada", log=False))
        assert Receiver(Postmark(SECRET), store)(_request(b"{}")) == UNSUPPORTED
        assert not store.reached.is_set()

    def test_not_supported_with_a_log(self) -> None:
        """With a log it is queued with the others, and answered 422 also where that takes long."""
        store = _GatedStore(_people("ada"))
        receiver = Receiver(Postmark(SECRET), store, deadline=0.1)
        assert _queued(receiver(_request(b"{}"))).result(PATIENCE) == UNSUPPORTED
        store.opened.set()
        receiver.close(PATIENCE)
        assert store.log is not None
        assert [each.outcome for each in store.log.entries.values()] == [Ending.UNSUPPORTED]

    def test_a_group(self) -> None:
        """What arrives while one group commits shares the next transaction; each has its answer."""
        store = _GatedStore(_people("ada", "bea", "carl"))
        receiver = Receiver(Postmark(SECRET), store)
        answers = [_queued(receiver(_delivery("ada")))]
        assert store.reached.wait(PATIENCE)
        answers += [
            _queued(receiver(request))
            for request in (
                _delivery("bea"),
                _delivery("nobody"),
                _delivery("carl", MessageID="m-ada"),
                _suppression("bea"),
                _delivery("carl", MessageID="m-x"),
            )
        ]
        store.opened.set()
        assert [answer.result(PATIENCE).status for answer in answers] == [
            200,
            200,
            404,
            400,
            200,
            404,
        ]
        assert answers[3].result().body == (
            b"Dispatch subscriber ada@example.com does not match payload recipient carl@example.com"
        )
        assert answers[5].result().body == b"Engine::Dispatch not found"
        assert store.groups == [
            {"ada@example.com"},
            {"bea@example.com", "carl@example.com", "nobody@example.com"},
        ]
        receiver.close()

    def test_ends_as_one_by_one(self) -> None:
        """A group of changes to one row leaves it as its members would, in order of arrival."""
        changes: list[dict[str, object]] = [
            {"ChangedAt": "2026-03-04T12:00:00Z", "SuppressionReason": "HardBounce"},
            {"ChangedAt": "2026-03-04T14:00:00Z", "SuppressSending": False},
            {"ChangedAt": "2026-03-04T13:00:00Z", "SuppressionReason": "SpamComplaint"},
            {"ChangedAt": "2026-03-04T14:00:00Z", "SuppressionReason": "ManualSuppression"},
            {"ChangedAt": "2026-03-04T11:00:00Z", "SuppressSending": False},
        ]
        one_by_one = _people("ada", "bea")
        at_once = _GatedStore(_people("ada", "bea"))
        receiver = Receiver(Postmark(SECRET), at_once)
        answers = [_queued(receiver(_delivery("bea")))]
        assert at_once.reached.wait(PATIENCE)
        answers += [_queued(receiver(_suppression("ada", **change))) for change in changes]
        at_once.opened.set()
        assert [answer.result(PATIENCE) for answer in answers] == [OK] * 6
        receiver.close()
        for request in (_delivery("bea"), *(_suppression("ada", **change) for change in changes)):
            assert Receiver(Postmark(SECRET), one_by_one).answer(request) == OK
        assert _rows(at_once) == _rows(one_by_one)


class TestAnswer:
    def test_in_the_calling_thread(self) -> None:
        """`answer` records in the thread that calls it, and starts none."""
        store = _GatedStore(_people("ada"))
        store.opened.set()
        before = set(threading.enumerate())
        assert Receiver(Postmark(SECRET), store).answer(_delivery("ada")) == OK
        assert store.threads == [threading.current_thread()]
        assert not set(threading.enumerate()) - before

    def test_nothing_starts_before_it_is_needed(self) -> None:
        """To build a receiver, to refuse and to close starts no thread."""
        before = set(threading.enumerate())
        receiver = Receiver(Postmark(SECRET), _people("ada", log=False))
        receiver.admit(_head(secret="wrong"))
        receiver(_request(b""))
        receiver.close()
        assert not set(threading.enumerate()) - before

    @pytest.mark.parametrize("queue", [True, False])
    @pytest.mark.parametrize("log", [True, False])
    def test_not_supported_whatever_the_store(self, *, queue: bool, log: bool) -> None:
        """What is not supported is answered 422 also while no database can be reached."""
        store = _FaultyStore(_people("ada", log=log), *[Unavailable("gone")] * 3)
        receiver = Receiver(Postmark(SECRET), store)
        answer = (receiver if queue else receiver.answer)(_request(b"{}"))
        assert (answer.result(PATIENCE) if isinstance(answer, Promise) else answer) == UNSUPPORTED
        receiver.close(PATIENCE)
        assert store.transactions == (2 if log else 0)  # the second asks whether it is there

    def test_after_close(self) -> None:
        """`answer` needs no queue: it serves also when that is closed."""
        receiver = Receiver(Postmark(SECRET), _people("ada"))
        receiver.close()
        assert receiver.answer(_delivery("ada")) == OK

    def test_in_many_threads(self) -> None:
        """Many threads may answer at once, as a WSGI server's do."""
        names = [f"n{number}" for number in range(8)]
        store = _people(*names)
        receiver = Receiver(Postmark(SECRET), store)
        answers: list[Response] = []

        def serve(name: str) -> None:
            answers.extend(receiver.answer(_delivery(name)) for _ in range(20))

        threads = [Thread(target=serve, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert answers == [OK] * 160
        assert all("delivered_at" in row for row in store.dispatches.values())


class TestOverloaded:
    def test_by_count(self) -> None:
        """Who finds the backlog full is told at once to come again; who waits is recorded."""
        store = _GatedStore(_people("ada", "bea", "carl"))
        receiver = Receiver(Postmark(SECRET), store, backlog=1)
        answers = [_queued(receiver(_delivery("ada")))]
        assert store.reached.wait(PATIENCE)
        answers.append(_queued(receiver(_delivery("bea"))))
        assert receiver(_delivery("carl")) == LATER
        store.opened.set()
        assert [answer.result(PATIENCE) for answer in answers] == [OK] * 2
        assert _queued(receiver(_delivery("carl"))).result(PATIENCE) == OK
        receiver.close()

    def test_by_weight(self) -> None:
        """Bodies of 64 MiB in all may wait, however few they are, and not one more."""
        store = _GatedStore(_people("ada"))
        receiver = Receiver(Postmark(SECRET), store)
        small = _delivery("ada")
        filled = len(_delivery("ada", Details="").body)
        large = _delivery("ada", Details="x" * (1024 * 1024 - filled))
        assert len(large.body) == 1024 * 1024
        answers = [_queued(receiver(small))]
        assert store.reached.wait(PATIENCE)
        answers += [_queued(receiver(large)) for _ in range(64)]
        assert receiver(large) == receiver(small) == LATER
        store.opened.set()
        assert [answer.result(PATIENCE) for answer in answers] == [OK] * 65
        receiver.close()


class TestOptions:
    @pytest.mark.parametrize(
        "option",
        [
            *({"group": value} for value in (2.5, 0, -1, True, "8")),
            *({"backlog": value} for value in (4096.0, 0, None)),
            *({"deadline": value} for value in (0, -1.0, float("nan"), "5", True)),
        ],
        ids=str,
    )
    def test_what_cannot_work_is_refused(self, option: dict[str, Any]) -> None:
        """Numbers of another type or range are refused by name when the receiver is built."""
        with pytest.raises(ConfigurationError, match=next(iter(option))):
            Receiver(Postmark(SECRET), MemoryStore(), **option)

    @pytest.mark.parametrize("deadline", [0, 1e30, inf, nan])
    def test_range_of_the_deadline(self, deadline: float) -> None:
        """The error names both limits and the value."""
        limits = rf"greater than 0 and at most {TIMEOUT_MAX:.0f}, not {re.escape(repr(deadline))}\."
        with pytest.raises(ConfigurationError, match=limits):
            Receiver(Postmark(SECRET), MemoryStore(), deadline=deadline)

    def test_code_that_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        """An exception of `ended`, after the commit, is logged and affects neither response."""
        calls = []

        class Faulty(Receiver):
            def ended(self, arrival: Arrival, outcome: Outcome) -> None:
                calls.append(outcome)
                raise ValueError(arrival.body)

        store = _GatedStore(_people("ada", "bea", "carl"))
        with closing(Faulty(Postmark(SECRET), store)) as receiver:
            answers = [_queued(receiver(_delivery("ada")))]
            assert store.reached.wait(PATIENCE)
            answers += [_queued(receiver(_delivery(name))) for name in ("bea", "carl")]  # a group
            store.opened.set()
            assert [answer.result(PATIENCE) for answer in answers] == [OK] * 3
        assert len(calls) == 3
        (message,) = caplog.messages
        assert "Receiver.ended raised ValueError" in message
        assert "test_receiver.py" in message
        assert "ada@" not in message

    @pytest.mark.parametrize("queue", [True, False])
    def test_a_bug(self, caplog: pytest.LogCaptureFixture, *, queue: bool) -> None:
        """Whatever else raises is answered 503 and logged, and the thread goes on."""
        with closing(Receiver(Postmark(SECRET), _people("ada"))) as receiver:
            recorded, receiver._intake._recorded = receiver._intake._recorded, _raise
            answer = receiver if queue else receiver.answer
            assert _ended(answer(_delivery("ada"))) == LATER
            receiver._intake._recorded = recorded
            assert _ended(answer(_delivery("ada"))) == OK
        (message,) = caplog.messages
        assert "ValueError, a bug, at" in message
        assert "ada@" not in message


def _raise(arrivals: Sequence[Arrival]) -> list[Outcome]:
    raise ValueError(arrivals[0].body)


def _ended(answer: Response | Promise[Response]) -> Response:
    return answer.result(PATIENCE) if isinstance(answer, Promise) else answer


class TestDeadline:
    def test_503_though_it_is_recorded_later(self) -> None:
        """Who waits too long is told to come again, also when it is recorded after all."""
        store = _GatedStore(_people("ada", "bea"))
        receiver = Receiver(Postmark(SECRET), store, deadline=0.1)
        answers = [_queued(receiver(_delivery("ada")))]
        assert store.reached.wait(PATIENCE)
        answers.append(_queued(receiver(_delivery("bea"))))
        assert [answer.result(PATIENCE) for answer in answers] == [LATER] * 2
        assert not any("delivered_at" in row for row in store.dispatches.values())
        store.opened.set()
        receiver.close()
        assert all("delivered_at" in row for row in store.dispatches.values())
        assert [answer.result(0) for answer in answers] == [LATER] * 2

    def test_well_again(self) -> None:
        """After some were late the receiver serves as before."""
        store = _GatedStore(_people("ada"))
        receiver = Receiver(Postmark(SECRET), store, deadline=0.1)
        assert _queued(receiver(_delivery("ada"))).result(PATIENCE) == LATER
        store.opened.set()
        until = time.monotonic() + PATIENCE
        while _queued(receiver(_delivery("ada"))).result(PATIENCE) != OK:
            assert time.monotonic() < until
        receiver.close()


class TestClose:
    def test_drains(self) -> None:
        """Closing records what waits; who comes after is told to come again."""
        store = _GatedStore(_people("ada", "bea", "carl"))
        receiver = Receiver(Postmark(SECRET), store, group=1)
        answers = [_queued(receiver(_delivery(name))) for name in ("ada", "bea", "carl")]
        assert store.reached.wait(PATIENCE)
        closer = Thread(target=receiver.close)
        closer.start()
        store.opened.set()
        closer.join(PATIENCE)
        assert not closer.is_alive()
        assert [answer.result(0) for answer in answers] == [OK] * 3
        assert receiver(_delivery("ada")) == LATER


class TestFaults:
    """The whole way, with stores that fail: who is answered what, and what is in the rows."""

    @pytest.mark.parametrize(
        ("fault", "status", "transactions"),
        [(Conflict("40001"), 200, 2), (Unavailable("gone"), 503, 2), (ValueError("what"), 503, 2)],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
    )
    def test_a_transaction_that_fails(
        self, fault: Exception, status: int, transactions: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An answer of 200 means committed; what was not is told to come again.

        A store that is unavailable is asked whether it can be reached.
        """
        memory = _people("ada")
        store = _FaultyStore(memory, fault)
        with caplog.at_level(logging.DEBUG, "hookrow"):
            response = Receiver(Postmark(SECRET), store).answer(_delivery("ada"))
        assert response.status == status
        assert store.transactions == transactions
        assert ("delivered_at" in memory.dispatches[1]) == (status == 200)
        assert ADA not in caplog.text
        assert SECRET not in caplog.text


class TestRecord:
    """`record` itself: find, decide, lock, save, in one transaction."""

    def _arrival(self, name: str) -> Arrival:
        at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
        return Arrival(Delivered(f"{name}@example.com", f"m-{name}", at), b"", at)

    def test_an_outcome_each(self) -> None:
        """Each arrival has its outcome, in order."""
        store = _people("ada", "bea")
        outcomes = record(store, [self._arrival(name) for name in ("bea", "nobody", "ada")])
        assert [type(outcome) is Recorded for outcome in outcomes] == [True, False, True]
        assert all("delivered_at" in row for row in store.dispatches.values())

    def test_all_or_nothing(self) -> None:
        """Where the transaction fails no row is changed."""
        memory = _people("ada", "bea")
        with pytest.raises(Unavailable):
            record(
                _FaultyStore(memory, Unavailable("gone")),
                [self._arrival("ada"), self._arrival("bea")],
            )
        assert _rows(memory) == _rows(_people("ada", "bea"))

    def test_not_live(self) -> None:
        """What is applied later than it came sets a time only where it is the later one."""
        store = _people("ada")
        early, late = datetime(2026, 3, 4, tzinfo=UTC), datetime(2026, 3, 5, tzinfo=UTC)
        for at, live, expected in ((late, True, late), (early, False, late), (early, True, early)):
            arrival = Arrival(Delivered(ADA, "m-ada", at), b"", late, live)
            assert type(record(store, [arrival])[0]) is Recorded
            assert store.dispatches[1]["delivered_at"] == expected


_EVE = "eve@example.com"
_ADAS, _BEAS = "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901", "0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802"
_AT = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)

_REFUSE = "ALTER TABLE {} ADD COLUMN guard INTEGER CHECK (guard IS NOT NULL OR {})"


class Site:
    """A receiver on a database with the world in it, and how a host looks at that."""

    def __init__(self, url: str, store: SQLStore) -> None:
        world.fill(url)
        self._url = url
        self.store = store
        self.receiver = self.receive()

    def receive(self, **options: Any) -> Receiver:  # noqa: ANN401 - any keyword
        """Return another receiver."""
        return Receiver(Postmark(SECRET), self.store, **options)

    def post(self, payload: bytes | dict[str, Any]) -> int:
        """Post a payload; return the status."""
        return _queued(self.receiver(_request(payload))).result(PATIENCE).status

    def execute(self, statement: str) -> None:
        """Change the database as its owner might."""
        with self.store.engine.begin() as connection:
            connection.execute(text(statement))

    def logged(self) -> Sequence[Logged]:
        """Read the log, oldest first."""
        assert self.store.log is not None
        return self.store.log.oldest(Query(), limit=100)

    def rows(self) -> world.World:
        """Read all rows."""
        return world.rows(self._url)


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    """Return a site on a database of each kind."""
    with closing(SQLStore(database_url)) as store:
        site = Site(database_url, store)
        yield site
        site.receiver.close(PATIENCE)


class TestLog:
    """What the log keeps of each end, on real databases."""

    @pytest.mark.parametrize(
        ("payload", "status", "ending", "occurred_at"),
        [
            (testing.delivery(ADA, _ADAS, at=_AT), 200, Ending.RECORDED, _AT),
            (testing.reactivation(ADA, _ADAS, at=_AT), 200, Ending.RECORDED, _AT),
            (testing.opening(_EVE, _ADAS, at=_AT), 404, Ending.SUBSCRIBER_NOT_FOUND, _AT),
            (testing.suppression(_EVE, _ADAS, at=_AT), 404, Ending.SUBSCRIBER_NOT_FOUND, _AT),
            (testing.opening(ADA, "m-unknown", at=_AT), 404, Ending.DISPATCH_NOT_FOUND, _AT),
            (testing.delivery(ADA, _BEAS, at=_AT), 400, Ending.RECIPIENT_MISMATCH, _AT),
            (
                {"RecordType": "Click", "Recipient": ADA, "MessageID": _ADAS},
                422,
                Ending.UNSUPPORTED,
                None,
            ),
        ],
    )
    def test_evidence(
        self,
        site: Site,
        payload: dict[str, Any],
        status: int,
        ending: Ending,
        occurred_at: datetime | None,
    ) -> None:
        """Each end is kept, once, with what was said, how often it came and when it is retried."""
        before = datetime.now(UTC)
        assert [site.post(payload) for _ in range(3)] == [status] * 3
        (entry,) = site.logged()
        assert (entry.outcome, entry.first_outcome, entry.status) == (ending, ending, status)
        assert (entry.record_type, entry.recipient) == (payload["RecordType"], payload["Recipient"])
        assert (entry.message_id, entry.occurred_at) == (payload["MessageID"], occurred_at)
        assert entry.attempts == 3
        assert before <= entry.received_at <= entry.last_received_at
        assert entry.received_at <= entry.ended_at
        # What was recorded when it came first has been since then.
        assert (entry.ended_at < entry.last_received_at) is (ending is Ending.RECORDED)
        assert entry.body == json.dumps(payload)
        assert (entry.retry_at is not None) is (ending in PARKED)

    def test_unreadable(self, site: Site) -> None:
        """Bytes that are no text are kept escaped, with nothing said of them."""
        assert site.post(b'\xff{"a\x00') == 422
        (entry,) = site.logged()
        assert (entry.body, entry.record_type) == ('\\xff{"a\\x00', None)

    def test_without_the_secret(self, site: Site) -> None:
        """What fails the secret check is never kept."""
        assert site.receiver.admit(_head(secret="wrong")) is not None
        assert site.logged() == []

    @pytest.mark.parametrize("queue", [True, False])
    def test_the_work_fails(self, site: Site, *, queue: bool) -> None:
        """Where the work fails its changes are undone and the evidence is kept: answered 503."""
        site.execute(_REFUSE.format("hookrow_dispatches", "delivered_at IS NULL"))
        before = site.rows()
        payload = testing.delivery(ADA, _ADAS, at=_AT)
        if queue:
            assert site.post(payload) == 503
        else:
            assert site.receiver.answer(_request(payload)).status == 503
        assert site.rows() == before
        (entry,) = site.logged()
        assert (entry.outcome, entry.status, entry.attempts) == (Ending.FAILED, 503, 1)
        assert entry.body == json.dumps(payload)
        assert entry.retry_at is not None
        site.execute("ALTER TABLE hookrow_dispatches DROP COLUMN guard")
        assert site.post(payload) == 200
        (entry,) = site.logged()
        assert (entry.outcome, entry.first_outcome) == (Ending.RECORDED, Ending.FAILED)
        assert (entry.attempts, entry.retry_at) == (2, None)

    @pytest.mark.parametrize(
        "fault",
        [
            "ALTER TABLE hookrow_notifications RENAME TO away",
            _REFUSE.format("hookrow_notifications", "attempts < 0"),
        ],
        ids=["no table", "refused"],
    )
    @pytest.mark.parametrize("with_spool", [True, False])
    def test_cannot_be_written(
        self, site: Site, tmp_path: Path, fault: str, *, with_spool: bool
    ) -> None:
        """Where the log cannot be written nothing is changed: 503, and 422 is still 422."""
        path = tmp_path / "spool.db"
        site.receiver = site.receive(spool=path if with_spool else None)
        for task in site.receiver._tasks:
            task.close()  # the spool is to be seen as it is filled
        before = site.rows()
        site.execute(fault)
        payload = testing.delivery(ADA, _ADAS, at=_AT)
        assert [site.post(each) for each in (payload, {}, payload)] == [503, 422, 503]
        assert site.rows() == before
        if with_spool:
            spooled = Spool(path).after(0, limit=10)
            assert [(each.body, each.attempts) for each in spooled] == [
                (json.dumps(payload).encode(), 2),
                (b"{}", 1),
            ]

    def test_without_bodies(self, site: Site) -> None:
        """Where bodies are not to be kept all else is, and nothing is tried again."""
        site.receiver = site.receive(keep_bodies=False)
        site.execute(_REFUSE.format("hookrow_dispatches", "delivered_at IS NULL"))
        payloads = [
            (testing.opening(ADA, _ADAS, at=_AT), 200),
            (testing.opening(_EVE, _ADAS, at=_AT), 404),
            ({}, 422),
            (testing.delivery(ADA, _ADAS, at=_AT), 503),
        ]
        assert [site.post(payload) for payload, _ in payloads] == [status for _, status in payloads]
        assert [entry.status for entry in site.logged()] == [200, 404, 422, 503]
        assert {(entry.body, entry.retry_at) for entry in site.logged()} == {(None, None)}

    def test_without_a_log(self, database_url: str) -> None:
        """Without a log all is recorded as well, and nothing is kept."""
        with closing(SQLStore(database_url, Schema(log=None))) as store:
            site = Site(database_url, store)
            assert site.post(testing.delivery(ADA, _ADAS, at=_AT)) == 200
            assert site.receiver(_request({})) == UNSUPPORTED
            site.receiver.close(PATIENCE)
        assert site.rows()["dispatches"][0]["delivered_at"] == _AT
        with closing(SQLStore(database_url)) as store:
            assert store.log is not None
            assert store.log.bounds() is None

    def test_a_clock_that_jumps_back(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes again after the clock was set back is the same notification all the same."""
        payloads = [
            testing.opening(_EVE, _ADAS, at=_AT),
            testing.suppression(ADA, _ADAS, at=_AT, reason="HardBounce"),
            {**testing.reactivation(ADA, _ADAS, at=_AT), "ChangedAt": None},
        ]
        times = [_AT + timedelta(hours=hours) for hours in (3, 1, 2)]

        clock = SimpleNamespace(now=lambda _: times[0])
        monkeypatch.setattr("hookrow.receiver.datetime", clock)
        monkeypatch.setattr("hookrow.recording.datetime", clock)
        while times:
            assert [site.post(payload) for payload in payloads] == [404, 200, 200]
            times.pop(0)
        for entry in site.logged():
            assert entry.attempts == 3
            assert entry.received_at == _AT + timedelta(hours=1)
            assert entry.last_received_at == _AT + timedelta(hours=3)
            first_counts = entry.outcome is Ending.RECORDED
            assert entry.ended_at == _AT + timedelta(hours=3 if first_counts else 2)
        person = site.rows()["subscribers"][0]
        assert (person["suppressed_at"], person["suppression_reason"]) == (None, None)
        assert person["suppression_changed_at"] == _AT + timedelta(hours=3)


class TestTasks:
    def test_start_and_close(self, tmp_path: Path) -> None:
        """The tasks start with the first request, or when told; closing ends all threads."""
        before = set(threading.enumerate())
        receiver = Receiver(
            Postmark(SECRET), _people("ada"), sweep=True, spool=tmp_path / "spool.db"
        )
        assert not set(threading.enumerate()) - before
        for _ in range(3):
            receiver.start()
        names = {thread.name for thread in set(threading.enumerate()) - before}
        assert names == {"hookrow-sweep", "hookrow-emptying of the spool"}
        assert _queued(receiver(_delivery("ada"))).result(PATIENCE) == OK
        receiver.close(PATIENCE)
        receiver.close(PATIENCE)
        assert not [
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name != "hookrow-deadline"
        ]
        receiver.start()
        assert receiver(_delivery("ada")) == LATER

    def test_without_any(self) -> None:
        """A receiver that was asked for no task starts none."""
        before = set(threading.enumerate())
        Receiver(Postmark(SECRET), _people("ada")).start()
        assert set(threading.enumerate()) == before


class TestConfiguration:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"group": 0},
            {"group": -1},
            {"backlog": 0},
            {"deadline": 0.0},
            {"deadline": -1.0},
            {"deadline": float("nan")},
            {"deadline": float("inf")},
            {"deadline": 1e300},
        ],
        ids=str,
    )
    def test_what_cannot_work(self, wrong: dict[str, Any]) -> None:
        """A group, a backlog or a deadline of nothing is refused as the receiver is built."""
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Receiver(Postmark(SECRET), _people("ada"), **wrong)


class TestMountPath:
    @pytest.mark.parametrize(
        ("text", "mount"),
        [
            ("", ""),
            ("/", ""),
            ("//", ""),
            ("mail", "/mail"),
            ("/mail", "/mail"),
            ("mail/", "/mail"),
            ("/mail/", "/mail"),
            ("/mail/in", "/mail/in"),
            ("/größe", "/größe"),
        ],
    )
    def test_slashes(self, text: str, mount: str) -> None:
        """However it is written, it begins with a slash and ends without one."""
        assert endpoint_path(text) == f"{mount}/provider/webhooks"

    @pytest.mark.parametrize(
        "text", ["/a b", "/a?b", "/a#b", "/a%20b", "a\tb", "a\n", " ", "http://h/a?b"]
    )
    def test_impossible(self, text: str) -> None:
        """What no request's path could ever be is refused, with an example."""
        with pytest.raises(ConfigurationError, match="write for example /mail"):
            endpoint_path(text)
