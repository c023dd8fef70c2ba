"""Support for the unit tests of the receiver: requests, and a store in memory that can fail."""

import json
import os
import resource
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

from engines import MEMORY
from hookrow import Postmark, Receiver, Request, RequestHead, Response, Schema, testing
from hookrow._core.log_entry import LogEntry, StoredEntry
from hookrow._core.notification import Change, LookupKeys, RowId, Rows, Suppressible
from hookrow._core.rules import PROBE
from hookrow._http import PROBE_AGENT
from hookrow.stores._errors import Locked, Rejected, StoreError, Unavailable
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._transaction import SQLReading, SQLTransaction
from hookrow.testing import Tables
from wire import ENDPOINT, PATIENCE, SECRET, eventually

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


class Database(SQLStore):
    """A store in a database in memory, which can fail like a database server.

    Rows are added and read with `tables`. The database ends with this object, or with `close`.

    Attributes:
        tables: hookrow's own tables, also if another schema is used.
        away: whether the database is unavailable.
        faults: the exceptions of the next commits, one each; None means no exception.
        held: the rows that another transaction has locked.
        refuses: returns whether the database rejects a change or log entry, with `error`.
        opened: if cleared, transactions wait until it is set; `reached` is set when one begins.
        begun, threads, groups: the arguments and threads of each transaction.

    """

    def __init__(self, schema: Schema = Schema()) -> None:  # noqa: B008 - frozen
        super().__init__(MEMORY, schema)
        self.tables = Tables(SQLStore(self.database, schema))
        self.away = False
        self.faults: Iterator[Exception | None] = iter(())
        self.held: set[RowId] = set()
        self.refuses: Callable[[Change | LogEntry], bool] = lambda _: False
        self.error: StoreError = Rejected("CheckViolation 23514")
        self.opened, self.reached = Event(), Event()
        self.opened.set()
        self.begun: list[bool] = []
        self.threads: list[Thread] = []
        self.groups: list[set[str]] = []

    def use(self, schema: Schema) -> None:
        """Replace the schema, as a host does that restarts with another one; the rows stay."""
        self._open(self.database, schema)

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[SQLTransaction]:
        self.begun.append(skip_locked)
        self.threads.append(threading.current_thread())
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        if self.away:
            raise Unavailable("gone")
        with super().transaction(skip_locked=skip_locked, checked=checked) as transaction:
            # The store constructs its transactions itself, so this one contains such a one.
            yield cast("SQLTransaction", _Transaction(self, transaction, skip_locked=skip_locked))
            if (fault := next(self.faults, None)) is not None:
                raise fault

    @contextmanager
    def recording(self, *, checked: bool = False) -> Iterator[SQLTransaction]:
        with self.transaction(checked=checked) as transaction:
            yield transaction

    @contextmanager
    def reading(self, *, hidden: bool = False) -> Iterator[SQLReading]:
        if self.away:
            raise Unavailable("gone")
        with super().reading(hidden=hidden) as reading:
            yield reading

    def logged(self) -> Sequence[StoredEntry]:
        assert self.log is not None
        return self.log.oldest(Query(), limit=10_000)

    def ends(self) -> dict[str | None, tuple[str, int]]:
        """Return the outcome and the attempts of each log entry, by message id."""
        return {each.message_id: (each.outcome.value, each.attempts) for each in self.logged()}


class _Transaction:
    """A transaction that stops at rows that are held, and at what the database refuses."""

    def __init__(
        self, database: Database, transaction: SQLTransaction, *, skip_locked: bool
    ) -> None:
        self._database = database
        self._transaction = transaction
        self._skip_locked = skip_locked
        self.read, self.probe = transaction.read, transaction.probe

    def find(self, lookup: LookupKeys) -> Rows:
        self._database.groups.append({email for _, email, *_ in lookup.addressed})
        return self._transaction.find(lookup)

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        held = self._database.held & set(rows)
        if held and not self._skip_locked:
            raise Locked("LockNotAvailable 55P03")
        return held | set(self._transaction.lock(rows))

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        self.lock([change.row for change in changes])
        if any(map(self._database.refuses, (*changes, *entries))):
            raise self._database.error
        self._transaction.write(changes, entries)


def people(*names: str, log: bool = True) -> Database:
    """Return a database with a subscriber and a dispatch for each name; ids begin at 1."""
    database = Database() if log else Database(Schema(log=None))
    for name in names:
        subscriber = database.tables.add_subscriber(f"{name}@example.com")
        database.tables.add_dispatch(f"m-{name}", subscriber)
    return database


def receive(database: Database, **options: Any) -> Receiver:  # noqa: ANN401 - of Receiver
    """Return a receiver with a deadline that even a slow machine meets."""
    return Receiver(Postmark(SECRET), database, **{"deadline": PATIENCE, **options})


def dispatch(id_: int) -> RowId:
    return Suppressible.DISPATCH, id_


def delivery(name: str, **more: object) -> dict[str, Any]:
    return testing.delivery(f"{name}@example.com", f"m-{name}", at=NOON) | more


def suppression(name: str, **more: object) -> dict[str, Any]:
    return testing.suppression(f"{name}@example.com", f"m-{name}", at=NOON) | more


def head(
    path: str = ENDPOINT, method: str = "POST", secret: str = SECRET, **headers: str
) -> RequestHead:
    """Return the head of the request r-1."""
    given = {"x-provider-secret": secret, **headers}
    sent = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    return RequestHead(method, path, sent, request_id="r-1")


def encode(payload: bytes | Mapping[str, Any]) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload).encode()


def request(payload: bytes | Mapping[str, Any], **headers: str) -> Request:
    """Return an admitted request, which is a probe if the recipient is that of probes."""
    if isinstance(payload, Mapping) and payload.get("Recipient") == PROBE:
        headers |= {"user-agent": PROBE_AGENT.decode()}
    return Request(head(**headers), encode(payload))


def post(receiver: Receiver, payload: bytes | Mapping[str, Any]) -> Response:
    """Queue a request, and wait for the response."""
    return receiver(request(payload))


def fill_transaction(
    receiver: Receiver, database: Database, *waiting: bytes | Mapping[str, Any]
) -> list[Future[Response]]:
    """Queue Ada's delivery and block its transaction, while the others wait for the next one."""
    database.opened.clear()
    first = _post_in_thread(receiver, delivery("ada"))
    assert database.reached.wait(PATIENCE)
    return [first, *(_queue(receiver, payload) for payload in waiting)]


def _queue(receiver: Receiver, payload: bytes | Mapping[str, Any]) -> Future[Response]:
    """Post a request in a thread, and return when it is in the queue."""
    waiting = receiver._writers[0].waiting()
    future = _post_in_thread(receiver, payload)
    eventually(lambda: receiver._writers[0].waiting() > waiting)
    return future


def _post_in_thread(receiver: Receiver, payload: bytes | Mapping[str, Any]) -> Future[Response]:
    future: Future[Response] = Future()
    Thread(target=lambda: future.set_result(post(receiver, payload)), daemon=True).start()
    return future


@contextmanager
def limited(limit: int, soft: int) -> Iterator[None]:
    """Set a soft limit of `resource` for this process until the block ends."""
    before = resource.getrlimit(limit)
    resource.setrlimit(limit, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(limit, before)


@contextmanager
def without_journal(*, locks: int = 1) -> Iterator[None]:
    """Let SQLite open its database, but no journal, as on a full disk.

    `locks` is the number of files that are locked meanwhile.
    """
    # New files get the lowest free numbers, so all up to the highest one in use are taken first.
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    with ExitStack() as stack:
        taken = -1
        while taken <= highest:
            taken = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, taken)
        with limited(resource.RLIMIT_NOFILE, taken + 1 + locks + 1):
            yield
