"""Reconciliation: events that the provider has, and hookrow lacks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest
from providing import client, endpoint, kill_at_each_request
from sqlalchemy import insert, select, update

import world
from engines import MEMORY, engine_of, run
from hookrow import Postmark, Role, Schema, testing
from hookrow._core.notification import Source
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.reconcile import DEFERRED_FOR, RETENTION, Reconciliation
from hookrow._postmark_api.webhooks import read_streams
from hookrow.errors import ConfigurationError
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from own_tables import dispatches, subscribers
from stand_in import Fault, PostmarkStandIn
from wire import SECRET

START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
ADA, BEA, CLEO = PEOPLE = ("ada@example.com", "bea@example.com", "cleo@example.com")

Open: TypeAlias = Callable[..., SQLStore]
"""Opens the store of a stand-in, with hookrow's tables or with those of a schema."""


@pytest.fixture
def api() -> Iterator[PostmarkStandIn]:
    with PostmarkStandIn(now=START) as api:
        yield api


def open_store(api: PostmarkStandIn, schema: Schema = Schema()) -> SQLStore:  # noqa: B008 - frozen
    """Open a store with the people, and a dispatch for each message at the provider.

    The schema may map other columns of hookrow's own tables.
    """
    own = SQLStore(MEMORY)
    for email in PEOPLE:
        Tables(own).add_subscriber(email)
    add_dispatches(own, api)
    return SQLStore(own.database, schema)


@pytest.fixture
def store_of() -> Iterator[Open]:
    """Return `open_store`, whose stores are closed after the test."""
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(closing(open_store(*given)))


def add_dispatches(store: SQLStore, api: PostmarkStandIn, ids: Sequence[int] = ()) -> None:
    """Add a dispatch for each message at the provider; the ids are from 1 by default."""
    for number, each in enumerate(api.state.messages.values()):
        add_dispatch(store, ids[number] if ids else None, each.id, each.recipient, each.sent_at)


def add_dispatch(
    store: SQLStore, id_: int | None, message_id: str, recipient: str, sent_at: datetime
) -> None:
    """Add a dispatch; without an id, the database assigns one."""
    key = {} if id_ is None else {"id": id_}
    row = {
        "provider_message_id": message_id,
        "subscriber_id": PEOPLE.index(recipient) + 1,
        "created_at": sent_at,
    }
    with engine_of(store).begin() as connection:
        connection.execute(insert(dispatches), {**key, **row})


def change(store: SQLStore, id_: int, **columns: datetime) -> None:
    """Change a dispatch."""
    with engine_of(store).begin() as connection:
        connection.execute(update(dispatches).where(dispatches.c.id == id_), columns)


def suppress(store: SQLStore, email: str, **columns: datetime) -> None:
    """Change the subscriber with this email."""
    with engine_of(store).begin() as connection:
        connection.execute(update(subscribers).where(subscribers.c.email == email), columns)


def reconcile(
    api: PostmarkAPI | PostmarkStandIn,
    store: SQLStore,
    *streams: str,
    since: datetime = START,
    lift: bool = False,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Reconcile, and return the totals that are not 0."""
    if isinstance(api, PostmarkStandIn):
        api = client(api)
    every = read_streams(api, archived=True)
    run = Reconciliation(
        api,
        store,
        Postmark,
        read_streams(api, streams),
        chosen=bool(streams),
        since=since,
        server=1,
        dry_run=dry_run,
    )
    asked, _ = run.count_undelivered()
    assert sum(run.steps(every if lift else ())) >= asked
    return {name: count for name, count in asdict(run.result).items() if count}


def happen(api: PostmarkStandIn) -> list[str]:
    """Send messages, of which some are delivered and opened; suppress people."""
    ids = [api.send(ADA) for _ in range(3)]
    ids += [api.send(BEA, stream="broadcast")]
    for each in (ids[0], ids[1], ids[3]):
        api.deliver(each)
    api.open(ids[0])
    api.open(ids[0])
    api.suppress(CLEO, stream="broadcast")
    return ids


def values(store: SQLStore, name: str) -> list[Any]:
    """Read a column of the dispatches, in the order of their ids."""
    with engine_of(store).connect() as connection:
        return [*connection.scalars(select(dispatches.c[name]).order_by(dispatches.c.id))]


def test_everything_that_was_missed_is_recorded_once(api: PostmarkStandIn, store_of: Open) -> None:
    ids = happen(api)
    store = store_of(api)
    expected = {"suppressions": 1, "opens": 1, "deliveries": 3, "undelivered": 1}
    assert reconcile(api, store, dry_run=True) == expected
    assert values(store, "delivered_at") == [None] * 4
    assert reconcile(api, store) == expected
    events = {id_: api.state.messages[id_].events for id_ in ids}
    assert values(store, "delivered_at") == [
        events[id_][0][1] if events[id_] else None for id_ in ids
    ]
    assert values(store, "opened_at") == [events[ids[0]][1][1], None, None, None]
    assert Tables(store).subscriber(CLEO).suppression_reason == "ManualSuppression"
    assert store.log is not None
    entries = store.log.newest(Query(), limit=100)
    assert len(entries) == 5
    assert {(each.source, each.provider) for each in entries} == {(Source.RECONCILE, "postmark")}
    api.requests.clear()
    assert reconcile(api, store) == {"undelivered": 1}
    assert sum("details" in each.path for each in api.requests) == 1, "only for the undelivered"
    assert len(store.log.newest(Query(), limit=100)) == 5


def test_what_the_webhook_posted_is_skipped(api: PostmarkStandIn, store_of: Open) -> None:
    store = store_of(api)
    with endpoint(store=store) as url:
        happen(api)
        add_dispatches(store, api)
        for event in (
            testing.delivery(ADA, next(iter(api.state.messages)), at=api.now),
            testing.opening(ADA, next(iter(api.state.messages)), at=api.now),
            testing.suppression(CLEO, None, at=api.now),
        ):
            assert testing.post(url, event, secret=SECRET)[0] == 200
    assert reconcile(api, store) == {"deliveries": 2, "undelivered": 1}


def test_a_newer_change_here_is_kept(api: PostmarkStandIn, store_of: Open) -> None:
    api.suppress(CLEO)
    store = store_of(api)
    with endpoint(store=store) as url:
        later = api.now + timedelta(hours=1)
        testing.post(url, testing.suppression(CLEO, None, at=api.now), secret=SECRET)
        testing.post(url, testing.reactivation(CLEO, None, at=later), secret=SECRET)
    assert reconcile(api, store) == {}
    assert Tables(store).subscriber(CLEO).suppressed_at is None


def test_events_before_the_day_and_of_other_streams(api: PostmarkStandIn, store_of: Open) -> None:
    happen(api)
    store = store_of(api)
    assert reconcile(api, store, since=api.now + timedelta(hours=1)) == {"undelivered": 1}
    assert reconcile(api, store, "broadcast") == {"suppressions": 1, "deliveries": 1}


def test_events_without_a_row_are_counted(api: PostmarkStandIn, store_of: Open) -> None:
    store = store_of(api)
    happen(api)
    api.suppress("zoe@example.com")
    assert reconcile(api, store) == {"suppressions": 1, "unknown": 2}, "an open, and zoe's"
    assert store.log is not None
    assert len(store.log.newest(Query(), limit=10)) == 1


def test_lift(api: PostmarkStandIn, store_of: Open) -> None:
    store = store_of(api)
    with endpoint(store=store) as url:
        for person in (BEA, CLEO, ADA):
            testing.post(url, testing.suppression(person, None, at=START), secret=SECRET)
    recent = datetime.now(UTC) - timedelta(seconds=1)
    suppress(store, ADA, suppressed_at=recent, suppression_changed_at=recent)
    api.suppress(CLEO, stream="broadcast")
    assert reconcile(api, store, dry_run=True, lift=True) == {"lifted": 1}
    assert reconcile(api, store, "outbound") == {}
    assert reconcile(api, store, "outbound", lift=True) == {"lifted": 1}
    suppressed = {each for each in PEOPLE if Tables(store).subscriber(each).suppressed_at}
    assert suppressed == {CLEO, ADA}, "one is listed, and one is newer"


def test_a_suppression_in_an_archived_stream(api: PostmarkStandIn, store_of: Open) -> None:
    """The provider does not document whether it lists these, so nothing is lifted."""
    store = store_of(api)
    suppress(store, BEA, suppressed_at=START)
    api.suppress(BEA, stream="broadcast")
    api.state.streams["broadcast"].archived_at = api.now
    with pytest.raises(ConfigurationError, match=r"archived message streams \(broadcast\)"):
        reconcile(api, store, lift=True)
    assert Tables(store).subscriber(BEA).suppressed_at == START
    assert reconcile(api, store) == {}


def details(api: PostmarkStandIn) -> list[str]:
    """Return the messages that the API was asked about, in order."""
    return [each.path.split("/")[3] for each in api.requests if each.path.endswith("/details")]


def test_deliveries_of_messages_that_were_sent_earlier(
    api: PostmarkStandIn, store_of: Open
) -> None:
    """The provider may defer a message for days; older ones are not asked about."""
    ids = [api.send(BEA), api.send(BEA), api.send(CLEO)]
    sent = api.state.messages[ids[1]].sent_at
    api.state.now = since = sent + DEFERRED_FOR
    api.deliver(ids[1])
    api.deliver(ids[2])
    store = store_of(api)
    assert reconcile(api, store, since=since) == {"deliveries": 2}
    assert details(api) == ids[1:]
    assert values(store, "delivered_at") == [
        None,
        *(api.state.messages[each].events[0][1] for each in ids[1:]),
    ]


def test_a_message_to_several_subscribers(api: PostmarkStandIn, store_of: Open) -> None:
    """The provider is asked once about an id that dispatches share; its deliveries count once."""
    id_ = api.send(ADA)
    api.deliver(id_)
    store = store_of(api)
    add_dispatch(store, None, id_, BEA, api.state.messages[id_].sent_at)
    api.requests.clear()
    assert reconcile(api, store, dry_run=True) == {"deliveries": 1}
    assert len(details(api)) == 1


def test_a_delivery_in_a_stream_that_is_archived_now(api: PostmarkStandIn, store_of: Open) -> None:
    api.deliver(api.send(BEA, stream="broadcast"))
    api.state.streams["broadcast"].archived_at = api.now
    assert reconcile(api, store_of(api), "outbound") == {}
    assert reconcile(api, store_of(api)) == {"deliveries": 1}


def test_the_oldest_messages_are_asked_about_first(
    api: PostmarkStandIn, store_of: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are so across streams and pages; those without a time of sending come before them."""
    monkeypatch.setattr("hookrow._postmark_api.reconcile.ROWS_PER_PAGE", 2)
    schema = Schema(dispatches=Role("hookrow_dispatches", {"sent_at": "sent_at"}))
    store = store_of(api, schema)
    ids = [api.send(BEA, stream=name) for name in ("broadcast", "outbound") * 3]
    add_dispatches(store, api, [4, 2, 6, 1, 5, 3])
    run(
        engine_of(store),
        "ALTER TABLE hookrow_dispatches ADD COLUMN sent_at TIMESTAMP",
        "UPDATE hookrow_dispatches SET sent_at = created_at WHERE id <> 5",
    )
    assert reconcile(api, store) == {"undelivered": 6}
    assert details(api) == [ids[4], *ids[:4], ids[5]]


def test_dispatches_without_times_of_sending(api: PostmarkStandIn, store_of: Open) -> None:
    """The API is asked about all of them, in the order of their keys; events before are skipped."""
    ids = happen(api)
    api.state.now += timedelta(days=1)
    api.deliver(ids[2])
    store = store_of(api, Schema(dispatches=Role("hookrow_dispatches", {"sent_at": None})))
    parts = client(api), store, Postmark, read_streams(client(api))
    run = Reconciliation(*parts, since=api.now - timedelta(hours=1))
    assert run.count_undelivered() == (4, False)
    assert sum(run.steps()) == 4
    assert details(api) == ids
    assert [at is not None for at in values(store, "delivered_at")] == [False, False, True, False]


def test_messages_that_the_provider_does_not_know(api: PostmarkStandIn, store_of: Open) -> None:
    """They are counted, and are no failure; those of other providers are not asked about."""
    old = api.send(BEA)
    api.deliver(old)
    api.state.now += RETENTION + timedelta(hours=1)
    api.deliver(api.send(BEA))
    store = store_of(api)
    sent = datetime.now(UTC) - RETENTION - timedelta(hours=1)
    change(store, 1, created_at=sent)
    unknown, other = "0ac29aee-e1cd-480d-b08d-4f48548ff48d", "0100-of ses/another"
    for message_id in (unknown, other):
        add_dispatch(store, None, message_id, BEA, api.now)
    expected = {"deliveries": 1, "unknown_there": 3}
    assert reconcile(api, store, since=sent) == expected
    assert len(details(api)) == 3


def test_an_earlier_first_open_is_corrected(api: PostmarkStandIn, store_of: Open) -> None:
    """The time of the first open becomes the earlier one, and that of the last open stays."""
    message = api.send(BEA)
    api.open(message)
    first = api.now
    store = store_of(api, Schema(record=("first_open",)))
    late = first + timedelta(hours=1)
    change(store, 1, opened_at=late, first_opened_at=late, delivered_at=first)
    assert reconcile(api, store) == {"opens": 1}
    row = Tables(store).dispatch(message)
    assert (row.first_opened_at, row.opened_at) == (first, late)
    assert reconcile(api, store) == {}


def test_a_run_that_is_killed_can_be_repeated() -> None:
    @contextmanager
    def start() -> Iterator[tuple[PostmarkStandIn, SQLStore]]:
        with PostmarkStandIn(now=START) as api:
            happen(api)
            with closing(open_store(api)) as store:
                yield api, store

    def describe(home: tuple[PostmarkStandIn, SQLStore]) -> object:
        _, store = home
        assert store.log is not None
        logged = sorted(str(each.body) for each in store.log.newest(Query(), limit=100))
        return world.rows(engine_of(store)), logged

    assert kill_at_each_request(start, lambda home: reconcile(*home), describe) > 5


def test_temporary_errors(api: PostmarkStandIn, store_of: Open) -> None:
    happen(api)
    api.inject(Fault.RATE_LIMIT, 2, path="details")
    api.inject(Fault.MAINTENANCE, 1, path="opens")
    assert reconcile(api, store_of(api))["deliveries"] == 3


def test_a_day_before_all_messages(api: PostmarkStandIn, store_of: Open) -> None:
    happen(api)
    assert reconcile(api, store_of(api), since=datetime.min.replace(tzinfo=UTC))["opens"] == 1
