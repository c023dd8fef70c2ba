"""What a database's error means, by what is done about it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from contract import NOON, arrival, fill, insistent, opens, statuses
from django_home import DjangoHome
from homes import OURS, SQLHome, connect
from sqlalchemy import exc, text
from sqlalchemy.exc import SQLAlchemyError, StatementError

from hookrow import Suppressed
from hookrow.stores import Rejected, StoreError, Unavailable
from hookrow.stores.causes import cause
from hookrow.stores.engines import opened
from hookrow.stores.faults import fault


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("no connection is free"), Unavailable),
        (StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
    ],
    ids=["pool", "type"],
)
def test_errors_that_no_database_sent(error: SQLAlchemyError, kind: type[StoreError]) -> None:
    """They are told by their name alone, for their text may quote a value."""
    assert type(fault(error)) is kind
    assert str(fault(error)) == type(error).__name__


def test_a_value_that_the_driver_refuses(postgres_url: str) -> None:
    """PostgreSQL takes no NUL, and its driver says so without a SQLSTATE: the data is at fault."""
    with opened(postgres_url) as engine, engine.connect() as connection:
        with pytest.raises(SQLAlchemyError) as raised:
            connection.execute(text("SELECT CAST(:email AS text)"), {"email": "ada\0@example.com"})
        assert type(fault(raised.value)) is Rejected
        assert "ada" not in str(fault(raised.value))


@pytest.mark.parametrize(
    ("state", "saving", "kind"),
    [
        ("42501", True, Rejected),
        ("42501", False, Unavailable),
        ("42P01", False, Unavailable),
        ("0A000", True, Rejected),
        ("55000", True, Rejected),
        ("25006", True, Unavailable),
        ("54000", False, Rejected),
    ],
)
def test_what_cannot_be_saved(state: str, *, saving: bool, kind: type[StoreError]) -> None:
    """Where rows were found, what forbids to change them is theirs; a standby changes none."""
    error = Exception()
    error.sqlstate = state  # type: ignore[attr-defined] # as psycopg's errors have one
    assert type(cause(error, data=False, saving=saving)) is kind


_BROKEN = {
    "sqlite": "CREATE TRIGGER t UPDATE ON hookrow_subscribers BEGIN DELETE FROM missing; END",
    "postgres": """
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM missing; END';
        CREATE TRIGGER t BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW EXECUTE FUNCTION f()
    """,
}


@pytest.mark.parametrize("home", [SQLHome, DjangoHome])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kind_of_row_that_cannot_be_changed(
    home: type[SQLHome], kind: str, new_database: Callable[[str], str]
) -> None:
    """Its notifications fail, and are kept so; those of other rows are recorded beside them."""
    url = new_database(kind)
    with closing(home(url, OURS)) as made:
        fill(made)
        engine = connect(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(_BROKEN[kind])
        engine.dispose()
        suppressed = arrival(Suppressed("ada@example.com", None, NOON, "HardBounce"))
        seen = replace(arrival(opens("ada@example.com", "m-ada")), body=b"another")
        record = insistent(made.store)
        assert statuses(record([suppressed, seen])) == [503, 200]
        assert statuses(record([seen])) == [200]
        ends = {row["record_type"]: row["outcome"] for row in made.logged()}
        assert ends == {"SubscriptionChange": "failed", "Open": "recorded"}
