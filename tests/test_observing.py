"""Observers hear of all that a receiver does, and whatever they do changes no answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Never

import pytest

from hookrow import Head, Postmark, Receiver, Refusal, Request, Response, testing
from hookrow.asgi import ASGI, Message
from hookrow.notification import Arrival, Outcome, Recorded
from hookrow.observing import Ended, Inside, Observer, Observers
from hookrow.promise import Promise
from hookrow.stores import Conflict, Transaction
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.wsgi import WSGI

SECRET = "a-secret-of-the-tests"
PATIENCE = 20.0
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@dataclass
class Noting(Observer):
    """Notes what it hears."""

    name: str = "a"
    heard: list[object] = field(default_factory=list)
    inside: Inside | None = None
    looked: Event = field(default_factory=Event)

    def watch(self, inside: Inside) -> None:
        """Note it."""
        self.inside = inside

    def look(self) -> None:
        """Note it."""
        self.looked.set()

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Note it."""
        self.heard.append((head.path, refusal))

    def arrived(self, head: Head) -> object:
        """Note it, and whose it is."""
        return self.name, head.request_id

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Note it."""
        del arrivals
        return lambda outcomes: self.heard.append((*seen, *map(_ending, outcomes)))

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Note it."""
        del arrivals
        self.heard.append(error)

    def late(self) -> None:
        """Note it."""
        self.heard.append("late")


class Raising(Observer):
    """Raises whatever it is told."""

    def __init__(self, fault: type[BaseException] = ZeroDivisionError) -> None:
        self._fault = fault

    def _raise(self, *_: object) -> Never:
        raise self._fault

    look = refused = arrived = recording = attempted = late = _raise  # type: ignore[assignment] # it takes anything


class EndingBadly(Noting):
    """Raises at the end of a group."""

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Raise at the end."""
        del arrivals, seen
        return lambda _: 1 / 0


def _ending(outcome: Outcome) -> str:
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name


def store(*, log: bool = True) -> MemoryStore:
    """Make a store with one subscriber and one dispatch."""
    return MemoryStore(
        log=MemoryLog() if log else None,
        subscribers={1: {"email": "ada@example.com"}},
        dispatches={1: {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None}},
    )


def head(path: str = "/provider/webhooks", method: str = "POST", secret: str = SECRET) -> Head:
    """Return the head of a request."""
    return Head(method, path, [(b"x-provider-secret", secret.encode())], request_id="r-1")


def request(email: str = "ada@example.com") -> Request:
    """Return a request."""
    return Request(head(), json.dumps(testing.delivery(email, "m-1", at=AT)).encode())


def answer(receiver: Receiver, asked: Request) -> int:
    """Return the status of the answer."""
    answered = receiver(asked)
    done = answered.result(PATIENCE) if isinstance(answered, Promise) else answered
    assert isinstance(done, Response)
    return done.status


def test_what_is_heard() -> None:
    """Each try, and each group's end with what the observer had seen of its requests."""
    observer = Noting()
    with closing(Receiver(Postmark(SECRET), store(), observer=observer)) as receiver:
        assert answer(receiver, request()) == 200
        assert receiver.answer(request("eve@example.com")).status == 404
        assert observer.looked.wait(PATIENCE)
    assert observer.heard == [
        None,
        (("a", "r-1"), "recorded"),
        None,
        (("a", "r-1"), "SUBSCRIBER_NOT_FOUND"),
    ]


def test_refused_by_the_head() -> None:
    """What is refused before there is a notification is heard of at once."""
    observer = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=observer)
    for each in (head("/x"), head(method="GET"), head(secret="x"), head()):
        receiver.admit(each)
    assert observer.heard == [
        ("/x", Refusal.NO_SUCH_PATH),
        ("/provider/webhooks", Refusal.METHOD_NOT_ALLOWED),
        ("/provider/webhooks", Refusal.UNAUTHENTIC),
    ]


def test_unsupported_without_a_log() -> None:
    """What no store is asked about is a group of its own."""
    observer = Noting()
    receiver = Receiver(Postmark(SECRET), store(log=False), observer=observer)
    assert receiver.answer(Request(head(), b"{}")).status == 422
    assert observer.heard == [(("a", "r-1"), "UNSUPPORTED")]


def test_a_full_backlog(tmp_path: Path) -> None:
    """What finds no room is heard of as unavailable; what is inside can be counted."""
    observer, held = Noting(), store()
    receiver = Receiver(
        Postmark(SECRET), held, backlog=1, deadline=60, observer=observer, spool=tmp_path / "spool"
    )
    with closing(receiver), held.transaction():
        assert observer.inside is not None
        while not (observer.inside.spooled() and observer.heard and observer.inside.backlog()):
            receiver(request())
        assert observer.inside.backlog() == 1
        assert observer.inside.spooled() == 1
        assert observer.inside.log is held.log
    receiver.admit(head())
    assert observer.inside.matched() == {0: 1}
    assert (("a", "r-1"), "UNAVAILABLE") in observer.heard


def test_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that fails is heard of, too."""
    observer, held = Noting(), store()
    begin, met = held.transaction, iter([Conflict("once")])

    def transaction(_: MemoryStore, **options: bool) -> AbstractContextManager[Transaction]:
        for fault in met:
            raise fault
        return begin(**options)

    monkeypatch.setattr(MemoryStore, "transaction", transaction)
    receiver = Receiver(Postmark(SECRET), held, observer=observer)
    assert receiver.answer(request()).status == 200
    assert [type(each) for each in observer.heard[:2]] == [Conflict, type(None)]


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (Raising(), "ZeroDivisionError"),
        (Raising(SystemExit), "SystemExit"),
        (Raising(asyncio.CancelledError), "CancelledError"),
        (EndingBadly(), "ZeroDivisionError"),
    ],
)
def test_one_that_raises(bad: Observer, named: str, caplog: pytest.LogCaptureFixture) -> None:
    """It changes no answer and keeps nothing from another; that it raised is logged, once."""
    good = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=Observers(bad, good))
    with caplog.at_level(logging.ERROR), closing(receiver):
        assert answer(receiver, request()) == 200
        assert answer(receiver, request()) == 200
        refusal = receiver.admit(head("/x"))
        assert good.looked.wait(PATIENCE)
    assert refusal is not None
    assert refusal.status == 404
    assert caplog.messages == [f"An observer raised {named}."]
    assert good.heard[-1] == ("/x", Refusal.NO_SUCH_PATH)
    assert good.heard.count((("a", "r-1"), "recorded")) == 2


def test_a_late_answer(caplog: pytest.LogCaptureFixture) -> None:
    """That the deadline answered is heard of, and so is how the group ended after it."""
    observer, held = Noting(), store()
    both = Observers(Raising(SystemExit), observer)
    receiver = Receiver(Postmark(SECRET), held, deadline=0.1, observer=both)
    with closing(receiver), held.transaction():
        assert answer(receiver, request()) == 503
        assert observer.heard == ["late"]
    assert observer.heard[1:] == [None, (("a", "r-1"), "recorded")]
    assert "An observer raised SystemExit." in caplog.messages


def test_each_sees_its_own() -> None:
    """Of several observers each has back what it returned itself; the last ends first."""
    both: list[object] = []
    one, two = Noting("one", heard=both), Noting("two", heard=both)
    receiver = Receiver(Postmark(SECRET), store(), observer=Observers(one, two))
    receiver.answer(request())
    ends = [each for each in both if isinstance(each, tuple)]
    assert ends == [(("two", "r-1"), "recorded"), (("one", "r-1"), "recorded")]


def test_a_body_that_the_host_refuses() -> None:
    """What a host refuses for its body is heard of, too."""
    observer = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=observer)
    long = {"content-length": "1" + "0" * 9, "x-provider-secret": SECRET}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    headers = [(name.encode(), value.encode()) for name, value in long.items()]
    scope = {"type": "http", "method": "POST", "path": "/provider/webhooks", "headers": headers}
    asyncio.run(ASGI(receiver)(scope, receive, send))
    assert sent[0]["status"] == 413
    environ = {"CONTENT_LENGTH": "1" + "0" * 9, "HTTP_X_PROVIDER_SECRET": SECRET}
    environ |= {"REQUEST_METHOD": "POST", "PATH_INFO": "/provider/webhooks"}
    started: list[str] = []
    WSGI(receiver)(environ, lambda status, _: started.append(status))  # type: ignore[arg-type] # as little as a server needs
    assert started[0].startswith("413 ")
    assert observer.heard == [("/provider/webhooks", Refusal.TOO_LARGE)] * 2
