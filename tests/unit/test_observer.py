"""Observers are notified of everything that a receiver does, and cannot change a response."""

import asyncio
import logging
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import delivery, fill_transaction, head, people, post, receive
from werkzeug.test import Client

import asgi_client
from hookrow import ConfigurationError, Observer, Observers, Refusal, testing
from hookrow._core.notification import Recorded
from hookrow._http import ENDPOINT, MAX_BODY
from hookrow.asgi import ASGI
from hookrow.wsgi import WSGI
from wire import SECRET, eventually

EVENTS = ("collect", "refused", "admitted", "begin_group", "attempted", "late")


@pytest.fixture
def observer() -> Mock:
    """Return an observer that records its calls; its contexts are the ids of the requests."""
    return Mock(Observer, admitted=lambda head: head.request_id)


def refused(observer: Mock) -> list[tuple[str, Refusal]]:
    return [(each.args[0].path, each.args[1]) for each in observer.refused.call_args_list]


def outcomes(observer: Mock) -> list[object]:
    """Return the outcome of each group, which has one notification."""
    return [each.args[0][0] for each in observer.begin_group.return_value.call_args_list]


def test_requests_refused_by_head_or_length(observer: Mock) -> None:
    receiver = receive(people("ada"), observer=observer)
    for each in (head("/x"), head(method="GET"), head(secret="x"), head()):
        receiver.admit(each)
    sent: dict[str, Any] = {"json": "x" * MAX_BODY, "headers": testing.headers(secret=SECRET)}
    assert asgi_client.request(ASGI(receiver), "POST", ENDPOINT, **sent).status_code == 413
    assert Client(WSGI(receiver)).post(ENDPOINT, **sent).status_code == 413
    assert refused(observer) == [
        ("/x", Refusal.NO_SUCH_PATH),
        ("/provider/webhooks", Refusal.METHOD_NOT_ALLOWED),
        ("/provider/webhooks", Refusal.UNAUTHENTIC),
        *[("/provider/webhooks", Refusal.TOO_LARGE)] * 2,
    ]


def test_gauges_and_a_notification_beyond_the_backlog(observer: Mock, tmp_path: Path) -> None:
    database = people("ada")
    receiver = receive(database, backlog=1, observer=observer, spool=tmp_path / "spool")
    [gauges] = observer.start.call_args.args
    with closing(receiver):
        fill_transaction(receiver, database, delivery("ada"))
        assert post(receiver, delivery("ada")).status == 503
        assert (gauges.backlog(), gauges.spooled()) == (1, 1)
        receiver.admit(head())
        assert gauges.secret_matches() == {None: {0: 1}}
        database.opened.set()
    assert Refusal.UNAVAILABLE.refused() in outcomes(observer)


def raising(fault: type[BaseException]) -> Mock:
    return Mock(Observer, **{event: Mock(side_effect=fault) for event in EVENTS})


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (raising(SystemExit), "SystemExit"),
        (raising(asyncio.CancelledError), "CancelledError"),
        (
            Mock(Observer, begin_group=Mock(return_value=Mock(side_effect=ZeroDivisionError))),
            "ZeroDivisionError",
        ),
    ],
)
def test_an_exception_changes_no_response(
    observer: Mock, bad: Observer, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = receive(people("ada"), observer=Observers(bad, observer))
    with caplog.at_level(logging.ERROR), closing(receiver):
        assert [post(receiver, delivery("ada")).status for _ in range(2)] == [200, 200]
        assert (refusal := receiver.admit(head("/x")))
        assert refusal.status == 404
        eventually(lambda: observer.collect.called)
    [record] = caplog.records
    assert record.getMessage().startswith(f"An observer raised {named} at ")
    assert record.exc_info
    assert record.exc_info[2], "it has frames"
    assert refused(observer) == [("/x", Refusal.NO_SUCH_PATH)]
    assert [*map(type, outcomes(observer))] == [Recorded] * 2
    assert observer.begin_group.call_args.args[1] == ["r-1"]


def test_several_observers(observer: Mock) -> None:
    """A list is accepted as well as a single observer; each receives all events."""
    another = Mock(Observer, admitted=lambda _: "another")
    with closing(receive(people("ada"), observer=[observer, another])) as receiver:
        assert post(receiver, delivery("ada")).status == 200
        assert outcomes(observer) == outcomes(another)
        assert [*map(type, outcomes(another))] == [Recorded]
        assert another.begin_group.call_args.args[1] == ["another"]


class _OnlyFails(Observer):
    def collect(self) -> None:
        raise KeyError


def test_the_failures_of_several_observers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The rate limit of the log does not drop the second, although they fail at once."""

    class Another(Observer):
        def collect(self) -> None:
            raise KeyError

    Observers(_OnlyFails(), Another()).collect()
    assert len({*caplog.messages}) == 2


@pytest.mark.parametrize("given", [Observer, "metrics", [Observer(), None], [[Observer()]], 3])
def test_an_object_that_is_no_observer(given: Any) -> None:  # noqa: ANN401 - of any type
    with pytest.raises(ConfigurationError, match=r"^observer must be .*: write observer=Metrics\("):
        receive(people(), observer=given)


@pytest.mark.parametrize("given", [Observer, None, [Observer()]])
def test_an_object_that_cannot_be_combined(given: Any) -> None:  # noqa: ANN401 - of any type
    expected = r"^Each argument of Observers must be an observer, not .*: write Observers\(Metrics"
    with pytest.raises(ConfigurationError, match=expected):
        Observers(Observer(), given)


def test_a_start_that_fails_propagates(observer: Mock) -> None:
    """The receiver is not constructed, because its configuration is wrong."""
    observer.start.side_effect = ConfigurationError("This registry is in use.")
    with pytest.raises(ConfigurationError, match="in use"):
        receive(people("ada"), observer=Observers(Observer(), observer))


def test_a_late_response_precedes_the_outcome_of_its_group(observer: Mock) -> None:
    database, both = people("ada"), Observers(raising(SystemExit), observer)
    database.opened.clear()
    with closing(receive(database, deadline=0.02, observer=both)) as receiver:
        assert post(receiver, delivery("ada")).status == 503
        eventually(lambda: observer.late.called)
        assert outcomes(observer) == []
        database.opened.set()
    assert [*map(type, outcomes(observer))] == [Recorded]
