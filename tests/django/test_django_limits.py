"""The deadline in Django's default mode: locks and statements, also in the host's transactions.

`acceptance/test_django_deadline.py` tests servers that do not respond at all.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from django.db.transaction import atomic
from django.test import override_settings
from sqlalchemy import make_url

import django_host
import world
from django_project.site import post
from hookrow._core.notification import LookupKeys
from hookrow.django import store
from hookrow.django._store import DjangoDatabase
from hookrow.stores._timeouts import limited_to
from wire import DELIVERY, PATIENCE, SECRET, time_limit

LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"

SET_LIMITS = """
    SELECT set_config('lock_timeout', '{}', true), set_config('statement_timeout', '{}', true)
"""

SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON hookrow_dispatches
        FOR EACH ROW EXECUTE FUNCTION slow();
    CREATE TRIGGER slow BEFORE INSERT ON hookrow_notifications
        FOR EACH ROW EXECUTE FUNCTION slow();
"""


def status() -> int:
    return int(post(DELIVERY).status_code)


def row(alias: str, statement: str) -> Any:  # noqa: ANN401 - a row
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def hasty() -> override_settings:
    """Shorten the deadline during a block."""
    return override_settings(HOOKROW={**settings.HOOKROW, "DEADLINE": 0.5})


@pytest.fixture
def alias(postgres_url: str) -> Iterator[str]:
    """Configure the project to record in PostgreSQL."""
    world.fill(postgres_url)
    with django_host.project(postgres_url) as alias:
        yield alias


def test_the_connection_of_the_host_is_not_changed(empty_database_url: str) -> None:
    """In hookrow's own transaction, no attribute differs from those in a block of the host."""
    with django_host.alias(empty_database_url) as alias:
        connection = connections[alias]
        with atomic(alias):
            expected = {**vars(connection)}
        with DjangoDatabase(alias).recording():
            now = vars(connection)
            changed = {name for name in now if now[name] != expected.get(name)}
        assert changed <= {"atomic_blocks"}


@pytest.mark.parametrize("mode", [None, "immediate", "EXCLUSIVE"])
def test_a_transaction_locks_the_file_first(sqlite_url: str, mode: str | None) -> None:
    """The transaction of SQLite takes the write lock when it begins, in each mode of the host."""
    file = make_url(sqlite_url).database or ""
    options = {"transaction_mode": mode} if mode else {}
    with (
        closing(sqlite3.connect(file, timeout=0)) as other,
        django_host.alias(sqlite_url, OPTIONS=options) as alias,
    ):
        with (
            DjangoDatabase(alias).transaction(),
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize(
    ("theirs", "within"),
    [(("0", "0"), ("2s", "4s")), (("500ms", "3s"), ("500ms", "3s"))],
)
def test_limits_in_a_transaction_of_the_host(
    alias: str, theirs: tuple[str, str], within: tuple[str, str]
) -> None:
    """The lower limits apply until the savepoint is released or rolled back."""
    recording = store()
    with atomic(alias):
        row(alias, SET_LIMITS.format(*theirs))
        with recording.transaction():
            assert row(alias, LIMITS) == within
        assert row(alias, LIMITS) == theirs
        with pytest.raises(ZeroDivisionError), recording.transaction():
            raise ZeroDivisionError
        assert row(alias, LIMITS) == theirs
        assert (status(), row(alias, LIMITS)) == (200, theirs)


def test_reading_while_autocommit_is_off(alias: str) -> None:
    """A transaction that the host began in this way goes on, without hookrow's limits."""
    connections[alias].set_autocommit(False)
    state = "SELECT txid_current(), current_setting('statement_timeout')"
    before = row(alias, state)
    with limited_to(PATIENCE), store().reading() as reading:
        reading.find(LookupKeys({"m-ada"}))
    assert row(alias, state) == before
    connections[alias].rollback()
    connections[alias].set_autocommit(True)


def test_a_locked_row_in_a_transaction_of_the_host(alias: str, postgres_url: str) -> None:
    """A row that stays locked results in a 503, and the host's transaction continues."""
    assert status() == 200
    with psycopg.connect(postgres_url) as other, hasty(), atomic(alias):
        other.execute("SELECT FROM hookrow_notifications FOR UPDATE")
        assert (status(), row(alias, "SELECT 1")) == (503, (1,))


def test_slow_statements_in_a_transaction_of_the_host(alias: str) -> None:
    """The deadline applies to all statements together: a 503, although each one is short."""
    with atomic(alias):
        connections[alias].cursor().execute(SLOW)
        with hasty(), atomic(alias):
            assert status() == 503
        assert row(alias, LIMITS) == ("0", "0")


def test_a_locked_file(sqlite_url: str) -> None:
    """A locked SQLite file results in a 503 at the deadline; the project's timeout is restored."""
    world.fill(sqlite_url)
    file, timeout = make_url(sqlite_url).database or "", int(2 * PATIENCE)
    with (
        closing(sqlite3.connect(file, check_same_thread=False)) as other,
        django_host.alias(sqlite_url, OPTIONS={"timeout": timeout}) as alias,
        override_settings(HOOKROW={"SECRET": SECRET, "DEADLINE": 0.2, "DATABASE": alias}),
    ):
        connections[alias].ensure_connection()
        other.execute("BEGIN IMMEDIATE")
        # If it waited for the project's timeout, the file would be unlocked first: a 200.
        for block in (nullcontext(), atomic(alias)):
            with time_limit(other.rollback), block:
                assert (status(), row(alias, "PRAGMA busy_timeout")) == (503, (timeout * 1000,))
