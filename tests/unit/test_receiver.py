"""The receiver: options, groups, responses, limits, and closing."""

import re
import threading
from concurrent.futures import Future
from contextlib import closing
from math import nan
from pathlib import Path
from threading import TIMEOUT_MAX, Thread
from typing import Any, cast

import pytest
from receiving import (
    NOON,
    delivery,
    dispatch,
    encode,
    fill_transaction,
    head,
    people,
    post,
    receive,
    request,
    suppression,
)

from hookrow import Arrival, ConfigurationError, Outcome, Postmark, Receiver, Refusal, Response
from hookrow._core.result import Result
from hookrow._core.rules import PROBE
from hookrow._receiver.spool import Spool
from hookrow.providers._postmark_payloads import TEST_MESSAGE_ID, TEST_RECIPIENT
from wire import ADA, PATIENCE, SECRET, eventually

CLICK = {"RecordType": "Click", "Recipient": ADA, "MessageID": "m-ada"}


def status(response: Future[Response]) -> int:
    return response.result(PATIENCE).status


@pytest.mark.parametrize(
    ("name", "values"),
    [("group", (2.5, 0, True)), ("backlog", (4096.0,)), ("deadline", (0, -1, 1e30, nan, "5"))],
)
def test_an_invalid_number_is_rejected_by_name(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        text = f"^{name} must be .*, not {re.escape(repr(value))}"
        with pytest.raises(ConfigurationError, match=text):
            receive(people(), **{name: value})


def test_the_extreme_limits_are_accepted() -> None:
    with closing(receive(people("ada"), group=1, backlog=1, deadline=TIMEOUT_MAX)) as receiver:
        assert post(receiver, delivery("ada")).status == 200


def test_notifications_that_arrive_during_a_commit_share_the_next_transaction() -> None:
    database = people("ada", "bea", "carl")
    with closing(receive(database)) as receiver:
        mismatch = delivery("carl", MessageID="m-ada")
        others = delivery("bea"), delivery("nobody"), mismatch, suppression("bea")
        answers = fill_transaction(receiver, database, *others)
        assert not any(answer.done() for answer in answers)
        database.opened.set()
        assert [*map(status, answers)] == [200, 200, 404, 400, 200]
    assert database.groups == [{ADA}, {f"{each}@example.com" for each in ("bea", "carl", "nobody")}]
    assert threading.current_thread() not in database.threads


@pytest.mark.parametrize(("more", "groups"), [(0, 2), (1, 3)])
def test_the_text_of_a_group_is_limited(more: int, groups: int) -> None:
    """The statements have at most 8 MiB, and 28 bytes for each byte of a body."""
    database = people("ada", "bea")
    sizes = 100_000, 8 * 1024 * 1024 // 28 - 100_000 + more
    with closing(receive(database)) as receiver:
        bodies = [encode(delivery("bea")).ljust(size) for size in sizes]
        answers = fill_transaction(receiver, database, *bodies)
        database.opened.set()
        assert [*map(status, answers)] == [200] * 3
    assert len(database.groups) == groups


def test_record_directly_records_in_the_calling_thread_also_after_close() -> None:
    before = set(threading.enumerate())
    database = people("ada", log=False)
    receiver = receive(database)
    receiver.admit(head(secret="wrong"))
    receiver.close()
    assert receiver.record_directly(request(delivery("ada"))).status == 200
    assert database.threads == [threading.current_thread()]
    assert not set(threading.enumerate()) - before


def test_after_the_deadline_the_group_is_recorded() -> None:
    database = people("ada", "bea")
    with closing(receive(database, deadline=0.05)) as receiver:
        answers = fill_transaction(receiver, database, delivery("bea"), CLICK)
        assert [*map(status, answers)] == [503, 503, 422]
        assert database.logged() == []
        database.opened.set()
    assert [*map(status, answers)] == [503, 503, 422]
    assert database.tables.dispatch("m-ada").delivered_at == NOON
    assert database.tables.dispatch("m-bea").delivered_at == NOON
    assert [entry.outcome for entry in database.logged()].count(Result.UNSUPPORTED) == 1


@pytest.mark.parametrize(
    ("spool", "backlog", "details", "room"),
    [
        *((None, 1, "", 1), ("spool.db", 1, "", 1)),
        # A receiver with a spool has two queues, which share the capacity.
        *((None, 4096, "x" * 14_000, 5), ("spool.db", 4096, "x" * 14_000, 3)),
    ],
)
def test_the_queue_is_limited_in_number_and_bytes(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    spool: str | None,
    backlog: int,
    details: str,
    room: int,
) -> None:
    """If it is full, notifications are spooled, even unsupported ones."""
    monkeypatch.setattr("hookrow._receiver.recorder.QUEUE_CAPACITY", 64 * 1024)
    database, path = people("ada", "bea"), tmp_path / spool if spool else None
    payload, click = delivery("ada", Details=details), CLICK | {"Details": details}
    with closing(receive(database, backlog=backlog, spool=path)) as receiver:
        receiver._tasks.clear()  # nothing drains the spool
        answers = fill_transaction(receiver, database, *[payload] * room)
        assert [post(receiver, each).status for each in (payload, click)] == [503, 422]
        database.opened.set()
        assert [*map(status, answers)] == [200] * (1 + room)
        assert post(receiver, delivery("bea")).status == 200
    if path is not None:
        kept = [each.body for each in Spool(path).after(0, limit=9)]
        assert kept == [encode(payload), encode(click)]
    assert len(caplog.messages) == 1


def test_probes_are_not_spooled(tmp_path: Path) -> None:
    """Their refusal, which `hookrow check` expects, is of no use later."""
    database, path = people("ada"), tmp_path / "spool.db"
    database.away = True
    with closing(receive(database, spool=path)) as receiver:
        receiver._tasks.clear()
        sent = delivery("ada", Recipient=PROBE), delivery("ada")
        assert [post(receiver, each).status for each in sent] == [503, 503]
    assert [each.body for each in Spool(path).after(0, limit=9)] == [encode(sent[1])]


def test_close_spools_the_notifications_that_are_not_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, spool = people("ada", "bea", "carl"), tmp_path / "spool.db"
    receiver = receive(database, group=1, spool=spool)
    receiver._tasks.clear()
    answers = fill_transaction(receiver, database)
    waiting = [delivery(name) for name in ("ada", "bea", "carl")]
    for each in waiting[1:]:  # without a thread that would wait for the response
        [arrival] = cast("list[Arrival]", receiver._arrivals(request(each)))
        receiver._writers[0].put(arrival)
    receiver.close(0.01)
    assert [each.body for each in Spool(spool).after(0, limit=9)] == [*map(encode, waiting)]
    assert caplog.messages == ["Stopped; notifications that were not recorded: 3."]
    database.opened.set()
    assert [*map(status, answers)] == [200]


def test_close_records_the_queue_and_ends_all_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    database = people("ada", "bea", "carl")
    receiver = receive(database, group=1, sweep=True, spool=tmp_path / "spool.db")
    receiver.start()
    answers = fill_transaction(receiver, database, delivery("bea"), delivery("carl"))
    closer = Thread(target=receiver.close)
    closer.start()
    database.opened.set()
    closer.join(PATIENCE)
    assert [*map(status, answers)] == [200] * 3
    eventually(lambda: set(threading.enumerate()) <= before)
    receiver.start()
    assert post(receiver, delivery("ada")).status == 503


@pytest.mark.parametrize("bodies", [True, False])
def test_locked_row_without_a_log_or_its_bodies(tmp_path: Path, *, bodies: bool) -> None:
    """The notification is spooled at the deadline, and others are recorded."""
    database, path = people("ada", "bea", log=not bodies), tmp_path / "spool.db"
    database.held.add(dispatch(1))
    options = {"spool": path, "keep_bodies": bodies, "deadline": 3.0}
    with closing(receive(database, **options)) as receiver:
        assert receiver.record_directly(request(delivery("ada"))).status == 503
        assert receiver.record_directly(request(delivery("bea"))).status == 200
    [spooled] = Spool(path).after(0, limit=9)
    assert (spooled.body, spooled.attempts) == (encode(delivery("ada")), 0)  # the log counts it
    if not bodies:
        assert {(each.body, each.retry_at) for each in database.logged()} == {(None, None)}


def test_an_exception_in_on_outcome_affects_no_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Host(Receiver):
        def on_outcome(self, *_: object) -> None:
            raise ValueError(ADA)

    receiver = Host(Postmark(SECRET), people("ada"))
    assert receiver.record_directly(request(delivery("ada"))).status == 200
    [message] = caplog.messages
    assert message.startswith("Receiver.on_outcome failed; responses are not affected: ValueError")
    assert ADA not in caplog.text


def test_probes_and_webhook_tests_call_no_hook() -> None:
    """The other notifications of their group do."""
    outcomes: list[Outcome] = []
    database, test = people("ada"), {"Recipient": TEST_RECIPIENT, "MessageID": TEST_MESSAGE_ID}
    receiver = receive(
        database, acknowledge_tests=True, on_refused=lambda _, outcome: outcomes.append(outcome)
    )
    changes = test, {"Recipient": PROBE}, {"Recipient": "nobody@example.com"}
    with closing(receiver):
        others = (delivery("ada") | changed for changed in changes)
        answers = fill_transaction(receiver, database, *others)
        database.opened.set()
        assert [*map(status, answers)] == [200, 200, 404, 404]
    assert outcomes == [Refusal.SUBSCRIBER_NOT_FOUND.refused()]


def test_without_a_log_unsupported_notifications_are_not_queued() -> None:
    outcomes: list[Outcome] = []
    database = people(log=False)
    receiver = receive(database, on_refused=lambda _, outcome: outcomes.append(outcome))
    for response in (receiver(request(CLICK)), receiver.record_directly(request(CLICK))):
        assert isinstance(response, Response)
        assert response.status == 422
    receiver.close(PATIENCE)
    assert outcomes == [Refusal.UNSUPPORTED.refused()] * 2
    assert not database.begun
