"""Observers are notified of everything that a receiver does, and cannot change a response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Never
from unittest.mock import Mock

import pytest

from hookrow import Head, Postmark, Receiver, Refusal, Request, Response, testing
from hookrow.asgi import ASGI
from hookrow.http import LARGEST_BODY
from hookrow.notification import Arrival, Outcome, Recorded
from hookrow.observing import Ended, Inside, Observer, Observers
from hookrow.promise import Promise
from hookrow.stores import Conflict
from hookrow.stores.memory import MemoryStore
from hookrow.wsgi import WSGI
from small_world import SECRET, head, request, store

PATIENCE = 30.0

ENDED = ("a", "r-1"), "recorded"
"""What a `Noting` observer named "a" notes of a notification that is recorded."""


class Noting(Observer):
    """Notes each call; `arrived` returns its name and the request's id."""

    def __init__(self, name: str = "a", heard: list[object] | None = None) -> None:
        self.name = name
        self.heard: list[object] = [] if heard is None else heard
        self.looked = Event()

    def watch(self, inside: Inside) -> None:
        """Keep what can be looked at."""
        self.inside = inside

    def look(self) -> None:
        """Note the call."""
        self.looked.set()

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Note the call."""
        self.heard.append((head.path, refusal))

    def arrived(self, head: Head) -> object:
        """Return something that `recording` receives."""
        return self.name, head.request_id

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Note the outcomes at the end of a group."""
        del arrivals
        return lambda outcomes: self.heard.append((*seen, *map(_ending, outcomes)))

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Note the type of the exception."""
        del arrivals
        self.heard.append(type(error))

    def late(self) -> None:
        """Note the call."""
        self.heard.append("late")


class Raising(Observer):
    """Raises in each call."""

    def __init__(self, fault: type[BaseException]) -> None:
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


def status(receiver: Receiver, given: Request) -> int:
    """Return the status of the response, which another thread may make."""
    response = receiver(given)
    if isinstance(response, Promise):
        response = response.result(PATIENCE)
    assert isinstance(response, Response)
    return response.status


def test_groups_and_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer receives each attempt, and each outcome with what `arrived` returned."""
    observer, held = Noting(), store()
    receiver = Receiver(Postmark(SECRET), held, observer=observer)
    transactions = Mock(side_effect=[Conflict("once"), held.transaction()])
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "transaction", transactions)
        assert receiver.answer(request()).status == 200
    assert receiver.answer(request("eve@example.com")).status == 404
    refused = (("a", "r-1"), "SUBSCRIBER_NOT_FOUND")
    assert observer.heard == [Conflict, type(None), ENDED, type(None), refused]


def test_refused() -> None:
    """An observer receives what is refused by its head or, in ASGI or WSGI, by its length."""
    observer = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=observer)
    for each in (head("/x"), head(method="GET"), head(secret="x"), head()):
        receiver.admit(each)
    for application in (ASGI(receiver), WSGI(receiver)):
        assert testing.post(application, "x" * LARGEST_BODY, secret=SECRET)[0] == 413
    assert observer.heard == [
        ("/x", Refusal.NO_SUCH_PATH),
        ("/provider/webhooks", Refusal.METHOD_NOT_ALLOWED),
        ("/provider/webhooks", Refusal.UNAUTHENTIC),
        *[("/provider/webhooks", Refusal.TOO_LARGE)] * 2,
    ]


def test_full_queue(tmp_path: Path) -> None:
    """An observer can count what waits, and receives what is refused for lack of room."""
    observer, held = Noting(), store()
    receiver = Receiver(
        Postmark(SECRET), held, backlog=1, deadline=60, observer=observer, spool=tmp_path / "spool"
    )
    with closing(receiver), held.transaction():
        while not (observer.inside.spooled() and observer.heard and observer.inside.backlog()):
            receiver(request())
        assert (observer.inside.backlog(), observer.inside.spooled()) == (1, 1)
    receiver.admit(head())
    assert observer.inside.matched() == {0: 1}
    assert (("a", "r-1"), "UNAVAILABLE") in observer.heard


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (Raising(SystemExit), "SystemExit"),
        (Raising(asyncio.CancelledError), "CancelledError"),
        (EndingBadly(), "ZeroDivisionError"),
    ],
)
def test_observer_that_raises(bad: Observer, named: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its exception is logged once, and changes no response and no call of another observer."""
    good = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=Observers(bad, good))
    with caplog.at_level(logging.ERROR), closing(receiver):
        assert [status(receiver, request()) for _ in range(2)] == [200, 200]
        refusal = receiver.admit(head("/x"))
        assert good.looked.wait(PATIENCE)
    assert refusal is not None
    assert refusal.status == 404
    assert caplog.messages == [f"An observer raised {named}."]
    assert good.heard[-1] == ("/x", Refusal.NO_SUCH_PATH)
    assert good.heard.count(ENDED) == 2


def test_late_response() -> None:
    """An observer receives a response by the deadline, and then the outcome of the group."""
    observer, held = Noting(), store()
    both = Observers(Raising(SystemExit), observer)
    receiver = Receiver(Postmark(SECRET), held, deadline=0.02, observer=both)
    with closing(receiver), held.transaction():
        assert status(receiver, request()) == 503
        assert observer.heard == ["late"]
    assert observer.heard[1:] == [type(None), ENDED]
