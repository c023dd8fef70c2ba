"""The rules of the status: which facts are findings, how serious they are, and their remedies."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from copying import replace
from hookrow import Postmark
from hookrow._core.log_entry import StoredEntry
from hookrow._core.result import Result
from hookrow._core.status import Finding, Status, StatusLevel, StatusSubject
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.status import (
    LEAST_ROOM,
    LogFacts,
    ProcessFacts,
    RecordFacts,
    Silence,
    WebhookState,
    assess,
    events_ahead_of,
    silence_of,
    unmatched_of,
    webhook_states,
)
from hookrow._receiver.entries import POSTMARK, Entries, Entry
from hookrow._receiver.results import Losses
from hookrow._receiver.spool import SpoolState
from hookrow.providers.resend import Resend
from hookrow.stores._log import RequestKind, Requests, Waiting
from times import DAY, HOUR, MINUTE, NOON, SECOND

OK, ATTENTION, BROKEN = StatusLevel
QUIET = LogFacts(
    waiting=Waiting(0, None, 0, 0),
    requests={},
    last_valid={},
    stopped=(),
    silences=(),
    newest=None,
)
SEVERAL = Entries(Entry("postmark", Postmark), Entry("resend", Resend))


def status(
    *,
    fault: CheckResult | None = None,
    log: LogFacts | str | None = None,
    ahead: timedelta | None = None,
    offset: timedelta = timedelta(0),
    **process: Any,  # noqa: ANN401 - passed on
) -> Status:
    recorded = RecordFacts(log=log, ahead=ahead, offset=offset)
    return assess(fault, recorded, ProcessFacts(**process), NOON)


def finding(**facts: Any) -> Finding:  # noqa: ANN401 - passed on
    """Return the only finding."""
    [found] = status(**facts).findings
    return found


def test_without_findings() -> None:
    found = status(log=QUIET, parsers=POSTMARK)
    assert (found, found.level) == (Status([]), OK)
    assert status().level is OK


def test_the_worst_comes_first() -> None:
    """Among those of the same level, the most urgent subject does."""
    wait = Waiting(1, NOON - DAY, 2, 0)
    away = CheckResult(Level.ERROR, "database", "It is away.", remedy="Start it.")
    found = status(fault=away, log=replace(QUIET, waiting=wait), spool="no")
    assert [(each.level, each.subject) for each in found.findings] == [
        (BROKEN, StatusSubject.WRITES),
        (ATTENTION, StatusSubject.SPOOL),
        (ATTENTION, StatusSubject.RETRIES),
        (ATTENTION, StatusSubject.EXPIRED),
    ]
    assert found.level is BROKEN
    assert found.about(StatusSubject.SPOOL) is ATTENTION
    assert found.about(StatusSubject.CLOCK) is OK
    assert found.findings[0] == Finding(BROKEN, StatusSubject.WRITES, "It is away.", "Start it.")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "2 faults:\n- No column.\n- No table.",
            "The check of the database found 2 faults. The first is: No column.",
        ),
        ('No column.\nTo correct the mapping, write ...:\n\nemail = "adr"', "No column."),
    ],
)
def test_a_finding_is_one_line(text: str, reason: str) -> None:
    """`hookrow check` shows all faults of a mapping and the lines to write below the status."""
    found = finding(fault=CheckResult(Level.ERROR, "tables", text))
    assert (found.reason, found.remedy[:34]) == (reason, "If it was dropped, add it again; o")
    other = finding(fault=CheckResult(Level.ERROR, "migrations", "They are not created yet."))
    assert other.remedy == "`hookrow check` has the details."


def test_notifications_that_got_a_503() -> None:
    """The next one would, too; or some of the last hundred have; or some in the hourly counts."""
    why = "The last 3 notifications got a 503: the disk is full."
    found = finding(failing=why, losses=Losses(3, 9, 1.0, "the disk is full."))
    assert (found.level, found.reason) == (BROKEN, why)
    lost = Losses(7, 100, 180.0, "the disk is full.")
    found = finding(losses=lost)
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.RESPONSES)
    assert found.reason == (
        "Of the last 100 notifications, 7 got a 503, the last one 3 min ago: the disk is full."
    )
    alone = finding(losses=Losses(1, 1, 0.2, "the disk is full."))
    assert alone.reason == "The last notification got a 503, 1 s ago: the disk is full."
    counts = {"": Requests(2, NOON - HOUR, NOON), "a": Requests(3, NOON - 9 * HOUR, NOON - HOUR)}
    log = replace(QUIET, requests={RequestKind.UNAVAILABLE: counts})
    assert finding(log=log).reason == (
        "5 notifications got a 503 in the last day, the first in the hour from "
        "2026-03-04 03:00:00Z, the last in that from 2026-03-04 12:00:00Z."
    )
    assert finding(log=log, losses=lost).reason.startswith("Of the last 100 notifications")
    old = {RequestKind.UNAVAILABLE: {"": Requests(2, NOON - 9 * HOUR, NOON - 3 * HOUR)}}
    assert status(log=replace(QUIET, requests=old)).level is OK


def stored(outcome: Result, number: int = 0) -> StoredEntry:
    return Mock(StoredEntry, outcome=outcome, recipient=f"{number}@example.com", received_at=NOON)


def test_notifications_that_find_no_rows() -> None:
    """All of the newest ones, of several recipients, as after a deployment with a wrong mapping."""
    unknown, undispatched = Result.SUBSCRIBER_NOT_FOUND, Result.DISPATCH_NOT_FOUND
    entries = [stored(unknown, 1), *(stored(undispatched, n) for n in range(19))]
    counts = unmatched_of(entries, NOON + HOUR)
    assert counts == {unknown: 1, undispatched: 19}
    found = finding(log=replace(QUIET, unmatched=counts))
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.MAPPING)
    assert found.reason == (
        "The newest 20 notifications found no matching row: no subscriber with the address (1), "
        "no dispatch with the message ID (19)."
    )
    recorded = [stored(Result.RECORDED), *entries[1:]]
    of_one = [stored(unknown)] * 20
    assert [unmatched_of(each, NOON) for each in (recorded, of_one, entries[1:])] == [{}, {}, {}]
    assert unmatched_of(entries, NOON + 2 * DAY) == {}


def test_another_mapping() -> None:
    """Nothing in the log is retried under it."""
    found = finding(log=replace(QUIET, other_mapping="It was written for others."))
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.MAPPING)
    assert "`hookrow replay --accept-mapping`" in found.remedy


WRONG, MISSING, EXPIRED = (
    RequestKind.WRONG_SECRET,
    RequestKind.MISSING_SECRET,
    RequestKind.EXPIRED,
)


@pytest.mark.parametrize(
    ("kinds", "entry", "last_valid", "stopped", "level", "remedy"),
    [
        # All requests have a wrong secret since a time at which the one here was valid.
        ([WRONG], "", NOON, True, BROKEN, "`hookrow provider status` compares"),
        ([WRONG, MISSING], "postmark", NOON, True, BROKEN, "`hookrow provider status` compares"),
        ([WRONG], "resend", NOON, True, BROKEN, "compare it with the one at the provider"),
        # Others are still valid, or have been valid since.
        ([WRONG], "", NOON, False, ATTENTION, "`hookrow provider status` compares"),
        ([WRONG], "", NOON + HOUR, True, ATTENTION, "`hookrow provider status` compares"),
        # None has ever been.
        ([WRONG], "", None, False, ATTENTION, "`hookrow provider register` sets"),
        ([WRONG], "resend", None, False, ATTENTION, "Set the same secret here and at"),
        ([MISSING], "", NOON, True, ATTENTION, "whether a proxy removes the header"),
        ([EXPIRED], "resend", NOON, True, ATTENTION, "Set the clock"),
    ],
)
def test_requests_without_a_valid_secret(
    kinds: Sequence[RequestKind],
    entry: str,
    last_valid: datetime | None,
    level: StatusLevel,
    remedy: str,
    *,
    stopped: bool,
) -> None:
    log = replace(
        QUIET,
        requests={kind: {entry: Requests(12, NOON, NOON)} for kind in kinds},
        last_valid={} if last_valid is None else {entry: last_valid},
        stopped=[entry] if stopped else [],
    )
    found = finding(log=log, parsers=SEVERAL if entry else POSTMARK)
    assert (found.level, found.subject) == (level, StatusSubject.SECRETS)
    assert remedy in found.remedy
    assert ("No valid request has arrived since" in found.reason) == (level is BROKEN)


def test_the_kinds_of_requests_without_a_valid_secret() -> None:
    """The finding has their numbers, and the hours of the first and the last one."""
    requests = {
        MISSING: {"resend": Requests(3, NOON - 2 * HOUR, NOON - HOUR)},
        WRONG: {"resend": Requests(1200, NOON - HOUR, NOON)},
        EXPIRED: {"resend": Requests(1, NOON, NOON)},
    }
    assert finding(log=replace(QUIET, requests=requests)).reason == (
        "1,204 requests to the entry resend got a 401 in the last day (1,200 with a wrong secret "
        "or signature, 3 without a secret or signature, 1 with an expired signature), the first in "
        "the hour from 2026-03-04 10:00:00Z, the last in that from 2026-03-04 12:00:00Z."
    )
    both = {WRONG: {name: Requests(1, NOON, NOON) for name in ("postmark", "resend")}}
    found = status(log=replace(QUIET, requests=both), parsers=SEVERAL).findings
    assert [each.subject for each in found] == [StatusSubject.SECRETS] * 2
    assert found[0].reason == (
        "1 request to the entry postmark with a wrong secret or signature got a 401 in the last "
        "day, all in the hour from 2026-03-04 12:00:00Z."
    )


SPOOL = SpoolState("/spool.db", 0, None, 8192, 10**9)


@pytest.mark.parametrize(
    ("spool", "reason"),
    [
        ("disk I/O error", "The spool cannot be used: disk I/O error"),
        (replace(SPOOL, room=LEAST_ROOM - 1), "room for 65,535 more bytes, so it cannot keep"),
        (replace(SPOOL, accepts=False), "so it cannot keep"),
        (replace(SPOOL, count=9, size=6 * 10**8, room=4 * 10**8), "is more than half full: 9 noti"),
        (replace(SPOOL, count=9, oldest=NOON - 2 * MINUTE), "9 notifications in the spool /spool"),
    ],
)
def test_the_spool(spool: SpoolState | str, reason: str) -> None:
    found = finding(spool=spool)
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.SPOOL)
    assert reason in found.reason


def test_a_spool_that_is_drained() -> None:
    """It is empty, or what it has arrived in the last minute."""
    assert (
        status(spool=SPOOL)
        == status(spool=replace(SPOOL, count=1, oldest=NOON - 59 * SECOND))
        == Status([])
    )


def test_retries() -> None:
    """A late one shows that no sweep is running. Strangers' notifications expire every day."""
    late = finding(log=replace(QUIET, waiting=Waiting(4, NOON - 2 * HOUR, 0, 0)))
    assert (late.level, late.subject) == (ATTENTION, StatusSubject.RETRIES)
    assert "due for 2 h, since 2026-03-04 10:00:00Z; 4 notifications wait" in late.reason
    expired = finding(log=replace(QUIET, waiting=Waiting(0, None, 3, 2)))
    assert (expired.level, expired.subject) == (ATTENTION, StatusSubject.EXPIRED)
    assert expired.reason.startswith("3 notifications, of which 2 for unknown addresses")
    assert status(log=replace(QUIET, waiting=Waiting(4, NOON - HOUR, 2, 2))) == Status([])


def test_the_clock() -> None:
    """It is compared with the database's, with the events of a receiver, and with the log."""
    assert status(ahead=MINUTE) == Status([])
    found = finding(ahead=-3 * DAY)
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.CLOCK)
    assert "is 3 days, 0:00:00 fast, compared with the database's." in found.reason
    assert "slow, compared with the times of the events" in finding(correction=2 * DAY).reason
    future = finding(log=replace(QUIET, newest=NOON + 2 * MINUTE))
    assert (future.subject, "is in the future" in future.reason) == (StatusSubject.CLOCK, True)


@pytest.mark.parametrize(
    ("state", "level"),
    [
        (WebhookState("Mail: as registered.", are_correct=True, are_accepted=True), OK),
        (
            WebhookState("Mail: the secret is wrong.", are_correct=False, are_accepted=True),
            ATTENTION,
        ),
        (WebhookState("Mail: no webhook posts.", are_correct=False, are_accepted=False), BROKEN),
    ],
)
def test_the_webhooks_at_the_provider(state: WebhookState, level: StatusLevel) -> None:
    found = status(webhooks=[state])
    assert found.about(StatusSubject.PROVIDER) is found.level is level
    assert all(each.reason == state.summary for each in found.findings)


def test_no_sweep() -> None:
    """It needs attention only if notifications are lost; those in a log are retried late."""
    result = CheckResult(Level.OK, "sweep", "The log keeps no bodies.", remedy="Keep them.")
    assert status(sweep=[result]).level is OK
    assert status(unretried=7).level is OK, "another provider repeats them"
    found = finding(sweep=[result], unretried=7)
    assert (found.level, found.subject, found.remedy) == (
        ATTENTION,
        StatusSubject.SWEEP,
        "Keep them.",
    )
    assert found.reason == (
        "7 notifications of the last day found no dispatch, and cannot be retried. "
        "The log keeps no bodies."
    )
    late = finding(log=replace(QUIET, waiting=Waiting(1, NOON - DAY, 0, 0)), sweep=[result])
    assert (late.subject, "turn on the sweep: `sweep = true`" in late.remedy) == (
        StatusSubject.RETRIES,
        True,
    )


def test_the_command_in_a_remedy() -> None:
    """It is the one that knows the store; Django has none about the provider."""
    waiting = replace(QUIET, waiting=Waiting(1, NOON - DAY, 0, 0))
    found = finding(log=waiting, command="manage.py hookrow")
    assert "run `manage.py hookrow replay --parked`." in found.remedy
    state = WebhookState("It differs.", are_correct=False, are_accepted=True)
    found = finding(webhooks=[state], command="manage.py hookrow")
    assert found.remedy.startswith("`hookrow provider status` lists")
    found = finding(webhooks=[state], command="hookrow --app a:b")
    assert found.remedy.startswith("`hookrow --app a:b provider status` lists")


def test_settings_of_the_sweep_that_are_not_valid() -> None:
    result = CheckResult(Level.ERROR, "sweep", "It needs the sweep.", remedy="Turn it on.")
    expected = Finding(ATTENTION, StatusSubject.SWEEP, "It needs the sweep.", "Turn it on.")
    assert finding(sweep=[result]) == expected


def test_an_obstacle_before_the_webhook() -> None:
    """It has the name of its entry, if there are several."""
    result = CheckResult(Level.ERROR, "forbidden", "POST / got 403.", "A login.", "Exempt POST.")
    state = WebhookState("Mail: fine.", are_correct=True, are_accepted=True, obstacle=result)
    prefix = "Requests to the webhook's URL do not reach hookrow."
    expected = Finding(
        BROKEN, StatusSubject.PROVIDER, f"{prefix} POST / got 403. A login.", "Exempt POST."
    )
    assert finding(webhooks=webhook_states({None: state})) == expected
    found = finding(webhooks=webhook_states({"a": state, "b": None}))
    assert found.reason == f"{prefix} a: POST / got 403. A login."


def test_a_log_that_cannot_be_read() -> None:
    found = finding(log="canceling statement due to statement timeout")
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.LOG)
    assert found.reason.endswith("canceling statement due to statement timeout.")


def test_the_times_of_a_log_are_those_of_the_database() -> None:
    """A clock that is days fast makes no retry late, and one that is slow no entry new."""
    wait = Waiting(1, NOON - 3 * DAY, 0, 0)
    found = finding(log=replace(QUIET, waiting=wait), ahead=-3 * DAY, offset=-3 * DAY)
    assert found.subject is StatusSubject.CLOCK
    log = replace(QUIET, newest=NOON + 3 * DAY)
    found = finding(log=log, ahead=3 * DAY, offset=3 * DAY)
    assert found.reason.endswith("slow, compared with the database's.")


def test_a_correction_is_older_than_a_comparison_with_the_database() -> None:
    assert status(ahead=0 * DAY, correction=3 * DAY).level is OK


def events(number: int, ahead: timedelta, *, recipients: int = 9) -> list[StoredEntry]:
    """Return entries of events that are ahead of their arrivals, the last one by a second more."""
    return [
        Mock(
            occurred_at=NOON + ahead + (n == number - 1) * SECOND,
            received_at=NOON,
            recipient=f"{n % recipients}@example.com",
        )
        for n in range(number)
    ]


@pytest.mark.parametrize(
    ("entries", "ahead"),
    [
        (events(20, -3 * DAY), -3 * DAY + SECOND),
        (events(20, 2 * DAY), 2 * DAY),
        # Too few, of too few people, or as late as a repetition may be.
        (events(19, -3 * DAY), None),
        (events(20, -3 * DAY, recipients=4), None),
        (events(20, -2 * DAY), None),
        (events(20, 1 * DAY), None),
        # A single one that is recent.
        ([*events(19, -3 * DAY), *events(1, 0 * DAY)], None),
        ([*events(19, 3 * DAY), *events(1, 0 * DAY)], None),
    ],
)
def test_a_clock_that_differs_from_the_events(
    entries: list[StoredEntry], ahead: timedelta | None
) -> None:
    assert events_ahead_of(entries) == ahead


def test_the_finding_of_a_clock_that_differs_from_the_events() -> None:
    found = finding(log=replace(QUIET, events_ahead=-3 * DAY))
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.CLOCK)
    assert found.reason == (
        "The clock of the receiver's machine seems to be 3 days, 0:00:00 fast: the newest 20 "
        "events are dated 3 days or more before their arrival."
    )
    found = finding(log=replace(QUIET, events_ahead=2 * DAY))
    assert "2 days, 0:00:00 slow" in found.reason
    assert found.reason.endswith("2 days or more after their arrival.")


def test_silence() -> None:
    silence = Silence("", NOON - 9 * HOUR, 2 * HOUR)
    found = finding(log=replace(QUIET, silences=[silence]), parsers=POSTMARK)
    assert (found.level, found.subject) == (ATTENTION, StatusSubject.SILENCE)
    assert found.reason == (
        "No notification has arrived for 8 h: the last one came in the hour from 2026-03-04 "
        "03:00:00Z. The longest pause in the four weeks before that was 2 h."
    )
    assert "`hookrow provider status`" in found.remedy
    of_entry = replace(QUIET, silences=[silence._replace(entry="resend")])
    found = finding(log=of_entry, parsers=SEVERAL)
    assert found.reason.startswith("No notification has arrived at the entry resend for")
    assert "hookrow provider" not in found.remedy


def every(pause: timedelta, number: int, *, ago: timedelta) -> list[datetime]:
    """Return hours with notifications, with the same pause, of which the last was that long ago."""
    return [NOON - ago - n * pause for n in reversed(range(number))]


@pytest.mark.parametrize(
    ("hours", "is_silent"),
    [
        (every(HOUR, 500, ago=3 * HOUR), False),
        (every(HOUR, 500, ago=4 * HOUR), True),
        # Every night, and at the weekend.
        ([*every(DAY, 30, ago=2 * DAY), NOON - 2 * DAY + HOUR], False),
        (every(DAY, 28, ago=2 * DAY + HOUR), False),
        (every(DAY, 28, ago=2 * DAY + 2 * HOUR), True),
        # A pause that was longer, but not in the four weeks before.
        ([NOON - 99 * DAY, *every(HOUR, 700, ago=5 * HOUR)], True),
        # Too few hours, or less than a week.
        (every(30 * HOUR, 23, ago=20 * DAY), False),
        (every(HOUR, 160, ago=20 * DAY), False),
        (every(HOUR, 170, ago=20 * DAY), True),
    ],
)
def test_what_silence_is_unusual(hours: list[datetime], *, is_silent: bool) -> None:
    assert (silence_of("", hours, NOON) is not None) == is_silent
