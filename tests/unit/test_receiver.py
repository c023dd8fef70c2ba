"""The receiver: options, groups, responses, limits, and closing."""

import re
import threading
from concurrent.futures import Future
from contextlib import closing
from math import nan
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import (
    LIMIT,
    NOON,
    SECRET,
    Database,
    delivery,
    dispatch,
    encode,
    head,
    people,
    post,
    queue,
    receive,
    request,
    suppression,
)

from hookrow import ConfigurationError, Outcome, Postmark, Receiver, Refusal, Response
from hookrow.core.log_entry import Result
from hookrow.http import endpoint_path
from hookrow.receiver.spool import Spool
from wire import eventually

ADA = "ada@example.com"
CLICK = {"RecordType": "Click", "Recipient": ADA, "MessageID": "m-ada"}


def status(response: Future[Response]) -> int:
    return response.result(LIMIT).status


def fill_one_transaction(receiver: Receiver, database: Database) -> Future[Response]:
    """Queue a notification, and block its transaction: the next notifications form a group."""
    database.opened.clear()
    future: Future[Response] = Future()
    Thread(target=lambda: future.set_result(post(receiver, delivery("ada")))).start()
    assert database.reached.wait(LIMIT)
    return future


@pytest.mark.parametrize("text", ["/a?b", "/a%20b", "a\n", " "])
def test_an_impossible_mount_path_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write for example /mail"):
        endpoint_path(text)


@pytest.mark.parametrize(
    "option",
    [
        *({"group": value} for value in (2.5, 0, True)),
        {"backlog": 4096.0},
        *({"deadline": value} for value in (0, 1e30, nan, "5")),
    ],
    ids=str,
)
def test_an_invalid_number_is_rejected_by_name(option: dict[str, Any]) -> None:
    [(name, value)] = option.items()
    with pytest.raises(
        ConfigurationError, match=f"^{name} must be .*, not {re.escape(repr(value))}"
    ):
        receive(people(), **option)


def test_notifications_that_arrive_during_a_commit_share_the_next_transaction() -> None:
    database = people("ada", "bea", "carl")
    with closing(receive(database)) as receiver:
        answers = [fill_one_transaction(receiver, database)]
        mismatch = delivery("carl", MessageID="m-ada")
        for payload in (delivery("bea"), delivery("nobody"), mismatch, suppression("bea")):
            answers += [queue(receiver, payload)]
        assert not any(answer.done() for answer in answers)
        database.opened.set()
        assert [*map(status, answers)] == [200, 200, 404, 400, 200]
    assert database.groups == [{ADA}, {f"{each}@example.com" for each in ("bea", "carl", "nobody")}]
    assert threading.current_thread() not in database.threads


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
        answers = [fill_one_transaction(receiver, database)]
        answers += [queue(receiver, each) for each in (delivery("bea"), CLICK)]
        assert [*map(status, answers)] == [503, 503, 422]
        assert database.logged() == []
        database.opened.set()
    assert [*map(status, answers)] == [503, 503, 422]
    assert all(row["delivered_at"] == NOON for row in database.dispatches.values())
    assert [entry.outcome for entry in database.logged()].count(Result.UNSUPPORTED) == 1


@pytest.mark.parametrize(("backlog", "details", "room"), [(1, "", 1), (4096, "x" * 20_000, 3)])
def test_the_queue_is_limited_in_number_and_bytes(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    backlog: int,
    details: str,
    room: int,
) -> None:
    monkeypatch.setattr("hookrow.receiver.receiver.CAPACITY", 64 * 1024)
    database, payload = people("ada", "bea"), delivery("ada", Details=details)
    with closing(receive(database, backlog=backlog)) as receiver:
        answers = [fill_one_transaction(receiver, database)]
        answers += [queue(receiver, payload) for _ in range(room)]
        assert post(receiver, payload).status == 503
        database.opened.set()
        assert [*map(status, answers)] == [200] * (1 + room)
        assert post(receiver, delivery("bea")).status == 200
    assert len(caplog.messages) == 1


def test_if_the_backlog_is_full_notifications_are_spooled(tmp_path: Path) -> None:
    database = people("ada", "bea", "carl")
    spool = tmp_path / "spool.db"
    with closing(receive(database, backlog=1, spool=spool)) as receiver:
        receiver._tasks.clear()  # nothing drains the spool
        answers = [fill_one_transaction(receiver, database)]
        answers.append(queue(receiver, delivery("bea")))
        assert [post(receiver, each).status for each in (delivery("carl"), CLICK)] == [503, 422]
        database.opened.set()
        assert [*map(status, answers)] == [200, 200]
    kept = [each.body for each in Spool(spool).after(0, limit=9)]
    assert kept == [encode(delivery("carl")), encode(CLICK)]


def test_close_spools_the_notifications_that_are_not_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, spool = people("ada", "bea", "carl"), tmp_path / "spool.db"
    receiver = receive(database, group=1, spool=spool)
    receiver._tasks.clear()
    answers = [fill_one_transaction(receiver, database)]
    waiting = [delivery(name) for name in ("ada", "bea", "carl")]
    for each in waiting[1:]:
        queue(receiver, each)
    receiver.close(0.01)
    assert [each.body for each in Spool(spool).after(0, limit=9)] == [*map(encode, waiting)]
    assert caplog.messages == ["Stopped before 3 notifications were recorded."]
    database.opened.set()
    assert [*map(status, answers)] == [200]


def test_close_records_the_queue_and_ends_all_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    database = people("ada", "bea", "carl")
    receiver = receive(database, group=1, sweep=True, spool=tmp_path / "spool.db")
    receiver.start()
    answers = [fill_one_transaction(receiver, database)]
    answers += [queue(receiver, delivery(name)) for name in ("bea", "carl")]
    closer = Thread(target=receiver.close)
    closer.start()
    database.opened.set()
    closer.join(LIMIT)
    assert [*map(status, answers)] == [200] * 3
    eventually(lambda: set(threading.enumerate()) <= before)
    receiver.start()
    assert post(receiver, delivery("ada")).status == 503


@pytest.mark.parametrize("bodies", [True, False])
def test_locked_row_without_a_log_or_its_bodies(tmp_path: Path, *, bodies: bool) -> None:
    database, path = people("ada", "bea", log=not bodies), tmp_path / "spool.db"
    database.held.add(dispatch(1))
    with closing(receive(database, spool=path, keep_bodies=bodies)) as receiver:
        assert receiver.record_directly(request(delivery("ada"))).status == 503
        assert receiver.record_directly(request(delivery("bea"))).status == 200
    [spooled] = Spool(path).after(0, limit=9)
    assert (spooled.body, spooled.attempts) == (encode(delivery("ada")), 0)  # the log counts it
    if not bodies:
        assert {(each.body, each.retry_at) for each in database.logged()} == {(None, None)}


def test_a_bug_is_a_503(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(receive(people("ada"))) as receiver:
        with monkeypatch.context() as patched:
            patched.setattr(receiver._responder, "_recorder", Mock(side_effect=ValueError(ADA)))
            assert post(receiver, delivery("ada")).status == 503
        assert post(receiver, delivery("ada")).status == 200
    [message] = caplog.messages
    assert "ValueError, a bug, raised at" in message
    assert ADA not in message


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
    assert ADA not in message


def test_without_a_log_unsupported_notifications_are_not_queued() -> None:
    outcomes: list[Outcome] = []
    database = people(log=False)
    receiver = receive(database, on_refused=lambda _, outcome: outcomes.append(outcome))
    for response in (receiver(request(CLICK)), receiver.record_directly(request(CLICK))):
        assert isinstance(response, Response)
        assert response.status == 422
    receiver.close(LIMIT)
    assert outcomes == [Refusal.UNSUPPORTED.refused()] * 2
    assert not database.begun
