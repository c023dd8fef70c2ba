"""Django on a PostgreSQL server that does not respond, with and without groups: a 503 in time."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Timer

import pytest
from django.db import close_old_connections, connections
from django.test import override_settings
from sqlalchemy import make_url

import django_host
import world
from django_project.site import post
from hookrow import testing
from hookrow._core.notification import LookupKeys
from hookrow._receiver.spool import Spool
from hookrow.django import store
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import limited_to
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from pgbouncer import pooling
from postgres import Server
from temporary_server import stopped
from wire import ADA, ADAS, AT, DELIVERY, SECRET, eventually

pytestmark = pytest.mark.never_flaky

DEADLINE = 1.0
"""In seconds. Without it, each response here would take `TRANSACTION_TIMEOUT`, ten times that."""


@contextmanager
def in_time() -> Iterator[None]:
    """Fail if the deadline does not apply in the block."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < TRANSACTION_TIMEOUT


def status(body: object = DELIVERY) -> int:
    """Post a notification, by default Ada's delivery; return the status."""
    with in_time():
        return int(post(body).status_code)


def is_healthy() -> bool:
    """Wait until notifications are recorded again."""
    eventually(lambda: status() == 200)
    return True


def backend(alias: str) -> int:
    """Return the id of the server's process for the project's own connection."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        return int(pid)


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a spool that is not drained."""
    monkeypatch.setattr("hookrow._receiver.spool.Drain.__call__", lambda _: None)
    return tmp_path / "spool.db"


@pytest.fixture
def alias(own_postgres_url: str, spool: Path) -> Iterator[str]:
    """Configure the project to record in PostgreSQL, with a spool."""
    world.fill(own_postgres_url)
    with django_host.project(own_postgres_url, SPOOL=spool, DEADLINE=DEADLINE) as alias:
        assert is_healthy()
        yield alias


def test_a_frozen_connection(alias: str, spool: Path) -> None:
    """The project's connection is closed, even while the dashboard reads, and Django reconnects."""
    frozen = backend(alias)
    with stopped(frozen):
        assert status() == 503
        close_old_connections()  # as Django does between two requests
        assert backend(alias) != frozen
    assert Spool(spool).count() == 1
    assert is_healthy()
    with (
        stopped(backend(alias)),
        in_time(),
        pytest.raises(StoreError),
        limited_to(0.5),
        store().reading() as reading,
    ):
        reading.find(LookupKeys((), {(None, ADA, ADA, None)}))
    assert is_healthy()


def test_a_connection_that_freezes_while_idle(own_postgres_url: str, spool: Path) -> None:
    """Django's check of an idle connection (CONN_HEALTH_CHECKS) has the same limit."""
    world.fill(own_postgres_url)
    hookrow = {"SECRET": SECRET, "SPOOL": spool, "DEADLINE": DEADLINE}
    with (
        django_host.alias(own_postgres_url, CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True) as alias,
        override_settings(HOOKROW={**hookrow, "DATABASE": alias}),
    ):
        assert is_healthy()
        close_old_connections()  # as Django does between two requests
        with stopped(backend(alias)):
            assert status() == 503
        assert is_healthy()


def test_a_connection_that_freezes_before_the_commit(alias: str) -> None:
    """It is closed, and Django connects again only when the next request needs it."""

    def commit(stack: ExitStack) -> None:
        with limited_to(0.5), store().database.transaction() as connection:
            connection.execute("UPDATE hookrow_dispatches SET opened_at = NULL")
            stack.enter_context(stopped(backend(alias)))

    with ExitStack() as stack, in_time(), pytest.raises(StoreError):
        commit(stack)
    assert connections[alias].connection is None
    assert is_healthy()


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_frozen_server(
    alias: str, spool: Path, own_postgres: Server, *, is_connected: bool
) -> None:
    """Connecting ends at the driver's `connect_timeout`, and leaves no connection behind."""
    if not is_connected:
        connections[alias].close()
    with own_postgres.frozen():
        assert status() == 503
        close_old_connections()
    assert Spool(spool).count() == 1
    assert is_healthy()
    name = connections[alias].settings_dict["NAME"]
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    eventually(lambda: own_postgres.execute(count, name) == [(1,)])


def test_a_frozen_server_behind_a_pooler(own_postgres: Server, own_postgres_url: str) -> None:
    """PgBouncer accepts connections for it: the deadline applies to Django's first statements."""
    world.fill(own_postgres_url)
    url = make_url(own_postgres_url).set(host="127.0.0.1", query={})
    with (
        pooling(f"host={own_postgres.folder} user=postgres") as port,
        django_host.project(str(url.set(port=port)), DEADLINE=DEADLINE) as alias,
    ):
        assert is_healthy()
        connections[alias].close()
        with own_postgres.frozen():
            assert status() == 503
            assert connections[alias].connection is None
        assert is_healthy()


def test_a_frozen_server_without_a_limit_for_connecting(
    own_postgres: Server, own_postgres_url: str, spool: Path
) -> None:
    """Without `connect_timeout`, a response waits for the server, in spite of the deadline."""
    world.fill(own_postgres_url)
    continues = Event()
    with (
        django_host.alias(own_postgres_url, OPTIONS={}) as alias,
        override_settings(
            HOOKROW={"SECRET": SECRET, "SPOOL": spool, "DEADLINE": DEADLINE, "DATABASE": alias}
        ),
    ):
        assert is_healthy()
        connections[alias].close()
        with ExitStack() as stack:
            stack.enter_context(own_postgres.frozen())

            def resume() -> None:
                continues.set()
                stack.close()

            timer = Timer(3 * DEADLINE, resume)
            timer.start()
            assert (status(), continues.is_set()) == (503, True)
            timer.join()
        assert is_healthy()


@pytest.mark.parametrize("times_out", [False, True])
def test_a_frozen_server_in_group_commit(
    own_postgres: Server,
    own_postgres_url: str,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    times_out: bool,
) -> None:
    """The deadline applies; the group is recorded later, or spooled after a timeout."""
    world.fill(own_postgres_url)
    opened = "SELECT opened_at FROM hookrow_dispatches WHERE opened_at IS NOT NULL"
    opening = testing.opening(ADA, ADAS, at=AT)
    options = {"GROUP_COMMIT": True, "SPOOL": spool, "DEADLINE": DEADLINE}
    with django_host.project(own_postgres_url, **options):
        assert is_healthy()
        if times_out:
            monkeypatch.setattr("hookrow.stores._watchdog.TRANSACTION_TIMEOUT", DEADLINE)
        with own_postgres.frozen():
            assert status(opening) == 503
            if times_out:
                eventually(lambda: Spool(spool).count() == 1)
        if not times_out:
            eventually(lambda: own_postgres.execute(opened, url=own_postgres_url))
        assert Spool(spool).count() == times_out
        eventually(lambda: status(opening) == 200)
        assert own_postgres.execute(opened, url=own_postgres_url) == [(AT,)]


@pytest.mark.parametrize("group_commit", [False, True])
def test_a_frozen_server_for_a_provider_that_does_not_repeat_a_503(
    own_postgres: Server, own_postgres_url: str, spool: Path, *, group_commit: bool
) -> None:
    """A part of the deadline is kept for the spool, so the first notification gets a 200."""
    world.fill(own_postgres_url)
    options = {"SPOOL": spool, "SWEEP": True, "ACKNOWLEDGE_SPOOLED": True}
    with django_host.project(own_postgres_url, GROUP_COMMIT=group_commit, **options):
        assert is_healthy()
        with own_postgres.frozen():
            assert status() == 200
            close_old_connections()  # as Django does between two requests
        assert Spool(spool).count() == 1
        assert is_healthy()
