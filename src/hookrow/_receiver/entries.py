"""The entries of a receiver: its providers, by name, and which of them reads a log entry.

The providers may be the host's, so their methods are called here only: a mistake in one of them
becomes a `ProviderFault`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from hookrow._arguments import OptionsError, kind_of, reject
from hookrow._core.known_entries import KnownEntries
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, RECORD_TYPES, LogEntry, is_entry_name
from hookrow._core.notification import Key, Notification
from hookrow._core.optional import OPTIONAL_KINDS, RECORDS, Kinds
from hookrow._core.rules import UNSTORABLE
from hookrow._core.schema import Schema, nearest
from hookrow._faults import describe_fault, log_fault
from hookrow._http import Request, RequestHead, Response
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.providers._base import (
    BodyParser,
    Event,
    NotReady,
    Provider,
    ProviderFault,
    Unauthentic,
    check_challenge,
    check_clause,
    check_event,
    check_events,
    check_provider,
    check_refusal,
    check_response,
    provider_class,
)
from hookrow.providers._registry import is_built_in
from hookrow.providers.postmark import Postmark
from hookrow.stores._log import Origin

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

logger = logging.getLogger("hookrow")

T = TypeVar("T")

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


def _plain(tenant: Key | None) -> Key | None:
    """Return the value of a tenant without its subclass: `str` of an enum's member is its name."""
    match tenant:
        case int():
            return int(tenant)
        case str():
            return str.__str__(tenant)
        case _:
            return tenant


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

    is_checked: bool = field(init=False, repr=False, compare=False)
    """Whether the types of the provider's events are checked, which takes as long as reading one.
    Those of the built-in providers are known."""

    def __post_init__(self) -> None:
        """Decide whether events are checked, once for all requests."""
        object.__setattr__(self, "is_checked", not is_built_in(self.provider))
        object.__setattr__(self, "tenant", _plain(self.tenant))

    def admit(self: Entry[Provider], head: RequestHead) -> str | None:
        """Call `Provider.admit`. Raises `ProviderFault`."""
        challenge = self._call("admit", head)
        return None if challenge is None else check_challenge(self.provider, challenge)

    def probe(self: Entry[Provider], head: RequestHead) -> Response | None:
        """Call `Provider.probe`. Raises `ProviderFault`."""
        return check_response(self.provider, self._call("probe", head))

    def describe_unauthentic(self: Entry[Provider], head: RequestHead) -> str:
        """Call `Provider.describe_unauthentic`. Raises `ProviderFault`."""
        return check_clause(self.provider, self._call("describe_unauthentic", head))

    def is_test(self, event: Event) -> bool:
        """Call `Provider.is_test`; a class, which has no secret, knows no test.

        Raises `ProviderFault`.
        """
        return isinstance(self.provider, Provider) and bool(self._call("is_test", event))

    def read(self: Entry[Provider], request: Request) -> Sequence[Event]:
        """Call `Provider.read`. Raises `Unauthentic`, `NotReady` and `ProviderFault`."""
        try:
            events = self._call("read", request, Unauthentic, NotReady)
        except Unauthentic as error:
            check_refusal(self.provider, error)
            raise
        return check_events(self.provider, "read", events) if self.is_checked else events

    def read_body(self: Entry[Provider], body: bytes) -> Sequence[Event]:
        """Call `Provider.read_body`. Raises `ProviderFault`."""
        events = self._call("read_body", body)
        return check_events(self.provider, "read_body", events) if self.is_checked else events

    def parse(self, body: bytes) -> Event:
        """Call `BodyParser.parse`. Raises `ProviderFault`."""
        event: Event = self._call("parse", body)
        return check_event(self.provider, event) if self.is_checked else event

    def _call(self, method: str, argument: object, *expected: type[Exception]) -> Any:  # noqa: ANN401 - of any type, as the host may return
        """Call a method of the provider. Raises the `expected` exceptions and `ProviderFault`."""
        try:
            return getattr(self.provider, method)(argument)
        except expected:
            raise
        except Exception as error:
            fault = f"{provider_class(self.provider)}.{method} raised {describe_fault(error)}"
            # hookrow's own exceptions contain no text of a notification, so theirs can be logged.
            text = f": {error}" if isinstance(error, HookrowError) else ""
            raise ProviderFault(f"{fault}{text}") from error


def log_provider_fault(fault: ProviderFault, template: str, *values: object) -> None:
    """Log the mistake of a provider, which is the last of the values of the template."""
    if fault.__cause__ is None:
        logger.error(template, *values, fault)
    else:
        log_fault(fault.__cause__, template, *values, fault)


def explain(parser: BodyParser, event: Event, recorded: Kinds) -> str | None:
    """Return why an event is not recorded by a store that records these kinds; None if it is.

    Also returns None if the provider does not explain why it does not support the event.
    """
    if any(type(each) in recorded for each in event.notifications):
        return None
    kinds_read, logged_type = {*map(type, event.notifications)}, event.unsupported.record_type
    for name, (column, *_) in RECORDS.items():
        kind = OPTIONAL_KINDS.get(column)
        if kind is None or kind in recorded:
            continue
        if kind in kinds_read or RECORD_TYPES[kind] == logged_type:
            return (
                f"The mapping does not record this type: map the column {column!r}, or add "
                f"{name!r} to `record`."
            )
    return _described(parser, "explain", event.body, None, _IS_OPTIONAL_TEXT)


def field_names(parser: BodyParser, notification: Notification) -> tuple[str, str]:
    """Call `BodyParser.field_names`; if it fails, return the names for any provider."""
    default = BodyParser.field_names(parser, notification)
    return _described(parser, "field_names", notification, default, (_are_names, "two strings"))


def correct_message_id(parser: BodyParser, stored: str) -> str | None:
    """Call `BodyParser.correct_message_id`; if it fails, return the id unchanged."""
    return _described(parser, "correct_message_id", stored, stored, _IS_OPTIONAL_TEXT)


_Expected: TypeAlias = tuple[Callable[[object], bool], str]
"""Whether a method may return a value, and what it must return."""

_IS_OPTIONAL_TEXT: _Expected = lambda found: isinstance(found, str | None), "a string or None"


def _are_names(found: object) -> bool:
    match found:
        case (str(), str()):
            return True
        case _:
            return False


def _described(
    parser: BodyParser, method: str, argument: object, default: T, expected: _Expected
) -> T:
    """Call a method that only describes stored data. If it fails, log it, and return the default.

    A page or a command that describes many entries must not fail because of one provider.
    """
    name, (is_valid, description) = f"{provider_class(parser)}.{method}", expected
    try:
        found: T = getattr(parser, method)(argument)
    except Exception as error:  # noqa: BLE001 - of the host, who sees it in the log
        log_fault(error, "%s raised %s", name, describe_fault(error))
        return default
    if is_valid(found):
        return found
    logger.error("%s returned %s, but must return %s.", name, kind_of(found), description)
    return default


class Unread(Exception):
    """No entry of the receiver reads the notification; the text has the reason and the remedy."""


_POSTMARK: Entry[BodyParser] = Entry(None, Postmark)


class Entries(Generic[P_co]):
    """The entries of a receiver, in order: one without a name, or one or more with names."""

    def __init__(self, *entries: Entry[P_co]) -> None:
        self._entries = entries
        self._by_name = {each.name: each for each in entries if each.name is not None}
        self.default: Entry[P_co] = entries[0]
        """The first entry, whose requests need no name."""
        self.have_names: bool = self.default.name is not None
        """Whether the entries have names."""
        self.have_tenants: bool = self.default.tenant is not None
        """Whether the entries are tenants."""
        self._by_origin = self._readers()

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
        return self._by_origin.get(Origin(name, provider))

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
    def known(self) -> KnownEntries:
        """What a store needs to know about them."""
        lengths = {
            each.provider.name: length
            for each in self
            if isinstance(length := getattr(each.provider, "message_id_length", None), int)
        }
        return KnownEntries(self.names, self.tenants, lengths)

    @property
    def origins(self) -> Collection[Origin]:
        """The stored names for which `find` returns an entry."""
        return self._by_origin.keys()

    def _readers(self) -> Mapping[Origin, Entry[BodyParser]]:
        """Return the entries by origin, as `find` describes them."""
        readers: dict[Origin, Entry[BodyParser]] = {}
        for each in self:
            readers[Origin(each.name, None)] = Entry(each.name, Postmark, each.tenant)
            readers[Origin(each.name, each.provider.name)] = each
        if not self.have_names:
            readers.setdefault(Origin(None, Postmark.name), _POSTMARK)
        elif not self.have_tenants:
            # What was stored before the entries had names is read by the first of its provider.
            readers[Origin(None, None)] = _POSTMARK
            for each in self:
                readers.setdefault(Origin(None, each.provider.name), each)
        return readers


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


def introduce(entries: Parsers, store: SQLStore) -> None:
    """Let a store know the entries of a receiver, which its columns must suit.

    Raises an `OptionsError` if only the entries or only the mapping has tenants, and the errors of
    `SQLStore.use_entries`.
    """
    match_tenants(entries, store.schema)
    store.use_entries(entries.known)


def match_tenants(entries: Parsers, schema: Schema) -> None:
    """Raise an `OptionsError`, with the line to write, if only one of the two has tenants."""
    role = schema.subscribers
    names = {
        "column": repr(role.tenant),
        "table": repr(role.table),
        "tenant": _TENANT_LINE,
        "tenant_column": f"Schema(subscribers={role.line_with_tenant})",
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


def why_unread(origin: Origin, parsers: Parsers) -> tuple[str, str]:
    """Return why no entry of a receiver reads notifications of this origin, and the remedy.

    Neither text ends with a full stop, so that another remedy may follow.
    """
    name, provider = origin
    if name is None:
        unnamed = "it was stored without the name of an entry"
        if parsers.have_tenants:
            return f"{unnamed}, so its tenant is not known", "Prune it"
        return f"{unnamed}, with the provider {provider}", "Add an entry with this provider"
    if name not in parsers.names:
        remedy = f"If the entry was renamed, name it {name!r} again"
        return f"the receiver has no entry {name!r} ({provider or 'manual changes'})", remedy
    changed = f"the entry {name!r} had the provider {provider} then, and has another one now"
    return changed, f"Give the entry {name!r} this provider again, and the other one a new name"


def similar_entry_name(text: str) -> str:
    """Return a name that an entry may have, and that is similar to a text."""
    name = re.sub("[^a-z0-9_]+", "-", text.lower())[:LONGEST_ENTRY_NAME].strip("-")
    return name or "acme"


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


def _named_line(name: str) -> str:
    """Return the line to write for an entry with a name."""
    return f'Receiver({{"{name}": Postmark(secret)}}, store)'


def _named_entry(name: object, value: object, check: Callable[[object, str], P_co]) -> Entry[P_co]:
    """Return an entry of a mapping. Raises `ConfigurationError`."""
    if not isinstance(name, str):
        reject("The name of an entry", "a string", name, NAMED_LINE)
    if not is_entry_name(name):
        raise ConfigurationError(
            f"The name of an entry has 1 to {LONGEST_ENTRY_NAME} lower-case ASCII letters, digits, "
            f'"-" and "_", because it is part of a URL, but one is {name!r}: write '
            f"{_named_line(similar_entry_name(name))}."
        )
    line = _named_line(name)
    if isinstance(value, Tenant):
        return Entry(name, check(value.provider, line), value.value)
    return Entry(name, check(value, line))
