"""In Django's default mode, too, every response arrives within the deadline."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

import psycopg
import pytest
from django.db import close_old_connections, connections
from django.db.transaction import atomic, on_commit
from django.test import Client, override_settings
from sqlalchemy import make_url

import django_host
import world
from hookrow import testing
from hookrow.django import receiver, store
from hookrow.notification import Mentioned
from hookrow.spool import Spool
from hookrow.stores import StoreError
from hookrow.stores.limits import limited_to
from postgres import Server
from wire import PATIENCE, SECRET, eventually

DEADLINE = 5.0
"""In seconds; the default of HOOKROW['DEADLINE']."""

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DELIVERY = json.dumps(testing.delivery(ADA, ADAS, at=AT)).encode()

LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"


def post() -> int:
    """Post Ada's delivery; return the status."""
    response = Client(headers={"X-Provider-Secret": SECRET}).post(
        "/mail/provider/webhooks", DELIVERY, "application/json"
    )
    return response.status_code


def timed() -> tuple[int, float]:
    """Post Ada's delivery; return the status, and after how many seconds it arrived."""
    began = time.monotonic()
    return post(), time.monotonic() - began


def asked(alias: str, statement: str) -> Any:  # noqa: ANN401 - a row
    """Return the row of a statement on the project's own connection."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop one process where it stands, and let it go on afterwards, or where a test hangs."""
    on = Timer(PATIENCE, os.kill, (pid, signal.SIGCONT))
    on.start()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        on.cancel()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return the path of a spool."""
    return tmp_path / "spool.db"


@pytest.fixture
def alias(postgres_url: str, spool: Path) -> Iterator[str]:
    """Have the project record in PostgreSQL, with a spool; its drain does not start."""
    world.fill(postgres_url)
    with django_host.project(postgres_url, SPOOL=spool) as alias:
        yield alias


class TestFrozenServer:
    """PostgreSQL takes what it is sent and does not respond."""

    @pytest.fixture(autouse=True)
    def _undrained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hookrow.drain.Drain.__call__", lambda _: None)

    def test_the_backend(self, alias: str, spool: Path) -> None:
        """The connection that the project keeps is cut, and Django replaces it."""
        assert post() == 200
        (pid,) = asked(alias, "SELECT pg_backend_pid()")
        with stopped(pid):
            status, seconds = timed()
            assert (status, seconds < DEADLINE) == (503, True), seconds
            close_old_connections()  # as Django does between two requests
            assert asked(alias, "SELECT pg_backend_pid()") != (pid,)
        assert Spool(spool).count() == 1
        eventually(lambda: post() == 200)

    def test_while_it_is_read(self, alias: str) -> None:
        """A page of the dashboard, which has a time limit, does not wait any longer."""
        (pid,) = asked(alias, "SELECT pg_backend_pid()")
        with stopped(pid):
            began = time.monotonic()
            with pytest.raises(StoreError), limited_to(0.5), store().reading() as reading:
                reading.find(Mentioned({ADA}, (), ()))
            assert time.monotonic() - began < 2
        eventually(lambda: post() == 200)

    def test_all_of_it(self, alias: str, spool: Path, postgres: Server) -> None:
        """A new connection is given up, too, and is closed once the server goes on."""
        with postgres.frozen():
            status, seconds = timed()
            assert (status, seconds < DEADLINE) == (503, True), seconds
            close_old_connections()
        assert Spool(spool).count() == 1
        eventually(lambda: post() == 200)
        name = connections[alias].settings_dict["NAME"]
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        eventually(lambda: postgres.execute(count, name) == [(1,)])

    @pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
    def test_with_group_commit(self, postgres_url: str, postgres: Server) -> None:
        """The response does not wait for the thread that records."""
        world.fill(postgres_url)
        with django_host.project(postgres_url, GROUP_COMMIT=True, DEADLINE=1.0):
            assert post() == 200
            with postgres.frozen():
                status, seconds = timed()
            assert (status, seconds < DEADLINE) == (503, True), seconds
            eventually(lambda: post() == 200)
            receiver().close()
        gc.collect()  # the connection of the thread, lest another test be warned of it


class TestTransactionOfTheHost:
    """Nothing is cut in it: each statement is limited, and its own limits hold again."""

    @pytest.mark.parametrize(
        ("theirs", "within"),
        [
            (("0", "0"), ("2s", "4s")),
            (("500ms", "1min"), ("500ms", "4s")),
            (("1h", "3s"), ("2s", "3s")),
        ],
    )
    def test_the_limits(self, alias: str, theirs: tuple[str, str], within: tuple[str, str]) -> None:
        """The smaller of each holds until the savepoint is released, or rolled back to."""
        recording = store()
        with atomic(alias):
            asked(
                alias,
                "SELECT set_config('lock_timeout', '{}', true), "
                "set_config('statement_timeout', '{}', true)".format(*theirs),
            )
            with recording.transaction():
                assert asked(alias, LIMITS) == within
            assert asked(alias, LIMITS) == theirs
            with pytest.raises(ZeroDivisionError), recording.transaction():
                raise ZeroDivisionError
            assert asked(alias, LIMITS) == theirs
            assert post() == 200
            assert asked(alias, LIMITS) == theirs

    def test_a_row_that_is_held(self, alias: str, postgres_url: str) -> None:
        """It is waited for no longer than the deadline, and the host's transaction goes on."""
        assert post() == 200
        with psycopg.connect(postgres_url) as other, atomic(alias):
            other.execute("SELECT FROM hookrow_notifications FOR UPDATE")
            status, seconds = timed()
            assert (status, seconds < DEADLINE) == (503, True), seconds
            assert asked(alias, "SELECT 1") == (1,)

    def test_statements_that_are_slow(self, postgres_url: str, spool: Path) -> None:
        """All of them together take no longer than the deadline."""
        world.fill(postgres_url)
        with (
            django_host.project(postgres_url, SPOOL=spool, DEADLINE=1.0) as alias,
            atomic(alias),
        ):
            with connections[alias].cursor() as cursor:
                cursor.execute(SLOW)
            with atomic(alias):
                status, seconds = timed()
            assert (status, seconds < 1.0) == (503, True), seconds
            assert asked(alias, LIMITS) == ("0", "0")


SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.6); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON hookrow_dispatches
        FOR EACH ROW EXECUTE FUNCTION slow();
    CREATE TRIGGER slow BEFORE INSERT ON hookrow_notifications
        FOR EACH ROW EXECUTE FUNCTION slow();
"""


def test_a_hook_of_the_commit(alias: str) -> None:
    """The host's own, which runs as a transaction of ours commits, may begin another of ours."""
    recording = store()

    def again() -> None:
        with recording.transaction():
            pass

    with recording.transaction():
        on_commit(again, using=alias)
    connections[alias].close()
    assert post() == 200


def test_a_file_that_is_held(sqlite_url: str) -> None:
    """SQLite's is waited for no longer than the deadline, whatever timeout the project has."""
    world.fill(sqlite_url)
    settings = {"SECRET": SECRET, "DEADLINE": 1.0}
    with (
        closing(sqlite3.connect(make_url(sqlite_url).database or "")) as other,
        django_host.alias(sqlite_url, OPTIONS={"timeout": 20}) as alias,
        override_settings(HOOKROW={**settings, "DATABASE": alias}),
    ):
        assert post() == 200
        other.execute("BEGIN IMMEDIATE")
        for block in (nullcontext(), atomic(alias)):
            with block:
                status, seconds = timed()
                assert (status, seconds < DEADLINE) == (503, True), seconds
                assert asked(alias, "PRAGMA busy_timeout") == (20_000,)
        other.rollback()
        assert post() == 200
