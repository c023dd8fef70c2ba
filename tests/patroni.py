"""PostgreSQL with a standby that Patroni manages, on this machine, with etcd.

Patroni promotes the standby by itself, with its default time limits. The programs are those of
Debian's packages `patroni`, `etcd-server` and `postgresql`.
"""

import json
import os
import shutil
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg

from postgres import wait_for_changes
from temporary_server import ServerProcess, run_program
from wire import eventually, free_port

MISSING = "no Patroni: apt-get install patroni etcd-server"

START = 120.0
"""Seconds in which the servers must have started, and a standby must have been copied."""

SCOPE = "mail"


def is_installed() -> bool:
    """Return whether all programs are installed."""
    return all(map(shutil.which, ("patroni", "patronictl", "etcd")))


class _Program(ServerProcess):
    """A program that ends after SIGTERM, with its process id in a file."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix, "pid", signal.SIGTERM)

    def start(self, *command: object) -> None:
        super().start(*command)
        (self.folder / "pid").write_text(f"{self.pid}\n")


class Node:
    """A server of PostgreSQL, and its Patroni."""

    def __init__(self, binaries: Path, name: str, etcd: int) -> None:
        self.name, self.port, self.rest_port = name, free_port(), free_port()
        self._program = _Program("hookrow-patroni-")
        self._data = self._program.folder / "data"
        self.settings = self._program.folder / "patroni.json"
        self.settings.write_text(json.dumps(self._settings(binaries, etcd)))
        self._program.start(shutil.which("patroni"), self.settings)

    def _settings(self, binaries: Path, etcd: int) -> dict[str, Any]:
        rest, own = f"127.0.0.1:{self.rest_port}", f"127.0.0.1:{self.port}"
        everybody = [f"host {each} all 127.0.0.1/32 trust" for each in ("all", "replication")]
        user = {"username": "postgres"}
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{etcd}"},
            "bootstrap": {"dcs": {"synchronous_mode": True}, "initdb": [{"encoding": "UTF8"}]},
            "postgresql": {
                "listen": own,
                "connect_address": own,
                "data_dir": str(self._data),
                "bin_dir": str(binaries),
                "pgpass": str(self._program.folder / "pgpass"),
                "authentication": {"superuser": user, "replication": user},
                "pg_hba": ["local all all trust", *everybody],
                "parameters": {"unix_socket_directories": str(self._program.folder)},
            },
        }

    @property
    def url(self) -> str:
        """The URL of this server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def check(self) -> None:
        """Raise `RuntimeError` with Patroni's output if it has ended."""
        self._program.check()

    def crash(self) -> None:
        """Kill Patroni, and PostgreSQL with all its processes."""
        self._program.stop(signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)

    def remove(self) -> None:
        """Stop the server, and remove its files."""
        self._program.remove()


class Cluster:
    """A primary with a synchronous standby, and an etcd."""

    def __init__(self, binaries: Path) -> None:
        with ExitStack() as stack:
            etcd = _Program("hookrow-etcd-")
            stack.callback(etcd.remove)
            clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
            etcd.start(
                *(shutil.which("etcd"), "--data-dir", etcd.folder / "data"),
                *("--listen-client-urls", clients, "--advertise-client-urls", clients),
                *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                *("--initial-cluster", f"default={peers}"),
            )
            self.nodes: list[Node] = []
            for name in ("db1", "db2"):
                node = Node(binaries, name, int(clients.rpartition(":")[2]))
                stack.callback(node.remove)
                self.nodes.append(node)
                eventually(self._accepts_changes, seconds=START)
            is_synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            eventually(lambda: self.execute(is_synchronous), seconds=START)
            self._stack = stack.pop_all()

    @property
    def url(self) -> str:
        """The URL with both hosts."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/postgres"

    @property
    def newest(self) -> str:
        """The URL of the primary, as SQLAlchemy reads it."""
        hosts = "&".join(f"host=127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write"

    @property
    def primary(self) -> Node:
        """The node that is the primary."""
        [(port,)] = self.execute("SELECT current_setting('port')::int")
        [found] = [node for node in self.nodes if node.port == port]
        return found

    def execute(self, statement: str) -> list[Any]:
        """Run SQL on the primary; return its rows, if it has any."""
        url = f"{self.url}?target_session_attrs=read-write&connect_timeout=3"
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _accepts_changes(self) -> bool:
        for node in self.nodes:
            node.check()
        with suppress(psycopg.OperationalError):
            return bool(self.execute("SELECT 1"))
        return False

    def switch_over(self) -> None:
        """Let Patroni make the standby the primary, as planned."""
        primary = self.primary
        run_program(
            *(shutil.which("patronictl"), "-c", primary.settings, "switchover", SCOPE),
            *("--master", primary.name, "--force"),
        )

    def copy(self) -> str:
        """Wait until the standby has all changes; return its URL."""
        primary = self.primary
        [standby] = [node for node in self.nodes if node is not primary]
        wait_for_changes(primary.url, standby.url)
        return standby.url

    def remove(self) -> None:
        """Stop the servers, and remove their files."""
        self._stack.close()
