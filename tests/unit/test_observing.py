"""Observers are notified of everything that a receiver does, and cannot change a response."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Never

import pytest
from receiving import LIMIT, result

from hookrow import Head, Postmark, Receiver, Refusal, testing
from hookrow.asgi import ASGI
from hookrow.http import LARGEST_BODY
from hookrow.notification import Arrival, Outcome, Recorded
from hookrow.observing import Ended, Inside, Observer, Observers
from hookrow.wsgi import WSGI
from small_world import SECRET, head, request, store

ENDED = "r-1", "recorded"


class Noting(Observer):
    """Notes each call; `arrived` returns the request's id."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.looked = Event()

    def watch(self, inside: Inside) -> None:
        self.inside = inside

    def look(self) -> None:
        self.looked.set()

    def refused(self, head: Head, refusal: Refusal) -> None:
        self.heard.append((head.path, refusal))

    def arrived(self, head: Head) -> object:
        return head.request_id

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        del arrivals
        return lambda outcomes: self.heard.append((*seen, *map(_ending, outcomes)))

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        del arrivals
        self.heard.append(type(error))

    def late(self) -> None:
        self.heard.append("late")


class Raising(Observer):
    """Raises in each call."""

    def __init__(self, fault: type[BaseException]) -> None:
        self._fault = fault

    def _raise(self, *_: object) -> Never:
        raise self._fault

    look = refused = arrived = recording = attempted = late = _raise  # type: ignore[assignment] # it takes anything


class EndingBadly(Observer):
    """Raises at the end of a group."""

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        del arrivals, seen
        return lambda _: 1 / 0


def _ending(outcome: Outcome) -> str:
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name


def test_what_is_refused_by_its_head_or_its_length() -> None:
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


def test_what_waits_and_what_is_refused_for_lack_of_room(tmp_path: Path) -> None:
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
    assert ("r-1", "UNAVAILABLE") in observer.heard


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (Raising(SystemExit), "SystemExit"),
        (Raising(asyncio.CancelledError), "CancelledError"),
        (EndingBadly(), "ZeroDivisionError"),
    ],
)
def test_raising_changes_nothing(
    bad: Observer, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = Noting()
    receiver = Receiver(Postmark(SECRET), store(), observer=Observers(bad, good))
    with caplog.at_level(logging.ERROR), closing(receiver):
        assert [result(receiver(request())).status for _ in range(2)] == [200, 200]
        refusal = receiver.admit(head("/x"))
        assert good.looked.wait(LIMIT)
    assert refusal is not None
    assert refusal.status == 404
    assert caplog.messages == [f"An observer raised {named}."]
    assert good.heard[-1] == ("/x", Refusal.NO_SUCH_PATH)
    assert good.heard.count(ENDED) == 2


def test_a_late_response_and_then_the_outcome_of_its_group() -> None:
    observer, held = Noting(), store()
    both = Observers(Raising(SystemExit), observer)
    receiver = Receiver(Postmark(SECRET), held, deadline=0.02, observer=both)
    with closing(receiver), held.transaction():
        assert result(receiver(request())).status == 503
        assert observer.heard == ["late"]
    assert observer.heard[1:] == [type(None), ENDED]
