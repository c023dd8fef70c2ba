"""The page of parked notifications, and their replay in parts."""

import html
import json
import re
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from engines import MEMORY
from hookrow import Arrival, Postmark, testing
from hookrow._core.result import Result
from hookrow._receiver import replay
from hookrow._receiver.recorder import record
from hookrow.dashboard import _parked
from hookrow.dashboard._app import PAGE_TIMEOUT
from hookrow.stores._errors import Unavailable, WrongMapping
from hookrow.stores._log import Query
from hookrow.stores._timeouts import left
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog
from hookrow.testing import Tables
from visitor import Visitor, receive
from wire import ADA, AT, PATIENCE

EVE = "eve@example.com"

REPLAY = {"action": "replay"}


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        yield store


@pytest.fixture
def tables(store: SQLStore) -> Tables:
    return Tables(store)


@pytest.fixture
def visitor(store: SQLStore) -> Iterator[Visitor]:
    visitor = Visitor(store)
    yield visitor
    visitor.dashboard.close(PATIENCE)


def park(store: SQLStore, number: int, email: str = ADA) -> None:
    """Receive deliveries of messages whose dispatches do not exist yet."""
    receive(store, *(testing.delivery(email, f"m-{n}", at=AT) for n in range(number)))


def send(tables: Tables, *message_ids: str) -> None:
    """Save the dispatches of Ada's messages."""
    ada = tables.add_subscriber(ADA)
    for each in message_ids:
        tables.add_dispatch(each, ada)


def posted(visitor: Visitor, form: dict[str, str], **query: object) -> str:
    """Return the page that responds to a form."""
    response = visitor.post("/parked", form, **query)
    assert response.status == 200, response.body
    return html.unescape(response.body.decode())


def continued(page: str) -> dict[str, str]:
    """Return the fields of the form that continues a replay."""
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\d+)">', page))
    return fields | REPLAY


def listed(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'data-id="(\d+)"', page)]


def outcomes(store: SQLStore) -> list[Result]:
    """Return the outcomes in the log, oldest first."""
    assert store.log is not None
    return [each.outcome for each in store.log.oldest(Query(), limit=99)]


def test_the_list(store: SQLStore, tables: Tables, visitor: Visitor) -> None:
    """Parked notifications are listed with their retries and the time of the next one."""
    assert "No notification is parked." in visitor.shows("/parked")
    assert "<form method" not in visitor.shows("/parked")
    send(tables, "m-ada")
    receive(store, testing.delivery(ADA, "m-ada", at=AT), {"x": 1})
    park(store, 1, EVE)
    park(store, 1)
    assert store.log is not None
    store.log.count_retries([3])
    page = visitor.shows("/parked")
    assert listed(page) == [4, 3]
    assert re.findall(r'data-label="Retries"[^>]*>(\d)<', page) == ["0", "1"]
    [newest, _] = store.log.newest(Query(parked=True), limit=2)
    assert newest.retry_at is not None
    assert (
        f'data-label="Next retry" class="side"><time datetime="{newest.retry_at:%FT%H:%M}' in page
    )
    assert "Replay all 2 parked notifications" in page
    filtered = visitor.shows("/parked", recipient=EVE, type="Delivery")
    assert listed(filtered) == [3]
    assert "Replay all 1 notification that match" in filtered
    assert "No parked notification matches." in visitor.shows("/parked", type="Open")


def test_an_overdue_retry(
    store: SQLStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says since when a retry is due."""
    park(store, 1)

    assert "due <time" not in visitor.shows("/parked")
    later = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(hours=1))
    monkeypatch.setattr(_parked, "datetime", later)
    assert "due <time" in visitor.shows("/parked")


def test_a_replay(store: SQLStore, tables: Tables, visitor: Visitor) -> None:
    """It records those that match and whose rows exist, and states how many it did not."""
    park(store, 3)
    park(store, 2, EVE)
    send(tables, "m-0", "m-2")
    page = posted(visitor, REPLAY, recipient=ADA)
    assert "Replayed 3 notifications: 2 recorded, 1 not recorded." in page
    assert listed(page) == [2]
    assert tables.dispatch("m-2").delivered_at == AT
    recorded, missing = Result.RECORDED, Result.DISPATCH_NOT_FOUND
    unknown = Result.SUBSCRIBER_NOT_FOUND
    assert outcomes(store) == [recorded, missing, recorded, unknown, unknown]
    assert "Replayed 3 notifications: 0 recorded, 3 not recorded." in posted(visitor, REPLAY)
    assert "No notification was replayed." in posted(visitor, REPLAY, type="Open")


def test_a_replay_in_parts(
    store: SQLStore, tables: Tables, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request replays a part, and its form continues with the numbers so far.

    Notifications that are parked meanwhile are left to the next replay.
    """
    monkeypatch.setattr(_parked, "REPLAY_TIME", 0)
    monkeypatch.setattr(replay, "MAX_REPLAY_GROUP", 2)
    park(store, 5)
    send(tables, "m-0", "m-1", "m-2", "m-4")
    page = posted(visitor, REPLAY)
    assert "Replayed 2 notifications: 2 recorded. 3 notifications left to replay." in page
    assert "data-continues" in page
    assert "Continue the replay" in page
    receive(store, testing.delivery(ADA, "m-late", at=AT))
    page = posted(visitor, continued(page))
    assert "Replayed 4 notifications: 3 recorded, 1 not recorded. 1 notification left" in page
    page = posted(visitor, continued(page))
    assert "Replayed 5 notifications: 4 recorded, 1 not recorded." in page
    assert "data-continues" not in page
    assert listed(page) == [6, 4]
    end = {**REPLAY, "after": "6", "last": "6", "recorded": "4"}
    assert "Replayed 4 notifications: 4 recorded." in posted(visitor, end)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            Unavailable("It is gone."),
            "The replay stopped: The database cannot be used: It is gone.",
        ),
        (WrongMapping("Other."), "The replay stopped: Not replayed: the log was written for other"),
    ],
)
def test_a_replay_that_fails(
    store: SQLStore,
    visitor: Visitor,
    fault: Exception,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page states why it stopped, and offers to continue, but does not do so by itself."""
    park(store, 1)

    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(SQLLog, "count_retries", fail)
    page = posted(visitor, REPLAY)
    assert message in page
    assert "data-continues" not in page
    assert "1 notification left to replay." in page
    assert continued(page) == {
        **REPLAY,
        **dict.fromkeys(("after", "recorded", "refused"), "0"),
        "last": "1",
    }


def test_the_time_limit(store: SQLStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the database responds too late for the replay, there is time left for the page."""
    park(store, 1)
    count_retries = SQLLog.count_retries
    limits = []

    def count(log: SQLLog, ids: Collection[int]) -> None:
        limits.append(left())
        count_retries(log, ids)

    monkeypatch.setattr(SQLLog, "count_retries", count)
    posted(visitor, REPLAY)
    [limit] = limits
    assert limit <= _parked.REPLAY_TIMEOUT < PAGE_TIMEOUT


def test_a_body_that_cannot_be_read(store: SQLStore, visitor: Visitor) -> None:
    """A notification of another provider counts as not recorded, and does not stop the replay."""
    body = json.dumps(testing.delivery(ADA, "m-other", at=AT)).encode()
    notifications, now = Postmark.parse(body).notifications, datetime.now(UTC)
    record(store, [Arrival(notifications, body, now, provider="other")])
    park(store, 1)
    assert "Replayed 2 notifications: 0 recorded, 2 not recorded." in posted(visitor, REPLAY)


@pytest.mark.parametrize(
    ("form", "headers", "status"),
    [
        ({"action": "lift"}, {}, 400),
        ({"last": "x"}, {}, 400),
        ({"recorded": "-1"}, {}, 400),
        ({}, {"sec_fetch_site": "cross-site"}, 403),
        ({}, {"origin": "http://evil.example"}, 403),
        ({}, {}, 200),
    ],
)
def test_forms(
    store: SQLStore, visitor: Visitor, form: dict[str, str], headers: dict[str, str], status: int
) -> None:
    """A form needs its fields and the dashboard's origin, or replays nothing."""
    park(store, 1)
    visitor.headers |= headers
    assert visitor.post("/parked", REPLAY | form).status == status
    assert store.log is not None
    [entry] = store.log.newest(Query(), limit=1)
    assert entry.retries == (1 if status == 200 else 0)


def test_log_lines(store: SQLStore, visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    """A log line has the user and the numbers."""
    park(store, 1)
    with caplog.at_level("INFO", "hookrow"):
        posted(visitor, REPLAY)
    line = "Dashboard user ada replayed parked notifications: 0 recorded, 1 not, request "
    assert line in caplog.messages


def test_the_time_of_the_newest(store: SQLStore, visitor: Visitor) -> None:
    """The filters by time select by the first arrival."""
    park(store, 1)
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    assert listed(visitor.shows("/parked", since=soon)) == []
    assert listed(visitor.shows("/parked", until=soon)) == [1]
