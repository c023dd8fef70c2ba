"""Suppressing and lifting by hand: recorded and logged as what the provider says is."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import world
from hookrow.byhand import change_by_hand
from hookrow.entry import Ending, Logged
from hookrow.notification import Recorded, Refusal
from hookrow.postmark import parse
from hookrow.quiet import Quiet
from hookrow.replay import arrivals_of, record_late
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore

ADA = "ada@example.com"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
SUPPRESSED = {
    "suppressed_at": AT,
    "suppression_reason": "asked by letter",
    "suppression_changed_at": AT,
}


def _store() -> MemoryStore:
    return MemoryStore(subscribers={1: {"email": "Ada@Example.com"}})


def _logged(store: MemoryStore) -> list[Logged]:
    assert store.log is not None
    return list(store.log.newest(Query(), limit=9))


def test_a_suppression_says_who_and_why() -> None:
    """The row has the reason and the time, the log all of it, as a change of the host's."""
    store = _store()
    outcome = change_by_hand(store, ADA, reason="asked by letter", by="eve", at=AT)
    assert isinstance(outcome, Recorded)
    assert store.subscribers[1] == {"email": "Ada@Example.com"} | SUPPRESSED
    [entry] = _logged(store)
    assert (entry.outcome, entry.recipient, entry.occurred_at) == (Ending.RECORDED, ADA, AT)
    body = json.loads(entry.body or "")
    assert (body["Origin"], body["ChangedBy"]) == ("Host", "eve")
    assert body["SuppressionReason"] == "asked by letter"


def test_a_message_takes_its_dispatch_along() -> None:
    """As where the provider names one: its dispatch changes with the subscriber."""
    store = _store()
    store.dispatches[1] = {"provider_message_id": "m-1", "subscriber_id": 1}
    change_by_hand(store, ADA, message_id="m-1", reason="asked by letter", by="eve", at=AT)
    assert SUPPRESSED.items() <= store.subscribers[1].items()
    assert SUPPRESSED.items() <= store.dispatches[1].items()


def test_lifting_it_follows_and_can_be_replayed() -> None:
    """Both stay in the log, and a replay of the first does not undo the second."""
    store = _store()
    change_by_hand(store, ADA, reason="a mistake", by="eve", at=AT)
    later = AT + timedelta(microseconds=1)
    change_by_hand(store, ADA, reason=None, by="eve", at=later, note="she wrote")
    assert store.subscribers[1]["suppressed_at"] is None
    entries = _logged(store)
    assert [json.loads(entry.body or "")["Note"] for entry in entries] == ["she wrote", None]
    record_late(store, arrivals_of(entries[1:], parse), quiet=Quiet())
    assert store.subscribers[1]["suppressed_at"] is None


@pytest.mark.parametrize(
    ("email", "reason", "refusal", "kept"),
    [
        ("eve@example.com", "why not", Refusal.SUBSCRIBER_NOT_FOUND, 1),
        (ADA, " ", Refusal.UNSUPPORTED, 0),
        (ADA, "nu\0l", Refusal.UNSUPPORTED, 0),
    ],
)
def test_what_cannot_be_is_refused(email: str, reason: str, refusal: Refusal, kept: int) -> None:
    """A stranger is in the log, as anybody's notification is; no reason at all is not."""
    store = _store()
    assert change_by_hand(store, email, reason=reason, by="eve", at=AT) == refusal.refused()
    assert len(_logged(store)) == kept


def test_without_bodies_nobody_is_named() -> None:
    """A host that keeps no bodies keeps none of these."""
    store = _store()
    change_by_hand(store, ADA, reason="x", by="eve", at=AT, bodies=False)
    assert [entry.body for entry in _logged(store)] == [None]


def test_it_waits_for_a_row_that_is_held(postgres_url: str) -> None:
    """Live traffic holds a row for a moment only, and the change is not lost for that."""
    world.fill(postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute("UPDATE hookrow_subscribers SET created_at = created_at")
        timer = threading.Timer(0.5, other.commit)
        timer.start()
        store = SQLStore(postgres_url)
        outcome = change_by_hand(store, ADA, reason="x", by="eve", at=AT)
        timer.join()
        store.close()
    assert isinstance(outcome, Recorded)
