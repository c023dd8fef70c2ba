"""The application whose store the commands use: the object of click's context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hookrow.core.optional import Kinds, recorded_kinds
from hookrow.core.schema import Schema
from hookrow.errors import OWN_TABLES, ConfigurationError
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark
from hookrow.stores import Store
from hookrow.stores.log import LogReader

if TYPE_CHECKING:
    from hookrow.stores.sql.connections import Database


class App:
    """The tables of a schema in the database of a URL; `HostApp` is a host's application."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @property
    def schema(self) -> Schema:
        """The mapping."""
        return self._schema

    @property
    def provider(self) -> BodyParser:
        """The provider whose bodies are in the log."""
        return Postmark

    @property
    def recorded(self) -> Kinds:
        """The kinds of notification that are recorded."""
        return recorded_kinds(self.schema.columns("dispatches"))

    @contextmanager
    def open_database(self, database_url: str) -> Iterator[Database]:
        """Open the database, which connects on first use, and close it at the end of the block."""
        from hookrow.stores.sql.urls import open_database

        with closing(open_database(database_url)) as database:
            yield database

    @contextmanager
    def open_store(self, database_url: str) -> Iterator[Store]:
        """Open the store, whose tables are verified, for the duration of a block.

        Raises a `HookrowError` if that fails.
        """
        from hookrow.stores.sql import SQLStore
        from hookrow.stores.sql.urls import missing_file

        with self.open_database(database_url) as database:
            if self.schema.ours and (missing := missing_file(database)):
                raise ConfigurationError(f"{missing}. {OWN_TABLES}")
            verify_tables(database, self.schema)
            yield SQLStore(database, self.schema)


def verify_tables(database: Database, schema: Schema) -> None:
    """Verify the tables. Raises `ConfigurationError`, also if an SQLite file does not exist."""
    from hookrow.stores.sql.urls import missing_file
    from hookrow.stores.sql.verify import verify

    if missing := missing_file(database):
        raise ConfigurationError(missing)
    verify(database, schema)


def require_log(store: Store) -> LogReader:
    """Return the log of a store. Raises `ConfigurationError` if the log is disabled."""
    if store.log is None:
        raise ConfigurationError(
            "The log is disabled: remove `log = false` from the settings (in Python, log=None; in "
            "Django, 'LOG': False)."
        )
    return store.log
