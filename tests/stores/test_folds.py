"""How emails are found by each fold: by an index, and whoever they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from contract import arrival, opens
from homes import connect
from sqlalchemy import Engine, text
from test_statements import explained, looked_for

from hookrow import Role, Schema
from hookrow.recording import record
from hookrow.schema import SUPPRESSION, Fold
from hookrow.stores.indexes import missing
from hookrow.stores.sql import SQLStore
from hookrow.stores.verification import verify

LEAST = {"suppression_reason": None, "suppression_changed_at": None}
NOTHING = dict.fromkeys(SUPPRESSION)
INDEXES = {
    "sqlite": {
        "ascii": "lower(email)",
        "lower": "lower(email)",
        "exact": "email",
        "citext": "email COLLATE NOCASE",
    },
    "postgresql": {
        "ascii": '(lower(email COLLATE "C"))',
        "lower": "lower(email)",
        "exact": "email",
        "citext": "email",
    },
}
PEOPLE = ["ada@example.com", "Bea@Example.com", "ZOË@example.net"]


def host(fold: Fold) -> Schema:
    """Return the least that a host can have, whose emails are indexed so."""
    return Schema(
        subscribers=Role("people", LEAST, fold=fold),
        dispatches=Role("sends", NOTHING),
        subscriptions=None,
        log=None,
    )


def make(engine: Engine, *statements: str) -> None:
    """Run statements on a host's database."""
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def create_citext(engine: Engine) -> None:
    """Make the type. The wheel's PostgreSQL has none, Debian's has, which CI installs."""
    there = "SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'"
    with engine.connect() as connection:
        has_citext = connection.scalar(text(there))
    if not has_citext:
        engine.dispose()
        pytest.skip("this PostgreSQL has no citext: install its contrib modules")
    make(engine, "CREATE EXTENSION citext")


@pytest.fixture(params=get_args(Fold))
def fold(request: pytest.FixtureRequest) -> Fold:
    """Return each fold."""
    fold: Fold = request.param
    return fold


@pytest.fixture
def engine(empty_database_url: str, fold: Fold) -> Iterator[Engine]:
    """Make a host's tables, with emails of the type that the fold is for."""
    engine = connect(empty_database_url)
    kind = "text"
    if fold == "citext":
        kind = "citext" if engine.dialect.name == "postgresql" else "text COLLATE NOCASE"
        if engine.dialect.name == "postgresql":
            create_citext(engine)
    make(
        engine,
        f"CREATE TABLE people (id integer PRIMARY KEY, email {kind}, suppressed_at timestamp)",
        "CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id text, "
        "subscriber_id integer, delivered_at timestamp, opened_at timestamp)",
        "CREATE INDEX messages ON sends (provider_message_id)",
    )
    yield engine
    engine.dispose()


def test_its_own_index_serves(engine: Engine, fold: Fold) -> None:
    """With the index of the fold nothing is missing; with that of another there is."""
    for name, other in INDEXES[engine.dialect.name].items():
        make(engine, f"CREATE INDEX {name}_emails ON people ({other})")
        engine.dispose()  # else SQLite explains by the schema as it was
        with engine.connect() as connection:
            lacks = list(missing(connection, verify(engine, host(fold))))
        serves = other == INDEXES[engine.dialect.name][fold]
        if fold != "citext" or name == "citext":  # a column of that type makes all indexes its own
            assert bool(lacks) is not serves
        make(engine, f"DROP INDEX {name}_emails")


def test_the_whole_statement_uses_it(engine: Engine, fold: Fold) -> None:
    """For one email and for many, beside the search for dispatches."""
    make(engine, f"CREATE INDEX by_fold ON people ({INDEXES[engine.dialect.name][fold]})")
    engine.dispose()
    statements = verify(engine, host(fold))
    for count in (1, 100):
        emails = [f"s{n}@example.com" for n in range(count)]
        plan = explained(engine, statements.find, looked_for(statements, emails, emails))
        assert "by_fold" in plan
        assert "Seq Scan" not in plan
        assert "SCAN people" not in plan


def test_whom_it_finds(engine: Engine, fold: Fold) -> None:
    """Whoever the Recipient is but for the case of ASCII letters, and for `exact` as it came."""
    numbered = ", ".join(f"({number}, '{email}')" for number, email in enumerate(PEOPLE))
    make(engine, f"INSERT INTO people (id, email) VALUES {numbered}")
    store = SQLStore(engine, host(fold))
    told = {
        "ada@example.com": True,
        "Bea@Example.com": True,
        "ADA@EXAMPLE.COM": True,
        "bea@example.com": fold != "exact",
        "ZOË@EXAMPLE.NET": fold != "exact",
        "zoë@example.net": False,
        "eve@example.com": False,
    }
    outcomes = record(store, [arrival(opens(recipient, "m")) for recipient in told])
    texts = [getattr(outcome, "text", "").split()[0] for outcome in outcomes]
    assert texts == [f"Engine::{'Dispatch' if found else 'Subscriber'}" for found in told.values()]
