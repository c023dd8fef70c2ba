"""The entries of a receiver: its providers, by name, and which of them reads a log entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from hookrow._arguments import OptionsError, kind_of, reject
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, LogEntry, is_entry_name
from hookrow._core.notification import Key
from hookrow._core.rules import UNSTORABLE
from hookrow._core.schema import Schema, nearest
from hookrow.errors import ConfigurationError
from hookrow.providers._base import BodyParser, Provider, check_provider
from hookrow.providers.postmark import Postmark
from hookrow.stores._log import Origin

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

P_co = TypeVar("P_co", bound=BodyParser, covariant=True)

NAMED_LINE = 'Receiver({"postmark": Postmark(secret)}, store)'
"""The line to write for a receiver with names."""

_TENANT_LINE = 'Receiver({"acme": Tenant(Postmark(secret), 1)}, store)'

_MOST_NAMED_ENTRIES = 10
"""How many entries a message names."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """An entry of a receiver whose notifications change only the rows of one tenant.

    `value` is an int, a string or a UUID: these rows have it in the column that the mapping names
    (`Role("people", tenant="team_id")`). Several entries may have the same value. Raises
    `ConfigurationError` for arguments of other types.
    """

    provider: Provider
    value: Key

    def __post_init__(self) -> None:
        """Check the types of the arguments."""
        if not isinstance(self.provider, Provider):
            reject("The provider of a tenant", "a provider", self.provider, _TENANT_LINE)
        if fault := tenant_fault(self.value):
            raise ConfigurationError(f"The value of a tenant {fault}: write {_TENANT_LINE}.")


def tenant_fault(value: object) -> str | None:
    """Return why no column contains a value as its tenant, as a predicate, or None if one may."""
    if isinstance(value, bool) or not isinstance(value, Key):
        return f"must be an int, a string or a UUID, not {kind_of(value)}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"must fit 64 bits, but {value} does not"
    if isinstance(value, str) and UNSTORABLE.search(value):
        return f"must not contain NUL or an unpaired surrogate, as {value!r} does"
    return None


@dataclass(frozen=True, slots=True)
class Entry(Generic[P_co]):
    """A provider, its name in the receiver, and the value of its tenant.

    The name is None if the receiver has a single provider, and `tenant` is None unless the entry is
    a `Tenant`. The entries of a receiver have a `Provider`; to read the log, a `BodyParser` is
    enough, which needs no secret.
    """

    name: str | None
    provider: P_co
    tenant: Key | None = None


_POSTMARK: Entry[BodyParser] = Entry(None, Postmark)


class Entries(Generic[P_co]):
    """The entries of a receiver, in order: one without a name, or one or more with names."""

    def __init__(self, *entries: Entry[P_co]) -> None:
        self._entries = entries
        self._by_name = {each.name: each for each in entries if each.name is not None}
        self.default = entries[0]
        """The first entry, whose requests need no name."""
        self.have_names = self.default.name is not None
        """Whether the entries have names."""
        self.have_tenants = self.default.tenant is not None
        """Whether the entries are tenants."""

    @property
    def names(self) -> Collection[str]:
        """The names of the entries, in order; none for a single provider."""
        return [*self._by_name]

    def __iter__(self) -> Iterator[Entry[P_co]]:
        """Return an iterator over the entries, in order."""
        return iter(self._entries)

    def named(self, name: str) -> Entry[P_co] | None:
        """Return the entry with a name, or None."""
        return self._by_name.get(name)

    def find(self, name: str | None, provider: str | None) -> Entry[BodyParser] | None:
        """Return the entry that reads what the log or the spool has stored, or None.

        The arguments are the stored names of the entry and of the provider, which is None for a
        manual change, whose body is Postmark's. What was stored without the name of an entry is not
        known to belong to any tenant, so no entry of a receiver with tenants reads it.
        """
        if name is not None or not self.have_names:
            own = self.default if name is None else self._by_name.get(name)
            if own is None or own.provider.name == provider:
                return own
            if provider is None:
                return Entry(name, Postmark, own.tenant)
            return _POSTMARK if name is None and provider == Postmark.name else None
        if self.have_tenants:
            return None
        if provider is None:
            return _POSTMARK
        return next((each for each in self if each.provider.name == provider), None)

    def parser_of(self, stored: LogEntry) -> BodyParser | None:
        """Return the parser for the body of a log entry, or None if no entry reads it.

        `find` has the rules.
        """
        entry = self.find(stored.entry, stored.provider)
        return None if entry is None else entry.provider

    @property
    def tenants(self) -> Mapping[str, Key]:
        """The tenants by the names of their entries; empty if the entries are not tenants."""
        return {
            name: each.tenant for name, each in self._by_name.items() if each.tenant is not None
        }

    @property
    def origins(self) -> Collection[Origin]:
        """The stored names for which `find` returns an entry."""
        names: Sequence[str | None] = [None, *self._by_name]
        providers = {None, Postmark.name, *(each.provider.name for each in self)}
        origins = (Origin(name, provider) for name in names for provider in providers)
        return {each for each in origins if self.find(*each) is not None}


Providers: TypeAlias = Provider | Mapping[str, Provider] | Mapping[str, Tenant]
"""What a host passes to a receiver."""

Parsers: TypeAlias = Entries[BodyParser]
"""Entries as far as they are needed to read the log."""

POSTMARK: Parsers = Entries(_POSTMARK)
"""Postmark alone."""


def read_entries(providers: object) -> Entries[Provider]:
    """Return the entries that a host passes to a receiver: a provider, or a mapping by name.

    The values of a mapping are providers, or tenants. Raises `ConfigurationError` for anything
    else, with the line to write.
    """
    if isinstance(providers, Mapping):
        entries = _named_entries(providers, check_provider)
        _refuse_same_provider(entries)
        return Entries(*entries)
    if isinstance(providers, Tenant):
        raise ConfigurationError(f"A tenant needs a name: write {_TENANT_LINE}.")
    if isinstance(providers, list | tuple | set | frozenset):
        reject("Several providers", "a mapping, with a name for each", providers, NAMED_LINE)
    return Entries(Entry(None, check_provider(providers)))


def read_parsers(providers: object) -> Parsers:
    """Return the entries by which a host's page reads the log.

    The argument is `receiver.entries`, or the first argument of a `Receiver`, in which a class may
    take the place of each provider. Raises `ConfigurationError` for anything else.
    """
    if isinstance(providers, Entries):
        return providers
    if isinstance(providers, Mapping):
        return Entries(*_named_entries(providers, _check_parser))
    return Entries(Entry(None, _check_parser(providers)))


def check_tenants(entries: Parsers, store: SQLStore) -> None:
    """Pass the tenants of the entries to the store, if the mapping has a tenant column.

    Raises an `OptionsError` if only one of the two has tenants.
    """
    match_tenants(entries, store.schema)
    store.use_tenants(entries.tenants)


def match_tenants(entries: Parsers, schema: Schema) -> None:
    """Raise an `OptionsError`, with the line to write, if only one of the two has tenants."""
    role = schema.subscribers
    names = {
        "column": repr(role.tenant),
        "table": repr(role.table),
        "tenant": _TENANT_LINE,
        "tenant_column": f'Schema(subscribers=Role("{role.table}", tenant="team_id"))',
    }
    if schema.has_tenants and not entries.have_tenants:
        raise OptionsError(
            "The mapping has the tenant of each row, in the column {column} of {table}, so each "
            "entry of the receiver needs the value of its tenant: write {tenant}.",
            names,
        )
    if entries.have_tenants and not schema.has_tenants:
        raise OptionsError(
            "The entries are tenants, but the mapping does not name the column with the tenant of "
            "a row: write {tenant_column}.",
            names,
        )


def listed(names: Collection[str]) -> str:
    """Return the names of entries, but not all if there are many, as tenants may be."""
    shown = ", ".join(map(repr, islice(names, _MOST_NAMED_ENTRIES)))
    more = len(names) - _MOST_NAMED_ENTRIES
    return f"{shown}, and {more} more" if more > 0 else shown


def no_such_entry(name: str, names: Collection[str]) -> str:
    """Return the message for a name that none of a receiver's entries, which have `names`, has."""
    if not names:
        return f"The receiver has no entry {name!r}: its only provider has no name."
    hint = nearest(name, names)
    return f"The receiver has no entry {name!r}. The names of its entries: {listed(names)}.{hint}"


def _check_parser(provider: object, line: str = "providers=receiver.entries") -> BodyParser:
    """Return a provider or its class. Raises `ConfigurationError` for anything else."""
    if not (hasattr(provider, "parse") and hasattr(provider, "name")):
        expected = "a provider or its class, a mapping of several, or the entries of a receiver"
        reject("providers", expected, provider, line)
    return cast("BodyParser", provider)


def _named_entries(
    providers: Mapping[Any, object], check: Callable[[object, str], P_co]
) -> Sequence[Entry[P_co]]:
    """Return the entries of a mapping, whose providers are checked. Raises `ConfigurationError`."""
    if not providers:
        raise ConfigurationError(f"The mapping has no entry: write {NAMED_LINE}.")
    entries = [_named_entry(name, value, check) for name, value in providers.items()]
    if len({each.tenant is None for each in entries}) > 1:
        names = ", ".join(repr(each.name) for each in entries if each.tenant is None)
        raise ConfigurationError(
            f"These entries are not tenants, but the others are: {names}. They would change the "
            f"rows of every tenant: write {_TENANT_LINE}, or use another receiver for them."
        )
    return entries


def _refuse_same_provider(entries: Sequence[Entry[Provider]]) -> None:
    """Raise `ConfigurationError` if two entries have the same provider."""
    first: dict[int, str | None] = {}
    for each in entries:
        earlier = first.setdefault(id(each.provider), each.name)
        if earlier != each.name:  # the uses of its secrets could not be counted by entry
            raise ConfigurationError(
                f"The entries {earlier!r} and {each.name!r} are the same object: construct a "
                "provider for each."
            )


def _named_entry(name: object, value: object, check: Callable[[object, str], P_co]) -> Entry[P_co]:
    """Return an entry of a mapping. Raises `ConfigurationError`."""
    if not isinstance(name, str):
        reject("The name of an entry", "a string", name, NAMED_LINE)
    if not is_entry_name(name):
        raise ConfigurationError(
            f"The name of an entry has 1 to {LONGEST_ENTRY_NAME} lower-case ASCII letters, digits, "
            f'"-" and "_", because it is part of a URL, but one is {name!r}: write {NAMED_LINE}.'
        )
    line = f'Receiver({{"{name}": Postmark(secret)}}, store)'
    if isinstance(value, Tenant):
        return Entry(name, check(value.provider, line), value.value)
    return Entry(name, check(value, line))
