"""Every statement that a store sends, as text that a reader can read and a review can compare.

The files in `statements` have one statement after another, by database and schema; those of the
log are in `log.sql`. If a change of a statement is intended, `pytest
tests/stores/test_golden_statements.py --write-statements` writes them anew.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from contract import NOON
from golden_schemas import SCHEMAS, columns
from log_contract import ORIGINS, entry, parked

from engines import MEMORY
from hookrow import Schema
from hookrow._core.notification import EventTime
from hookrow._core.result import Result
from hookrow.stores._log import OTHER, START, DueKind, Query, RequestHour, RequestKind
from hookrow.stores._log import RetryCursor as LogPlace
from hookrow.stores.sql import SQLStore, _row_counts, _suppressions
from hookrow.stores.sql._connections import Connection, Database, Row
from hookrow.stores.sql._dialects import DIALECTS
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._row_counts import SQLRowCounts
from hookrow.stores.sql._row_search import SQLRowSearch
from hookrow.stores.sql._statements import STATEMENTS
from hookrow.stores.sql._statements.base import Statement, Statements
from hookrow.stores.sql._suppressions import SQLSuppressions
from hookrow.stores.sql._urls import open_database
from times import DAY, HOUR, MINUTE

FOLDER = Path(__file__).parent / "statements"


class Noted(Connection):
    """A connection that notes the statements; without another one, it finds nothing."""

    def __init__(self, sent: dict[str, None], connection: Connection | None = None) -> None:
        self._sent, self._connection = sent, connection
        self.autocommits = connection is not None and connection.autocommits

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        self._sent[sql] = None
        if self._connection is not None:
            return self._connection.fetch(sql, parameters)
        return [(0,) * sql.count("count(")] if sql.startswith("SELECT count(") else []

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        self._sent[sql] = None
        return self._connection.execute(sql, parameters) if self._connection else 0

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        self._sent[sql] = None
        return self._connection.execute_many(sql, rows) if self._connection else 0


class NotedDatabase:
    """A database whose statements are noted; without another one, it is empty."""

    converters: Mapping[tuple[str, str], Callable[[Any], Any]] = {}

    def __init__(self, dialect: Dialect, database: Database | None = None) -> None:
        self.dialect, self._database, self.sent = dialect, database, dict[str, None]()

    def transaction(self) -> AbstractContextManager[Connection]:
        return self._noted("transaction")

    def recording(self) -> AbstractContextManager[Connection]:
        return self._noted("recording")

    def reading(self) -> AbstractContextManager[Connection]:
        return self._noted("reading")

    def renew(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def titled(self, steps: Mapping[str, Callable[[], object]]) -> Iterator[tuple[str, str]]:
        """Take steps; yield the statements of each that no earlier step has sent."""
        known: set[str] = set()
        for title, step in steps.items():
            self.sent.clear()
            step()
            for sql in self.sent:
                if sql not in known:
                    yield title, sql
            known |= self.sent.keys()

    @contextmanager
    def _noted(self, kind: str) -> Iterator[Connection]:
        if self._database is None:
            yield Noted(self.sent)
            return
        with getattr(self._database, kind)() as connection:
            yield Noted(self.sent, connection)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_statements_on_rows(dialect: str, schema: str, request: pytest.FixtureRequest) -> None:
    """The statements that find, lock and change rows, add entries, and read figures and lists."""
    golden = SCHEMAS[schema]
    tables = RoleTables(golden.schema, columns(golden, dialect), DIALECTS[dialect])
    statements = STATEMENTS[dialect](tables)
    titled = chain(
        on_rows(statements), of_figures(tables), of_suppressions(tables), of_searches(tables)
    )
    compare(FOLDER / dialect / f"{schema}.sql", titled, request)


def test_statements_on_the_log_of_sqlite(request: pytest.FixtureRequest) -> None:
    """The statements that read the log, retry, prune, erase and count."""
    compare(FOLDER / "sqlite" / "log.sql", on_the_log(MEMORY), request)


def test_statements_on_the_log_of_postgresql(
    postgres_url: str, request: pytest.FixtureRequest
) -> None:
    """The same on PostgreSQL."""
    compare(FOLDER / "postgresql" / "log.sql", on_the_log(postgres_url), request)


def test_statements_on_the_log_of_mariadb(mariadb_url: str, request: pytest.FixtureRequest) -> None:
    """The same on MariaDB."""
    compare(FOLDER / "mariadb" / "log.sql", on_the_log(mariadb_url), request)


def compare(path: Path, titled: Iterable[tuple[str, str]], request: pytest.FixtureRequest) -> None:
    """Compare statements, each after its title, with those of a file."""
    text = "\n".join(f"-- {title}\n{sql};\n" for title, sql in titled)
    if request.config.getoption("--write-statements"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def on_rows(statements: Statements) -> Iterator[tuple[str, str]]:
    """Yield each statement on rows with a title."""
    tables = statements.tables
    yield from on_lookups(statements)
    for kind in tables.written:
        yield f"read {kind.value}", statements.state(kind)
        for title, skip in (("", False), (", skipping locked rows", True)):
            if statements.dialect.locks_rows:
                lock = statements.lock(kind, skip_locked=skip)
                yield f"lock {kind.value}{title}", lock.text
    changes = dict(on_changes(statements))
    yield from ((title, each.text) for title, each in changes.items())
    for kind in tables.dated_in_side_table:
        yield f"read the dates of {kind.value}", statements.dates(kind)
    if statements.add_entries is not None:
        yield "add entries to the log", statements.add_entries.text
        assert statements.rehearse_entries is not None
        yield "rehearse entries of the log", statements.rehearse_entries.text
        yield "the condition of entries `n` that can be recorded", statements.hopeful
        if statements.of_entries:
            yield "the join of entries with the tenants", statements.of_entries
    for number, sql in enumerate(statements.probes(), 1):
        yield f"probe {number}", sql
    if statements.combining is not None:
        yield from combined(statements, changes)


def on_lookups(statements: Statements) -> Iterator[tuple[str, str]]:
    """Yield each statement that finds rows with a title."""
    tables, subscriptions = statements.tables, statements.finds_subscriptions
    if tables.has("dispatches"):
        yield "find owners", statements.find(subscribers=False, subscriptions=False)
    yield "find", statements.find(subscribers=True, subscriptions=subscriptions)
    if tables.has("subscriptions"):
        yield "find pairs of subscriptions", statements.select_pairs()


def on_changes(statements: Statements) -> Iterator[tuple[str, Statement]]:
    """Yield each statement that changes rows with a title."""
    tables = statements.tables
    for time in EventTime:
        if tables.has("dispatches", time.value):
            for title, guarded in (("", False), (" late", True)):
                for each in statements.set_time(time, guarded=guarded):
                    yield f"set {time.value}{title}", each
    for kind in tables.written:
        guards = (False, True) if tables.has(kind.value, "suppression_changed_at") else (False,)
        for guarded in guards:
            title = " late" if guarded else ""
            for each in statements.set_suppression(kind, guarded=guarded):
                dates = "date" if each.kind is None else "set"
                yield f"{dates} the suppression of {kind.value}{title}", each


def combined(statements: Statements, changes: dict[str, Statement]) -> Iterator[tuple[str, str]]:
    """Yield the statements that write whole groups, with a title."""
    assert statements.combining is not None
    _suppressions = [each for title, each in changes.items() if "suppression" in title]
    newest = {each.kind: each for each in _suppressions if each.kind is not None}
    dates = [each for each in _suppressions if each.kind is None]
    groups = {"suppressions": [*dates, *newest.values()]}
    if statements.tables.has("dispatches"):
        groups = {
            "deliveries": [changes["set delivered_at"]],
            "late deliveries": [changes["set delivered_at late"]],
            **groups,
            "opens and suppressions": [*groups["suppressions"], changes["set opened_at"]],
        }
    entries = [statements.add_entries] if statements.add_entries else []
    for title, group in groups.items():
        parts = (*sorted(group, key=lambda each: each.text), *entries)
        combined = statements.combining.combined(parts, skip_locked=False, commits=True)
        yield f"a group of {title}", combined.text


def of_figures(tables: RoleTables) -> Iterator[tuple[str, str]]:
    """Yield the statements that count rows, and list undelivered dispatches."""
    database = NotedDatabase(tables.dialect)
    counts = SQLRowCounts(database, lambda: tables)
    listed = partial(counts.list_undelivered, NOON, limit=10)
    return database.titled(
        {
            "count rows by list": counts.lists,
            "count the suppressed by reason": counts.suppressed,
            "when messages were sent": lambda: counts.sent(["m-ada"]),
            "count undelivered dispatches": counts.undelivered,
            "count undelivered dispatches sent since a time": lambda: counts.undelivered(NOON),
            "count the dispatches of a period": lambda: counts.sent_between(NOON, NOON),
            "list undelivered dispatches": listed,
            "list more of them": lambda: listed(after=_row_counts.DispatchCursor("2026-03-04", 7)),
            "list more of them without a time": lambda: listed(
                after=_row_counts.DispatchCursor(None, 7)
            ),
        }
    )


def of_suppressions(tables: RoleTables) -> Iterator[tuple[str, str]]:
    """Yield the statements that read suppressed subscribers."""
    database = NotedDatabase(tables.dialect)
    reader = SQLSuppressions(database, tables.schema, lambda: tables)
    place = _suppressions.SuppressionCursor("2026-03-04", 7)
    span, whole = (
        _suppressions.SuppressionRange(place, place, oldest=True),
        _suppressions.SuppressionRange(),
    )
    by_reason = _suppressions.Filter(reason="HardBounce", since=NOON)
    by_list = _suppressions.Filter(list=3)
    by_entry = _suppressions.Filter(entry="sendgrid")
    steps: dict[str, Callable[[], object]] = {
        "step through suppressions": lambda: reader.step(span, 100, NOON),
        "read suppressions": lambda: reader.read(whole, _suppressions.Filter(), limit=10),
        "read suppressions of a reason": lambda: reader.read(span, by_reason, limit=10),
        "read them by an index": lambda: reader.read(span, reader.plan(by_reason), limit=10),
        "read suppressions of an entry": lambda: reader.read(whole, by_entry, limit=10),
        "count suppressions": lambda: reader.count(whole, _suppressions.Filter(), limit=10),
        "changes in the log": lambda: reader.changes(["ada@example.com"], limit=10),
    }
    if tables.has("subscriptions"):
        direct = _suppressions.Filter(list=3, direct=True)
        steps |= {
            "lists": lambda: reader.lists(limit=10),
            "the size of a list": lambda: reader.plan(by_list),
            "read suppressions of a list": lambda: reader.read(whole, by_list, limit=10),
            "read those of a small list": lambda: reader.read(whole, direct, limit=10),
        }
    return database.titled(steps)


def of_searches(tables: RoleTables) -> Iterator[tuple[str, str]]:
    """Yield the statements that find rows for people."""
    database = NotedDatabase(tables.dialect)
    rows = SQLRowSearch(database, lambda: tables)
    return database.titled(
        {
            "emails that begin with a text": lambda: rows.emails("ada", limit=10),
            "message ids that begin with a text": lambda: rows.message_ids("m-", limit=10),
            "the messages of a subscriber": lambda: rows.messages(7, limit=10),
            "the lists of a subscriber": lambda: rows.subscriptions(7, limit=10),
        }
    )


def on_the_log(url: str) -> Iterator[tuple[str, str]]:
    """Yield the statements on a log that has a few entries."""
    opened = open_database(url)
    with closing(opened):
        with SQLStore(opened).transaction() as transaction:
            entries = [entry(1, recipient=None), entry(2), *(parked(n, minutes=n) for n in (3, 4))]
            transaction.write((), entries)
        database = NotedDatabase(opened.dialect, opened)
        statements = STATEMENTS[opened.dialect.name](SQLStore(opened).role_tables)
        log = SQLLog(database, Schema(), lambda: statements)
        yield from database.titled(_steps(log))


def _steps(log: SQLLog) -> Mapping[str, Callable[[], object]]:
    now = NOON + HOUR
    every = Query(
        ids=[1, 2],
        outcome=Result.RECORDED,
        first_outcome=Result.RECORDED,
        reason="HardBounce",
        record_type="Open",
        recipient="ada@example.com",
        message_id="m-ada",
        entry="postmark",
        since=NOON,
        until=now,
        parked=True,
        expired=True,
        posted=True,
        changes=True,
    )
    hopeful = partial(log.hopeful, now, origins=ORIGINS, limit=2)
    prune = partial(log.prune, before=now, parked_before=NOON)
    return {
        "bounds": log.bounds,
        "the first id since a time": lambda: log.first_id_since(NOON),
        "newest": lambda: log.newest(Query(), limit=10),
        "newest without bodies": lambda: log.newest(Query(), before=9, limit=10, bodies=False),
        "newest by every condition": lambda: log.newest(every, limit=10),
        "newest changes of a person": lambda: log.newest(
            Query(changes=True, recipient="ada@example.com"), limit=10
        ),
        "oldest": lambda: log.oldest(Query(), after=1, limit=10),
        "oldest of other types": lambda: log.oldest(Query(record_type=OTHER), limit=10),
        "count": lambda: log.count(Query(), limit=10),
        "parked entries of messages": lambda: log.parked(["m-3", "m-4"]),
        "hopeful entries": lambda: hopeful(after=START),
        "more hopeful entries": lambda: hopeful(after=LogPlace(NOON, 3)),
        **{
            f"due entries, {kind.name}": partial(log.due, now, kind, origins=ORIGINS, limit=10)
            for kind in DueKind
        },
        "take": lambda: log.take([3, 4], now),
        "count retries": lambda: log.count_retries([3]),
        "expire": lambda: log.expire(now, origins=ORIGINS),
        "the backlog": lambda: log.backlog(now),
        "the backlog of an entry": lambda: log.backlog(now, "postmark"),
        "entries that wait, by origin": lambda: log.waiting(now),
        "count a chunk by hour": log.count_hours,
        "count the next chunk": log.count_hours,
        "counts by hour": lambda: log.counts(NOON, HOUR),
        "counts by minute": lambda: log.counts(NOON, MINUTE),
        "recent entries": lambda: log.recent(10),
        "those of an entry": lambda: log.recent(10, "postmark"),
        "deliveries": lambda: log.deliveries(NOON - DAY, limit=10),
        "deliveries of an entry": lambda: log.deliveries(NOON - DAY, "postmark", limit=10),
        "add requests": lambda: log.add_requests(
            {RequestHour(kind, "postmark", NOON): 1 for kind in RequestKind}
        ),
        "requests": lambda: log.requests(RequestKind.WRONG_SECRET, NOON),
        "what can be pruned": lambda: log.prunable(
            before=now, bodies_before=now, parked_before=NOON
        ),
        "prune bodies": lambda: list(prune(bodies_only=True)),
        "prune": lambda: list(prune(bodies_only=False, before=NOON - DAY)),
        "changes": lambda: log.changes(0, limit=10),
        "prune for a consumer": lambda: list(prune(bodies_only=False)),
        "forget": lambda: log.forget("s3@example.com"),
        "forget in an entry": lambda: log.forget("s4@example.com", entries=["postmark"]),
    }
