"""A temporary MariaDB server for the tests, on a Unix socket.

It runs the binaries that are installed on the machine. A folder in `HOOKROW_TEST_MARIADB_BIN` may
have those of another version, or of a MySQL server.
"""

import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import CLIENT, ER
from sqlalchemy import make_url

from temporary_server import ServerProcess, run_program, stopped
from wire import eventually

VARIABLE = "HOOKROW_TEST_MARIADB_BIN"  # the folder with the server and `mariadb-install-db`

MISSING = "no MariaDB server: apt-get install mariadb-server"

_SYSTEM = "/usr/sbin:/usr/local/sbin"  # where the servers are, often not in PATH

WITHOUT_TLS: Mapping[str, Any] = {"ssl_disabled": True}
"""The option of the driver by which it reads no certificates, which takes it 20 ms a connection."""

_OPTIONS = (
    *("--skip-networking", "--skip-name-resolve", "--skip-log-bin", "--max-connections=300"),
    *("--performance-schema=OFF", "--innodb-fast-shutdown=2"),
    "--max-allowed-packet=64M",
    "--loose-mysqlx=OFF",  # MySQL's second port
)

_WITHOUT_FSYNC = (
    *("--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync"),
    "--innodb-doublewrite=OFF",
)
"""Nothing is synced to the disk, but every commit outlives the process."""

_TABLE_WAITS = """
SELECT id FROM information_schema.processlist WHERE db = %s AND state LIKE 'Waiting for table%%'
"""
"""The connections that wait for the use of a table."""

_ROW_WAITS = re.compile(r"^LOCK WAIT .*\n.* thread id (\d+)", re.MULTILINE)
"""Finds the connections that wait for a row, in InnoDB's status.

The tables of information_schema have them, too, but do not change as long as they are read more
often than ten times a second.
"""

_STORED_COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = %s AND coalesce(generation_expression, '') = ''
ORDER BY table_name, ordinal_position
"""


class Binaries(NamedTuple):
    """The programs of a server. `install` creates the files of MariaDB; MySQL does it by itself."""

    server: Path
    install: Path | None


def find_binaries() -> Binaries | None:
    """Return the programs in the folder of `VARIABLE`, or else those that are installed."""
    path = os.environ.get(VARIABLE) or f"{os.environ.get('PATH', '')}:{_SYSTEM}"
    server, install = (shutil.which(each, path=path) for each in ("mariadbd", "mariadb-install-db"))
    if server and install:
        return Binaries(Path(server), Path(install))
    mysql = shutil.which("mysqld", path=path)
    return Binaries(Path(mysql), None) if mysql else None


class Databases:
    """The databases of a running server, which may belong to another process."""

    def __init__(self, folder: Path, owner: str = "main") -> None:
        self.folder = folder
        self._names = (f"{owner}_{number}" for number in count(1))

    def url(self, database: str = "mysql") -> str:
        """Return the URL of a database; `mysql` always exists."""
        return f"mariadb://root@localhost/{database}?unix_socket={self.folder}/socket"

    def execute(self, statement: str, *parameters: object, url: str | None = None) -> list[Any]:
        """Run SQL outside of any transaction; return its rows, if it has any."""
        with closing(connect(url or self.url())) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall())

    def create(self, template: str | None = None) -> str:
        """Create a database, empty or with the tables and rows of another one; return its URL.

        Names of columns are compared exactly, unless a table says otherwise.
        """
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        url = self.url(name)
        if template is not None:
            execute_script(url, ";\n".join(self._copy(template)))
        return url

    def _copy(self, template: str) -> Iterator[str]:
        """Yield the statements that copy the tables of a database, in any order."""
        yield "SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
        columns: dict[str, list[str]] = {}
        for table, column in self.execute(_STORED_COLUMNS, template):
            columns.setdefault(table, []).append(f"`{column}`")
        for table, names in columns.items():
            [(_, definition)] = self.execute(f"SHOW CREATE TABLE {template}.`{table}`")
            yield definition
            listed = ", ".join(names)
            yield f"INSERT INTO `{table}` ({listed}) SELECT {listed} FROM {template}.`{table}`"

    def drop(self, url: str) -> None:
        """Drop a database, even if it has connections."""
        self.terminate(url)
        self.execute(f"DROP DATABASE {make_url(url).database}")

    def terminate(self, url: str) -> int:
        """Terminate every connection to the database; return their number."""
        listed = "SELECT id FROM information_schema.processlist WHERE db = %s"
        found = self.execute(listed, make_url(url).database)
        for (number,) in found:
            try:
                self.execute(f"KILL {number}")
            except pymysql.OperationalError as error:
                if error.args[0] != ER.NO_SUCH_THREAD:  # it may have ended by itself
                    raise
        eventually(lambda: not self.execute(listed, make_url(url).database))
        return len(found)

    def wait_for_a_lock(self, url: str) -> int:
        """Wait until a connection to the database waits for a lock; return its id."""
        return eventually(partial(self._find_waiting, str(make_url(url).database)))

    def _find_waiting(self, database: str) -> int | None:
        """Return the id of a connection to the database that waits for a lock, if there is one."""
        [(*_, status)] = self.execute("SHOW ENGINE INNODB STATUS")
        of_database = "SELECT id FROM information_schema.processlist WHERE db = %s"
        waiting = {int(number) for (number,) in self.execute(_TABLE_WAITS, database)}
        for_rows = {*map(int, _ROW_WAITS.findall(status))}
        if for_rows:
            waiting |= for_rows & {number for (number,) in self.execute(of_database, database)}
        return min(waiting, default=None)


class Server(Databases):
    """A server that runs until it is removed, and faults that a test can cause."""

    def __init__(
        self, binaries: Binaries, *, fsync: bool = False, buffer_pool: str = "64M"
    ) -> None:
        self._binaries, self._buffer_pool = binaries, buffer_pool
        self._durability = () if fsync else _WITHOUT_FSYNC
        self._server = ServerProcess("hookrow-mariadb-", "pid", signal.SIGKILL)
        super().__init__(self._server.folder)
        self._data = self.folder / "data"
        try:
            self._create()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _create(self) -> None:
        """Create the server's files, with a user `root` without a password."""
        if self._binaries.install is None:
            run_program(self._binaries.server, *self._files, "--initialize-insecure")
            return
        small = ("--innodb-log-file-size=16M", *_WITHOUT_FSYNC)
        login = ("--auth-root-authentication-method=normal", "--skip-test-db")
        run_program(self._binaries.install, *self._files, *login, *small)

    @property
    def _files(self) -> tuple[str, ...]:
        """The options for files. A server removes those of others in a tmpdir that they share."""
        return "--no-defaults", f"--datadir={self._data}", f"--tmpdir={self.folder}"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._server.pid

    def start(self, *options: str, within: Sequence[str] = ()) -> None:
        """Start the server, with further options, and wait until it responds.

        `within` is a program that runs the server, for example with a small disk.
        """
        self._server.start(
            *(*within, self._binaries.server, *self._files),
            *(f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid"),
            *(*_OPTIONS, *self._durability, f"--innodb-buffer-pool-size={self._buffer_pool}"),
            *options,
        )
        eventually(self._answers)

    def _answers(self) -> bool:
        """Return whether the server responds. Raises an error if it has ended."""
        self._server.check()
        # If there is nobody to accept a connection, the driver would not close its socket.
        with (
            closing(socket.socket(socket.AF_UNIX)) as probe,
            suppress(OSError, pymysql.OperationalError),
        ):
            probe.connect(f"{self.folder}/socket")
            return bool(self.execute("SELECT 1"))
        return False

    def stop(self) -> None:
        """Stop the server, even if it has connections, and wait until it has ended."""
        self._server.stop(signal.SIGTERM)

    def crash(self) -> None:
        """Kill the server; the next start recovers."""
        self._server.stop(signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the server during the block."""
        with stopped(self.pid):
            yield

    def remove(self) -> None:
        """Stop the server, without saving its data, and remove its files."""
        self._server.remove()


def connect(url: str, **options: Any) -> Any:  # noqa: ANN401 - the driver has no types
    """Connect to the database of a URL, so that each statement commits by itself."""
    parsed = make_url(url)
    return pymysql.connect(
        user=parsed.username,
        database=parsed.database,
        unix_socket=parsed.query["unix_socket"],
        autocommit=True,
        connect_timeout=5,
        **WITHOUT_TLS,
        **options,
    )


def execute_script(url: str, script: str) -> None:
    """Execute several statements, up to the first one that fails."""
    connection = connect(url, client_flag=CLIENT.MULTI_STATEMENTS)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(script)
        while cursor.nextset():
            pass
