"""Statements that commit by themselves: on a session of our own, and on no other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from contract import NOON, arrival, fill, opens, statuses
from homes import OURS, SQLHome
from sqlalchemy import make_url

from hookrow.recording import record
from hookrow.stores import autocommit
from hookrow.stores.sql import SQLStore
from nginx import installed
from wire import PATIENCE, eventually, free_port, listens

LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Run PgBouncer with one session for all, lent for a transaction each; yield its URL."""
    pgbouncer, port, server = installed("pgbouncer", "pgbouncer"), free_port(), make_url(url)
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "users").write_text(f'"{server.username}" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"""
            [databases]
            * = host={server.query["host"]} pool_size=1
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {port}
            unix_socket_dir =
            auth_type = trust
            auth_file = {folder}/users
            pool_mode = transaction
            """
        )
        # As root it would not run.
        flags = ["--user=nobody"] if os.geteuid() == 0 else []
        command = [pgbouncer, "--quiet", *flags, str(folder / "pgbouncer.ini")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: listens(port))
                yield f"postgresql://{server.username}@127.0.0.1:{port}/{server.database}"
            finally:
                process.terminate()
                process.wait(PATIENCE)


@pytest.fixture
def home(empty_postgres_url: str) -> Iterator[SQLHome]:
    """Fill a database of PostgreSQL's."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        fill(home)
        yield home


@pytest.mark.usefixtures("home")
def test_a_session_of_our_own_has_the_limits(empty_postgres_url: str) -> None:
    """They are there without a BEGIN, and each statement commits by itself."""
    with closing(SQLStore(empty_postgres_url)) as store, store._writes.connect() as connection:
        assert autocommit.is_on(connection)
        assert connection.exec_driver_sql(LIMITS).one() == ("2s", "4s")


def test_a_poolers_session_is_left_as_it_is(home: SQLHome, empty_postgres_url: str) -> None:
    """Behind PgBouncer all is done in transactions: two stores may share a session with others."""
    told = arrival(opens("ada@example.com", "m-ada"))
    with (
        pooled(empty_postgres_url) as url,
        closing(SQLStore(url)) as one,
        closing(SQLStore(url)) as other,
    ):
        for _ in range(10):  # the driver would prepare what it has seen five times
            assert statuses(record(one, [told])) == statuses(record(other, [told])) == [200]
        with one.engine.connect() as connection:
            assert connection.exec_driver_sql(LIMITS).one() == ("0", "0")
    assert home.rows()["dispatches"][0]["opened_at"] == NOON
