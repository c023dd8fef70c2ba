"""How many statements a group takes, and which indexes serve them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from contract import ADA, NOON, arrival, fill_many, opens, statuses
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django_home import DjangoHome
from homes import Home
from locations import PLACES, shared_home
from log_contract import ORIGINS, entry, keep, parked, reader
from sqlalchemy import event

from copying import replace
from databases import NAMES, kind_of, places
from hookrow import Arrival, Delivered, Reactivated, Suppressed
from hookrow._core.notification import Notification
from hookrow._core.result import Result
from hookrow._receiver.recorder import record
from hookrow.stores._log import START, DueKind, Query
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._row_search import SQLRowSearch
from hookrow.stores.sql._suppressions import Filter, SuppressionRange
from times import DAY, MINUTE

shared = pytest.fixture(shared_home, scope="module", params=PLACES[len(NAMES) :])

MANY = 400
"""Rows in each table."""


@pytest.fixture(scope="module")
def home(shared: Home) -> Home:
    """Fill a home whose log is long; few of its entries are parked."""
    fill_many(shared, range(1, MANY + 1))
    keep(shared, *(entry(number) for number in range(100, 4000)))
    keep(shared, *(parked(number, minutes=1) for number in range(1, 50)))
    shared.run(kind_of(shared.url).analyze)
    return shared


@contextmanager
def statements(home: Home) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that the store executes, with their parameters."""
    executed: list[tuple[str, Any]] = []
    if isinstance(home, DjangoHome):
        with CaptureQueriesContext(connections[home.alias]) as captured:
            yield executed
        executed += [(query["sql"].replace("%", "%%"), ()) for query in captured]
        return

    def note(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:  # noqa: ANN401 - a driver's
        executed.append((statement, parameters))

    event.listen(home._engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(home._engine, "before_cursor_execute", note)


def group(size: int) -> list[Arrival]:
    """Return arrivals of every kind, each for different rows."""
    sent: list[Notification] = []
    for number in range(1, size + 1):
        names = f"s{number}@example.com", f"m{number}"
        kinds = (
            opens(*names),
            Delivered(*names, NOON),
            Suppressed(*names, NOON, "HardBounce"),
            Reactivated(*names, NOON),
        )
        sent.append(kinds[number % 4])
    return [replace(arrival(each), body=repr(each).encode()) for each in sent]


def plan(home: Home, executed: Sequence[tuple[str, Any]], *, scans: bool = True) -> str:
    """Return how the database executes the statements; optionally without scans if it can."""
    lines: list[str] = []
    with home._engine.connect() as connection:
        kind = kind_of(connection)
        if not scans:
            kind.avoid_scans(connection)
        for statement, parameters in executed:
            if statement.startswith(("SELECT", "UPDATE", "WITH")) and "set_config" not in statement:
                given = parameters[0] if isinstance(parameters, list) else parameters
                rows = connection.exec_driver_sql(f"{kind.explain} {statement}", given or None)
                lines += map(kind.step, rows)
    return "\n".join(lines)


def test_group(home: Home) -> None:
    """A group of any size takes the same statements, each of which uses an index."""
    home.store.claim_log()  # once a minute
    for size in (4, 40, MANY):
        with statements(home) as executed:
            assert statuses(record(home.store, group(size))) == [200] * size
        others = ("BEGIN", "COMMIT", "SELECT set_config", "PRAGMA")
        count = len([text for text, _ in executed if not text.startswith(others)])
        assert count <= kind_of(home.url).most_statements
        if size < MANY:  # a scan finds all rows fastest
            found = plan(home, executed, scans=False)
            assert "Index" in found or "INDEX" in found
            assert "Seq Scan on hookrow" not in found
            assert "SCAN hookrow" not in found


@pytest.mark.parametrize("shared", places("django"), indirect=True, scope="module")
@pytest.mark.parametrize(
    ("sent", "changes_many"),
    [
        (Delivered("s1@example.com", "m1", NOON), False),
        (opens("s1@example.com", "m1"), False),
        (Suppressed("s1@example.com", "m1", NOON, "HardBounce"), True),
        (Reactivated("s1@example.com", "m1", NOON), True),
    ],
    ids=["delivery", "open", "suppression", "reactivation"],
)
def test_notification_in_django(home: Home, sent: Notification, *, changes_many: bool) -> None:
    """A request's notification takes few queries, those that set the time limits included.

    In a transaction of the project, a savepoint and its limits are added.
    """
    home.store.claim_log()  # once a minute
    boundaries = ("BEGIN", "COMMIT")
    with statements(home) as executed:
        assert statuses(record(home.store, [arrival(sent)])) == [200]
    most = kind_of(home.url).most_in_django[changes_many]
    assert len([text for text, _ in executed if not text.startswith(boundaries)]) <= most


@pytest.mark.parametrize(
    ("read", "index"),
    [
        (
            lambda log: log.hopeful(NOON, origins=ORIGINS, after=START, limit=64),
            "hookrow_parked ",
        ),
        (
            lambda log: log.due(NOON, DueKind.FAILING, origins=ORIGINS, limit=64),
            "hookrow_parked ",
        ),
        (
            lambda log: log.due(NOON, DueKind.MISSING, origins=ORIGINS, limit=64),
            "hookrow_parked ",
        ),
        (lambda log: log.expire(NOON, origins=ORIGINS), "hookrow_parked "),
        (lambda log: log.count(Query(expired=True), limit=64), "hookrow_expired"),
        (lambda log: log.newest(Query(expired=True), limit=64), "hookrow_expired"),
        (
            lambda log: log.oldest(Query(expired=True, outcome=Result.FAILED), limit=64),
            "hookrow_expired",
        ),
        (
            lambda log: log.newest(Query(parked=True), before=9000, limit=64),
            "hookrow_parked ",
        ),
        (
            lambda log: log.oldest(Query(parked=True), limit=64),
            "hookrow_parked ",
        ),
        (
            lambda log: log.oldest(Query(parked=True, ids=range(1, 9000)), limit=64),
            "hookrow_parked ",
        ),
        (lambda log: log.parked(["m-1", "m-2"]), "hookrow_parked_message_id"),
    ],
    ids=[
        *("hopeful", "failing", "missing", "ended", "expired", "newest expired", "oldest failed"),
        *("newest", "oldest", "range", "messages"),
    ],
)
def test_parked(home: Home, read: Callable[[SQLLog], object], index: str) -> None:
    """Parked entries are found by their index in a long log, not by the primary key."""
    with statements(home) as executed:
        read(reader(home))
    assert index in plan(home, executed)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.take([100, 200], NOON),
        lambda log: log.count_retries([100, 200]),
        lambda log: log.expire(NOON, origins=ORIGINS),
    ],
    ids=["take", "count", "expire"],
)
def test_changes_of_the_log(home: Home, change: Callable[[SQLLog], object]) -> None:
    """The changed entries are found by an index: a scan would lock all others, too."""
    with statements(home) as executed:
        change(reader(home))
    of_log = [each for each in executed if "hookrow_notifications" in each[0]]
    found = plan(home, of_log, scans=False)
    assert "Seq Scan on hookrow" not in found
    assert "SCAN hookrow" not in found


def test_changes_for_a_consumer(home: Home) -> None:
    """Those with a number, and those without, are found by their index in a long log."""
    with statements(home) as executed:
        reader(home).changes(0, limit=64)
    found = [each for each in executed if "WHERE change_number" in each[0]]
    assert len(found) >= 2
    assert plan(home, found).count("hookrow_change_numbers") == len(found)


@pytest.mark.parametrize(
    ("search", "indexes"),
    [
        (lambda rows: rows.emails("s7", limit=20), ["hookrow_subscribers_email"]),
        (
            lambda rows: rows.message_ids("m7", limit=20),
            ["hookrow_dispatches_message_id", "sqlite_autoindex_hookrow_dispatches"],
        ),
        (lambda rows: rows.messages(7, limit=20), ["hookrow_dispatches_subscriber_id"]),
        (
            lambda rows: rows.subscriptions(7, limit=20),
            ["hookrow_subscriptions_subscriber_id", "sqlite_autoindex_hookrow_subscriptions"],
        ),
    ],
    ids=["emails", "message ids", "messages", "subscriptions"],
)
def test_searches(
    home: Home, search: Callable[[SQLRowSearch], Sequence[object]], indexes: Sequence[str]
) -> None:
    """Rows are found for people by an index, and not by reading the whole table."""
    with statements(home) as executed:
        assert search(home.store.row_search)
    found = plan(home, executed, scans=False)
    assert any(each in found for each in indexes), found


def test_changes_of_a_person(home: Home) -> None:
    """An index has the changes of suppression only, so a person's are found among many entries."""
    with statements(home) as executed:
        reader(home).newest(Query(changes=True, recipient=ADA), limit=64)
        home.store.suppressions.changes([ADA], limit=64)
        home.store.suppressions.read(SuppressionRange(), Filter(entry="sendgrid"), limit=64)
    of_log = [each for each in executed if "recipient" in each[0]]
    found = plan(home, of_log, scans=False)
    assert found.count("hookrow_notifications_changes") == len(of_log) == 3


def test_search_of_the_log(home: Home) -> None:
    """The rows of parked entries are found by their indexes, and no table is scanned."""
    with statements(home) as executed:
        reader(home).hopeful(NOON, origins=ORIGINS, after=START, limit=64)
    found = plan(home, executed, scans=False)
    assert "Seq Scan on hookrow" not in found
    assert not {"SCAN n", "SCAN d", "SCAN s"} & {line[:6] for line in found.splitlines()}
    assert "hookrow_subscribers_email" in found
    assert "hookrow_dispatches_message_id" in found or "(provider_message_id=?)" in found


@pytest.mark.parametrize(
    ("read", "index"),
    [
        (lambda log: log.counts(NOON, MINUTE), ""),
        (lambda log: log.counts(NOON, DAY), "hookrow_recoveries"),
        (lambda log: log.deliveries(NOON, limit=1000), ""),
    ],
    ids=["entries", "hours", "deliveries"],
)
def test_counts(home: Home, read: Callable[[SQLLog], object], index: str) -> None:
    """The entries that the hourly counts lack are found by their ids, and no table is scanned."""
    with statements(home) as executed:
        read(reader(home))
    of_log = [each for each in executed if "hookrow_notifications" in each[0]]
    found = plan(home, of_log, scans=False)
    assert index in found
    assert "Seq Scan on hookrow" not in found
    assert "SCAN hookrow" not in found
