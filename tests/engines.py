"""SQLAlchemy engines on the tests' databases, and SQL without a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sqlalchemy import Engine, StaticPool, create_engine, make_url, text

from databases import kind_of
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._sqlite import SQLiteConnection

MEMORY = "sqlite://"
"""The URL of a database in memory, which is another one for each store."""


def connect(url: str, **options: Any) -> Engine:  # noqa: ANN401 - create_engine's own
    """Create an engine as a host might."""
    parsed, kind = make_url(url), kind_of(url)
    if parsed.drivername == kind.dialect:
        parsed = parsed.set(drivername=kind.drivers[0])
    connect_args = {**kind.connect_args, **options.pop("connect_args", {})}
    return create_engine(parsed, connect_args=connect_args, **options)


def open_engine(url: str) -> Engine:
    """Create an engine, which on SQLite connects as hookrow does."""
    engine = connect(url)
    kind_of(url).prepare(engine)
    return engine


def engine_of(store: SQLStore) -> Engine:
    """Create an engine on the connection of a store in memory, for tests with one thread."""
    with store.database.reading() as connection:
        assert isinstance(connection, SQLiteConnection)
        return create_engine(MEMORY, poolclass=StaticPool, creator=lambda: connection.connection)


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Open an engine, and dispose of it at the end of the block."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def run(database: str | Engine, *statements: str) -> list[Any]:
    """Execute statements, each in a transaction of its own; return the rows of the last one."""
    place = opened(database) if isinstance(database, str) else nullcontext(database)
    with place as engine, engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            done = connection.execute(text(statement))
        return [tuple(row) for row in done] if done.returns_rows else []


def create(database: str | Engine, *statements: str) -> None:
    """Execute statements with the words of `databases.Types` in braces."""
    types = kind_of(database).types
    run(database, *(statement.format_map(types) for statement in statements))


@contextmanager
def database_user(url: str, *statements: str) -> Iterator[str]:
    """Create a user of a PostgreSQL database; return the URL for it.

    The statements are executed first, with `{}` for its name.
    """
    name = f"user_of_{make_url(url).database}"
    run(url, f"CREATE ROLE {name} LOGIN", *(each.format(name) for each in statements))
    try:
        yield make_url(url).set(username=name).render_as_string()
    finally:
        reassign = f"REASSIGN OWNED BY {name} TO CURRENT_USER"
        run(url, reassign, f"DROP OWNED BY {name}", f"DROP ROLE {name}")
