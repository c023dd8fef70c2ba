"""Finds message ids and emails in the host's rows that no notification can match.

Only the newest rows are read, so that a check takes as long for millions of rows as for thousands.
They are those with the highest keys, whose index finds them; if the keys are random, these rows are
a sample of all. Rows without a message id count among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parseaddr
from typing import NamedTuple, TypeAlias

from hookrow._core.rules import LONGEST_MESSAGE_ID
from hookrow._describe import pluralize, printable
from hookrow._diagnostics import CheckResult, Level
from hookrow._observability.logging import mask_email
from hookrow._receiver.entries import Parsers, listed
from hookrow.providers._base import BodyParser
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._conversions import guid
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._role_tables import ALIASES, RoleTables

SAMPLE = 10_000
"""How many of the newest rows of a table are read."""


class _Form(NamedTuple):
    """A wrong form of values, and how it is corrected.

    `words` describe the form, after "stored". `correct` returns a correct value, and `sql` the
    expression for it, given a column. `condition` selects the values, with `{}` for the column.
    """

    words: str
    correct: Callable[[str], str]
    sql: Callable[[Dialect, str], str]
    condition: str


def _hyphenated(dialect: Dialect, column: str) -> str:
    """Return the expression for the 32 digits of a UUID with hyphens."""
    parts = (f"lower(substr({column}, {start}, {size}))" for start, size in _UUID_PARTS)
    first, *others = parts
    return dialect.concat(first, *(text for part in others for text in ("'-'", part)))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""The first digit of each part of a UUID without hyphens, and the number of its digits."""

_SPACES = _Form(
    "with spaces around them",
    lambda stored: stored.strip(" "),
    lambda _, column: f"trim({column})",
    "{0} LIKE ' %' OR {0} LIKE '% '",
)

_FORMS = (
    _SPACES,
    _Form(
        "with angle brackets",
        lambda stored: stored.strip("<>"),
        lambda _, column: f"replace(replace({column}, '<', ''), '>', '')",
        "{0} LIKE '<%'",
    ),
    _Form(
        "without angle brackets",
        lambda stored: f"<{stored}>",
        lambda dialect, column: dialect.concat("'<'", column, "'>'"),
        "{0} LIKE '%@%' AND {0} NOT LIKE '<%'",
    ),
    _Form(
        "in capitals",
        str.lower,
        lambda _, column: f"lower({column})",
        "{0} LIKE '%-%'",
    ),
    _Form(
        "without hyphens",
        lambda stored: guid(stored) if "-" not in stored else stored,
        _hyphenated,
        "{0} NOT LIKE '%-%'",
    ),
    _Form(
        "with hyphens",
        lambda stored: stored.replace("-", "").lower(),
        lambda _, column: f"lower(replace({column}, '-', ''))",
        "{0} LIKE '%-%'",
    ),
    _Form(
        "with a suffix",
        lambda stored: stored.partition(".")[0],
        lambda dialect, column: dialect.text_before(column, "."),
        "{0} LIKE '%.%' AND {0} NOT LIKE '%@%'",
    ),
    _Form(
        "with a domain",
        lambda stored: stored.strip("<>").rpartition("@")[0],
        lambda dialect, column: dialect.text_before(f"replace({column}, '<', '')", "@"),
        "{0} LIKE '%@%'",
    ),
)
"""The forms of message ids. Values in several wrong forms at once have none of them."""

_SHORTEST_ID = 10
"""The length in characters of the shortest id that a provider may have made. Shorter ones, such as
`m-1`, are those of tests, and no mistake."""

_Finding: TypeAlias = tuple[BodyParser | None, _Form | None]
"""The provider that corrects a message id, if one does, and its form, if it is one of the list."""


class _Wrong(NamedTuple):
    """A wrong message id, what it should be, and the tenant of its row."""

    stored: str
    correct: str | None
    tenant: str | None


def check_message_ids(
    database: Database, tables: RoleTables, parsers: Parsers
) -> Iterator[CheckResult]:
    """Yield a warning for each wrong form of the message ids of dispatches.

    A form is wrong if no entry of the receiver has such ids: if there are tenants, no entry of the
    row's tenant. Ids of tenants without an entry are not checked.
    """
    try:
        with limited_to(STATEMENT_TIMEOUT):
            stored = _message_ids(database, tables)
    except StoreError as error:
        text = f"They cannot be checked: {message(error)}"
        yield CheckResult(Level.WARNING, "ids", text)
        return
    readers = _readers(tables, parsers)
    found: defaultdict[_Finding, list[_Wrong]] = defaultdict(list)
    for message_id, tenant in stored:
        corrected = {each: each.correct_message_id(message_id) for each in readers.get(tenant, ())}
        if not corrected or message_id in corrected.values():
            continue
        reader = next((each for each in corrected if corrected[each]), None)
        correct = corrected[reader] if reader else None
        if reader is None and len(message_id) < _SHORTEST_ID:
            continue
        wrong = _Wrong(message_id, correct, tenant)
        found[reader, _form_of(message_id, correct)].append(wrong)
    for (reader, form), ids in found.items():
        count = _count(tables, "dispatches", "message ID", len(ids), len(stored))
        text = (
            f"{count} stored {form.words if form else 'in another form'}, such as {_text(ids[0])}"
        )
        if reader is None:
            providers = {each.name for id_ in ids for each in readers[id_.tenant]}
            names = " or ".join(sorted(providers))
            text = f"{count} not of the form of those of {names}, such as {_text(ids[0])}"
        yield CheckResult(
            Level.WARNING,
            "ids",
            f"{text}{_of_entries(tables, parsers, ids)}: no notification finds these dispatches.",
            remedy=_remedy(tables, parsers, reader, form),
        )


def wrong_emails(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning for each kind of stored emails that no recipient of an event equals."""
    with database.reading() as connection:
        emails = [email for email, _ in connection.fetch(_newest(tables, "subscribers", "email"))]
    spaced = [each for each in emails if each != each.strip()]
    named = [each for each in emails if each == each.strip() and {*"<>"} & {*each}]
    found = ": no notification finds these subscribers. Save the result of"
    if spaced:
        count = _count(tables, "subscribers", "email", len(spaced), len(emails))
        example = mask_email(spaced[0].strip())
        yield (
            f"{count} stored with spaces around, such as that of {example}{found} "
            f"`email.strip()`. {_update(tables, 'subscribers', 'email', _SPACES)}"
        )
    if named:
        count = _count(tables, "subscribers", "email", len(named), len(emails))
        example = mask_email(parseaddr(named[0])[1])
        yield (
            f"{count} stored with a name or angle brackets, such as that of {example}{found} "
            "`email.utils.parseaddr(email)[1]`."
        )


def _message_ids(database: Database, tables: RoleTables) -> Sequence[tuple[str, str | None]]:
    """Return the message ids of the newest dispatches, each with the tenant of its row."""
    with database.reading() as connection:
        rows = connection.fetch(_newest(tables, "dispatches", "provider_message_id"))
    spelled = guid if tables.has_uuids else str
    convert = tables.conversions.tenant or str
    return [
        (spelled(message_id), None if tenant is None else convert(tenant))
        for message_id, tenant in rows
    ]


def _newest(tables: RoleTables, role: str, name: str) -> str:
    """Return the SELECT of a column's values, as text, in the newest rows, and of their tenants.

    Hidden rows are left out only after the newest have been selected: there may be many of them.
    """
    alias = ALIASES[role]
    columns = ", ".join(
        f"{alias}.{tables.dialect.quote(each)}" for each in tables.named_columns(role)
    )
    newest = (
        f"SELECT {columns} FROM {tables.table(role)} "
        f"ORDER BY {tables.column(role, 'id')} DESC LIMIT {SAMPLE}"
    )
    tenant, joined = tables.dialect.cast("NULL", tables.dialect.text_type), ""
    if role in tables.tenants:
        tenant = tables.tenant(role)
    elif tables.tenants:
        tenant = tables.tenant("subscribers")
        owner = tables.refers(role, "subscriber_id", "subscribers", "id")
        joined = f" JOIN {tables.table('subscribers')} ON {owner}"
    return (
        f"SELECT {tables.text(role, name)}, {tenant} FROM ({newest}) AS {alias}{joined} "
        f"WHERE {tables.column(role, name)} IS NOT NULL{tables.visible(role)}"
    )


def _readers(tables: RoleTables, parsers: Parsers) -> Mapping[str | None, Sequence[BodyParser]]:
    """Return the providers of the entries by their tenant, which is None without tenants."""
    readers: defaultdict[str | None, list[BodyParser]] = defaultdict(list)
    for each in parsers:
        tenant = None if each.tenant is None else tables.tenant_text(each.tenant)
        readers[tenant].append(each.provider)
    return readers


def _form_of(stored: str, correct: str | None) -> _Form | None:
    """Return the form of a wrong message id."""
    return next((each for each in _FORMS if each.correct(stored) == correct), None)


def _count(tables: RoleTables, role: str, noun: str, wrong: int, total: int) -> str:
    """Return how many of the newest values are wrong, as the beginning of a sentence."""
    of_newest = f"Of the newest {pluralize(total, noun)} in {tables.schema.roles[role].table!r}"
    return f"{of_newest}, {wrong:,} {'is' if wrong == 1 else 'are'}"


def _text(wrong: _Wrong) -> str:
    """Return a wrong message id and, if it is known, the correct one."""
    stored = f"'{printable(wrong.stored[:LONGEST_MESSAGE_ID])}'"
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


def _remedy(
    tables: RoleTables, parsers: Parsers, reader: BodyParser | None, form: _Form | None
) -> str:
    """Return what to store and, if the ids can only be a single provider's, how to correct rows."""
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
    if form is None or len(providers) > 1:
        return source
    return f"{source} {_update(tables, 'dispatches', 'provider_message_id', form)}"


def _update(tables: RoleTables, role: str, name: str, form: _Form) -> str:
    """Return the advice to correct rows, which ends with the statement to run."""
    dialect = tables.dialect
    column = dialect.quote(tables.columns(role)[name].name)
    statement = (
        f"UPDATE {tables.name(role)} SET {column} = {form.sql(dialect, column)} "
        f"WHERE {form.condition.format(column)}"
    )
    return f"To correct the rows, run: {statement.replace('%%', '%')}"
