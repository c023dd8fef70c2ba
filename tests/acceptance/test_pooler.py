"""Behind PgBouncer, several stores share a session."""

import os
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from contract import arrival, fill, opens, statuses
from homes import OURS, SQLHome
from sqlalchemy import make_url

from hookrow.receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.postgres import IDLE
from nginx import installed, listening
from wire import ADA, free_port

pytestmark = pytest.mark.never_flaky


def test_shared_session(postgres_url: str) -> None:
    """Two stores record in transactions, and their time limits do not stay in the session."""
    opening = arrival(opens(ADA, "m-ada"))
    limits = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
    port, server = free_port(), make_url(postgres_url)
    url = f"postgresql://{server.username}@127.0.0.1:{port}/{server.database}"
    with TemporaryDirectory() as name, closing(SQLHome(postgres_url, OURS)) as home:
        fill(home)
        folder = Path(name)
        folder.chmod(0o755)  # because PgBouncer does not run as root
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
        user = ["--user=nobody"] if os.geteuid() == 0 else []
        command = [installed("pgbouncer", "pgbouncer"), "--quiet", *user, folder / "pgbouncer.ini"]
        with (
            listening(command, port, folder / "log"),
            closing(SQLStore(url)) as one,
            closing(SQLStore(url)) as other,
        ):
            for _ in range(10):  # the driver prepares a statement at its fifth execution
                assert (
                    statuses(record(one, [opening])) == statuses(record(other, [opening])) == [200]
                )
            time.sleep(IDLE + 0.1)  # after this time, a session is checked before it is used
            assert statuses(record(one, [opening])) == [200]
            with psycopg.connect(url, prepare_threshold=None) as another:
                assert another.execute(limits).fetchall() == [("0", "0")]
        assert home.rows()["dispatches"][0]["opened_at"] is not None
