"""What a check finds: how bad it is, what it is about, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at; `text` says how it is, and where it is not well what to do."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Explained(CheckResult):
    """What was seen, as the text; what it `means` and what to `change` where it is not well."""

    means: str = ""
    change: str = ""


def several_rows(count: int, example: str) -> CheckResult:
    """Warn of emails that more than one row has; the example as it may be shown."""
    return CheckResult(
        Level.WARNING,
        "emails",
        f"There are several rows of {count} email{'s' if count > 1 else ''}, such as {example}, "
        "that may differ by case: the one spelled as the Recipient is taken, else the lowest id.",
    )
