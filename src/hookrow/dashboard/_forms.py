"""Query strings and forms: their fields, parsed and validated."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from string import punctuation
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlencode

from hookrow._core.log_entry import is_entry_name
from hookrow._core.result import Result
from hookrow._core.times import as_utc
from hookrow._statistics import Period
from hookrow.stores._log import Query

LOG_FILTERS = (
    "type",
    "outcome",
    "first_outcome",
    "reason",
    "since",
    "until",
    "recipient",
    "message_id",
    "entry",
    "parked",
    "expired",
)
"""The fields of the query that select notifications."""

MAX_FIELDS = 100
"""The maximum number of fields in a query string or form."""

MAX_FIELD_LENGTH = 1000
"""The maximum length of a value, in characters."""

_SAFE = "".join({*punctuation} - {"%"})
"""The characters that stay readable in an encoded value."""

_NUMBER_FORMAT = re.compile(r"[0-9]{1,18}")

ENCODED = "*"
"""The end of the name of a field whose value is percent-encoded, as in RFC 8187.

A form needs it for a value that is not printable: the page shows it, and the browser submits it."""

Fields: TypeAlias = Mapping[str, str]
"""The non-empty fields by name; if a name is repeated, the last value counts."""


class BadRequest(Exception):
    """The request cannot be fulfilled; the text explains why."""

    status = 400


class Forbidden(BadRequest):
    """The user lacks the permission."""

    status = 403


class NotFound(BadRequest):
    """The page, file or row does not exist."""

    status = 404


def parse_fields(text: str, known: Collection[str]) -> Fields:
    """Parse a query string or a form. Raises `BadRequest` for unknown names and invalid values."""
    try:
        given = parse_qsl(text, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BadRequest("There are too many fields.") from error
    fields = {
        name.removesuffix(ENCODED): unquote(value) if name.endswith(ENCODED) else value
        for name, value in given
        if value
    }
    for name, value in fields.items():
        if name not in known:
            raise BadRequest(f"Unknown field {name[:50]!r}. Known fields: {', '.join(known)}.")
        if len(value) > MAX_FIELD_LENGTH or "\0" in value:
            raise BadRequest(f"{name} contains NUL or more than {MAX_FIELD_LENGTH} characters.")
    return fields


def required(fields: Fields, name: str) -> str:
    """Return a field. Raises `BadRequest` if it is missing."""
    if name not in fields:
        raise BadRequest(f"The field {name} is required.")
    return fields[name]


def link(fields: Fields, **changed: object) -> str:
    """Return fields as a query string, with some of them changed or added."""
    return urlencode({**fields, **changed})


def encode_value(value: str) -> str:
    """Return a value for a field whose name ends with `ENCODED`."""
    return quote(value, safe=_SAFE)


def parse_query(fields: Fields) -> Query:
    """Return the query for the fields in `LOG_FILTERS`. Raises `BadRequest`."""
    return Query(
        record_type=fields.get("type"),
        outcome=parse(fields, "outcome"),
        first_outcome=parse(fields, "first_outcome"),
        reason=fields.get("reason"),
        since=parse(fields, "since"),
        until=parse(fields, "until"),
        recipient=fields.get("recipient"),
        message_id=fields.get("message_id"),
        entry=parse(fields, "entry"),
        parked=parse(fields, "parked") or False,
        expired=parse(fields, "expired") or False,
    )


def parse(fields: Fields, name: str) -> Any:  # noqa: ANN401 - depends on the field
    """Return the parsed value of a field, or None if it is missing. Raises `BadRequest`."""
    if name not in fields:
        return None
    parser, expected = _PARSERS[name]
    try:
        return parser(fields[name])
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"{name} must be {expected}, not {fields[name][:50]!r}.") from error


def _parse_number(text: str) -> int:
    if not _NUMBER_FORMAT.fullmatch(text):
        raise ValueError
    return int(text)


def _parse_time(text: str) -> datetime:
    """Return a time; without an offset, it is UTC."""
    return as_utc(datetime.fromisoformat(text))


def _parse_entry(text: str) -> str:
    if not is_entry_name(text):
        raise ValueError
    return text


def _parse_flag(text: str) -> bool:
    if text != "1":
        raise ValueError
    return True


_ID_FIELD = (_parse_number, "the ID of a notification")
_NUMBER_FIELD = (_parse_number, "a number")
_OUTCOME_FIELD = (Result, f"one of {', '.join(each.value for each in Result)}")
_TIME_FIELD = (_parse_time, "a time such as 2026-03-04T05:06")

_PARSERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    **dict.fromkeys(("id", "before", "after", "rows", "last"), _ID_FIELD),
    **dict.fromkeys(("recorded", "refused", "page"), _NUMBER_FIELD),
    **dict.fromkeys(("since", "until"), _TIME_FIELD),
    **dict.fromkeys(("outcome", "first_outcome"), _OUTCOME_FIELD),
    "entry": (_parse_entry, "the name of an entry of the receiver"),
    **dict.fromkeys(("parked", "expired"), (_parse_flag, "1 or absent")),
    "period": (Period, f"one of {', '.join(each.value for each in Period)}"),
}
"""The parser of each field, and the values that it accepts."""
