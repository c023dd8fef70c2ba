"""Finds the rows that a refused notification almost matched.

They have another spelling of its keys, or `where` hides them, or they are those of the owner of its
dispatch. The spellings that an index can find are looked up in the whole table, and others, such as
an address with a display name, in the newest rows only (`stores.sql._newest`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hookrow._core.log_entry import StoredEntry
from hookrow._core.notification import FoundDispatch, FoundSubscriber, Key, LookupKeys, Rows
from hookrow._core.result import Result
from hookrow._core.rules import fold, is_email, is_message_id
from hookrow._core.spellings import (
    SPELLINGS_OF_MESSAGE_IDS,
    Difference,
    difference,
    difference_of_emails,
    variants_of_email,
    variants_of_message_id,
)
from hookrow._describe import visible
from hookrow._receiver.entries import Entry, Parsers, correct_message_id
from hookrow.providers._base import BodyParser
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

_NearRow = TypeVar("_NearRow", FoundSubscriber, FoundDispatch)

_MOST = 100
"""How many texts of a body, and of the newest rows, are tried: there may be many."""


class NearMiss(msgspec.Struct, frozen=True):
    """A row that a notification almost matched, and what it has in place of the notification's key.

    `row` is "dispatch" or "subscriber", and `id` the row's key. `stored` is its message id or its
    address. `text` describes the row in a sentence, and says what to store, if that is known.
    """

    row: str
    id: Key
    stored: str
    text: str


def near_misses(store: SQLStore, entry: StoredEntry, parsers: Parsers) -> Sequence[NearMiss]:
    """Return the rows that an entry almost matched; none unless a row is missing, or another's.

    Only rows of the entry's tenant are found. Raises a `StoreError`.
    """
    own = parsers.find(entry.entry, entry.provider)
    if own is None or (own.tenant is None) is store.has_tenants:
        return ()
    search = _Search(store, own)
    match entry.outcome, entry.message_id, entry.recipient:
        case Result.DISPATCH_NOT_FOUND, str() as message_id, _ if (
            is_message_id(message_id) and store.schema.dispatches is not None
        ):
            return [*search.dispatches(message_id, _in_body(entry, message_id, own.provider))]
        case Result.SUBSCRIBER_NOT_FOUND, message_id, str() as email if is_email(email):
            near = [*search.subscribers(email)]
            if not is_message_id(message_id):
                return near
            named = {each.id for each in near}
            return [
                *near,
                *(each for each in search.owners(message_id, email) if each.id not in named),
            ]
        case Result.RECIPIENT_MISMATCH, str() as message_id, str() as email:
            return [*search.owners(message_id, email)]
        case _:
            return ()


class _Search:
    """Finds the rows of an entry's tenant, also those that a marker in `where` hides."""

    def __init__(self, store: SQLStore, own: Entry[BodyParser]) -> None:
        self._store, self._own = store, own
        self._markers = store.role_tables.markers

    def dispatches(self, message_id: str, in_body: Collection[str]) -> Iterator[NearMiss]:
        """Yield those with another form of a message id, unless one has it as it is.

        `in_body` are other forms of the id in the body of the event, such as a header.
        """
        ids = {message_id, *variants_of_message_id(message_id)}
        ids |= self._containing(
            *("dispatches", "provider_message_id", ids),
            lambda stored: difference(stored, message_id, SPELLINGS_OF_MESSAGE_IDS),
        )
        ids |= {*in_body}
        shown, found = self._find(LookupKeys(ids, tenants={self._own.tenant}))
        if self._of_tenant(shown.dispatches.get(message_id, ()), shown):
            return
        shown_ids = {each.id for each in _all(shown.dispatches)}
        for stored, rows in sorted(found.dispatches.items()):
            words = _words(difference(stored, message_id, SPELLINGS_OF_MESSAGE_IDS))
            if words is None and stored in in_body:
                words = "in another form"
            if words is None:
                continue
            remedy = f" Store {self._own.provider.message_id_source}." if words else ""
            subject = "A dispatch has the message ID"
            for row in self._of_tenant(rows, found):
                hidden = self._hidden("dispatches") if row.id not in shown_ids else ""
                text = f"{_sentence(subject, stored, words)}{hidden}{remedy}"
                yield NearMiss("dispatch", row.id, stored, text)

    def subscribers(self, email: str) -> Iterator[NearMiss]:
        """Yield those with another spelling of an address, unless one has it as it is."""
        emails = {email, *variants_of_email(email)}
        emails |= self._containing(
            *("subscribers", "email", emails), lambda stored: difference_of_emails(stored, email)
        )
        addressed = {(None, fold(each), each, self._own.tenant) for each in emails}
        shown, found = self._find(LookupKeys((), addressed, tenants={self._own.tenant}))
        words_of = {
            row: _words(difference_of_emails(row.email, email, exact=found.exact))
            for row in self._of_tenant(_all(found.subscribers), found)
        }
        shown_rows = {*_all(shown.subscribers)}
        if any(words == "" and row in shown_rows for row, words in words_of.items()):
            return
        for row, words in sorted(words_of.items(), key=lambda each: each[0].email):
            if words is not None:
                hidden = "" if row in shown_rows else self._hidden("subscribers")
                text = _sentence("A subscriber has the address", row.email, words) + hidden
                yield NearMiss("subscriber", row.id, row.email, text)

    def owners(self, message_id: str, recipient: str) -> Iterator[NearMiss]:
        """Yield the owners of a message's dispatches, unless they are the recipient now."""
        shown, found = self._find(LookupKeys({message_id}, tenants={self._own.tenant}))
        owners = {each.id: each.owner for each in shown.dispatches.get(message_id, ())}
        for row in self._of_tenant(found.dispatches.get(message_id, ()), found):
            if row.owner is None or row.id not in owners:
                continue
            words = _words(difference_of_emails(row.owner_email, recipient, exact=found.exact))
            hidden = self._hidden("subscribers") if owners[row.id] is None else ""
            if words != "" or hidden:
                subject = "The dispatch with this message ID belongs to the subscriber"
                text = _sentence(subject, row.owner_email, words or "") + hidden
                yield NearMiss("subscriber", row.owner, row.owner_email, text)

    def _find(self, keys: LookupKeys) -> tuple[Rows, Rows]:
        """Return the rows that `where` does not hide, and these with those that a marker hides."""
        with self._store.reading(hidden=True) as reading:
            found = reading.find(keys)
        if not any(self._markers.values()):
            return found, found
        # Later, so that a row that is inserted in between is not described as hidden.
        with self._store.reading() as reading:
            return reading.find(keys), found

    def _containing(
        self,
        role: str,
        name: str,
        texts: Collection[str],
        differs: Callable[[str], Difference | None],
    ) -> set[str]:
        """Return the values in the newest rows that contain one of the texts, and mean the same.

        Returns none if the search takes too long: the rows that an index finds are found anyway.
        """
        folded = {*map(fold, texts)}
        parts = [each for each in folded if not any(other in each for other in folded - {each})]
        found: Collection[str] = ()
        with (
            suppress(StoreError),
            limited_to(STATEMENT_TIMEOUT),
            self._store.reading(hidden=True) as reading,
        ):
            found = reading.containing(role, name, parts, self._own.tenant)
        return {*islice(filter(differs, sorted(found)), _MOST)}

    def _of_tenant(self, rows: Iterable[_NearRow], found: Rows) -> Sequence[_NearRow]:
        """Return the rows of the entry's tenant, if the mapping has tenants."""
        if not found.tenants:
            return list(rows)
        tenant = found.tenants[self._own.tenant]
        return [row for row in rows if row.tenant == tenant]

    def _hidden(self, role: str) -> str:
        """Return the sentence about a row that `where` hides, to follow another one."""
        columns = ", ".join(map(repr, self._markers[role]))
        return f" `where` hides this row: see its {columns}."


def _all(rows: Mapping[str, Sequence[_NearRow]]) -> Iterator[_NearRow]:
    return chain.from_iterable(rows.values())


def _words(differs: Difference | None) -> str | None:
    return None if differs is None else differs.words


def _sentence(subject: str, stored: str, words: str) -> str:
    """Return a sentence about a text, and how it is stored if it differs."""
    differs = f", which is not equal: it is stored {words}" if words else ""
    return f'{subject} "{visible(stored)}"{differs}.'


def _in_body(entry: StoredEntry, message_id: str, provider: BodyParser) -> Collection[str]:
    """Return the texts in the body that are other forms of the message id, such as a header."""
    try:
        waiting = [msgspec.json.decode(entry.body or "")]
    except (ValueError, RecursionError):
        return ()
    found: set[str] = set()
    while waiting and len(found) < _MOST:
        match waiting.pop():
            case dict() as fields:
                waiting += fields.values()
            case list() as items:
                waiting += items
            case str() as text if text != message_id and is_message_id(text):
                if correct_message_id(provider, text) == message_id:
                    found.add(text)
    return found
