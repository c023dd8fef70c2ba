"""What a host does to the log and the rows from its code: as the commands and the dashboard do."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from contract import fill
from homes import Home
from locations import ON_SQLITE, PLACES, own_home
from log_contract import entry, keep

from engines import MEMORY
from hookrow import (
    ConfigurationError,
    Postmark,
    Receiver,
    Recorded,
    Refusal,
    Role,
    Schema,
    Tenant,
)
from hookrow.stores import DoubtfulClock, Forgotten, Prunable
from hookrow.stores.sql import SQLStore
from senders import SENDERS
from times import DAY, MINUTE
from wire import ADA, SECRET

home = pytest.fixture(own_home, params=PLACES)


def days_ago(number: int) -> Any:  # noqa: ANN401 - the columns of an entry
    at = datetime.now(UTC) - number * DAY
    return {"received_at": at, "last_received_at": at}


def test_forget(home: Home) -> None:
    keep(home, entry(1), entry(2, body='{"cc": "s1@example.com"}'), entry(3))
    assert home.store.forget("S1@example.com") == Forgotten(entries=1, bodies=1)
    erased, other, kept = home.logged()
    assert (erased["recipient"], erased["body"], other["body"]) == (None, None, None)
    assert (other["recipient"], kept["body"]) == ("s2@example.com", '{"n": 3}')


def test_forget_in_some_entries(home: Home) -> None:
    """Only what the log has of these entries is erased, and a name that it lacks is refused."""
    keep(home, *(entry(n, recipient=ADA, entry=name) for n, name in enumerate(("acme", "globex"))))
    with pytest.raises(
        ConfigurationError, match="No receiver of this store has an entry 'acm', and"
    ):
        home.store.forget(ADA, entries=["acme", "acm"])
    assert home.store.forget(ADA, entries=["acme"]) == Forgotten(entries=1)
    assert home.store.forget(ADA) == Forgotten(entries=1)


@ON_SQLITE
def test_forget_in_entries_of_a_receiver(home: Home) -> None:
    """The log need not have any of an entry; the message for another name has those of all."""
    with closing(
        Receiver({"news": Postmark(SECRET), "shop": SENDERS["resend"].construct()}, home.store)
    ):
        assert home.store.forget(ADA, entries=["news", "shop"]) == Forgotten()
        with pytest.raises(ConfigurationError) as caught:
            home.store.forget(ADA, entries=["newz"])
    assert str(caught.value) == (
        "No receiver of this store has an entry 'newz', and the log has no notification of one. "
        "The names of the entries: 'news' and 'shop'. Did you mean 'news'?"
    )


@ON_SQLITE
def test_forget_with_tenants(home: Home) -> None:
    """The caller chooses, because the address may be that of a person of each tenant."""
    home.run("ALTER TABLE hookrow_subscribers ADD COLUMN team INTEGER")
    schema = Schema(subscribers=Role("hookrow_subscribers", tenant="team"))
    teams = {name: Tenant(Postmark(SECRET), n) for n, name in enumerate(("acme", "globex"))}
    with closing(SQLStore(home.url, schema)) as store:
        with pytest.raises(ConfigurationError, match="are tenants, and the address"):
            store.forget(ADA)
        assert store.forget(ADA, all_entries=True) == Forgotten()
        with pytest.raises(
            ConfigurationError, match="No receiver of this store has an entry 'acme'"
        ):
            store.forget(ADA, entries=["acme"])
        with closing(Receiver(teams, store)):
            assert store.forget(ADA, entries=["acme"]) == Forgotten()
            with pytest.raises(ConfigurationError, match="Did you mean 'acme'"):
                store.forget(ADA, entries=["acm"])


def test_prune(home: Home) -> None:
    """Entries and bodies by age, counted first."""
    keep(home, entry(1, **days_ago(9)), entry(2, **days_ago(5)), entry(3, **days_ago(1)))
    ages = {"keep": 7 * DAY, "keep_bodies": 3 * DAY}
    assert home.store.prunable(**ages, sure=True) == Prunable(entries=1, bodies=1)
    assert home.store.prune(**ages, sure=True) == 2
    older, newer = home.logged()
    assert (older["body"], newer["body"]) == (None, '{"n": 3}')


def test_suppress_and_lift(home: Home) -> None:
    """The rows have the change, and the log its author."""
    fill(home)
    with closing(Receiver(Postmark(SECRET), home.store)) as receiver:
        before = home.rows()["subscribers"][0]
        email = before["email"]
        outcome = receiver.suppress(email, reason="a letter", by="eve")
        assert isinstance(outcome, Recorded)
        suppressed = home.rows()["subscribers"][0]
        assert suppressed["suppression_reason"] == "a letter"
        assert abs(suppressed["suppressed_at"] - datetime.now(UTC)) < MINUTE
        assert isinstance(receiver.lift(email, reason="a call", by="eve"), Recorded)
        assert home.rows()["subscribers"][0]["suppressed_at"] is None
        unknown = receiver.suppress("nobody@example.com", reason="a letter", by="eve")
        assert unknown == Refusal.SUBSCRIBER_NOT_FOUND.refused()
    bodies = [json.loads(each["body"]) for each in home.logged()]
    assert [(each["ChangedBy"], each["Note"]) for each in bodies] == [
        ("eve", "a letter"),
        ("eve", "a call"),
        ("eve", "a letter"),
    ]
    assert [each["SuppressSending"] for each in bodies] == [True, False, True]


def test_a_clock_that_may_have_jumped() -> None:
    """Without `sure`, nothing is deleted after a long time without notifications."""
    with closing(SQLStore(MEMORY)) as store:
        with store.transaction() as transaction:
            transaction.write((), [entry(1, **days_ago(9)), entry(2, **days_ago(9))])
        with pytest.raises(DoubtfulClock, match="Not pruned"):
            store.prune(keep=DAY)
        assert store.prune(keep=DAY, sure=True) == 1


STORE_CALLS: dict[str, tuple[Callable[[SQLStore], object], str]] = {
    "no ages": (lambda store: store.prune(), "Nothing is limited"),
    "a number": (lambda store: store.prune(keep=90), "write keep=timedelta"),  # type: ignore[arg-type]
    "a negative age": (lambda store: store.prunable(keep_bodies=-DAY), "must be neither negative"),
    "an age before all dates": (lambda store: store.prune(keep=timedelta.max), "nor longer than"),
    "a flag": (lambda store: store.prune(keep=DAY, sure="no"), "sure must be True"),  # type: ignore[arg-type]
    "no address": (lambda store: store.forget("ada"), "has no @"),
    "a name alone": (lambda store: store.forget(ADA, entries="acme"), "must be a list of the"),
    "no names": (lambda store: store.forget(ADA, entries=[]), "entries must not be empty"),
    "a number as a name": (lambda store: store.forget(ADA, entries=[1]), "must be a string, not 1"),  # type: ignore[list-item]
    "both": (lambda store: store.forget(ADA, entries=["a"], all_entries=True), "not both"),
    "bytes": (lambda store: store.forget(b"ada@x"), "must be a string"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "message"), STORE_CALLS.values(), ids=STORE_CALLS)
def test_invalid_arguments_of_a_store(call: Callable[[SQLStore], object], message: str) -> None:
    with closing(SQLStore(MEMORY)) as store, pytest.raises(ConfigurationError, match=message):
        call(store)


def test_a_store_without_a_log() -> None:
    with closing(SQLStore(MEMORY, Schema(log=None))) as store:
        with pytest.raises(ConfigurationError, match="no log"):
            store.forget("ada@example.com")
        with pytest.raises(ConfigurationError, match="no log"):
            store.prune(keep=DAY)


INVALID_CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({"email": "ada"}, "has no @"),
    "a blank reason": ({"reason": " "}, "reason must not be blank"),
    "a long reason": ({"reason": "x" * 201}, "at most 200 characters, not 201"),
    "no author": ({"by": ""}, "by must not be blank"),
    "a reason with NUL": ({"reason": "x\0"}, "reason contains NUL"),
    "a surrogate in the address": ({"email": "\ud83d@example.com"}, "email contains NUL or an"),
    "a surrogate in the author": ({"by": "\ud83d"}, "by contains NUL or an unpaired surrogate"),
    "a number as a message id": ({"message_id": 3}, "message_id must be a string, not 3"),
    "an empty message id": ({"message_id": ""}, "message_id must not be blank"),
    "an unknown entry": ({"entry": "acme"}, "no entry 'acme': it has a single provider"),
}


@pytest.mark.parametrize(("arguments", "message"), INVALID_CHANGES.values(), ids=INVALID_CHANGES)
def test_invalid_arguments_of_a_change(arguments: dict[str, Any], message: str) -> None:
    given = {"email": "ada@example.com", "reason": "a letter", "by": "eve", **arguments}
    with (
        closing(SQLStore(MEMORY)) as store,
        closing(Receiver(Postmark(SECRET), store)) as receiver,
        pytest.raises(ConfigurationError, match=message),
    ):
        receiver.suppress(**given)
