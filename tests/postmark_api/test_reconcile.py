"""Reconciliation: events that the provider has, and hookrow lacks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from providing import client, endpoint, kill_at_each_request

from hookrow import Postmark, testing
from hookrow.core.notification import Source
from hookrow.errors import ConfigurationError
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.reconcile import DEFERRED_FOR, RETENTION, Reconciliation
from hookrow.postmark_api.webhooks import read_streams
from hookrow.stores import Store
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from stand_in import Fault, PostmarkStandIn
from wire import SECRET

START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
BEA, CLEO = "bea@example.com", "cleo@example.com"


@pytest.fixture
def api() -> Iterator[PostmarkStandIn]:
    with PostmarkStandIn(now=START) as api:
        yield api


def store_of(api: PostmarkStandIn) -> MemoryStore:
    """Return a store with the people, and a dispatch for each message at the provider."""
    emails = {1: "ada@example.com", 2: BEA, 3: CLEO}
    ids = {email: id_ for id_, email in emails.items()}
    return MemoryStore(
        subscribers={id_: {"id": id_, "email": email} for id_, email in emails.items()},
        dispatches={
            number: {
                "id": number,
                "provider_message_id": each.id,
                "subscriber_id": ids[each.recipient],
                "sent_at": each.sent_at,
            }
            for number, each in enumerate(api.state.messages.values(), 1)
        },
    )


def reconcile(
    api: PostmarkAPI | PostmarkStandIn,
    store: Store,
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
    ids = [api.send("ada@example.com") for _ in range(3)]
    ids += [api.send(BEA, stream="broadcast")]
    for each in (ids[0], ids[1], ids[3]):
        api.deliver(each)
    api.open(ids[0])
    api.open(ids[0])
    api.suppress(CLEO, stream="broadcast")
    return ids


def values(store: MemoryStore, name: str) -> list[Any]:
    return [row.get(name) for row in store.dispatches.values()]


def test_everything_that_was_missed_is_recorded_once(api: PostmarkStandIn) -> None:
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
    assert store.subscribers[3]["suppression_reason"] == "ManualSuppression"
    assert store.log is not None
    entries = store.log.newest(Query(), limit=100)
    assert len(entries) == 5
    assert {(each.source, each.provider) for each in entries} == {(Source.RECONCILE, "postmark")}
    api.requests.clear()
    assert reconcile(api, store) == {"undelivered": 1}
    assert sum("details" in each.path for each in api.requests) == 1, "only for the undelivered"
    assert len(store.log.newest(Query(), limit=100)) == 5


def test_what_the_webhook_posted_is_skipped(api: PostmarkStandIn) -> None:
    store = store_of(api)
    with endpoint(store) as url:
        happen(api)
        store.dispatches.update(store_of(api).dispatches)
        for event in (
            testing.delivery("ada@example.com", next(iter(api.state.messages)), at=api.now),
            testing.opening("ada@example.com", next(iter(api.state.messages)), at=api.now),
            testing.suppression(CLEO, None, at=api.now),
        ):
            assert testing.post(url, event, secret=SECRET)[0] == 200
    assert reconcile(api, store) == {"deliveries": 2, "undelivered": 1}


def test_a_newer_change_here_is_kept(api: PostmarkStandIn) -> None:
    api.suppress(CLEO)
    store = store_of(api)
    with endpoint(store) as url:
        later = api.now + timedelta(hours=1)
        testing.post(url, testing.suppression(CLEO, None, at=api.now), secret=SECRET)
        testing.post(url, testing.reactivation(CLEO, None, at=later), secret=SECRET)
    assert reconcile(api, store) == {}
    assert store.subscribers[3]["suppressed_at"] is None


def test_events_before_the_day_and_of_other_streams(api: PostmarkStandIn) -> None:
    happen(api)
    store = store_of(api)
    assert reconcile(api, store, since=api.now + timedelta(hours=1)) == {"undelivered": 1}
    assert reconcile(api, store, "broadcast") == {"suppressions": 1, "deliveries": 1}


def test_events_without_a_row_are_counted(api: PostmarkStandIn) -> None:
    store = store_of(api)
    happen(api)
    api.suppress("zoe@example.com")
    assert reconcile(api, store) == {"suppressions": 1, "unknown": 2}, "an open, and zoe's"
    assert store.log is not None
    assert len(store.log.newest(Query(), limit=10)) == 1


def test_lift(api: PostmarkStandIn) -> None:
    store = store_of(api)
    with endpoint(store) as url:
        for person in (BEA, CLEO, "ada@example.com"):
            testing.post(url, testing.suppression(person, None, at=START), secret=SECRET)
    recent = datetime.now(UTC) - timedelta(seconds=1)
    store.subscribers[1] |= {"suppressed_at": recent, "suppression_changed_at": recent}
    api.suppress(CLEO, stream="broadcast")
    assert reconcile(api, store, dry_run=True, lift=True) == {"lifted": 1}
    assert reconcile(api, store, "outbound") == {}
    assert reconcile(api, store, "outbound", lift=True) == {"lifted": 1}
    suppressed = {row["email"] for row in store.subscribers.values() if row["suppressed_at"]}
    assert suppressed == {CLEO, "ada@example.com"}, "one is listed, and one is newer"


def test_a_suppression_in_an_archived_stream(api: PostmarkStandIn) -> None:
    """The provider does not document whether it lists these, so nothing is lifted."""
    store = store_of(api)
    store.subscribers[2]["suppressed_at"] = START
    api.suppress(BEA, stream="broadcast")
    api.state.streams["broadcast"].archived_at = api.now
    with pytest.raises(ConfigurationError, match=r"archived message streams \(broadcast\)"):
        reconcile(api, store, lift=True)
    assert store.subscribers[2]["suppressed_at"] == START
    assert reconcile(api, store) == {}


def details(api: PostmarkStandIn) -> list[str]:
    """Return the messages that the API was asked about, in order."""
    return [each.path.split("/")[3] for each in api.requests if each.path.endswith("/details")]


def test_deliveries_of_messages_that_were_sent_earlier(api: PostmarkStandIn) -> None:
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


def test_a_delivery_in_a_stream_that_is_archived_now(api: PostmarkStandIn) -> None:
    api.deliver(api.send(BEA, stream="broadcast"))
    api.state.streams["broadcast"].archived_at = api.now
    assert reconcile(api, store_of(api), "outbound") == {}
    assert reconcile(api, store_of(api)) == {"deliveries": 1}


def test_the_oldest_messages_are_asked_about_first(
    api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are so across streams and pages; those without a time of sending come before them."""
    monkeypatch.setattr("hookrow.postmark_api.reconcile.PAGE", 2)
    ids = [api.send(BEA, stream=name) for name in ("broadcast", "outbound") * 3]
    store = store_of(api)
    keys = [4, 2, 6, 1, 5, 3]
    for key, message_id, at in zip(keys, ids, values(store, "sent_at"), strict=True):
        store.dispatches[key] |= {"provider_message_id": message_id, "sent_at": at}
    del store.dispatches[5]["sent_at"]
    assert reconcile(api, store) == {"undelivered": 6}
    assert details(api) == [ids[4], *ids[:4], ids[5]]


def test_dispatches_without_times_of_sending(api: PostmarkStandIn) -> None:
    """The API is asked about all of them, in the order of their keys; events before are skipped."""
    ids = happen(api)
    api.state.now += timedelta(days=1)
    api.deliver(ids[2])
    store = store_of(api)
    for row in store.dispatches.values():
        del row["sent_at"]
    parts = client(api), store, Postmark, read_streams(client(api))
    run = Reconciliation(*parts, since=api.now - timedelta(hours=1))
    assert run.count_undelivered() == (4, False)
    assert sum(run.steps()) == 4
    assert details(api) == ids
    assert [at is not None for at in values(store, "delivered_at")] == [False, False, True, False]


def test_messages_that_the_provider_does_not_know(api: PostmarkStandIn) -> None:
    """They are counted, and are no failure; those of other providers are not asked about."""
    old = api.send(BEA)
    api.deliver(old)
    api.state.now += RETENTION + timedelta(hours=1)
    api.deliver(api.send(BEA))
    store = store_of(api)
    sent = datetime.now(UTC) - RETENTION - timedelta(hours=1)
    store.dispatches[1]["sent_at"] = sent
    unknown, other = "0ac29aee-e1cd-480d-b08d-4f48548ff48d", "0100-of ses/another"
    for key, message_id in enumerate((unknown, other), 3):
        row = {"provider_message_id": message_id, "subscriber_id": 2, "sent_at": api.now}
        store.dispatches[key] = row
    expected = {"deliveries": 1, "unknown_there": 3}
    assert reconcile(api, store, since=sent) == expected
    assert len(details(api)) == 3


def test_an_earlier_first_open_is_corrected(api: PostmarkStandIn) -> None:
    """The time of the first open becomes the earlier one, and that of the last open stays."""
    message = api.send(BEA)
    api.open(message)
    first = api.now
    store = replace(store_of(api), optional=["first_opened_at"])
    late = first + timedelta(hours=1)
    store.dispatches[1] |= {"opened_at": late, "first_opened_at": late, "delivered_at": first}
    assert reconcile(api, store) == {"opens": 1}
    row = store.dispatches[1]
    assert (row["first_opened_at"], row["opened_at"]) == (first, late)
    assert reconcile(api, store) == {}


def test_a_run_that_is_killed_can_be_repeated() -> None:
    @contextmanager
    def start() -> Iterator[tuple[PostmarkStandIn, MemoryStore]]:
        with PostmarkStandIn(now=START) as api:
            happen(api)
            yield api, store_of(api)

    def describe(home: tuple[PostmarkStandIn, MemoryStore]) -> object:
        _, store = home
        assert store.log is not None
        logged = sorted(str(each.body) for each in store.log.newest(Query(), limit=100))
        rows = [*store.dispatches.values(), *store.subscribers.values()]
        return [dict(row) for row in rows], logged

    assert kill_at_each_request(start, lambda home: reconcile(*home), describe) > 5


def test_temporary_errors(api: PostmarkStandIn) -> None:
    happen(api)
    api.inject(Fault.RATE_LIMIT, 2, path="details")
    api.inject(Fault.MAINTENANCE, 1, path="opens")
    assert reconcile(api, store_of(api))["deliveries"] == 3


def test_a_day_before_all_messages(api: PostmarkStandIn) -> None:
    happen(api)
    assert reconcile(api, store_of(api), since=datetime.min.replace(tzinfo=UTC))["opens"] == 1
