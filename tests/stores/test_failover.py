"""After a failover, sessions to the former primary, which is read-only now, are replaced."""

from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from contract import ADA, NOON, arrival, insistent, statuses
from django.db import connections
from django.db.transaction import atomic
from django_home import DjangoHome
from homes import Home
from locations import filled_home
from sqlalchemy import make_url

from hookrow import Suppressed
from hookrow._receiver import recorder
from hookrow._receiver.recorder import is_reachable, record
from hookrow.stores._errors import Unavailable
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._postgres import PostgresDatabase
from postgres import Databases, Server
from relay import relays

READ_ONLY = "SET default_transaction_read_only = on"
TRIGGERS = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'",
    *(
        f"CREATE TRIGGER refuse_{each} BEFORE UPDATE ON hookrow_subscribers FOR EACH {each} "
        "EXECUTE FUNCTION refuse()"
        for each in ("ROW", "STATEMENT")
    ),
)
SENT = [arrival(Suppressed(ADA, None, NOON, "HardBounce"))]
PLACES = ("postgres", "supplied-postgres", "django-postgres")


home = pytest.fixture(filled_home, params=PLACES)


def make_read_only(home: Home) -> None:
    """Let the next session of the store be one to a server that has become a standby."""
    if isinstance(home, DjangoHome):
        with connections[home.alias].cursor() as cursor:
            cursor.execute(READ_ONLY)
        return
    with home.store.database.recording() as connection:
        connection.execute(READ_ONLY)


def test_the_sessions_of_a_read_only_server_are_replaced(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log blames the server, not the notification, and says when recording works again."""
    monkeypatch.setattr(recorder, "PAUSE_AFTER_OUTAGE", 0.0)
    monkeypatch.setattr(recorder, "is_reachable", lambda _: False)  # in a moment, it is
    record(home.store, SENT)
    make_read_only(home)
    work = insistent(home.store)
    assert statuses(work(SENT)) == [503]
    assert statuses(work(SENT)) == [200]
    lost, again = [each for each in caplog.messages if "otification" in each]
    assert "Could not record 1 notification: ReadOnlySqlTransaction 25006: the server is" in lost
    assert again.startswith("Notifications are recorded again, after ")


def test_a_read_only_server_is_not_reachable(home: Home) -> None:
    """The probe fails as a change would; on a new session, it works."""
    assert is_reachable(home.store)
    make_read_only(home)
    assert [is_reachable(home.store), is_reachable(home.store)] == [False, True]


def test_the_probe_fires_no_trigger(home: Home) -> None:
    """Neither one of the host for each row, nor one for each statement."""
    with home.store.database.transaction() as connection:
        for statement in TRIGGERS:
            connection.execute(statement)
    assert is_reachable(home.store)


@pytest.mark.parametrize("home", ["django-postgres"], indirect=True)
def test_inside_a_transaction_of_the_project(home: DjangoHome) -> None:
    """The connection stays until the request ends, when Django closes it."""
    connection: Any = connections[home.alias]
    make_read_only(home)
    with atomic(home.alias), pytest.raises(Unavailable, match="the server is read-only"):
        record(home.store, SENT)
    assert connection.connection is not None
    connection.close_if_unusable_or_obsolete()
    assert connection.connection is None
    assert statuses(record(home.store, SENT)) == [200]


def test_of_several_hosts_the_primary_is_chosen(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the URL says otherwise; a single host may be a proxy that chooses."""
    given: list[Any] = []
    connect = psycopg.connect

    def note(**options: Any) -> psycopg.Connection[Any]:  # noqa: ANN401 - of libpq
        given.append(options.pop("target_session_attrs", None))
        options.pop("hostaddr", None)
        return connect(**(options | {"host": folder}))

    monkeypatch.setattr(psycopg, "connect", note)
    url = make_url(postgres_url)
    folder = url.query["host"]
    for hosts, more, expected in (
        (f"{folder},{folder}", {}, "read-write"),
        (f"{folder},{folder}", {"target_session_attrs": "any"}, "any"),
        (folder, {"hostaddr": "192.0.2.1,192.0.2.2"}, "read-write"),
        (folder, {}, None),
    ):
        several = url.set(query={"host": hosts, **more})
        with closing(SQLStore(several.render_as_string(hide_password=False))) as store:
            store.probe()
        assert set(given) == {expected}
        given.clear()


def test_host_that_falls_silent(
    postgres: Databases, own_postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next host is used long before a transaction without another host would end."""
    monkeypatch.setattr("hookrow.stores.sql._connections.SILENCE", 0.3)
    sockets = [each.folder / ".s.PGSQL.5432" for each in (own_postgres, postgres)]
    with relays(*sockets) as [first, second]:
        url = f"postgresql://postgres@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
        with closing(PostgresDatabase(url)) as database:
            assert folder(database) == own_postgres.folder
            began = monotonic()
            with pytest.raises(Unavailable), database.recording() as connection:  # noqa: SIM117 - stops in it
                with own_postgres.frozen():
                    connection.fetch("SELECT 1")
            assert folder(database) == postgres.folder
            assert monotonic() - began < TRANSACTION_TIMEOUT
            assert first.connections == 1


def test_host_that_fell_silent_while_idle(
    postgres: Databases, own_postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle session is checked in the time of a new one, and then the next host is used."""
    monkeypatch.setattr("hookrow.stores.sql._postgres.CONNECT_TIMEOUT", 0.3)
    monkeypatch.setattr("hookrow.stores.sql._connections.IDLE", 0.0)
    url = f"postgresql://postgres@/postgres?host={own_postgres.folder},{postgres.folder}"
    with closing(PostgresDatabase(url)) as database:
        assert folder(database) == own_postgres.folder
        began = monotonic()
        with own_postgres.frozen():
            assert folder(database) == postgres.folder
        assert monotonic() - began < TRANSACTION_TIMEOUT


def folder(database: PostgresDatabase) -> Path:
    """Return the folder of the server on which a session is opened."""
    with database.recording() as connection:
        [[found]] = connection.fetch("SELECT current_setting('unix_socket_directories')")
    return Path(found)
