"""Finds message ids and emails in the host's rows that no notification can match.

Only the newest rows are read, of each tenant the same number, so that a check takes as long for
millions of rows as for thousands; see `stores.sql._newest`. The spellings are those of near misses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hookrow._core.notification import Key
from hookrow._core.rules import LONGEST_MESSAGE_ID
from hookrow._core.spellings import (
    BRACKETS,
    CASE,
    DECOMPOSED,
    DISPLAY_NAME,
    DOMAIN,
    HYPHENS,
    INTERNATIONAL,
    INVISIBLE_CHARACTERS,
    SPELLINGS_OF_MESSAGE_IDS,
    SUFFIX,
    Spelling,
    difference,
    difference_of_emails,
    usual_email,
)
from hookrow._describe import pluralize, visible
from hookrow._diagnostics import CheckResult, Level
from hookrow._observability.logging import mask_email
from hookrow._receiver.entries import Parsers, correct_message_id, listed
from hookrow.providers._base import BodyParser
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._conversions import guid
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._newest import newest
from hookrow.stores.sql._role_tables import RoleTables


class _Correction(NamedTuple):
    """How a statement corrects the values of a column that differ by one spelling.

    `sql` returns the correct value as an expression, given a column. `condition` selects the
    values, with `{0}` for the column.
    """

    sql: Callable[[Dialect, str], str]
    condition: str


def _hyphenated(dialect: Dialect, column: str) -> str:
    """Return the expression for the 32 digits of a UUID with hyphens."""
    parts = (f"lower(substr({column}, {start}, {size}))" for start, size in _UUID_PARTS)
    first, *others = parts
    return dialect.concat(first, *(text for part in others for text in ("'-'", part)))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""The first digit of each part of a UUID without hyphens, and the number of its digits."""

_TRIM = _Correction(
    lambda _, column: f"trim({column})",
    "{0} LIKE ' %' OR {0} LIKE '% '",
)
"""Removes spaces. For other invisible characters, databases have no common function."""

_CORRECTIONS = {
    INVISIBLE_CHARACTERS.words: _TRIM,
    BRACKETS.words: _Correction(
        lambda _, column: f"replace(replace({column}, '<', ''), '>', '')",
        "{0} LIKE '<%'",
    ),
    BRACKETS.reverse: _Correction(
        lambda dialect, column: dialect.concat("'<'", column, "'>'"),
        "{0} LIKE '%@%' AND {0} NOT LIKE '<%'",
    ),
    CASE.words: _Correction(
        lambda _, column: f"lower({column})",
        "{0} LIKE '%-%'",
    ),
    HYPHENS.reverse: _Correction(
        _hyphenated,
        "{0} NOT LIKE '%-%'",
    ),
    HYPHENS.words: _Correction(
        lambda _, column: f"lower(replace({column}, '-', ''))",
        "{0} LIKE '%-%'",
    ),
    SUFFIX.words: _Correction(
        lambda dialect, column: dialect.text_before(column, "."),
        "{0} LIKE '%.%' AND {0} NOT LIKE '%@%'",
    ),
    DOMAIN.words: _Correction(
        lambda dialect, column: dialect.text_before(f"replace({column}, '<', '')", "@"),
        "{0} LIKE '%@%'",
    ),
}
"""The statements by the words of a spelling. Values with several spellings at once have none."""

_SHORTEST_ID = 10
"""The length in characters of the shortest id that a provider may have made. Shorter ones, such as
`m-1`, are those of tests, and no mistake."""

_Finding: TypeAlias = tuple[BodyParser | None, str]
"""The provider that corrects a message id, if one does, and the words for how the id is stored."""


class _Wrong(NamedTuple):
    """A wrong message id, what it should be, and the tenant of its row."""

    stored: str
    correct: str | None
    tenant: str | None


class _WrongEmail(NamedTuple):
    """A wrong email, what it should be, and the words for how it is stored."""

    stored: str
    correct: str
    words: str


def check_message_ids(
    database: Database, tables: RoleTables, parsers: Parsers
) -> Iterator[CheckResult]:
    """Yield a warning for each wrong form of the message ids of dispatches.

    A form is wrong if no entry of the receiver has such ids: if there are tenants, no entry of the
    row's tenant. Ids of tenants without an entry are not checked.
    """
    if not tables.has("dispatches"):
        return
    tenants = _tenants(tables, [each.tenant for each in parsers])
    try:
        with limited_to(STATEMENT_TIMEOUT):
            stored = _message_ids(database, tables, tenants)
    except StoreError as error:
        text = f"They cannot be checked: {message(error)}"
        yield CheckResult(Level.WARNING, "ids", text)
        return
    readers = _readers(tables, parsers)
    found: defaultdict[_Finding, list[_Wrong]] = defaultdict(list)
    for message_id, tenant in stored:
        corrected = {each: correct_message_id(each, message_id) for each in readers.get(tenant, ())}
        if not corrected or message_id in corrected.values():
            continue
        reader = next((each for each in corrected if corrected[each]), None)
        correct = corrected[reader] if reader else None
        if reader is None and len(message_id) < _SHORTEST_ID:
            continue
        wrong = _Wrong(message_id, correct, tenant)
        found[reader, _words_for(message_id, correct)].append(wrong)
    for (reader, words), ids in found.items():
        count = _count(tables, "dispatches", "message ID", len(ids), len(stored))
        text = f"{count} stored {words}, such as {_text(ids[0])}"
        if reader is None:
            providers = {each.name for id_ in ids for each in readers[id_.tenant]}
            names = " or ".join(sorted(providers))
            text = f"{count} not of the form of those of {names}, such as {_text(ids[0])}"
        yield CheckResult(
            Level.WARNING,
            "ids",
            f"{text}{_of_entries(tables, parsers, ids)}: no notification finds these dispatches.",
            remedy=_remedy(tables, parsers, (reader, words), ids),
        )


def wrong_emails(
    database: Database, tables: RoleTables, tenants: Collection[Key] = ()
) -> Iterator[str]:
    """Yield a warning for each kind of stored emails that no recipient of an event equals.

    With `tenants`, only the emails of theirs are checked.

    A capital letter that is not ASCII, a decomposed one or an international domain is a kind, too,
    although the events of some providers contain the address as it was sent to.
    """
    searched = _tenants(tables, tenants) or {None: None}
    emails = [email for email, _ in _newest_values(database, tables, _EMAIL_COLUMN, searched)]
    found: defaultdict[Sequence[Spelling], list[_WrongEmail]] = defaultdict(list)
    for email in emails:
        usual = usual_email(email)
        differs = difference_of_emails(email, usual)
        if differs is not None and differs.spellings:
            found[differs.spellings].append(_WrongEmail(email, usual, differs.words))
    for spellings, wrong in found.items():
        count = _count(tables, "subscribers", "email", len(wrong), len(emails))
        first = wrong[0]
        is_never_found = bool({INVISIBLE_CHARACTERS, DISPLAY_NAME} & {*spellings})
        # A mask of the stored text might show more than the address, such as a name.
        example = mask_email(first.correct if is_never_found else first.stored)
        yield (
            f"{count} stored {first.words}, such as that of {example}"
            f"{_NEVER if is_never_found else _RARELY} "
            f"Save {' and '.join(_ADVICE[each] for each in spellings)}."
            f"{_update_of_emails(tables, spellings, wrong)}"
        )


_NEVER = ": no notification finds these subscribers."
_RARELY = ": only a notification that has the same spelling finds these subscribers."

_ADVICE = {
    INVISIBLE_CHARACTERS: 'the result of `"".join(filter(str.isprintable, email)).strip()`',
    DISPLAY_NAME: "the result of `email.utils.parseaddr(email)[1]`",
    DECOMPOSED: 'the result of `unicodedata.normalize("NFC", email)`',
    CASE: "the result of `email.lower()`",
    INTERNATIONAL: "the domain in the form that DNS has, with `xn--`",
}
"""What to save in place of an email, by its spelling."""


def _update_of_emails(
    tables: RoleTables, spellings: Sequence[Spelling], wrong: Sequence[_WrongEmail]
) -> str:
    """Return the statement that removes spaces around emails, if nothing else is wrong."""
    if spellings != (INVISIBLE_CHARACTERS,) or any(
        each.stored.strip(" ") != each.correct for each in wrong
    ):
        return ""
    return f" {_update(tables, 'subscribers', 'email', _TRIM)}"


def _message_ids(
    database: Database, tables: RoleTables, tenants: _Tenants
) -> Sequence[tuple[str, str | None]]:
    """Return the message ids of the newest dispatches, each with the tenant of its row."""
    spelled = guid if tables.has_uuids else str
    stored = _newest_values(database, tables, _MESSAGE_ID_COLUMN, tenants)
    return [(spelled(message_id), tenant) for message_id, tenant in stored]


_EMAIL_COLUMN = "subscribers", "email"
_MESSAGE_ID_COLUMN = "dispatches", "provider_message_id"

_Tenants: TypeAlias = Mapping[str | None, Key | None]
"""The tenants whose rows are read, by their text; None for all rows if there are none."""


def _tenants(tables: RoleTables, tenants: Collection[Key | None]) -> _Tenants:
    """Return the tenants of entries, if the rows have any; rows without one are not read then."""
    if not tables.tenants:
        return {None: None}
    return {tables.tenant_text(each): each for each in tenants if each is not None}


def _newest_values(
    database: Database, tables: RoleTables, column: tuple[str, str], tenants: _Tenants
) -> Iterator[tuple[str, str | None]]:
    """Yield the values of a column in the newest rows of each tenant, with the tenant's text."""
    with database.reading() as connection:
        for text, tenant in tenants.items():
            found = connection.fetch(*newest(tables, *column, tenant, share=len(tenants)))
            yield from ((value, text) for (value,) in found)


def _readers(tables: RoleTables, parsers: Parsers) -> Mapping[str | None, Sequence[BodyParser]]:
    """Return the providers of the entries by their tenant, which is None without tenants."""
    readers: defaultdict[str | None, list[BodyParser]] = defaultdict(list)
    for each in parsers:
        tenant = None if each.tenant is None else tables.tenant_text(each.tenant)
        readers[tenant].append(each.provider)
    return readers


def _words_for(stored: str, correct: str | None) -> str:
    """Return how a wrong message id is stored, to follow "stored"."""
    differs = None
    if correct is not None:
        differs = difference(stored, correct, SPELLINGS_OF_MESSAGE_IDS)
    return differs.words if differs else "in another form"


def _count(tables: RoleTables, role: str, noun: str, wrong: int, total: int) -> str:
    """Return how many of the newest values are wrong, as the beginning of a sentence."""
    of_newest = f"Of the newest {pluralize(total, noun)} in {tables.schema.roles[role].table!r}"
    return f"{of_newest}, {wrong:,} {'is' if wrong == 1 else 'are'}"


def _text(wrong: _Wrong) -> str:
    """Return a wrong message id and, if it is known, the correct one."""
    stored = f"'{visible(wrong.stored[:LONGEST_MESSAGE_ID])}'"
    return f"{stored} instead of '{wrong.correct}'" if wrong.correct else stored


def _of_entries(tables: RoleTables, parsers: Parsers, ids: Sequence[_Wrong]) -> str:
    """Return the entries whose tenants have the message ids, if the rows have tenants."""
    having = {each.tenant for each in ids}
    names = [
        each.name
        for each in parsers
        if each.name and each.tenant is not None and tables.tenant_text(each.tenant) in having
    ]
    return f", for {listed(names)}" if names else ""


def _remedy(tables: RoleTables, parsers: Parsers, finding: _Finding, ids: Sequence[_Wrong]) -> str:
    """Return what to store and, if the ids can only be a single provider's, how to correct rows."""
    reader, words = finding
    providers = {each.provider.name: each.provider for each in parsers}
    if reader is None:
        sources = " or ".join(f"{each.message_id_source}" for each in providers.values())
        return (
            f"Store {sources}. Nothing needs to be done about messages that were sent through "
            "another provider or system."
        )
    if tables.has_uuids:
        return f"Map `provider_message_id` to a text column, and store {reader.message_id_source}."
    source = f"Store {reader.message_id_source}."
    correction = _CORRECTIONS.get(words)
    trims_enough = all(each.stored.strip(" ") == each.correct for each in ids)
    if correction is None or len(providers) > 1 or (correction is _TRIM and not trims_enough):
        return source
    return f"{source} {_update(tables, 'dispatches', 'provider_message_id', correction)}"


def _update(tables: RoleTables, role: str, name: str, correction: _Correction) -> str:
    """Return the advice to correct rows, which ends with the statement to run."""
    dialect = tables.dialect
    column = dialect.quote(tables.columns(role)[name].name)
    statement = (
        f"UPDATE {tables.name(role)} SET {column} = {correction.sql(dialect, column)} "
        f"WHERE {correction.condition.format(column)}"
    )
    return f"To correct the rows, run: {statement.replace('%%', '%')}"
