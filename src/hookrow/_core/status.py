"""The status of hookrow for its operator: a level, and the findings that explain it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum


class StatusLevel(Enum):
    """How serious a finding is, or the worst of all findings; the last level is the worst."""

    OK = "ok"
    ATTENTION = "attention"
    BROKEN = "broken"

    @property
    def severity(self) -> int:
        """0 for OK, 1 for attention, 2 for broken."""
        return [*StatusLevel].index(self)


class StatusSubject(Enum):
    """What a finding is about, the most urgent first."""

    WRITES = "writes"
    """Whether the database would record a notification now."""

    RESPONSES = "responses"
    """Notifications that got a 503."""

    SECRETS = "secrets"
    """Requests that got a 401."""

    SPOOL = "spool"
    """The file that keeps notifications while the database is unavailable."""

    PROVIDER = "provider"
    """The webhooks at the provider."""

    MAPPING = "mapping"
    """Whether notifications find rows, in the tables for which the log was written."""

    RETRIES = "retries"
    """The most overdue retry of the log."""

    EXPIRED = "expired"
    """Notifications in the log that could not be recorded in time."""

    SILENCE = "silence"
    """An unusually long time without notifications."""

    CLOCK = "clock"
    """The clock of this machine, or of the one that wrote to the log."""

    SWEEP = "sweep"
    """Whether notifications that arrive before their rows are retried."""

    LOG = "log"
    """Whether the log and its hourly counts can be read, from which other findings are derived."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason for a status that is not OK: a description of the fault, and its remedy."""

    level: StatusLevel
    subject: StatusSubject
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Status:
    """The findings, the worst first; none if all is well."""

    findings: Sequence[Finding] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Status:
        """Return the status with these findings, in any order."""
        subjects = [*StatusSubject]
        return cls(
            sorted(findings, key=lambda each: (-each.level.severity, subjects.index(each.subject)))
        )

    @property
    def level(self) -> StatusLevel:
        """The level of the worst finding; OK without any."""
        return self.findings[0].level if self.findings else StatusLevel.OK

    def about(self, subject: StatusSubject) -> StatusLevel:
        """Return the level of the worst finding about a subject; OK without any."""
        return next((e.level for e in self.findings if e.subject is subject), StatusLevel.OK)
