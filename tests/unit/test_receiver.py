"""The receiver: what it admits, how it responds, and what is in the rows and the log then."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from itertools import count
from math import nan
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import (
    LIMIT,
    NOON,
    Database,
    delivery,
    dispatch,
    encode,
    head,
    people,
    post,
    receive,
    request,
    result,
    suppression,
)

from hookrow import ConfigurationError, Receiver, Response
from hookrow.entry import Ending
from hookrow.notification import SetTime
from hookrow.promise import Promise
from hookrow.receiver import endpoint_path
from hookrow.spool import Spool

ADA = "ada@example.com"
CLICK = {"RecordType": "Click", "Recipient": ADA, "MessageID": "m-ada"}

PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
OK = Response(200, b"", PLAIN)
UNSUPPORTED = Response(422, b"Webhook payload not supported", PLAIN)
LATER = Response(503, b"Try again later", PLAIN | {"Retry-After": "30"})


def queued(receiver: Receiver, payload: dict[str, Any]) -> Promise[Response]:
    """Queue a notification behind those that wait."""
    answer = receiver(request(payload))
    assert isinstance(answer, Promise)
    return answer


def fill_one_transaction(
    receiver: Receiver, database: Database, payload: dict[str, Any]
) -> Promise[Response]:
    """Queue a notification, and leave its transaction waiting: the next ones form a group."""
    database.opened.clear()
    answer = queued(receiver, payload)
    assert database.reached.wait(LIMIT)
    return answer


@pytest.mark.parametrize(
    ("path", "root", "method", "status"),
    [
        ("/mail/provider/webhooks", "", "POST", None),
        ("/mail/provider/webhooks/", "", "POST", None),
        ("/api/mail/provider/webhooks", "/api", "POST", None),
        ("/provider/webhooks", "", "POST", 404),
        ("/x/mail/provider/webhooks", "", "GET", 404),
        ("/mail/provider/webhooks", "", "post", 405),
    ],
)
def test_mount_path(path: str, root: str, method: str, status: int | None) -> None:
    """A receiver compares the method, and with a mount path the whole path below the root."""
    refused = receive(people(), mount_path="/mail").admit(head(path, method, root=root))
    assert (refused and refused.status) == status


@pytest.mark.parametrize("text", ["/a?b", "/a%20b", "a\n", " "])
def test_impossible_mount_path(text: str) -> None:
    """A mount path that no request can have is refused with an example."""
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
def test_wrong_option(option: dict[str, Any]) -> None:
    """Numbers of a wrong type or range are refused by name, with the value."""
    [(name, value)] = option.items()
    with pytest.raises(
        ConfigurationError, match=f"^{name} must be .*, not {re.escape(repr(value))}"
    ):
        receive(people(), **option)


def test_queued_notifications_share_a_transaction() -> None:
    """What arrives during a commit is the next group; each gets its own response."""
    database = people("ada", "bea", "carl")
    assert Receiver.blocking is False
    with closing(receive(database)) as receiver:
        first = fill_one_transaction(receiver, database, delivery("ada"))
        payloads = [
            delivery("bea"),
            delivery("nobody"),
            delivery("carl", MessageID="m-ada"),
            suppression("bea"),
            delivery("carl", MessageID="m-x"),
        ]
        answers = [first, *(queued(receiver, payload) for payload in payloads)]
        assert not any(answer.done() for answer in answers)
        database.opened.set()
        responses = [result(answer) for answer in answers]
    assert [(response.status, response.body.decode()) for response in responses] == [
        *((200, ""), (200, ""), (404, "Engine::Subscriber not found")),
        (400, f"Dispatch subscriber {ADA} does not match payload recipient carl@example.com"),
        *((200, ""), (404, "Engine::Dispatch not found")),
    ]
    assert database.groups == [{ADA}, {f"{each}@example.com" for each in ("bea", "carl", "nobody")}]
    assert threading.current_thread() not in database.threads


def test_answer_records_in_the_calling_thread() -> None:
    """`answer` starts no thread and works after `close`; building and refusing start none."""
    before = set(threading.enumerate())
    database = people("ada", log=False)
    receiver = receive(database)
    receiver.admit(head(secret="wrong"))
    receiver.close()
    assert receiver.answer(request(delivery("ada"))) == OK
    assert database.threads == [threading.current_thread()]
    assert not set(threading.enumerate()) - before


def test_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline the responses are 503, or 422; the group is recorded after all."""
    ahead = count(0, 1000)
    monkeypatch.setattr("hookrow.deadline.monotonic", lambda: monotonic() + next(ahead))
    database = people("ada", "bea")
    with closing(receive(database)) as receiver:
        answers = [fill_one_transaction(receiver, database, delivery("ada"))]
        answers += [queued(receiver, each) for each in (delivery("bea"), CLICK)]
        assert [result(answer) for answer in answers] == [LATER, LATER, UNSUPPORTED]
        assert database.logged() == []
        database.opened.set()
    assert [result(answer) for answer in answers] == [LATER, LATER, UNSUPPORTED]
    assert all(row["delivered_at"] == NOON for row in database.dispatches.values())
    assert [entry.outcome for entry in database.logged()].count(Ending.UNSUPPORTED) == 1


def test_full_backlog(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is limited in number and bytes; what is over gets 503, logged once."""
    monkeypatch.setattr("hookrow.intake.CAPACITY", 64 * 1024)
    large = encode(delivery("ada", Details="x" * 20_000))
    for backlog, payload, room in ((1, encode(delivery("ada")), 1), (4096, large, 3)):
        database = people("ada", "bea")
        with closing(receive(database, backlog=backlog)) as receiver:
            answers = [fill_one_transaction(receiver, database, delivery("ada"))]
            waiting = [receiver(request(payload)) for _ in range(room)]
            assert receiver(request(payload)) == LATER
            database.opened.set()
            assert [result(answer) for answer in (*answers, *waiting)] == [OK] * (1 + room)
            assert post(receiver, delivery("bea")) == OK
        assert len(caplog.messages) == 1
        caplog.clear()


def test_overflow_into_the_spool(tmp_path: Path) -> None:
    """With a spool, notifications that find the backlog full get 503 or 422, and are kept."""
    database = people("ada", "bea", "carl")
    spool = tmp_path / "spool.db"
    with closing(receive(database, backlog=1, spool=spool)) as receiver:
        receiver._tasks.clear()  # the spool stays as it was filled
        answers = [fill_one_transaction(receiver, database, delivery("ada"))]
        answers.append(queued(receiver, delivery("bea")))
        assert [post(receiver, each).status for each in (delivery("carl"), CLICK)] == [503, 422]
        database.opened.set()
        assert [result(answer) for answer in answers] == [OK] * 2
    kept = [each.body for each in Spool(spool).after(0, limit=9)]
    assert kept == [encode(delivery("carl")), encode(CLICK)]


def test_close(tmp_path: Path) -> None:
    """Closing records what waits and ends all threads; later notifications get 503."""
    before = set(threading.enumerate())
    database = people("ada", "bea", "carl")
    receiver = receive(database, group=1, sweep=True, spool=tmp_path / "spool.db")
    receiver.start()
    answers = [fill_one_transaction(receiver, database, delivery("ada"))]
    answers += [queued(receiver, delivery(name)) for name in ("bea", "carl")]
    closer = Thread(target=receiver.close)
    closer.start()
    database.opened.set()
    closer.join(LIMIT)
    assert [result(answer) for answer in answers] == [OK] * 3
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert left <= {"hookrow-deadline"}
    receiver.start()
    assert receiver(request(delivery("ada"))) == LATER


@pytest.mark.parametrize("bodies", [True, False])
def test_held_row_that_is_not_parked(tmp_path: Path, *, bodies: bool) -> None:
    """Without a log, or without bodies in it, the spool keeps what met a locked row."""
    database, path = people("ada", "bea", log=not bodies), tmp_path / "spool.db"
    database.held.add(dispatch(1))
    with closing(receive(database, spool=path, keep_bodies=bodies)) as receiver:
        assert receiver.answer(request(delivery("ada"))).status == 503
        assert receiver.answer(request(delivery("bea"))).status == 200
    [spooled] = Spool(path).after(0, limit=9)
    assert (spooled.body, spooled.attempts) == (encode(delivery("ada")), 0)  # a log counts it


def test_bug(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other exception results in 503 and a log line; the thread goes on."""
    with closing(receive(people("ada"))) as receiver:
        with monkeypatch.context() as patched:
            patched.setattr(receiver._intake, "_recorded", Mock(side_effect=ValueError(ADA)))
            assert post(receiver, delivery("ada")) == LATER
        assert post(receiver, delivery("ada")) == OK
    [message] = caplog.messages
    assert "ValueError, a bug, at" in message
    assert ADA not in message


def test_without_bodies() -> None:
    """With `keep_bodies=False` the log keeps no bodies, so that nothing is tried again."""
    database = people("ada", "bea")
    database.refuses = lambda each: isinstance(each, SetTime) and each.dispatch == 2
    receiver = receive(database, keep_bodies=False)
    payloads = [delivery("ada"), delivery("eve"), {}, delivery("bea")]
    statuses = [receiver.answer(request(payload)).status for payload in payloads]
    assert statuses == [entry.status for entry in database.logged()] == [200, 404, 422, 503]
    assert {(entry.body, entry.retry_at) for entry in database.logged()} == {(None, None)}
