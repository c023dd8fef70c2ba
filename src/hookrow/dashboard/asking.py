"""What a visitor asks for, read from a query or a form; what is wrong is a sentence."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

from hookrow.core.log_entry import RECORD_TYPES, Result
from hookrow.stores.log import Query

TYPES = tuple(dict.fromkeys(RECORD_TYPES.values()))

FILTERS = ("type", "outcome", "since", "until", "recipient", "message_id", "parked")

LONGEST = 1000
"""In characters; of a value, such as an address, which the pages have again."""

_ID = re.compile(r"[0-9]{1,18}")

Fields: TypeAlias = Mapping[str, str]
"""Of a query or a form: what has something in it, by name; of those that come twice the last."""


class Mistake(Exception):
    """What is asked for cannot be shown or done: a status, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def fields(text: str, known: Collection[str]) -> Fields:
    """Read a query or a form. Raises `Mistake` for names and values that cannot be."""
    try:
        found = {name: value for name, value in parse_qsl(text, max_num_fields=100) if value}
    except ValueError as error:
        raise Mistake(400, "There are too many fields.") from error
    for name, value in found.items():
        if name not in known:
            raise Mistake(400, f"There is no field {name[:50]!r}: it is one of {', '.join(known)}.")
        if len(value) > LONGEST or "\0" in value:
            raise Mistake(400, f"The field {name} has a NUL, or over {LONGEST} characters.")
    return found


def linked(asked: Fields, **more: object) -> str:
    """Write fields as a query, with others in the place of their like."""
    return urlencode({**asked, **more})


def query(asked: Fields) -> Query:
    """Return which entries are meant. Raises `Mistake`."""
    return Query(
        record_type=asked.get("type"),
        outcome=_outcome(asked.get("outcome")),
        since=_time("since", asked.get("since")),
        until=_time("until", asked.get("until")),
        recipient=asked.get("recipient"),
        message_id=asked.get("message_id"),
        parked=_flag("parked", asked.get("parked")),
    )


def number(name: str, asked: Fields) -> int | None:
    """Return the id of a notification, None where none is asked for. Raises `Mistake`."""
    value = asked.get(name)
    if value is not None and not _ID.fullmatch(value):
        raise Mistake(400, f"{name} is the number of a notification, not {value[:50]!r}.")
    return None if value is None else int(value)


def _outcome(value: str | None) -> Result | None:
    if value is None:
        return None
    try:
        return Result(value)
    except ValueError as error:
        known = ", ".join(each.value for each in Result)
        raise Mistake(400, f"No outcome is called {value[:50]!r}: take one of {known}.") from error


def _time(name: str, value: str | None) -> datetime | None:
    """Read a time; without an offset it is UTC."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Mistake(
            400, f"{name} is a time such as 2026-03-04T05:06, not {value[:50]!r}."
        ) from error


def _flag(name: str, value: str | None) -> bool:
    if value is not None and value != "1":
        raise Mistake(400, f"{name} is 1, or left out, not {value[:50]!r}.")
    return value is not None
