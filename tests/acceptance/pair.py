"""PostgreSQL with a standby, and the ways in which hookrow reaches the pair."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from address import Address

from hookrow._migrations import sql
from pgbouncer import pooling
from postgres import Server, Standby, wait_for_changes
from wire import eventually

TWO_HOSTS, ONE_ADDRESS, POOLER = "two hosts", "one address", "PgBouncer"


@dataclass(frozen=True)
class Pair:
    """A primary and its standby, each at an address, with hookrow's tables in a database."""

    primary: Server
    standby: Standby
    first: Address
    second: Address

    @property
    def newest(self) -> str:
        """The URL of the server that accepts changes, for the tests' own queries."""
        hosts = f"{self.standby.folder},{self.primary.folder}"
        return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write"

    @contextmanager
    def reached(self, way: str) -> Iterator[str]:
        """Yield the URL for hookrow, of the two addresses or of the one that moves."""
        first, second = f"127.0.0.1:{self.first.port}", f"127.0.0.1:{self.second.port}"
        if way == POOLER:
            server = f"host=127.0.0.1 port={self.first.port}"
            with pooling(server, "server_login_retry = 1") as port:
                yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        else:
            hosts = f"{first},{second}" if way == TWO_HOSTS else first
            yield f"postgresql://postgres@{hosts}/postgres"

    def replicate_synchronously(self) -> None:
        """Let each commit on the primary wait until it is on the standby's disk."""
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.execute("SELECT pg_reload_conf()")
        synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        eventually(lambda: self.primary.execute(synchronous))

    def switch_over(self) -> None:
        """Make the standby the primary, as planned; the former primary returns as its standby."""
        self.primary.stop()
        self.standby.promote()
        self.primary.start(self.standby)

    def copy(self) -> str:
        """Wait until the former primary, a standby now, has all changes; return its URL."""
        wait_for_changes(self.standby.url(), self.primary.url())
        return self.primary.url()


@contextmanager
def paired(primary: Server) -> Iterator[Pair]:
    """Create hookrow's tables on a new server, and a standby of it; remove both at the end."""
    with ExitStack() as stack:
        stack.callback(primary.remove)
        primary.execute(sql("postgresql"))
        standby = Standby(primary)
        stack.callback(standby.remove)
        first, second = (stack.enter_context(Address(each)) for each in (primary, standby))
        yield Pair(primary, standby, first, second)
