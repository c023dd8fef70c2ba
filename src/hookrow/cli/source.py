"""Where commands find the store: behind a database's URL, or in the settings of a host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from hookrow.errors import ConfigurationError
from hookrow.schema import Schema
from hookrow.stores import Store
from hookrow.stores.log import LogReader

Opened: TypeAlias = tuple[Store, LogReader]


class Source(Protocol):
    """What a command that needs the log is given as its context's object."""

    def opened(self, database_url: str) -> AbstractContextManager[Opened]:
        """Open the store and its log. Raises `ConfigurationError` where there is none."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a schema, in the database that the command line names."""

    schema: Schema = field(default_factory=Schema)

    @contextmanager
    def opened(self, database_url: str) -> Iterator[Opened]:
        """Open the store and its log. Raises `ConfigurationError` where there is none."""
        from hookrow.stores.engines import absent, opened
        from hookrow.stores.sql import SQLStore
        from hookrow.stores.verification import verify

        with opened(database_url) as engine:
            if file := absent(engine):
                raise ConfigurationError(f"There is no {file}. Run: hookrow db upgrade")
            verify(engine, self.schema)
            store = SQLStore(engine, self.schema)
            if store.log is None:
                raise ConfigurationError("There is no log: the settings have `log = false`.")
            yield store, store.log
