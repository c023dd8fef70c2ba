"""Behind PgBouncer, sessions are shared by several stores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from contract import ADA, NOON, arrival, fill, opens, statuses
from homes import OURS, SQLHome
from sqlalchemy import make_url

from hookrow.recording import record
from hookrow.stores.sql import SQLStore
from nginx import installed
from wire import PATIENCE, eventually, free_port, listens


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Run PgBouncer with one session, which it assigns per transaction; yield its URL."""
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
        # It does not run as root.
        flags = ["--user=nobody"] if os.geteuid() == 0 else []
        command = [pgbouncer, "--quiet", *flags, str(folder / "pgbouncer.ini")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: listens(port))
                yield f"postgresql://{server.username}@127.0.0.1:{port}/{server.database}"
            finally:
                process.terminate()
                process.wait(PATIENCE)


def test_shared_session(postgres_url: str) -> None:
    """Two stores record in transactions and leave the shared session without limits."""
    told = arrival(opens(ADA, "m-ada"))
    limits = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
    with closing(SQLHome(postgres_url, OURS)) as home:
        fill(home)
        with (
            pooled(postgres_url) as url,
            closing(SQLStore(url)) as one,
            closing(SQLStore(url)) as other,
        ):
            for _ in range(10):  # the driver prepares what it has seen five times
                assert statuses(record(one, [told])) == statuses(record(other, [told])) == [200]
            with one.engine.connect() as connection:
                assert connection.exec_driver_sql(limits).one() == ("0", "0")
        assert home.rows()["dispatches"][0]["opened_at"] == NOON
