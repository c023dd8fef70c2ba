"""The SQL store: PostgreSQL and SQLite through SQLAlchemy Core, on an engine or a URL.

It opens transactions; what is done in them is in `sql_rows`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import monotonic

from hookrow.errors import ConfigurationError, MissingExtra

try:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import DBAPIError
except ImportError as error:
    raise MissingExtra("The SQL store", "sql") from error

from hookrow.forks import renew_after_fork
from hookrow.schema import Schema
from hookrow.stores import Rejected, SchemaChanged, Unavailable
from hookrow.stores.autocommit import Sessions, Transaction, sessions
from hookrow.stores.engines import begin, open_engine, reading, supported
from hookrow.stores.faults import faults
from hookrow.stores.sql_census import SQLCensus
from hookrow.stores.sql_log import SQLLog
from hookrow.stores.sql_rows import SQLReading, SQLTransaction
from hookrow.stores.statements import Statements
from hookrow.stores.verification import verify
from hookrow.stores.watch import watch

log = logging.getLogger("hookrow")

VERIFY_EVERY = 1.0
"""In seconds; how often the tables are verified again at most."""

_NO_DATABASE = (
    "A store takes a database URL, or an sqlalchemy.Engine that is not async, but no {}: "
    'pass create_engine("postgresql+psycopg://..."), or that URL as text.'
)


class SQLStore:
    """The rows of a database, in the tables that the schema names.

    `database` is a URL, for an engine of our own with time limits, or an engine
    that the host lends, which is never closed or changed. Tables and columns are
    verified now, or at the first connection where the database cannot be reached.

    Raises `SchemaMismatch` where one is missing, and `ConfigurationError` for a
    database that hookrow does not know.
    """

    def __init__(self, database: str | URL | Engine, schema: Schema = Schema()) -> None:  # noqa: B008 - frozen
        self._own: Sequence[Engine]
        self._sessions: Sessions | None = None
        if isinstance(database, Engine):
            supported(database.dialect.name, is_async=database.dialect.is_async)
            self._reads = self._writes = database
            self._own = []
        elif isinstance(database, str | URL):
            # One reads and tends the log, the others write what notifications set.
            self._own = [open_engine(database) for _ in range(3)]
            self._reads, self._writes, by_itself = self._own
            self._sessions = sessions(by_itself)
            renew_after_fork(self)
        else:
            raise ConfigurationError(_NO_DATABASE.format(type(database).__name__))
        self._schema = schema
        self._statements: Statements | None = None
        self._verified_at = 0.0
        self.log = SQLLog(schema.log, self._reading, self._committed) if schema.log else None
        self.census = SQLCensus(self._reading, self._verified, ours=schema.ours)
        try:
            self._statements = verify(self._reads, schema)
        except Unavailable as error:
            log.warning("The database cannot be reached yet: %s", error)

    @property
    def engine(self) -> Engine:
        """Where the rows are: for who looks at the tables themselves."""
        return self._reads

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[SQLTransaction]:
        """Begin a transaction; see `Store.transaction`."""
        try:
            with faults(), ExitStack() as stack:
                transaction = self._transaction(stack, skip_locked=skip_locked)
                yield transaction
                transaction.commit()
        except SchemaChanged as error:
            self._verify_again()
            raise Rejected(str(error)) from error  # by a trigger: the tables are as they should be

    @contextmanager
    def reading(self) -> Iterator[SQLReading]:
        """Look at rows; see `Store.reading`."""
        with self._reading() as connection:
            yield SQLReading(connection, self._verified(), self._schema)

    @contextmanager
    def _committed(self) -> Iterator[Connection]:
        """Begin a transaction on the log, and commit it at the end."""
        with faults():
            self._verified()
            with _begun(self._reads) as connection:
                yield connection
                connection.commit()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connect without time limits, and on SQLite without keeping anyone from writing."""
        with faults(), reading(self._reads) as connection:
            yield connection

    def _verified(self) -> Statements:
        if self._statements is None:
            try:
                self._statements = verify(self._reads, self._schema)
            except ConfigurationError as error:
                raise Unavailable(str(error)) from error
            self._verified_at = monotonic()
        return self._statements

    def _verify_again(self) -> None:
        """Verify the tables, at most once a second. Raises a `StoreError` if they do not fit."""
        if monotonic() - self._verified_at >= VERIFY_EVERY:
            self._statements = None
            self._verified()

    def close(self) -> None:
        """Close the engines, where they are our own."""
        for engine in self._own:
            engine.dispose()

    def renew(self) -> None:
        """Leave the connections of our own engines to the process that forked us."""
        for engine in self._own:
            engine.dispose(close=False)

    def _transaction(self, stack: ExitStack, *, skip_locked: bool) -> SQLTransaction:
        """Return a transaction, which begins now or where it has to; the stack ends it."""
        statements = self._verified()
        begin = partial(stack.enter_context, _begun(self._writes))
        if self._sessions is not None and not skip_locked:
            session = stack.enter_context(self._sessions.lend())
            if session is not None:
                return Transaction(session, statements, self._schema, begin)
        return SQLTransaction(begin(), statements, self._schema, skip_locked=skip_locked)


@contextmanager
def _begun(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction, on a new connection where the server left the one that idled."""
    try:
        connection = _begin(engine)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        connection = _begin(engine)
    with connection, watch.over(connection), _rolled_back(connection):
        yield connection


def _begin(engine: Engine) -> Connection:
    connection = engine.connect()
    try:
        with watch.over(connection):
            begin(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _rolled_back(connection: Connection) -> Iterator[None]:
    """Roll back what the block began, where it raises."""
    try:
        yield
    except BaseException:
        if not connection.invalidated:  # SQLAlchemy takes one whose commit failed for ended
            with suppress(connection.dialect.loaded_dbapi.Error):
                connection.connection.rollback()
        raise
