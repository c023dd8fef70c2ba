"""The rows that a refused notification almost matched, on every database and through Django."""

import json
from contextlib import closing

import pytest
from homes import Home
from locations import ON_SQLITE, PLACES, empty_engine, own_home
from sqlalchemy import Engine
from test_tenants import make_teams, schema_of

from engines import run
from hookrow import Arrival, Refusal
from hookrow._core.log_entry import StoredEntry, log_entries
from hookrow._core.notification import Outcome
from hookrow._near_misses import near_misses
from hookrow._receiver.entries import Entries, Entry
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from senders import SENDERS
from senders.sender import ADA
from times import NOON

home = pytest.fixture(own_home, params=PLACES)
engine = pytest.fixture(empty_engine)

NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
NO_SUBSCRIBER = Refusal.SUBSCRIBER_NOT_FOUND.refused()

POSTMARK = SENDERS["postmark"].message_id

# What the host has stored in place of a message id of a provider's.
STORED = {
    "postmark": [
        f"<{POSTMARK}>",
        POSTMARK.replace("-", ""),
        POSTMARK.upper(),
        f"{POSTMARK} ",
    ],
    "sendgrid": ["14c5d75ce93Xk3dV0pTQzW.recvd-6b9f-abcde-1-6740.0"],
    "mailgun": ["20260212182531.0d5ed3254c319957@mg.example.com"],
}

EMAILS = {
    ADA: [f" {ADA}", f"{ADA} ", f"<{ADA}>"],
    "zoë@example.com": ["ZOË@example.com", "zoe\u0308@example.com"],
    "ada@xn--bcher-kva.example": ["ada@bücher.example"],
    "ada@bücher.example": ["ada@xn--bcher-kva.example"],
}
"""The addresses of notifications, and what the host has stored in their place."""


def logged(
    store: SQLStore, name: str, event: object, outcome: Outcome, entry: str | None = None
) -> StoredEntry:
    """Log an event of a provider's with an outcome; return the entry."""
    body = json.dumps(event).encode()
    read = SENDERS[name].construct().parse(body)
    arrived = Arrival(read.notifications, body, NOON, provider=name, entry=entry)
    with store.transaction() as transaction:
        transaction.write((), log_entries([arrived], [outcome], NOON))
    assert store.log is not None
    return store.log.newest(Query(), limit=1)[0]


def test_message_ids(home: Home) -> None:
    for name, spellings in STORED.items():
        provider = SENDERS[name].construct()
        for stored in spellings:
            home.fill(
                subscribers=[{"id": 1, "email": ADA}],
                dispatches=[{"id": 1, "provider_message_id": stored, "subscriber_id": 1}],
            )
            entry = logged(home.store, name, SENDERS[name].opened(1), NO_DISPATCH)
            [text] = near_misses(home.store, entry, Entries(Entry(None, provider)))
            found, _, remedy = text.partition(" Store ")
            assert found == f'A dispatch has the message ID "{stored}", which is not equal.'
            assert remedy == f"{provider.message_id_source}."


def test_addresses(home: Home) -> None:
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    for recipient, spellings in EMAILS.items():
        event = SENDERS["postmark"].opened(1) | {"Recipient": recipient}
        for stored in spellings:
            home.fill(subscribers=[{"id": 1, "email": stored}])
            entry = logged(home.store, "postmark", event, NO_SUBSCRIBER)
            expected = f'A subscriber has the address "{stored}", which is not equal.'
            assert near_misses(home.store, entry, parsers) == [expected]


@ON_SQLITE
def test_the_owner_of_the_dispatch(home: Home) -> None:
    """If the address is unknown, but not the message, the owner is named."""
    home.fill(
        subscribers=[{"id": 1, "email": "bea@example.com"}],
        dispatches=[{"id": 1, "provider_message_id": POSTMARK, "subscriber_id": 1}],
    )
    entry = logged(home.store, "postmark", SENDERS["postmark"].opened(1), NO_SUBSCRIBER)
    [text] = near_misses(home.store, entry, Entries(Entry(None, SENDERS["postmark"].construct())))
    assert text == 'The dispatch with this message ID belongs to the subscriber "bea@example.com".'


@ON_SQLITE
def test_none(home: Home) -> None:
    """Other outcomes have none, and so do entries whose provider is not known."""
    home.fill(
        subscribers=[{"id": 1, "email": ADA}],
        dispatches=[{"id": 1, "provider_message_id": f"<{POSTMARK}>", "subscriber_id": 1}],
    )
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    event = SENDERS["postmark"].opened(1)
    failed = logged(home.store, "postmark", event, Refusal.FAILED.refused())
    assert not near_misses(home.store, failed, parsers)
    refused = logged(home.store, "mailgun", SENDERS["mailgun"].opened(1), NO_DISPATCH)
    assert not near_misses(home.store, refused, parsers)


def test_tenants(engine: Engine) -> None:
    """Rows of other tenants are not named."""
    make_teams(engine, "integer", 1, 2)
    run(engine, f"UPDATE sends SET provider_message_id = '<{POSTMARK}>' WHERE id = 1")
    provider = SENDERS["postmark"].construct()
    parsers = Entries(Entry("acme", provider, 1), Entry("globex", provider, 2))
    with closing(SQLStore(engine, schema_of("subscribers"))) as store:
        store.use_tenants(parsers.tenants)
        with closing(SQLStore("sqlite://")) as own:
            entries = [
                logged(own, "postmark", SENDERS["postmark"].opened(n), NO_DISPATCH, name)
                for n, name in enumerate(parsers.names)
            ]
        assert [len(near_misses(store, each, parsers)) for each in entries] == [1, 0]
