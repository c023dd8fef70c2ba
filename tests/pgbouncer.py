"""Runs PgBouncer in transaction mode, in front of a server of the tests."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nginx import installed, listening
from wire import free_port


@contextmanager
def pooling(server: str, *settings: str, users: Sequence[str] = ("postgres",)) -> Iterator[int]:
    """Run PgBouncer until the block ends; yield its port.

    `server` is the connection string of all databases, without their names. The user `postgres` may
    also use the database `pgbouncer`, the administrator's console.
    """
    port = free_port()
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # because PgBouncer does not run as root
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in users))
        lines = [
            *("[databases]", f"* = {server}", "[pgbouncer]", "pool_mode = transaction"),
            *("listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir ="),
            *("auth_type = trust", f"auth_file = {folder}/users", "admin_users = postgres"),
            *settings,
        ]
        (folder / "pgbouncer.ini").write_text("\n".join(lines))
        switch = ["--user=nobody"] if os.geteuid() == 0 else []
        program = installed("pgbouncer", "pgbouncer")
        command = [program, "--quiet", *switch, folder / "pgbouncer.ini"]
        with listening(command, port, folder / "log"):
            yield port
