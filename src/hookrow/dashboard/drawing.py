"""Drawing: Jinja templates, in which everything is escaped, also what hides or turns text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hookrow import __version__
from hookrow.core.log_entry import Result
from hookrow.core.notification import RowId
from hookrow.dashboard.asking import linked
from hookrow.describe import format_body, format_time, pluralize, printable
from hookrow.http import Response
from hookrow.statistics.overview import ago

LONGEST = 400
"""In characters; what is longer is cut where it is shown among others."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page to be drawn: its template, and what stands in it."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


def draw(drawn: Drawn, **about: object) -> Response:
    """Draw a page."""
    text = _environment().get_template(drawn.template).render(**drawn.values, **about)
    return Response(drawn.status, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hookrow.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in _FILTERS}
    environment.globals["version"] = __version__
    return environment


def shown(value: object, longest: int = LONGEST) -> str:
    """Write a value in one line: cut, and what would hide or turn a text escaped."""
    if isinstance(value, datetime):
        return format_time(value)
    text = "none" if value is None else str(value)
    more = f" ... ({len(text):,} characters)" if len(text) > longest else ""
    cut = text[:longest]
    if not cut.strip(" "):
        cut = cut.replace(" ", r"\x20")
    return printable(cut) + more


def row(id_: RowId) -> str:
    """Name a row by its kind and key."""
    kind, key = id_
    keys = key if isinstance(key, tuple) else (key,)
    return f"{kind.name.lower()} {' '.join(map(str, keys))}"


def words(name: str) -> str:
    """Write a name of ours as words."""
    return name.replace("_", " ")


def series_name(of: object) -> str:
    """Name what a column of a chart counts: a type as it came, or an outcome in words."""
    return words(of.value) if isinstance(of, Result) else str(of)


def percent(share: float | None) -> str:
    """Write a share; none of nothing."""
    if share is None:
        return "-"
    return f"{share:.1%}" if 0 < share < 1 else f"{share:.0%}"


def sentence(text: str) -> str:
    """Begin and end a text as a sentence does."""
    return f"{text[:1].upper()}{text[1:]}."


def iso(time: datetime) -> str:
    """Write a time as machines read it."""
    return time.astimezone(UTC).isoformat(timespec="seconds")


_FILTERS: Sequence[Callable[..., str | None]] = (
    *(ago, format_time, iso, format_body, linked, pluralize, percent),
    *(row, sentence, series_name, shown, words),
)
