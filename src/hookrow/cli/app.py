"""The application whose store the commands use: the object of click's context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from hookrow.core.notification import Notification
from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.providers import postmark
from hookrow.stores import Store
from hookrow.stores.log import LogReader


class App(Protocol):
    """Opens the store for a command, and parses the bodies in its log."""

    def open_store(self, database_url: str) -> AbstractContextManager[Store]:
        """Open the store for the duration of a block. Raises a `HookrowError` if it cannot."""

    def parse(self, body: bytes) -> Notification | None:
        """Return the notification in a body, or None if there is no supported one."""


@dataclass(frozen=True, slots=True)
class StandaloneApp:
    """hookrow without a host application: the tables of a schema, behind a database URL."""

    schema: Schema

    @contextmanager
    def open_store(self, database_url: str) -> Iterator[Store]:
        """Open the store. Raises `ConfigurationError` if an SQLite file does not exist."""
        from hookrow.stores.sql import SQLStore
        from hookrow.stores.sql.urls import missing_file, open_database

        with closing(open_database(database_url)) as database:
            if file := missing_file(database):
                raise ConfigurationError(f"There is no {file}. Run: hookrow db upgrade")
            yield SQLStore(database, self.schema, verify=True)

    def parse(self, body: bytes) -> Notification | None:
        """Return the notification in a body of Postmark's."""
        return postmark.parse(body)


def require_log(store: Store) -> LogReader:
    """Return the log of a store. Raises `ConfigurationError` if the log is disabled."""
    if store.log is None:
        raise ConfigurationError(
            "There is no log: the settings turn it off (`log = false`, in Django 'LOG': False)."
        )
    return store.log
