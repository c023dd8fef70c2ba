"""The application whose store the commands use: the object of click's context.

It is the database and the mapping of the settings, or an application of a host (`--app`), which is
imported when a command first needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from inspect import iscoroutinefunction, isroutine
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import click
from click.core import ParameterSource

from hookrow._arguments import kind_of
from hookrow._cli.entries import ConfiguredEntries
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._core.optional import Kinds, recorded_kinds
from hookrow._core.schema import Schema
from hookrow._http import ENDPOINT
from hookrow._receiver.entries import POSTMARK, Parsers, listed, no_such_entry
from hookrow._server.settings import check_tenants, parsers_of
from hookrow.errors import ConfigurationError
from hookrow.providers._loading import is_reference, load_object, loading
from hookrow.providers.postmark import Postmark
from hookrow.stores._log import Query

if TYPE_CHECKING:
    from hookrow._diagnostics.probe import Sender
    from hookrow._diagnostics.status import StatusSource
    from hookrow._receiver.receiver import Receiver
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._connections import Database
    from hookrow.stores.sql._log import SQLLog

    Loaded: TypeAlias = Receiver | SQLStore

WITHOUT_APP = "omit --app, HOOKROW_APP or app in the settings file"
"""How to use a command without the application."""


class App:
    """The tables of a schema in the database of a URL, and the entries of the settings."""

    def __init__(self, schema: Schema, configured: ConfiguredEntries) -> None:
        self._schema = schema
        self.configured = configured

    @property
    def schema(self) -> Schema:
        """The mapping."""
        return self._schema

    @property
    def parsers(self) -> Parsers:
        """The entries that read the log."""
        return parsers_of(self.configured.entries)

    @property
    def senders(self) -> Sequence[Sender]:
        """The entries as far as their requests can be sent; none if options have the secret."""
        return ()

    @property
    def spool(self) -> str | PathLike[str] | None:
        """The file of the spool, if `hookrow serve` uses one."""
        from hookrow._cli.serve import serve
        from hookrow._cli.settings import settings_of

        path: str | None = settings_of(click.get_current_context(), serve)["spool"]
        return path

    def status_source(self, store: SQLStore) -> StatusSource:
        """Return where this process finds the facts of the status: in the store, and the spool."""
        from hookrow._diagnostics.status import StatusSource

        return StatusSource(store=store, parsers=self.parsers, spool=self.spool)

    @property
    def recorded(self) -> Kinds:
        """The kinds of notification that are recorded."""
        return recorded_kinds(self.schema.columns("dispatches"))

    @contextmanager
    def open_database(self, database_url: str) -> Iterator[Database]:
        """Open the database, which connects on first use, and close it at the end of the block.

        Raises `ConfigurationError` if it is in memory.
        """
        from hookrow.stores.sql._urls import open_database, refuse_memory

        with closing(open_database(database_url)) as database:
            refuse_memory(database)
            yield database

    @contextmanager
    def open_store(self, database_url: str, *, verified: bool = True) -> Iterator[SQLStore]:
        """Open the store, whose tables are `verified`, for the duration of a block.

        Raises a `HookrowError` if that fails.
        """
        from hookrow.stores.sql import SQLStore

        with self.open_database(database_url) as database:
            check_tenants(self.configured.entries, self.schema)
            if verified:
                verify_tables(database, self.schema, self.parsers.known)
            store = SQLStore(database, self.schema)
            store.use_entries(self.parsers.known)
            yield store


class HostApp(App):
    """The object that `--app` names: a receiver, a store, or a function that returns one of these.

    Its engine and connections are never closed. The settings file must have no `schema` and no
    entries, because the application has its own.
    """

    is_imported: ClassVar[bool] = False
    """Whether an application was imported; its threads may still run when the command ends."""

    def __init__(self, reference: str, schema: Schema, configured: ConfiguredEntries) -> None:
        super().__init__(schema, configured)
        self.reference = reference

    def __str__(self) -> str:
        return f"The app {self.reference}"

    @cached_property
    def loaded(self) -> Loaded:
        """The receiver or the store. Raises `ConfigurationError`."""
        self._refuse_other_settings()
        HostApp.is_imported = True
        return self._receiver_or_store(_load(self.reference))

    @property
    def receiver(self) -> Receiver | None:
        """The receiver, or None if the application names only a store."""
        from hookrow._receiver.receiver import Receiver

        return self.loaded if isinstance(self.loaded, Receiver) else None

    @property
    def senders(self) -> Sequence[Sender]:
        """The receiver's entries as far as their requests can be sent; Postmark without one."""
        from hookrow._diagnostics.probe import Sender

        if self.receiver is None:
            return [Sender(None, Postmark)]
        return [*map(Sender.of, self.receiver.entries)]

    @property
    def mount_path(self) -> str:
        """The mount path of the receiver."""
        return self.receiver.endpoint.removesuffix(ENDPOINT) if self.receiver else ""

    @property
    def store(self) -> SQLStore:
        """The store. Raises `ConfigurationError` if it is in memory."""
        from hookrow._receiver.receiver import Receiver
        from hookrow.stores.sql._urls import refuse_memory

        store = self.loaded.store if isinstance(self.loaded, Receiver) else self.loaded
        refuse_memory(store.database)
        return store

    @property
    def spool(self) -> str | PathLike[str] | None:
        """The file of the receiver's spool, if it has one."""
        return self.receiver.options.spool if self.receiver else None

    @property
    def schema(self) -> Schema:
        """The mapping of the store."""
        return self.store.schema

    def status_source(self, store: SQLStore) -> StatusSource:
        """Return where this process finds the facts; the receiver has its spool and settings."""
        from hookrow._diagnostics.status import StatusSource, sweep_of

        receiver, command = self.receiver, f"hookrow --app {self.reference}"
        if receiver is None:
            return StatusSource(store=store, command=command)
        return StatusSource(
            store=store,
            command=command,
            receiver=lambda: receiver,
            parsers=receiver.entries,
            sweep=lambda: sweep_of(receiver),
        )

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
    def open_store(self, database_url: str, *, verified: bool = True) -> Iterator[SQLStore]:
        """Return the store, whose tables are `verified`. Raises `ConfigurationError`."""
        del database_url
        if verified:
            verify_tables(self.store.database, self.schema, self.store.known_entries)
        yield self.store

    @property
    def parsers(self) -> Parsers:
        """The receiver's entries; Postmark without a receiver."""
        return self.receiver.entries if self.receiver else POSTMARK

    def _receiver_or_store(self, found: object) -> Loaded:
        from hookrow._receiver.receiver import Receiver
        from hookrow.stores.sql import SQLStore

        if isinstance(found, Receiver | SQLStore):
            return found
        raise ConfigurationError(
            f"{self} is {kind_of(found)}: name a Receiver or an SQLStore, or a "
            "function that returns one, such as shop.mail:create_receiver. If an application of a "
            "framework has the receiver, name its attribute, such as shop.main:app.state.receiver."
        )

    def _refuse_other_settings(self) -> None:
        """Raise `ConfigurationError` if a flag or the file also sets what the application has.

        Variables are ignored, because the application itself may read them.
        """
        source = click.get_current_context().get_parameter_source("database_url")
        other_database = source in {ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP}
        if other_database or self._schema != Schema():
            raise ConfigurationError(
                f"{self} already has a database and a mapping: omit --database-url, and "
                f"database_url and [tables] in the settings file; or {WITHOUT_APP}."
            )
        if self.configured.entries:
            raise ConfigurationError(
                f"{self} already has its providers: omit [providers] in the settings file; or "
                f"{WITHOUT_APP}."
            )


def verify_tables(database: Database, schema: Schema, entries: KnownEntries = NO_ENTRIES) -> None:
    """Verify the tables. Raises `ConfigurationError`, also if an SQLite file does not exist."""
    from hookrow.stores.sql._urls import missing_file
    from hookrow.stores.sql._verify import verify

    if missing := missing_file(database, schema):
        raise ConfigurationError(missing)
    verify(database, schema, entries)


def require_log(store: SQLStore) -> SQLLog:
    """Return the log of a store. Raises `ConfigurationError` if the log is disabled."""
    if store.log is None:
        raise ConfigurationError(
            "The log is disabled: remove `log = false` from the settings (in Python, log=None; in "
            "Django, 'LOG': False)."
        )
    return store.log


def check_entry(name: str | None, app: App, reader: SQLLog | None) -> None:
    """Raise `ConfigurationError` for a name that neither an entry of the receiver nor the log has.

    The log may have an entry that the receiver no longer has, or that is not in the settings of
    the command.
    """
    if name is None or name in app.parsers.names or (reader and _has_entry(reader, name)):
        return
    raise ConfigurationError(
        f"{no_such_entry(name, app.parsers.names)} The log has no notification of such an "
        "entry, either."
    )


def _has_entry(log: SQLLog, name: str) -> bool:
    """Return whether the log has notifications of an entry, or counts of its 401s or 503s."""
    requests = log.requests_by_kind(datetime.fromtimestamp(0, UTC))
    return any(name in of_kind for of_kind in requests.values()) or bool(
        log.count(Query(entry=name), limit=1)
    )


def choose_erased(
    names: Sequence[str], app: App, store: SQLStore, *, everywhere: bool
) -> Collection[str] | None:
    """Return the names of the entries from which a person is erased, or None for the whole log.

    An address may be that of a person of each tenant, so with tenants, the caller chooses. Raises
    `UsageError` if they do not, or choose both, and `ConfigurationError` for an unknown name.
    """
    if names and everywhere:
        raise click.UsageError("Use either --entry or --all-entries.")
    if names:
        for name in names:
            check_entry(name, app, store.log)
        return names
    if everywhere or not store.schema.has_tenants:
        return None
    known = app.parsers.names
    entries = f": {listed(known)}" if known else ""
    raise click.UsageError(
        f"The entries of the receiver are tenants{entries}. The address may be that of a person of "
        "several of them, so select the entries of one with --entry NAME, which may be repeated, "
        "or erase the people of all tenants with --all-entries."
    )


def _load(reference: str) -> object:
    """Return the object at "module:name"; if that is a function, call it and return its result.

    The name may be dotted. The current directory is on the import path. Raises
    `ConfigurationError`, also if the application's own code raises an exception.
    """
    if not is_reference(reference):
        raise ConfigurationError(
            f"The app {reference!r} is not module:name, such as shop.mail:receiver; this may also "
            "name a function that returns the receiver."
        )
    with loading(f"The app {reference}"):
        found = load_object(reference)
        if iscoroutinefunction(found):
            raise TypeError("it is an async function: name a plain one")
        return found() if isroutine(found) else found
