"""Finds the rows that a refused notification almost matched, under other spellings of its keys.

The spellings are few, and are looked up by the indexes that find rows for notifications.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar
from unicodedata import normalize
from uuid import UUID

import msgspec

from hookrow._core.log_entry import StoredEntry
from hookrow._core.notification import FoundDispatch, FoundSubscriber, LookupKeys, Rows
from hookrow._core.result import Result
from hookrow._core.rules import fold, is_email, is_message_id
from hookrow._describe import printable
from hookrow._receiver.entries import Entry, Parsers
from hookrow.providers._base import BodyParser

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

_NearRow = TypeVar("_NearRow", FoundSubscriber, FoundDispatch)

_MOST_FROM_BODY = 10
"""How many texts of a body are tried as message ids: a body of 1 MiB may have many."""


def near_misses(store: SQLStore, entry: StoredEntry, parsers: Parsers) -> Sequence[str]:
    """Return sentences about the rows that an entry almost matched; none unless a row is missing.

    Only rows of the entry's tenant are found. Raises a `StoreError`.
    """
    own = parsers.find(entry.entry, entry.provider)
    if own is None or (own.tenant is None) is store.has_tenants:
        return ()
    match entry.outcome:
        case Result.DISPATCH_NOT_FOUND if is_message_id(entry.message_id):
            return [*_near_dispatches(store, entry, entry.message_id, own)]
        case Result.SUBSCRIBER_NOT_FOUND if is_email(entry.recipient):
            return [*_near_subscribers(store, entry, entry.recipient, own)]
        case _:
            return ()


def spellings_of_message_id(message_id: str) -> Collection[str]:
    """Return other forms in which a host may have stored a message id."""
    bare = message_id.strip().removeprefix("<").removesuffix(">")
    forms = {bare, f"<{bare}>"}
    with suppress(ValueError):
        id_ = UUID(bare)
        forms |= {id_.hex, id_.hex.upper(), str(id_), str(id_).upper()}
    forms |= {f"{message_id} ", f" {message_id}", f"{message_id}\n"}
    return {each for each in forms if is_message_id(each)} - {message_id}


def spellings_of_email(email: str) -> Collection[str]:
    """Return other spellings of an address, of which a host may have stored one."""
    bare = email.strip().removeprefix("<").removesuffix(">")
    local, at, domain = bare.rpartition("@")
    forms = {bare, f"<{bare}>", f"{email} ", f" {email}", f"{email}\n"}
    forms |= {bare.lower(), bare.upper(), normalize("NFC", bare), normalize("NFD", bare)}
    with suppress(UnicodeError):
        forms.add(f"{local}{at}{domain.encode('idna').decode()}")
    with suppress(UnicodeError):
        forms.add(f"{local}{at}{domain.encode().decode('idna')}")
    return {each for each in forms if is_email(each) and fold(each) != fold(email)}


def _near_dispatches(
    store: SQLStore, entry: StoredEntry, message_id: str, own: Entry[BodyParser]
) -> Iterator[str]:
    ids = {*spellings_of_message_id(message_id), *_in_body(entry, message_id, own.provider)}
    with store.reading() as reading:
        found = reading.find(LookupKeys(ids, tenants={own.tenant}))
    for each in sorted(ids):
        if _of_tenant(found.dispatches.get(each, ()), found, own):
            yield (
                f"A dispatch has the message ID {_quoted(each)}, which is not equal. Store "
                f"{own.provider.message_id_source}."
            )


def _near_subscribers(
    store: SQLStore, entry: StoredEntry, email: str, own: Entry[BodyParser]
) -> Iterator[str]:
    emails = spellings_of_email(email)
    addressed = {(None, fold(each), each, own.tenant) for each in emails}
    ids = {entry.message_id} if is_message_id(entry.message_id) else set()
    with store.reading() as reading:
        found = reading.find(LookupKeys(ids, addressed, tenants={own.tenant}))
    stored = {
        row.email
        for each in emails
        for row in _of_tenant(found.subscribers.get(fold(each), ()), found, own)
    }
    for each in sorted(stored):
        yield f"A subscriber has the address {_quoted(each)}, which is not equal."
    owners = {
        row.owner_email
        for id_ in ids
        for row in _of_tenant(found.dispatches.get(id_, ()), found, own)
        if row.owner is not None
    }
    for each in sorted(owners - stored):
        yield f"The dispatch with this message ID belongs to the subscriber {_quoted(each)}."


def _in_body(entry: StoredEntry, message_id: str, provider: BodyParser) -> Collection[str]:
    """Return the texts in the body that are other forms of the message id, such as a header."""
    try:
        waiting = [msgspec.json.decode(entry.body or "")]
    except (ValueError, RecursionError):
        return ()
    found: set[str] = set()
    while waiting and len(found) < _MOST_FROM_BODY:
        match waiting.pop():
            case dict() as fields:
                waiting += fields.values()
            case list() as items:
                waiting += items
            case str() as text if text != message_id and is_message_id(text):
                if provider.correct_message_id(text) == message_id:
                    found.add(text)
    return found


def _of_tenant(rows: Sequence[_NearRow], found: Rows, own: Entry[BodyParser]) -> Sequence[_NearRow]:
    """Return the rows of the entry's tenant, if the mapping has tenants."""
    if not found.tenants:
        return rows
    tenant = found.tenants[own.tenant]
    return [row for row in rows if row.tenant == tenant]


def _quoted(text: str) -> str:
    """Return a text in quotation marks, which show the spaces around it."""
    return f'"{printable(text)}"'
