"""The receiver: what it admits, how it responds, and what is in the rows and the log then."""

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
    """Queue a notification, and leave its transaction waiting: the next ones form a group."""
    database.opened.clear()
    future: Future[Response] = Future()
    Thread(target=lambda: future.set_result(post(receiver, delivery("ada")))).start()
    assert database.reached.wait(LIMIT)
    return future


@pytest.mark.parametrize("text", ["/a?b", "/a%20b", "a\n", " "])
def test_a_mount_path_that_no_request_can_have_is_refused(text: str) -> None:
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
def test_a_wrong_number_is_refused_by_name(option: dict[str, Any]) -> None:
    [(name, value)] = option.items()
    with pytest.raises(
        ConfigurationError, match=f"^{name} must be .*, not {re.escape(repr(value))}"
    ):
        receive(people(), **option)


def test_what_arrives_during_a_commit_shares_the_next_transaction() -> None:
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
def test_what_waits_is_limited_in_number_and_bytes(
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


def test_what_finds_the_backlog_full_is_kept_in_the_spool(tmp_path: Path) -> None:
    database = people("ada", "bea", "carl")
    spool = tmp_path / "spool.db"
    with closing(receive(database, backlog=1, spool=spool)) as receiver:
        receiver._tasks.clear()  # the spool stays as it was filled
        answers = [fill_one_transaction(receiver, database)]
        answers.append(queue(receiver, delivery("bea")))
        assert [post(receiver, each).status for each in (delivery("carl"), CLICK)] == [503, 422]
        database.opened.set()
        assert [*map(status, answers)] == [200, 200]
    kept = [each.body for each in Spool(spool).after(0, limit=9)]
    assert kept == [encode(delivery("carl")), encode(CLICK)]


def test_what_a_receiver_has_not_recorded_when_it_stops_is_in_the_spool(
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


def test_closing_records_what_waits_and_ends_all_threads(tmp_path: Path) -> None:
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
    assert (spooled.body, spooled.attempts) == (encode(delivery("ada")), 0)  # a log counts it
    if not bodies:
        assert {(each.body, each.retry_at) for each in database.logged()} == {(None, None)}


def test_bug_is_503(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(receive(people("ada"))) as receiver:
        with monkeypatch.context() as patched:
            patched.setattr(receiver._responder, "_recorder", Mock(side_effect=ValueError(ADA)))
            assert post(receiver, delivery("ada")).status == 503
        assert post(receiver, delivery("ada")).status == 200
    [message] = caplog.messages
    assert "ValueError, a bug, raised at" in message
    assert ADA not in message


def test_on_outcome_that_raises_affects_no_response(
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


def test_without_a_log_what_is_unsupported_is_refused_at_once() -> None:
    heard: list[Outcome] = []
    database = people(log=False)
    receiver = receive(database, on_refused=lambda _, outcome: heard.append(outcome))
    for response in (receiver(request(CLICK)), receiver.record_directly(request(CLICK))):
        assert isinstance(response, Response)
        assert response.status == 422
    receiver.close(LIMIT)
    assert heard == [Refusal.UNSUPPORTED.refused()] * 2
    assert not database.begun
