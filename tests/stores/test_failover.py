"""After a failover, sessions to the former primary, which is read-only now, are replaced."""

from contextlib import closing
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
from hookrow.stores.sql import SQLStore

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
    assert "Returned 503 to 1 notification: ReadOnlySqlTransaction 25006: the server is" in lost
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
