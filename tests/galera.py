"""A temporary Galera cluster for the tests: three MariaDB servers on this machine.

Each node replicates to the others on ports of its own, and accepts clients on a port and on a Unix
socket. The programs are those of `mariadb`, and those of Debian's packages `galera-4` and
`mariadb-server`.
"""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pymysql
from sqlalchemy import make_url

import mariadb
from hookrow._migrations import sql
from mariadb import Binaries, Server, connect, execute_script
from wire import eventually, free_port

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")

COPYING = Path("/usr/bin/wsrep_sst_rsync")
"""Copies a node to a new one."""

MISSING = "no Galera: apt-get install galera-4 mariadb-server"

SIZE = 3
"""The number of nodes: the smallest with which the others go on if one fails."""

RETURN = 120.0
"""Seconds in which a node must have returned, on a busy machine."""

_GROUP_OPTIONS = {
    # The others go on without a node that is silent for this long; by default, 5 and 15 seconds.
    "evs.suspect_timeout": "PT2S",
    "evs.inactive_timeout": "PT4S",
    "evs.keepalive_period": "PT0.3S",
    "evs.inactive_check_period": "PT0.2S",
    "evs.install_timeout": "PT4S",
    "gcache.size": "64M",  # of the changes that are kept for a node that returns
}

_OPTIONS = (
    *("--skip-networking=OFF", "--bind-address=127.0.0.1"),
    *("--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", "--wsrep-node-address=127.0.0.1"),
    *("--wsrep-sst-method=rsync", "--wsrep-slave-threads=2"),
    *("--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"),
)

_POSITION = re.compile(r"WSREP: Recovered position: ([0-9a-f-]+:\d+)")

_CHANGES_RECEIVED = "IST received: "
"""What a node logs when it has received the changes that it missed."""


def find_binaries() -> Binaries | None:
    """Return the server's programs if they are MariaDB's, and the other packages are installed."""
    found = mariadb.find_binaries()
    is_complete = found is not None and found.install and PROVIDER.is_file() and COPYING.is_file()
    return found if is_complete else None


class Node(Server):
    """A node of a cluster, and faults that a test can cause.

    `group` has the ports on which the nodes replicate, by number. The node 0 begins the cluster,
    and the others copy it.
    """

    def __init__(self, binaries: Binaries, number: int, group: Sequence[int]) -> None:
        self.number = number
        self.port, self._for_changes, self._for_copies = free_port(), free_port(), free_port()
        self._group = group
        self._begins = number == 0
        super().__init__(binaries)

    def start(self, *options: str, within: Sequence[str] = ()) -> None:
        """Start the server, and wait until it is a member of the cluster and has all changes."""
        provider = {
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self._group[self.number]}",
            "ist.recv_addr": f"127.0.0.1:{self._for_changes}",
            **_GROUP_OPTIONS,
        }
        begin, self._begins = ["--wsrep-new-cluster"] if self._begins else [], False
        super().start(
            *(*self._member, f"--wsrep-node-name={self.number}"),
            f"--wsrep-sst-receive-address=127.0.0.1:{self._for_copies}",
            f"--wsrep-provider-options={';'.join(map('='.join, provider.items()))}",
            *begin,
            *options,
            within=within,
        )
        self.wait_until_synced()

    @property
    def _member(self) -> tuple[str, ...]:
        """The options for a member of the cluster."""
        addresses = ",".join(f"127.0.0.1:{port}" for port in self._group)
        return *_OPTIONS, f"--port={self.port}", f"--wsrep-cluster-address=gcomm://{addresses}"

    def restart(self) -> None:
        """Start the server again, after a crash, too; the others send the changes that it missed.

        After a crash, only the server's own files say which changes it has.
        """
        log = self.folder / "log"
        before = len(_POSITION.findall(log.read_text()))
        self._server.start(
            *(self._binaries.server, *self._files, *self._member, "--wsrep-recover"),
            f"--socket={self.folder}/recovering",
        )
        positions = eventually(lambda: _POSITION.findall(log.read_text())[before:])
        self._server.stop(signal.SIGKILL)  # it does not always end by itself
        self.start(f"--wsrep-start-position={positions[0]}")

    @property
    def times_received(self) -> int:
        """How often it has received changes that it missed."""
        return (self.folder / "log").read_text().count(_CHANGES_RECEIVED)

    def status(self, name: str) -> str:
        """Return a variable of the server's status."""
        [(_, value)] = self.execute(f"SHOW STATUS LIKE '{name}'")
        return str(value)

    def wait_until_synced(self) -> None:
        """Wait until the node is a member of the cluster and has all changes."""
        eventually(partial(self.has, "wsrep_local_state_comment", "Synced"), seconds=RETURN)

    def has(self, name: str, value: str) -> bool:
        """Return whether a variable of the status has this value; False while it cannot be read.

        Raises an error if the server has ended.
        """
        self._server.check()
        with suppress(pymysql.OperationalError):  # it may close connections while it joins
            return self.status(name) == value
        return False

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Cut the node off from the others during the block; clients still reach it."""
        self._isolate(1)
        try:
            yield
        finally:
            self._isolate(0)

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """Let the node receive what the others commit during the block, but not apply it."""
        with closing(connect(self.url())) as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            yield

    def _isolate(self, value: int) -> None:
        self.execute(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'")


class Cluster:
    """Three nodes, which run until they are removed."""

    def __init__(self, binaries: Binaries) -> None:
        group = [free_port() for _ in range(SIZE)]
        self.nodes: list[Node] = []
        self._stack = ExitStack()
        with self._stack:
            for number in range(SIZE):
                self.nodes.append(Node(binaries, number, group))
                self._stack.callback(self.nodes[-1].remove)
            self._stack = self._stack.pop_all()

    def create(self) -> str:
        """Create a database with hookrow's tables; return its name."""
        url = self.nodes[0].create()
        execute_script(url, sql("mariadb"))
        return make_url(url).database or ""

    def url(self, database: str, first: int = 0) -> str:
        """Return the URL of a database on all nodes, beginning with the one of this number."""
        nodes = [*self.nodes[first:], *self.nodes[:first]]
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        return f"mariadb://root@{hosts}/{database}"

    def urls(self, database: str) -> list[str]:
        """Return the URLs of a database on each node."""
        return [node.url(database) for node in self.nodes]

    @property
    def conflicts(self) -> int:
        """How many transactions failed because of one on another node, since the nodes started."""
        names = "wsrep_local_cert_failures", "wsrep_local_bf_aborts"
        return sum(int(node.status(name)) for node in self.nodes for name in names)

    def settle(self) -> None:
        """Wait until all nodes are members of the cluster, and have the same changes."""
        for node in self.nodes:
            eventually(partial(node.has, "wsrep_cluster_size", str(SIZE)), seconds=RETURN)
            node.wait_until_synced()
        eventually(lambda: len({node.status("wsrep_last_committed") for node in self.nodes}) == 1)

    def remove(self) -> None:
        """Stop the nodes, without saving their data, and remove their files."""
        self._stack.close()
