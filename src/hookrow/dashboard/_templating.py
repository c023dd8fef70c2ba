"""Templates, their filters, and the static files of the pages.

All values are escaped, also in attributes: markup by Jinja, and unprintable characters by
`make_printable`. Links, and the fields of forms, encode a value that must stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from hookrow import __version__
from hookrow._core.result import Result
from hookrow._core.status import Status
from hookrow._describe import (
    count_tries,
    format_body,
    format_duration,
    format_row,
    format_time,
    pluralize,
    printable,
    visible,
)
from hookrow._http import Response
from hookrow._receiver.manual import MAX_ENTERED_REASON
from hookrow._statistics import RATE_LIMITS, Overview, Period
from hookrow._statistics.cache import MOST_CACHED
from hookrow.dashboard._forms import ENCODED, encode_value, link
from hookrow.dashboard._queries import PAGE_SIZE

MAX_SHOWN_LENGTH = 400
"""The maximum length of a displayed value, in characters."""

_FILE_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_SHOWN_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}Z)")
"""A time in a sentence, as `format_time` formats it. The group keeps it when the text is split."""

_CACHED = {"Cache-Control": "private, max-age=3600"}
"""The header of static files, whose URLs contain the version."""


class View(NamedTuple):
    """A template and its values."""

    template: str
    values: Mapping[str, Any]


class Redirect(NamedTuple):
    """The page to show instead, by its name and query string."""

    location: str


def render(view: View, code: int = 200, *, status: Status, **common: object) -> Response:
    """Render a view; `common` contains the values that all pages need.

    One of them is `base`: the relative URL of the dashboard, with which every link begins.
    `status` is shown at the top of each page.
    """
    template = _environment().get_template(view.template)
    text = template.render(**view.values, **common, status=status)
    return Response(code, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


@lru_cache(maxsize=MOST_CACHED)
def render_figures(overview: Overview, base: str) -> str:
    """Render the figures of an overview, once for all open pages that show them."""
    template = _environment().get_template("figures.html")
    return template.render(overview=overview, base=base, periods=list(Period))


@cache
def static_files() -> Mapping[str, Response]:
    """Return the responses with the static files, by path."""
    directory = files("hookrow.dashboard").joinpath("static")
    return {
        f"static/{file.name}": Response(200, file.read_bytes(), {"Content-Type": type_, **_CACHED})
        for file in directory.iterdir()
        if (type_ := _FILE_TYPES.get(file.name.rpartition(".")[2]))
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hookrow.dashboard"),
        autoescape=True,
        finalize=make_printable,
        auto_reload=False,  # it would check each file on each request
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "all_printable": lambda values: all(map(str.isprintable, values)),
        "body": format_body,
        "bucket": name_bucket,
        "encoded": encode_value,
        "duration": format_duration,
        "iso": iso,
        "link": link,
        "meaning": OUTCOME_CLASSES.__getitem__,
        "percent": percent,
        "pluralize": pluralize,
        "tries": count_tries,
        "row": format_row,
        "sentence": sentence,
        "split_times": _SHOWN_TIME.split,
        "text": format_text,
        "time": format_time,
        "words": words,
    }
    environment.globals |= {
        "ENCODED": ENCODED,
        "MAX_ENTERED_REASON": MAX_ENTERED_REASON,
        "PAGE_SIZE": PAGE_SIZE,
        "RATE_LIMITS": RATE_LIMITS,
        "version": __version__,
    }
    return environment


def make_printable(value: object) -> object:
    """Escape the unprintable characters of any value in a template, except markup.

    Line breaks and tabs stay, because bodies have them; the filter `text` escapes them, too.
    """
    return value if hasattr(value, "__html__") else printable(str(value), keep="\n\t")


def format_text(value: object, max_length: int = MAX_SHOWN_LENGTH) -> str:
    """Format a value as one line, escaped as `visible` does, and shortened if it is long."""
    if isinstance(value, datetime):
        return format_time(value)
    text = "none" if value is None else str(value)
    rest = f" ... ({len(text):,} characters)" if len(text) > max_length else ""
    return visible(text[:max_length]) + rest


def words(name: Result | str) -> str:
    """Format an outcome or an identifier as words."""
    return (name.value if isinstance(name, Result) else name).replace("_", " ")


def percent(share: float | None, digits: int = 1) -> str:
    """Format a fraction as a percentage; None, the share of an empty set, is a dash."""
    if share is None:
        return "-"
    return f"{share:.{digits}%}" if 0 < share < 1 else f"{share:.0%}"


def name_bucket(length: timedelta) -> str:
    """Name the length of a bucket, as after "per": "hour", or "6 hours"."""
    units = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    name, unit = next(each for each in units.items() if length >= each[1])
    number = length // unit
    return name if number == 1 else f"{number} {name}s"


def sentence(text: str) -> str:
    """Format a text as a sentence, with a capital letter and a period."""
    return f"{text[:1].upper()}{text[1:]}."


OUTCOME_CLASSES = {
    Result.RECORDED: "good",
    Result.SUBSCRIBER_NOT_FOUND: "warn",
    Result.DISPATCH_NOT_FOUND: "warn",
    Result.RECIPIENT_MISMATCH: "warn",
    Result.UNSUPPORTED: "warn",
    Result.FAILED: "bad",
    Result.TEST: "",
    Result.UNMAPPED: "",
}
"""The class of an outcome on a page: OK, attention, broken or neutral."""


def iso(time: datetime) -> str:
    """Format a time for the attribute `datetime`."""
    return time.astimezone(UTC).isoformat(timespec="seconds")
