"""Reconciliation: events that the provider has, and hookrow lacks."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from providing import Fragile, Killed, client, endpoint

from hookrow import Postmark, testing
from hookrow.core.notification import Source
from hookrow.postmark_api import lists
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.errors import APIError
from hookrow.postmark_api.lists import ListReader, Window
from hookrow.postmark_api.reconcile import Reconciliation
from hookrow.postmark_api.webhooks import read_streams
from hookrow.stores import Store
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.testing.postmark_api import Fault, PostmarkStandIn
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
    every = read_streams(api)
    chosen = read_streams(api, streams)
    run = Reconciliation(api, store, Postmark, chosen, since=since, server=1, dry_run=dry_run)
    for _ in run.steps(every if lift else ()):
        pass
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
    assert reconcile(api, store, since=api.now + timedelta(hours=1)) == {}
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


def test_a_message_that_the_provider_does_not_know(
    api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    happen(api)
    store = store_of(api)
    gone = [*api.state.messages][1]
    get = PostmarkAPI.get

    def forget(self: PostmarkAPI, path: str, **query: object) -> dict[str, Any]:
        if gone in path:
            raise APIError("This message was not found.", 701)
        return get(self, path, **query)

    monkeypatch.setattr(PostmarkAPI, "get", forget)
    assert reconcile(api, store) == {
        "suppressions": 1,
        "opens": 1,
        "deliveries": 2,
        "undelivered": 1,
        "unknown_there": 1,
    }


def test_a_run_that_is_killed_can_be_repeated() -> None:
    def start() -> tuple[PostmarkStandIn, MemoryStore]:
        api = PostmarkStandIn(now=START)
        happen(api)
        return api, store_of(api)

    def state(store: MemoryStore) -> object:
        assert store.log is not None
        logged = sorted(str(each.body) for each in store.log.newest(Query(), limit=100))
        return [*store.dispatches.values()], [*store.subscribers.values()], logged

    api, store = start()
    with api:
        reconcile(api, store)
        expected, requests = state(store), len(api.requests)
    for number in range(1, requests + 1):
        for sent in (False, True):
            api, store = start()
            with api:
                with pytest.raises(Killed):
                    reconcile(Fragile(api.token, api.address, at=number, sent=sent), store)
                reconcile(api, store)
                assert state(store) == expected, (number, sent)


def test_temporary_errors(api: PostmarkStandIn) -> None:
    happen(api)
    api.inject(Fault.RATE_LIMIT, 2, path="details")
    api.inject(Fault.MAINTENANCE, 1, path="opens")
    assert reconcile(api, store_of(api))["deliveries"] == 3


@pytest.mark.parametrize("ignored", [True, False])
def test_windows_with_more_rows_than_the_api_returns(
    api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch, *, ignored: bool
) -> None:
    monkeypatch.setattr(lists, "LAST_ROW", 10)
    monkeypatch.setattr(lists, "MOST_ROWS", 4)
    ids = []
    for _ in range(35):
        ids.append(api.send(BEA))
        api.state.now += timedelta(minutes=7)
    if ignored:
        get = PostmarkAPI.get

        def ignore(self: PostmarkAPI, path: str, **query: object) -> dict[str, Any]:
            return get(self, path, **{key: query[key] for key in query if "date" not in key})

        monkeypatch.setattr(PostmarkAPI, "get", ignore)
    reader = ListReader(client(api), "/messages/outbound", "Messages", "outbound")
    read = [row["MessageID"] for rows in reader.read(Window.around(START, api.now)) for row in rows]
    assert reader.incomplete is ignored
    assert read == (ids[-10:] if ignored else ids), "oldest first"


def test_a_day_before_all_messages(api: PostmarkStandIn) -> None:
    happen(api)
    assert reconcile(api, store_of(api), since=datetime.min.replace(tzinfo=UTC))["opens"] == 1


def test_messages_that_are_sent_while_a_list_is_read(
    api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They shift the older rows to later pages, which are read as well."""
    monkeypatch.setattr(lists, "MOST_ROWS", 4)
    ids = [api.send(BEA) for _ in range(8)]
    get = PostmarkAPI.get

    def send(self: PostmarkAPI, path: str, **query: object) -> dict[str, Any]:
        found = get(self, path, **query)
        if query["offset"] == 0:
            api.state.now += timedelta(seconds=1)
            for _ in range(3):
                api.send(CLEO)
        return found

    monkeypatch.setattr(PostmarkAPI, "get", send)
    reader = ListReader(client(api), "/messages/outbound", "Messages", "outbound")
    read = {row["MessageID"] for rows in reader.read(Window.around(START, api.now)) for row in rows}
    assert {*ids} <= read
