"""Checks of a configuration, its database and the webhook; this module defines their results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How serious a result is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking one `subject`, such as "database".

    `text` describes the finding. If it is a fault, `meaning` is its effect, and `remedy` the
    correction; each is empty if the text includes it.
    """

    level: Level
    subject: str
    text: str
    meaning: str = ""
    remedy: str = ""
