"""Django on a MariaDB server that does not respond: a 503 in time, and then as before."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import close_old_connections, connections
from test_django_deadline import DEADLINE, in_time, is_healthy, status

import django_host
import world
from hookrow import testing
from hookrow._core.notification import LookupKeys
from hookrow._receiver.spool import Spool
from hookrow.django import store
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import limited_to
from mariadb import Server
from wire import ADA, ADAS, AT, eventually

pytestmark = pytest.mark.never_flaky


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a spool that is not drained."""
    monkeypatch.setattr("hookrow._receiver.spool.Drain.__call__", lambda _: None)
    return tmp_path / "spool.db"


@pytest.fixture
def alias(own_mariadb_url: str, spool: Path) -> Iterator[str]:
    """Configure the project to record in MariaDB, with a spool."""
    world.fill(own_mariadb_url)
    with django_host.project(own_mariadb_url, SPOOL=spool, DEADLINE=DEADLINE) as alias:
        assert is_healthy()
        yield alias


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_frozen_server(
    alias: str, spool: Path, own_mariadb: Server, *, is_connected: bool
) -> None:
    """The connection is closed at the deadline; connecting ends at the driver's limits."""
    if not is_connected:
        connections[alias].close()
    with own_mariadb.frozen():
        assert status() == 503
        close_old_connections()  # as Django does between two requests
    assert Spool(spool).count() == 1
    assert is_healthy()


def test_a_frozen_server_while_reading(alias: str, own_mariadb: Server) -> None:
    """The same applies to a reading with a time limit, such as one of the dashboard's."""
    with (
        own_mariadb.frozen(),
        in_time(),
        pytest.raises(StoreError),
        limited_to(0.5),
        store().reading() as reading,
    ):
        reading.find(LookupKeys((), {(None, ADA, ADA, None)}))
    assert connections[alias].connection is None
    assert is_healthy()


def test_a_server_that_freezes_before_the_commit(alias: str, own_mariadb: Server) -> None:
    """The connection is closed, and Django connects again only when the next request needs it."""

    def commit(stack: ExitStack) -> None:
        with limited_to(0.5), store().database.transaction() as connection:
            connection.execute("UPDATE hookrow_dispatches SET opened_at = NULL")
            stack.enter_context(own_mariadb.frozen())

    with ExitStack() as stack, in_time(), pytest.raises(StoreError):
        commit(stack)
    assert connections[alias].connection is None
    assert is_healthy()


def test_a_frozen_server_in_group_commit(
    own_mariadb: Server, own_mariadb_url: str, spool: Path
) -> None:
    """The deadline applies, and the group is recorded later."""
    world.fill(own_mariadb_url)
    opened = "SELECT 1 FROM hookrow_dispatches WHERE opened_at IS NOT NULL"
    opening = testing.opening(ADA, ADAS, at=AT)
    options = {"GROUP_COMMIT": True, "SPOOL": spool, "DEADLINE": DEADLINE}
    with django_host.project(own_mariadb_url, **options):
        assert is_healthy()
        with own_mariadb.frozen():
            assert status(opening) == 503
        eventually(lambda: own_mariadb.execute(opened, url=own_mariadb_url))
        assert Spool(spool).count() == 0
        assert is_healthy()


@pytest.mark.parametrize("group_commit", [False, True])
def test_a_frozen_server_for_a_provider_that_does_not_repeat_a_503(
    own_mariadb: Server, own_mariadb_url: str, spool: Path, *, group_commit: bool
) -> None:
    """A part of the deadline is kept for the spool, so the first notification gets a 200."""
    world.fill(own_mariadb_url)
    options = {"SPOOL": spool, "SWEEP": True, "ACKNOWLEDGE_SPOOLED": True}
    with django_host.project(own_mariadb_url, GROUP_COMMIT=group_commit, **options):
        assert is_healthy()
        with own_mariadb.frozen():
            assert status() == 200
            close_old_connections()  # as Django does between two requests
        assert Spool(spool).count() == 1
        assert is_healthy()
