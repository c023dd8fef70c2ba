"""What only MariaDB and MySQL have in Django: settings that outlive a transaction, and drivers."""

from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import IntegrityError, close_old_connections, connections
from django.db.transaction import TransactionManagementError, atomic, set_rollback
from django.test import override_settings

import django_host
import world
from copying import replace
from crm.schema import CRM
from django_project.site import post
from hookrow import Role
from hookrow._core.notification import LookupKeys
from hookrow.django import store
from hookrow.django._store import DjangoDatabase
from hookrow.stores._driver_errors import store_error
from hookrow.stores._errors import Rejected
from hookrow.stores._timeouts import limited_to
from mariadb import Databases, connect
from wire import ADA, ADAS, DELIVERY, PATIENCE, SECRET, STRANGER, time_limit

UNUSUAL = """
    SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT', time_zone = '+05:00',
        collation_connection = 'utf8mb4_general_ci', sql_safe_updates = 1, sql_select_limit = 1000,
        innodb_lock_wait_timeout = 77, lock_wait_timeout = 78
"""
"""Settings of a project's session, most of which hookrow has to change."""

STATE = (
    *("timestamp", "statement_id", "last_insert_id", "identity", "in_transaction"),
    *("gtid", "last_gtid", "rand_seed", "pseudo_thread_id"),
)
"""What variables whose names begin with one of these hold is not a setting."""

ISOLATION_LEVELS = [None, "read uncommitted", "repeatable read", "serializable"]


def session(alias: str) -> Mapping[str, str]:
    """Return the settings of the project's session."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        found = dict(cursor.fetchall())
    return {name: value for name, value in found.items() if not name.startswith(STATE)}


@pytest.fixture
def url(mariadb_url: str) -> str:
    """Fill a database; return its URL."""
    world.fill(mariadb_url)
    return mariadb_url


@pytest.fixture
def alias(url: str) -> Iterator[str]:
    """Configure the project to record in MariaDB."""
    with django_host.project(url) as alias:
        yield alias


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
def test_settings_of_the_session(url: str, level: str | None) -> None:
    """After a transaction, a savepoint, a reading or an error, every setting is as before.

    Notifications are recorded whatever the settings are.
    """
    options = {"init_command": UNUSUAL, "isolation_level": level}
    with (
        django_host.alias(url, OPTIONS=options) as alias,
        override_settings(HOOKROW={"SECRET": SECRET, "DATABASE": alias}),
    ):
        before = session(alias)
        assert (before["innodb_lock_wait_timeout"], before["time_zone"]) == ("77", "+05:00")
        assert [post(body).status_code for body in (DELIVERY, STRANGER)] == [200, 404]
        assert session(alias) == before
        with atomic(alias):
            before_block = session(alias)
            assert post(DELIVERY).status_code == 200
            assert session(alias) == before_block
            with store().reading() as reading:
                assert reading.find(LookupKeys({ADAS})).dispatches
            assert session(alias) == before_block
            with pytest.raises(ZeroDivisionError), store().transaction():
                raise ZeroDivisionError
            assert session(alias) == before_block
        for block in (store().transaction(), store().reading(), store().database.transaction()):
            with pytest.raises(ZeroDivisionError), limited_to(PATIENCE), block:
                raise ZeroDivisionError
            assert session(alias) == before


def test_nested_blocks(alias: str) -> None:
    """The settings are restored when hookrow is used twice at the same time."""
    connections[alias].cursor().execute(UNUSUAL)
    before = session(alias)
    with store().transaction():
        within = session(alias)
        for block in (store().reading(), store().transaction()):
            with block, store().reading():
                assert session(alias) != before
            assert session(alias) == within
    assert session(alias) == before


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
@pytest.mark.parametrize("is_nested", [False, True])
def test_settings_that_cannot_be_restored(
    url: str, error: type[Exception] | None, *, is_nested: bool
) -> None:
    """The connection is closed; in a transaction of the project, Django does so later."""
    with django_host.alias(url, OPTIONS={"init_command": UNUSUAL}, CONN_MAX_AGE=None) as alias:
        before = session(alias)
        database = DjangoDatabase(alias)
        for block in (database.transaction, database.recording, database.reading):
            with atomic(alias) if is_nested else nullcontext():
                with pytest.raises(error or Rejected), block() as connection:  # noqa: PT012 - fails at its end
                    connection.execute("SET @hookrow_sql_mode_0 = 'none'")
                    if error:
                        raise error
                if is_nested:
                    connections[alias].cursor().execute(CHANGE)
            if is_nested:
                close_old_connections()
            assert session(alias) == before
        with connections[alias].cursor() as cursor:
            cursor.execute(READ)
            assert (cursor.fetchall() == (("new@example.com",),)) == is_nested


READ = "SELECT email FROM hookrow_subscribers WHERE id = 1"

CHANGE = "UPDATE hookrow_subscribers SET email = 'new@example.com' WHERE id = 1"


def test_the_isolation_level_of_a_transaction(url: str) -> None:
    """It is READ COMMITTED in hookrow's own, and remains the project's in one of the project."""
    with (
        django_host.alias(url, OPTIONS={"isolation_level": "repeatable read"}) as alias,
        closing(connect(url)) as other,
    ):
        database = DjangoDatabase(alias)
        with atomic(alias), connections[alias].cursor() as cursor:
            cursor.execute(READ)
            other.cursor().execute(CHANGE)
            with database.transaction() as connection:
                assert connection.fetch(READ) == ((ADA,),)
        with database.transaction() as connection:
            assert connection.fetch(READ) == (("new@example.com",),)
            other.cursor().execute(CHANGE.replace("new", "newer"))
            assert connection.fetch(READ) == (("newer@example.com",),)


def hasty() -> override_settings:
    """Shorten the deadline during a block."""
    return override_settings(HOOKROW={**settings.HOOKROW, "DEADLINE": 0.5})


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_locked_row(alias: str, url: str, *, is_nested: bool) -> None:
    """A row that stays locked results in a 503, and a transaction of the project continues."""
    assert post(DELIVERY).status_code == 200
    connection = connections[alias]
    with closing(connect(url)) as other, hasty():
        other.begin()
        other.cursor().execute("SELECT 1 FROM hookrow_notifications FOR UPDATE")
        # If it waited as long as the server's default, 50 seconds, the row would be unlocked first.
        with time_limit(other.rollback):
            if not is_nested:
                assert post(DELIVERY).status_code == 503
                return
            with atomic(alias), connection.cursor() as cursor:
                cursor.execute("INSERT INTO hookrow_lists (name) VALUES ('new')")
                assert post(DELIVERY).status_code == 503
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM hookrow_lists WHERE name = 'new'")
        assert cursor.fetchall()


SLOW = "CREATE TRIGGER slow BEFORE {} FOR EACH ROW DO sleep(0.6)"


@pytest.mark.parametrize(
    "event", ["UPDATE ON hookrow_dispatches", "INSERT ON hookrow_notifications"]
)
def test_a_slow_statement_in_a_transaction_of_the_host(alias: str, event: str) -> None:
    """MariaDB ends it at the deadline; MySQL does not, but hookrow begins no other one."""
    connection: Any = connections[alias]
    connection.cursor().execute(SLOW.format(event))
    is_last = event.startswith("INSERT")
    with atomic(alias):
        before = session(alias)
        with hasty(), atomic(alias):
            expected = 200 if is_last and connection.display_name == "MySQL" else 503
            assert post(DELIVERY).status_code == expected
        assert session(alias) == before


class Everywhere:
    """A router that uses one database for all models."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def db_for_write(self, *_: object, **__: object) -> str:
        return self._alias


NOWHERE = "mariadb://nobody@127.0.0.1:1/nothing"


@pytest.mark.parametrize(
    ("options", "of_mysqlclient", "of_pymysql"),
    [
        ({}, "no time limit", "no time limit"),
        ({"connect_timeout": 2}, None, "no time limit"),
        ({"connect_timeout": 2, "read_timeout": 4}, None, None),
        ({"read_timeout": 4}, "no time limit", "may take 10 seconds"),
        ({"connect_timeout": 7, "read_timeout": 4}, "may take 7 seconds", "may take 7 seconds"),
        ({"connect_timeout": 2, "read_timeout": 9}, None, "may take 9 seconds"),
    ],
)
def test_a_limit_for_connecting(
    options: dict[str, Any],
    of_mysqlclient: str | None,
    of_pymysql: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyMySQL waits for the answer to its login for as long as for any other one."""
    hints = {
        "mysqlclient": "Set 'connect_timeout': 2 in DATABASES",
        "pymysql": "Set 'connect_timeout': 2, 'read_timeout': 4 in DATABASES",
    }
    with (
        django_host.alias(NOWHERE, OPTIONS=options) as alias,
        override_settings(
            DATABASE_ROUTERS=[Everywhere(alias)], HOOKROW={"SECRET": SECRET, "DATABASE": alias}
        ),
    ):
        connection: Any = connections[alias]
        for driver, expected in (("mysqlclient", of_mysqlclient), ("pymysql", of_pymysql)):
            monkeypatch.setattr(connection.Database, "__name__", driver)
            found = run_checks(tags=["hookrow"])
            assert [each.id for each in found] == ["hookrow.W005"] * bool(expected)
            for each in found:
                assert (expected or "") in each.msg
                assert hints[driver] in (each.hint or "")


def test_checks_query_no_server() -> None:
    """To choose the type of a UUID, Django would ask the server for its version."""
    sends = Role("crm.Send", CRM.roles["dispatches"].columns, where={"mail": "7" * 32})
    with django_host.alias(NOWHERE) as alias:
        hookrow = {
            "SECRET": SECRET,
            "DATABASE": alias,
            "TABLES": replace(CRM, dispatches=sends),
        }
        with override_settings(DATABASE_ROUTERS=[Everywhere(alias)], HOOKROW=hookrow):
            assert run_checks(tags=["hookrow"]) == []
        assert connections[alias].connection is None


def test_checks_of_the_database(mariadb_url: str) -> None:
    """Django does not warn that it would not create indexes, because the scripts create others."""
    with django_host.default(mariadb_url):
        assert run_checks(databases=["default"]) == []


def test_another_database(postgres_url: str, url: str) -> None:
    """The project's default database may be of another kind, and in a transaction."""
    with django_host.default(postgres_url), django_host.project(url) as alias:
        with atomic("default"):
            assert [post(body).status_code for body in (DELIVERY, STRANGER)] == [200, 404]
            set_rollback(True)
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT outcome FROM hookrow_notifications ORDER BY id")
            assert cursor.fetchall() == (("recorded",), ("subscriber_not_found",))


def test_a_deadlock_in_a_transaction_of_the_host(alias: str, url: str, mariadb: Databases) -> None:
    """The server rolls back the whole transaction, so that Django executes nothing more in it."""
    assert post(DELIVERY).status_code == 200
    connection = connections[alias]

    def change_lists() -> None:
        other.cursor().execute("UPDATE hookrow_lists SET name = 'other'")
        other.rollback()

    with closing(connect(url)) as other, atomic(alias):
        other.begin()
        # The server rolls back the transaction that has changed less.
        other.cursor().execute(
            "UPDATE hookrow_subscribers SET created_at = created_at + INTERVAL 1 SECOND"
        )
        other.cursor().execute("UPDATE hookrow_notifications SET status = status + 1")
        connection.cursor().execute("UPDATE hookrow_lists SET name = 'new'")
        thread = Thread(target=change_lists)
        thread.start()
        mariadb.wait_for_a_lock(url)
        assert post(DELIVERY).status_code == 503
        with pytest.raises(TransactionManagementError):
            connection.cursor().execute("SELECT 1")
        thread.join()


def test_an_error_that_django_raises_itself(alias: str) -> None:
    """Django's backend replaces the driver's error for a CHECK; the constraint is still named."""
    cursor = connections[alias].cursor()
    cursor.execute("CREATE TABLE t (n INT, CONSTRAINT is_positive CHECK (n > 0))")
    with pytest.raises(IntegrityError) as raised:
        cursor.execute("INSERT INTO t VALUES (-1)")
    error = store_error(raised.value)
    assert isinstance(error, Rejected)
    assert str(error).endswith("is_positive")
