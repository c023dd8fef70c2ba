"""The application of `--app`: its receiver or its store, in place of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import click
from click.core import ParameterSource

from hookrow.cli.app import App, verify_tables
from hookrow.core.optional import Kinds
from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT
from hookrow.providers import BodyParser
from hookrow.stores import Store

if TYPE_CHECKING:
    from hookrow.receiver.receiver import Receiver
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql.connections import Database

    Loaded: TypeAlias = Receiver | SQLStore

WITHOUT_APP = "omit --app, HOOKROW_APP or app in the settings file"
"""How to use a command without the application."""


class HostApp(App):
    """The object that `app` names, imported when a command first needs it.

    It is a receiver, a store, or a function without arguments that returns one of these. Its engine
    and connections are never closed. The `schema` of the settings file must be the default, because
    the application has its own.
    """

    def __init__(self, reference: str, schema: Schema) -> None:
        super().__init__(schema)
        self.reference = reference

    def __str__(self) -> str:
        return f"The app {self.reference}"

    @cached_property
    def loaded(self) -> Loaded:
        """The receiver or the store. Raises `ConfigurationError`."""
        from hookrow.cli import loading

        self._refuse_other_settings()
        return self._receiver_or_store(loading.load(self.reference))

    @property
    def receiver(self) -> Receiver | None:
        """The receiver, or None if the application names only a store."""
        from hookrow.receiver.receiver import Receiver

        return self.loaded if isinstance(self.loaded, Receiver) else None

    @property
    def secrets(self) -> Sequence[str]:
        """The secrets that the receiver accepts, the newest first; empty if they are unknown."""
        return self.receiver.provider.secrets if self.receiver else ()

    @property
    def mount_path(self) -> str:
        """The mount path of the receiver."""
        return self.receiver.endpoint.removesuffix(ENDPOINT) if self.receiver else ""

    @property
    def store(self) -> SQLStore:
        """The store. Raises `ConfigurationError` if it is not an `SQLStore`."""
        from hookrow.stores.sql import SQLStore

        store = self.receiver.store if self.receiver else self.loaded
        if isinstance(store, SQLStore):
            return store
        raise ConfigurationError(
            f"{self} uses a {type(store).__name__}: the command works only with an SQLStore."
        )

    @property
    def schema(self) -> Schema:
        """The mapping of the store."""
        return self.store.schema

    @property
    def recorded(self) -> Kinds:
        """The kinds of notification that the store records."""
        return self.receiver.store.recorded if self.receiver else self.store.recorded

    @contextmanager
    def open_database(self, database_url: str) -> Iterator[Database]:
        """Return the database of the store."""
        del database_url
        yield self.store.database

    @contextmanager
    def open_store(self, database_url: str) -> Iterator[Store]:
        """Return the store, whose tables are verified. Raises `ConfigurationError`."""
        del database_url
        verify_tables(self.store.database, self.schema)
        yield self.store

    @property
    def provider(self) -> BodyParser:
        """The receiver's provider; Postmark without a receiver."""
        return self.receiver.provider if self.receiver else super().provider

    def _receiver_or_store(self, found: object) -> Loaded:
        from hookrow.receiver.receiver import Receiver
        from hookrow.stores.sql import SQLStore

        if isinstance(found, Receiver | SQLStore):
            return found
        raise ConfigurationError(
            f"{self} is of the type {type(found).__name__}: name a Receiver or an SQLStore, or a "
            "function that returns one, such as shop.mail:receiver; in an application of a "
            "framework, name its attribute, such as shop.main:app.state.receiver."
        )

    def _refuse_other_settings(self) -> None:
        """Raise `ConfigurationError` if a flag or the file also sets the database or the mapping.

        Variables are ignored, because the application itself may read them.
        """
        source = click.get_current_context().get_parameter_source("database_url")
        other_database = source in {ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP}
        if other_database or self._schema != Schema():
            raise ConfigurationError(
                f"{self} already has a database and a mapping: omit --database-url, and "
                f"database_url and [tables] in the settings file; or {WITHOUT_APP}."
            )
