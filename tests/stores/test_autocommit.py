"""Statements that commit by themselves: on a session of our own, and on no other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier

import pytest
from contract import NOON, arrival, fill, insistent, opens, statuses
from homes import OURS, SQLHome
from sqlalchemy import make_url
from sqlalchemy.exc import DataError, DBAPIError

from hookrow.recording import record
from hookrow.stores.autocommit import PREPARED_AFTER, Session
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


@contextmanager
def lent(store: SQLStore) -> Iterator[Session]:
    """Borrow a session of the store's own."""
    assert store._sessions is not None
    with store._sessions.lend() as session:
        assert session is not None
        yield session


def backend(store: SQLStore) -> int:
    """Return which of the server's processes has the session."""
    with lent(store) as session:
        [[pid]] = session.exec_driver_sql("SELECT pg_backend_pid()").fetchall()
        return int(pid)


@pytest.mark.usefixtures("home")
def test_a_session_of_our_own_has_the_limits(empty_postgres_url: str) -> None:
    """They are there without a BEGIN, and each statement commits by itself."""
    with closing(SQLStore(empty_postgres_url)) as store, lent(store) as session:
        assert session.exec_driver_sql(LIMITS).fetchone() == ("2s", "4s")


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


@pytest.mark.usefixtures("home")
class TestAfterAnError:
    """What failed says so as SQLAlchemy would, and a session that can go on does."""

    def test_a_statement_that_fails(self, empty_postgres_url: str) -> None:
        """The session is lent again."""
        with closing(SQLStore(empty_postgres_url)) as store:
            before = backend(store)
            with pytest.raises(DataError), lent(store) as session:
                session.exec_driver_sql("SELECT 1 / %s::int", (0,))
            assert backend(store) == before

    def test_a_session_that_was_ended(self, empty_postgres_url: str) -> None:
        """It is not lent again, and what it was lent for knows that it ended."""
        with closing(SQLStore(empty_postgres_url)) as store:
            with pytest.raises(DBAPIError) as raised, lent(store) as session:
                session.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
            assert raised.value.connection_invalidated
            assert backend(store)

    def test_a_session_that_failed_in_a_transaction(self, empty_postgres_url: str) -> None:
        """It is rolled back, and lent again."""
        with closing(SQLStore(empty_postgres_url)) as store:
            before = backend(store)
            with pytest.raises(DataError), lent(store) as session:  # noqa: PT012 - the second
                session.exec_driver_sql("BEGIN")
                session.exec_driver_sql("SELECT 1 / 0")
            assert backend(store) == before

    def test_one_that_idled_was_ended(self, empty_postgres_url: str) -> None:
        """Another comes in its place, and all others are lent again: none is left open."""
        together, asked = Barrier(5), "SELECT pg_backend_pid() AS mine"
        count = f"SELECT count(*) FROM pg_stat_activity WHERE query = '{asked}'"

        def work(store: SQLStore) -> int:
            with lent(store) as session:
                together.wait(PATIENCE)
                [[pid]] = session.exec_driver_sql(asked).fetchall()
                together.wait(PATIENCE)
            return int(pid)

        with closing(SQLStore(empty_postgres_url)) as store, ThreadPoolExecutor(5) as threads:
            for _ in range(5):
                pid, *_ = threads.map(work, [store] * 5)
                with store.engine.connect() as host:
                    assert host.exec_driver_sql(count).scalar_one() == 5
                    host.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 5000)")

    def test_a_plan_that_fits_no_more(self, empty_postgres_url: str) -> None:
        """What was prepared for a table that has changed is prepared anew, at the second try."""
        every = "SELECT * FROM hookrow_lists"
        with closing(SQLStore(empty_postgres_url)) as store:
            with lent(store) as session:
                for _ in range(PREPARED_AFTER + 1):
                    session.exec_driver_sql(every)
            with store.engine.begin() as host:
                host.exec_driver_sql("ALTER TABLE hookrow_lists ADD COLUMN motto text")
            with pytest.raises(DBAPIError, match="cached plan"), lent(store) as session:
                session.exec_driver_sql(every)
            with lent(store) as session:
                assert len(session.exec_driver_sql(every).description or ()) == 4

    def test_a_column_that_changes_its_type(self, empty_postgres_url: str) -> None:
        """Statements prepared before are prepared anew, and no notification fails."""
        with closing(SQLStore(empty_postgres_url)) as store:
            retry = insistent(store)
            for number in range(2 * PREPARED_AFTER):
                opened = replace(arrival(opens("ada@example.com", "m-ada")), body=b"%d" % number)
                assert statuses(retry([opened])) == [200]
                if number == PREPARED_AFTER + 1:
                    with store.engine.begin() as host:
                        host.exec_driver_sql(
                            "ALTER TABLE hookrow_subscribers ALTER COLUMN email TYPE text"
                        )

    def test_prepared_statements_that_the_server_lost(self, empty_postgres_url: str) -> None:
        """They are prepared anew, and no notification fails."""
        opened = arrival(opens("ada@example.com", "m-ada"))
        with closing(SQLStore(empty_postgres_url)) as store:
            retry = insistent(store)
            for _ in range(PREPARED_AFTER + 2):
                assert statuses(retry([opened])) == [200]
            with lent(store) as session:
                # Hidden from the driver, which would forget them if it were told.
                session.exec_driver_sql("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
            assert statuses(retry([opened])) == [200]


@pytest.mark.parametrize(
    ("text", "values", "found"),
    [
        ("SELECT %s::int - %s::int", (5, 3), 2),
        ("SELECT '5%%s' || %s::text", ("!",), "5%s!"),
        ("SELECT 7 %% %s::int", (4,), 3),
    ],
)
@pytest.mark.usefixtures("home")
def test_values_go_to_their_places(
    empty_postgres_url: str, text: str, values: tuple[object], found: object
) -> None:
    """A sign that stands for itself stays one."""
    with closing(SQLStore(empty_postgres_url)) as store, lent(store) as session:
        assert session.exec_driver_sql(text, values).fetchone() == (found,)
