"""Where commands find the store: behind a database's URL, or in the settings of a host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from hookrow.core.notification import Notification
from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.providers import postmark
from hookrow.stores import Store
from hookrow.stores.log import LogReader


class Source(Protocol):
    """Opens the store for a command, and parses the bodies in its log: the context's object."""

    def opened(self, database_url: str) -> AbstractContextManager[Store]:
        """Open the store. Raises `ConfigurationError` if there is none."""

    def parse(self, body: bytes) -> Notification | None:
        """Read a body of the provider; return None if it has no supported notification."""


def log_of(store: Store) -> LogReader:
    """Return what reads a store's log. Raises `ConfigurationError` where it has none."""
    if store.log is None:
        raise ConfigurationError(
            "There is no log: the settings turn it off (`log = false`, in Django 'LOG': False)."
        )
    return store.log


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a schema, in the database that the command line names."""

    schema: Schema = field(default_factory=Schema)

    @contextmanager
    def opened(self, database_url: str) -> Iterator[Store]:
        """Open the store. Raises `ConfigurationError` where there is none."""
        from hookrow.stores.sql import SQLStore
        from hookrow.stores.sql.urls import missing_file, open_database

        with closing(open_database(database_url)) as database:
            if file := missing_file(database):
                raise ConfigurationError(f"There is no {file}. Run: hookrow db upgrade")
            yield SQLStore(database, self.schema, verify=True)

    def parse(self, body: bytes) -> Notification | None:
        """Read a body of Postmark's."""
        return postmark.parse(body)
