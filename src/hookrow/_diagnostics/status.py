"""The status for the operator: present faults, the time since which they exist, and remedies.

`read_status` is the one function behind the dashboard, `hookrow check`, `hookrow stats`, /readyz
and the metrics. It gathers facts, of which there are two kinds, and `assess` turns them into
findings:

* Facts in the database: whether it would record a notification now, and what the log and its hourly
  counts have. Any process can read them. The receivers add their 401s and 503s to the hourly counts
  within a minute or, after an outage, once the database records again.
* Facts of the receiver's own process: the results of the last notifications, the spool, the
  correction of its clock, and what its settings say. Other processes, such as a dashboard that is
  served alone, do without them; they can still rehearse a write, and read the file of the spool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hookrow._core.result import Result
from hookrow._core.status import Finding, Status, StatusLevel, StatusSubject
from hookrow._describe import format_duration, format_time, pluralize
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.advice import OVERDUE, TOLERATED_DIFFERENCE
from hookrow._diagnostics.check import TURN_ON_SWEEP, check_database, check_sweep
from hookrow._receiver.clock import (
    AHEAD,
    LEAST_EVENTS,
    LEAST_RECIPIENTS,
    TOLERANCE,
    clock_difference,
    describe_difference,
)
from hookrow._receiver.entries import Parsers
from hookrow._receiver.results import Losses
from hookrow._statistics import add_up
from hookrow.providers.postmark import Postmark
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import StoreError
from hookrow.stores._log import UNAUTHENTIC, Query, RequestKind, Requests, Waiting
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql._hours import ONE_HOUR
from hookrow.stores.sql._mapping_record import REMEDY

if TYPE_CHECKING:
    from hookrow._core.log_entry import StoredEntry
    from hookrow._receiver.receiver import Receiver
    from hookrow._receiver.spool import SpoolState
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog

LOG_TIMEOUT = 2.0
"""Seconds that reading the log may take."""

LOSSES_COUNT_FOR = 3600.0
"""Seconds for which a notification that got a 503 in this process needs attention."""

UNRETRIED_COUNT_FOR = 24 * 3600.0
"""Seconds for which a notification that nothing retries needs attention."""

HOURS_OF_LOSSES = timedelta(hours=2)
"""The same for those in the hourly counts, in which the present hour may have just begun."""

SPOOLED_FOR = timedelta(minutes=1)
"""How long notifications may be in the spool. It is drained every two seconds."""

LEAST_ROOM = 64 * 1024
"""The room in bytes below which a spool cannot keep what arrives."""

PAUSES_OF = timedelta(weeks=4)
"""The time before the last notification whose longest pause is the usual one."""

LEAST_HISTORY = timedelta(weeks=1)
"""The time between the first and the last notification from which there is a usual pause."""

LEAST_HOURS = 24
"""The number of hours with notifications from which there is a usual pause. A sender with fewer
pauses for any time."""

LONGEST_DELAY = timedelta(days=2)
"""An event that is older on its arrival shows that the clock is fast, if the others are, too: the
providers repeat a notification for little more than a day."""

SHORTEST_SILENCE = timedelta(hours=2)
"""A silence that is not longer is not reported, because the counts are those of whole hours."""

_LAST_DAY = timedelta(days=1)


class WebhookState(NamedTuple):
    """The webhooks at the provider: a summary in sentences, and whether they are as they should be.

    `are_accepted` is whether any webhook posts to hookrow with a valid secret. `obstacle` is what
    keeps the provider's requests from hookrow, such as a proxy.
    """

    summary: str
    are_correct: bool
    are_accepted: bool
    obstacle: CheckResult | None = None

    def of_entry(self, name: str | None) -> WebhookState:
        """Return the state with the name of its entry."""
        obstacle = self.obstacle
        if obstacle is not None:
            obstacle = replace(obstacle, text=f"{name}: {obstacle.text}")
        return self._replace(summary=f"{name}: {self.summary}", obstacle=obstacle)


def _check_database(store: SQLStore, rehearse: bool) -> Iterator[CheckResult]:  # noqa: FBT001 - of a callback
    return check_database(store.database, store.schema, store.known_entries, rehearse=rehearse)


def webhook_states(states: Mapping[str | None, WebhookState | None]) -> Sequence[WebhookState]:
    """Return the known states of entries, each with the name of the entry if there are several."""
    return [
        state if len(states) == 1 else state.of_entry(name)
        for name, state in states.items()
        if state is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSource:
    """Where a process finds the facts.

    `receiver` returns the receiver of this process, or None. Without one, `spool` is the path of
    the spool of another process. `parsers` are the receiver's entries, or None if they are not
    known. `sweep` yields the result of `check_sweep`, if the settings are known, `webhooks` returns
    the known states at the provider, and `check` yields the faults of the database, with or without
    a rehearsal. The database is used in blocks of `around`. `command`
    is how the command `hookrow` is run for this store.
    """

    store: SQLStore
    receiver: Callable[[], Receiver | None] = lambda: None
    parsers: Parsers | None = None
    spool: str | PathLike[str] | None = None
    sweep: Callable[[], Iterable[CheckResult]] = tuple
    webhooks: Callable[[], Sequence[WebhookState]] = tuple
    check: Callable[[SQLStore, bool], Iterable[CheckResult]] = _check_database
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    command: str = "hookrow"


class Silence(NamedTuple):
    """An entry that receives nothing: its last hour with notifications, and its usual pause."""

    entry: str
    last: datetime
    pause: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the log and its hourly counts have.

    `last_valid` is the end of the last hour with notifications, by entry. `stopped` are the entries
    of which the log has nothing after that time. `events_ahead` and `unmatched` are the results of
    `events_ahead_of` and `unmatched_of` for the newest notifications. `other_mapping` is how the
    mapping under which the log was written differs from the present one, and `uncounted` is why the
    hourly counts are incomplete, with the remedy.
    """

    waiting: Waiting
    requests: Mapping[RequestKind, Mapping[str, Requests]]
    last_valid: Mapping[str, datetime]
    stopped: Collection[str]
    silences: Sequence[Silence]
    newest: datetime | None
    events_ahead: timedelta | None = None
    other_mapping: str | None = None
    unmatched: Mapping[Result, int] = field(default_factory=dict)
    uncounted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What the database has recorded, and its clock.

    `log` is None without a log, and a text if it cannot be read. `ahead` is by how much the
    database's clock is ahead of this machine's; None on SQLite, which uses the latter. `offset` is
    added to this machine's time before it is compared with times in the log, which are corrected.
    """

    log: LogFacts | str | None = None
    ahead: timedelta | None = None
    offset: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """What only a process knows: the results of its notifications, its spool, and its settings.

    `failing` is why the next notification would probably get a 503, and `losses` are those that got
    one. `spool` is None without one, and a text if it cannot be read. `sweep` has the result of
    `check_sweep`, and `unretried` is the number of Postmark's notifications that found no dispatch,
    and that nothing can retry.
    """

    failing: str | None = None
    losses: Losses | None = None
    spool: SpoolState | str | None = None
    correction: timedelta = timedelta(0)
    webhooks: Sequence[WebhookState] = ()
    sweep: Sequence[CheckResult] = ()
    unretried: int = 0
    parsers: Parsers | None = None
    command: str = "hookrow"


def read_status(
    source: StatusSource,
    now: datetime | None = None,
    *,
    results: Iterable[CheckResult] | None = None,
) -> Status:
    """Return the status now; waits for the database, but only as long as its time limits allow.

    `results` are those of `check_store` with a rehearsal, if the caller has them.
    """
    at = now or datetime.now(UTC)
    fault = _first_error(check_store(source, rehearse=True) if results is None else results)
    recorded = read_log(source, at) if is_readable(fault) else RecordFacts()
    return assess(fault, recorded, read_process(source), at)


def check_store(source: StatusSource, *, rehearse: bool) -> Sequence[CheckResult]:
    """Return the results of checking the database; an exception is an error, too. Never raises.

    Without `rehearse`, no write is rehearsed.
    """
    try:
        with source.around():
            return [*source.check(source.store, rehearse)]
    except Exception as error:  # noqa: BLE001 - an unknown fault is one, too
        text = f"The check of the database failed: {type(error).__name__}."
        return [CheckResult(Level.ERROR, "database", text)]


def read_fault(source: StatusSource, *, rehearse: bool) -> CheckResult | None:
    """Return why the database would not record a notification now, or None. Never raises.

    For `rehearse`, see `check_store`.
    """
    return _first_error(check_store(source, rehearse=rehearse))


def read_log(source: StatusSource, now: datetime) -> RecordFacts:
    """Read the log, its counts, and the database's clock. Raises no `StoreError`."""
    store = source.store
    try:
        with source.around(), limited_to(LOG_TIMEOUT):
            ahead = clock_difference(store.time, lambda: datetime.now(UTC))
            offset = _offset(source, ahead)
            log = None if store.log is None else _read_log(store.log, source, now + offset)
    except StoreError as error:
        return RecordFacts(log=message(error))
    return RecordFacts(log=log, ahead=ahead, offset=offset)


def _offset(source: StatusSource, ahead: timedelta | None) -> timedelta:
    """Return by how much a receiver corrects its clock, if the database's is ahead of it."""
    receiver = source.receiver()
    if ahead is None:
        return timedelta(0) if receiver is None else receiver.clock.correction
    return ahead if abs(ahead) > TOLERANCE else timedelta(0)


def is_readable(fault: CheckResult | None) -> bool:
    """Return whether the log can be read, even if it cannot be written."""
    return fault is None or fault.subject == "changes"


def read_process(source: StatusSource) -> ProcessFacts:
    """Read the facts of this process, without the database. Never raises."""
    receiver = source.receiver()
    unretried = 0
    if receiver is not None:
        unretried = receiver.results.unretried(Postmark.name, UNRETRIED_COUNT_FOR)
    spool = partial(_read_spool, source.spool)
    if receiver is not None:
        spool = partial(_spool_or_error, receiver.spool_state)
    return ProcessFacts(
        failing=None if receiver is None else receiver.results.fault(),
        losses=None if receiver is None else receiver.results.losses(LOSSES_COUNT_FOR),
        spool=spool(),
        correction=timedelta(0) if receiver is None else receiver.clock.correction,
        webhooks=source.webhooks(),
        sweep=[*source.sweep()],
        unretried=unretried,
        parsers=source.parsers,
        command=source.command,
    )


def describe_status(status: Status) -> Sequence[str]:
    """Return the level in a line, and a line for each finding, with its remedy."""
    if not status.findings:
        return ["OK: notifications are recorded, and nothing needs attention."]
    number = pluralize(len(status.findings), "finding")
    return [
        f"{status.level.value.capitalize()}: {number}.",
        *(f"- {each.subject.value}: {each.reason} {each.remedy}" for each in status.findings),
    ]


def status_result(status: Status) -> CheckResult:
    """Return the status as the first result of `hookrow check`."""
    levels = {
        StatusLevel.OK: Level.OK,
        StatusLevel.ATTENTION: Level.WARNING,
        StatusLevel.BROKEN: Level.ERROR,
    }
    return CheckResult(levels[status.level], "status", "\n".join(describe_status(status)))


def status_as_json(status: Status) -> Mapping[str, object]:
    """Return the status as commands print it with --json."""
    return {
        "level": status.level.value,
        "findings": [
            {
                "level": each.level.value,
                "subject": each.subject.value,
                "reason": each.reason,
                "remedy": each.remedy,
            }
            for each in status.findings
        ],
    }


def sweep_of(receiver: Receiver) -> Iterator[CheckResult]:
    """Check the sweep of a receiver, if one of its providers needs it; see `check_sweep`."""
    if any(each.provider.name == Postmark.name for each in receiver.entries):
        yield from check_sweep(
            log=receiver.store.log is not None,
            bodies=receiver.options.keep_bodies,
            sweep=receiver.options.sweeps,
        )


def assess(
    fault: CheckResult | None, recorded: RecordFacts, process: ProcessFacts, now: datetime
) -> Status:
    """Return the status that the facts show.

    `fault` is why the database would not record a notification now.
    """
    findings = [*_writes(fault), *_process_findings(process, now), *_clock(recorded, process)]
    match recorded.log:
        case str(error):
            remedy = "Run `hookrow check`, which names the statement to run if an index is missing."
            reason = f"The log cannot be read, so its findings are missing: {error}"
            findings.append(Finding(StatusLevel.ATTENTION, StatusSubject.LOG, reason, remedy))
        case LogFacts() as log:
            findings += _log_findings(log, process, now + recorded.offset)
    return Status.of(
        replace(
            each,
            reason=_sentence(each.reason),
            remedy=_with_command(each.remedy, process.command),
        )
        for each in findings
    )


def _with_command(remedy: str, command: str) -> str:
    """Return a remedy in which the command is the one that knows the store.

    Commands about the provider are not among those of a project of Django.
    """
    others = "" if command.startswith("hookrow") else "(?!provider )"
    return re.sub(f"`hookrow {others}", f"`{command} ", remedy)


def _sentence(text: str) -> str:
    """Return a text with a full stop, which errors of drivers lack."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


# -- gathering -------------------------------------------------------------------------


def _first_error(results: Iterable[CheckResult]) -> CheckResult | None:
    return next((each for each in results if each.level is Level.ERROR), None)


def _read_log(log: SQLLog, source: StatusSource, now: datetime) -> LogFacts:
    parsers = source.parsers
    waiting = log.waiting(now)
    read = waiting.keys() if parsers is None else waiting.keys() & parsers.origins
    of_read = [waiting[each] for each in read]
    # Half of this time is for the pauses before the last notification, and half for the silence.
    active = log.active_hours(now - 2 * PAUSES_OF)
    if parsers is not None:
        names = parsers.names or [""]
        active = {name: hours for name, hours in active.items() if name in names}
    requests = log.requests_by_kind(now - _LAST_DAY)
    last_valid = {name: hours[-1] + ONE_HOUR for name, hours in active.items()}
    silences = {
        name: each for name, hours in active.items() if (each := silence_of(name, hours, now))
    }
    doubtful = {*silences, *(name for kind in UNAUTHENTIC for name in requests.get(kind, ()))}
    stopped = {
        name
        for name in doubtful & last_valid.keys()
        # The newest entries are not counted by the hour yet.
        if not log.count(Query(entry=name or None, since=last_valid[name]), limit=1)
    }
    newest = log.newest(Query(), limit=1, bodies=False)
    posted = log.newest(Query(posted=True), limit=LEAST_EVENTS, bodies=False)
    return LogFacts(
        waiting=Waiting(
            sum(each.parked for each in of_read),
            min((each.oldest_due for each in of_read if each.oldest_due), default=None),
            sum(each.expired for each in of_read),
            sum(each.to_unknown for each in of_read),
        ),
        requests=requests,
        last_valid=last_valid,
        stopped=stopped,
        silences=[each for name, each in silences.items() if name in stopped],
        newest=newest[0].received_at if newest else None,
        events_ahead=events_ahead_of(posted),
        other_mapping=source.store.mapping_difference(),
        unmatched=unmatched_of(posted, now),
        uncounted=log.counting_obstacle(),
    )


def events_ahead_of(entries: Sequence[StoredEntry]) -> timedelta | None:
    """Return by how much events are ahead of their arrivals, if that shows a wrong clock, or None.

    It does if each of 20 events, of at least 5 recipients, is dated more than a day after its
    arrival, or more than two days before it. The least of the differences counts.
    """
    ahead = [each.occurred_at - each.received_at for each in entries if each.occurred_at]
    recipients = {each.recipient for each in entries}
    if len(ahead) < LEAST_EVENTS or len(recipients) < LEAST_RECIPIENTS:
        return None
    if min(ahead) > AHEAD:
        return min(ahead)
    return max(ahead) if max(ahead) < -LONGEST_DELAY else None


def unmatched_of(entries: Sequence[StoredEntry], now: datetime) -> Mapping[Result, int]:
    """Return the number of each result, if the newest notifications found no rows, else none.

    They are 20, of at least 5 recipients, the newest of the last day. If some of them found their
    rows, the others are rather about rows that do not exist.
    """
    results = Counter(each.outcome for each in entries)
    if (
        len(entries) < LEAST_EVENTS
        or len({each.recipient for each in entries}) < LEAST_RECIPIENTS
        or now - entries[0].received_at > _LAST_DAY
        or not results.keys() <= _UNMATCHED_TEXTS.keys()
    ):
        return {}
    return results


def silence_of(entry: str, hours: Sequence[datetime], now: datetime) -> Silence | None:
    """Return the silence of an entry if it is unusual, given its hours with notifications.

    It is if it is more than twice as long as the longest pause in the four weeks before it, and
    longer than two hours. Without notifications in at least 24 hours of at least a week, no pause
    is unusual.
    """
    last = hours[-1]
    recent = [each for each in hours if each >= last - PAUSES_OF]
    if len(recent) < LEAST_HOURS or last - recent[0] < LEAST_HISTORY:
        return None
    pause = max(later - earlier for earlier, later in pairwise(recent))
    if now - (last + ONE_HOUR) <= max(2 * pause, SHORTEST_SILENCE):
        return None
    return Silence(entry, last, pause)


def _read_spool(path: str | PathLike[str] | None) -> SpoolState | str | None:
    """Return the state of the file of another process's spool, if it exists."""
    if path is None or not Path(path).exists():
        return None
    from hookrow._receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3

    return _spool_or_error(lambda: Spool(path).state())


def _spool_or_error(read: Callable[[], SpoolState | None]) -> SpoolState | str | None:
    from hookrow._receiver.spool import SPOOL_ERRORS  # noqa: PLC0415 - loads sqlite3

    try:
        return read()
    except SPOOL_ERRORS as error:
        return str(error)


# -- deciding --------------------------------------------------------------------------


def _writes(fault: CheckResult | None) -> Iterator[Finding]:
    if fault is not None:
        remedy = fault.remedy or "`hookrow check` has the details."
        if fault.subject == "tables":
            remedy = (
                "If it was dropped, add it again; otherwise, correct the mapping. `hookrow check` "
                "lists all faults, with the lines to write."
            )
        yield Finding(StatusLevel.BROKEN, StatusSubject.WRITES, _summary(fault), remedy)


def _summary(fault: CheckResult) -> str:
    """Return one line: further ones list the faults of a mapping, or correct it."""
    first, *others = fault.text.split("\n")
    if not first.endswith(" faults:"):
        return first
    return f"The check of the database found {first[:-1]}. The first is: {others[0][2:]}"


def _process_findings(process: ProcessFacts, now: datetime) -> Iterator[Finding]:
    yield from _losses(process)
    yield from _spool(process.spool, now)
    for webhooks in process.webhooks:
        if (obstacle := webhooks.obstacle) is not None:
            reason = f"Requests to the webhook's URL do not reach hookrow. {obstacle.text}"
            yield Finding(
                StatusLevel.BROKEN,
                StatusSubject.PROVIDER,
                f"{reason} {obstacle.meaning}",
                obstacle.remedy,
            )
        if not webhooks.are_correct:
            level = StatusLevel.ATTENTION if webhooks.are_accepted else StatusLevel.BROKEN
            yield Finding(level, StatusSubject.PROVIDER, webhooks.summary, WEBHOOK_REMEDY)
    yield from _unretried(process)


WEBHOOK_REMEDY = "`hookrow provider status` lists the differences; `register` corrects them."
"""What to do if the webhooks at the provider are not as they should be."""


def _unretried(process: ProcessFacts) -> Iterator[Finding]:
    """Yield that notifications are lost because nothing can retry them.

    Those in a log that nobody sweeps are not lost yet: see `_retries`.
    """
    for result in process.sweep:
        attention = partial(Finding, StatusLevel.ATTENTION, StatusSubject.SWEEP)
        if result.level is Level.ERROR:
            yield attention(result.text, result.remedy)
        elif process.unretried:
            number = pluralize(process.unretried, "notification")
            reason = f"{number} of the last day found no dispatch, and cannot be retried."
            yield attention(f"{reason} {result.text}", result.remedy)


def _losses(process: ProcessFacts) -> Iterator[Finding]:
    remedy = (
        "The reason names what to correct; the provider sends these notifications again, and "
        "`hookrow check` tests the database."
    )
    if process.failing is not None:
        yield Finding(StatusLevel.BROKEN, StatusSubject.RESPONSES, process.failing, remedy)
    elif (losses := process.losses) is not None:
        ago = format_duration(timedelta(seconds=max(1, round(losses.seconds))))
        lost = f"{losses.lost} got a 503, the last one {ago} ago"
        of = f"Of the last {losses.total} notifications, {lost}"
        if losses.total == 1:
            of = f"The last notification got a 503, {ago} ago"
        reason = f"{of}: {losses.reason}"
        yield Finding(StatusLevel.ATTENTION, StatusSubject.RESPONSES, reason, remedy)


def _spool(spool: SpoolState | str | None, now: datetime) -> Iterator[Finding]:
    if spool is None:
        return
    attention = partial(Finding, StatusLevel.ATTENTION, StatusSubject.SPOOL)
    if isinstance(spool, str):
        yield attention(
            f"The spool cannot be used: {spool}",
            "Give this user access to the file and its directory, or free space on its disk.",
        )
        return
    path = spool.path
    if spool.room < LEAST_ROOM or not spool.accepts:
        yield attention(
            f"The spool {path} has room for {spool.room:,} more bytes, so it cannot keep "
            "notifications while the database is unavailable.",
            f"Free space on the disk of {path}.",
        )
    elif spool.size > spool.room:
        yield attention(
            f"The spool {path} is more than half full: {pluralize(spool.count, 'notification')} "
            f"in {spool.size:,} bytes, and room for {spool.room:,} more.",
            f"Correct the database, which empties it, or free space on the disk of {path}.",
        )
    if spool.oldest is not None and now - spool.oldest > SPOOLED_FOR:
        wait = "waits" if spool.count == 1 else "wait"
        yield attention(
            f"{pluralize(spool.count, 'notification')} in the spool {path} {wait} to be recorded, "
            f"the first since {format_time(spool.oldest)}.",
            "They are recorded once the database works; the receiver's log lines say why it leaves "
            "some.",
        )


def _clock(recorded: RecordFacts, process: ProcessFacts) -> Iterator[Finding]:
    # The receiver's correction is as old as the last notification.
    ahead = process.correction if recorded.ahead is None else recorded.ahead
    if abs(ahead) > TOLERATED_DIFFERENCE:
        other = "the times of the events received" if recorded.ahead is None else "the database's"
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.CLOCK,
            f"The clock of this machine is {describe_difference(ahead)}, compared with {other}.",
            "Set the clock, for example with NTP. Receivers correct only differences of more than "
            "an hour.",
        )


def _log_findings(log: LogFacts, process: ProcessFacts, now: datetime) -> Iterator[Finding]:
    if process.failing is None and process.losses is None:
        yield from _counted_losses(log, now)
    yield from _secrets(log, process.parsers)
    yield from _mapping(log)
    yield from _retries(log.waiting, now)
    for each in log.silences:
        yield _silence(each, now, process.parsers)
    if log.uncounted is not None:
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.LOG,
            "Notifications and refused requests are not counted by hour, so the status may lack "
            "401s, 503s and a silence.",
            log.uncounted,
        )
    if log.events_ahead is not None:
        direction = "after" if log.events_ahead > timedelta(0) else "before"
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.CLOCK,
            "The clock of the receiver's machine seems to be "
            f"{describe_difference(log.events_ahead)}: the newest {LEAST_EVENTS} events are dated "
            f"{format_duration(abs(log.events_ahead))} or more {direction} their arrival.",
            "Set the clock, for example with NTP. If it is right, these events are old.",
        )
    if log.newest is not None and log.newest - now > TOLERATED_DIFFERENCE:
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.CLOCK,
            f"The newest notification arrived at {format_time(log.newest)}, which is in the "
            "future: the clock of this machine is slow, or that of the receiver was fast.",
            "Set the clocks of all machines, for example with NTP.",
        )


def _counted_losses(log: LogFacts, now: datetime) -> Iterator[Finding]:
    """Yield the 503s of all processes, because none of this one's is recent."""
    lost = add_up(log.requests, [RequestKind.UNAVAILABLE]).values()
    last = max((each.last for each in lost), default=None)
    if last is None or now - last > HOURS_OF_LOSSES:
        return
    first = min(each.first for each in lost)
    number = pluralize(sum(each.number for each in lost), "notification")
    yield Finding(
        StatusLevel.ATTENTION,
        StatusSubject.RESPONSES,
        f"{number} got a 503 in the last day, {_hours(first, last)}.",
        "The provider sends them again. The receiver's log lines have the cause.",
    )


def _secrets(log: LogFacts, parsers: Parsers | None) -> Iterator[Finding]:
    for entry, total in add_up(log.requests, UNAUTHENTIC).items():
        of_kind = {
            kind: log.requests[kind][entry].number
            for kind in UNAUTHENTIC
            if entry in log.requests.get(kind, ())
        }
        to = f" to the entry {entry}" if entry else ""
        valid = log.last_valid.get(entry)
        wrong = log.requests.get(RequestKind.WRONG_SECRET, {}).get(entry)
        all_since = (
            wrong is not None and valid is not None and wrong.last >= valid and entry in log.stopped
        )
        requests = pluralize(total.number, "request")
        hours = _hours(total.first, total.last)
        counts = ", ".join(f"{number:,} {_KIND_TEXTS[kind]}" for kind, number in of_kind.items())
        reason = f"{requests}{to} got a 401 in the last day ({counts}), {hours}."
        if len(of_kind) == 1:
            [kind] = of_kind
            reason = f"{requests}{to} {_KIND_TEXTS[kind]} got a 401 in the last day, {hours}."
        if all_since:
            reason += f" No valid request has arrived since {format_time(valid)}."
        yield Finding(
            StatusLevel.BROKEN if all_since else StatusLevel.ATTENTION,
            StatusSubject.SECRETS,
            reason,
            _secret_remedy(of_kind, _provider_name(entry, parsers), was_valid=valid is not None),
        )


_KIND_TEXTS = {
    RequestKind.WRONG_SECRET: "with a wrong secret or signature",
    RequestKind.MISSING_SECRET: "without a secret or signature",
    RequestKind.EXPIRED: "with an expired signature",
}


def _secret_remedy(kinds: Collection[RequestKind], provider: str | None, *, was_valid: bool) -> str:
    """Return the remedy for 401s: at the provider, if the secret here was valid before."""
    if RequestKind.WRONG_SECRET in kinds:
        if provider == Postmark.name:
            if was_valid:
                return (
                    "The secret here was valid before: `hookrow provider status` compares it with "
                    "the one at Postmark, and `hookrow provider register` sets it there."
                )
            return "`hookrow provider register` sets the secret of the webhooks at Postmark."
        if was_valid:
            return (
                "The secret here was valid before: compare it with the one at the provider, and "
                "accept both while they differ."
            )
        return "Set the same secret here and at the provider."
    if RequestKind.EXPIRED in kinds:
        return "Set the clock of this machine, for example with NTP."
    return (
        "`hookrow check` with the URL of the webhook shows whether a proxy removes the header. "
        "Requests of strangers have none, either, and are harmless."
    )


def _provider_name(entry: str, parsers: Parsers | None) -> str | None:
    if parsers is None:
        return None
    found = parsers.named(entry) if entry else parsers.default
    return None if found is None else found.provider.name


def _mapping(log: LogFacts) -> Iterator[Finding]:
    attention = partial(Finding, StatusLevel.ATTENTION, StatusSubject.MAPPING)
    if log.other_mapping is not None:
        yield attention(log.other_mapping, REMEDY)
    if log.unmatched:
        counts = ", ".join(f"{_UNMATCHED_TEXTS[each]} ({n})" for each, n in log.unmatched.items())
        yield attention(
            f"The newest {sum(log.unmatched.values())} notifications found no matching row: "
            f"{counts}.",
            "If the application, its mapping or its database has changed, correct it: `hookrow log "
            "show ID` names rows that almost match. Then run `hookrow replay --parked`. If others "
            "send mail through the same server of the provider, nothing is wrong.",
        )


_UNMATCHED_TEXTS = {
    Result.SUBSCRIBER_NOT_FOUND: "no subscriber with the address",
    Result.DISPATCH_NOT_FOUND: "no dispatch with the message ID",
    Result.RECIPIENT_MISMATCH: "only a dispatch of another subscriber",
}


def _retries(waiting: Waiting, now: datetime) -> Iterator[Finding]:
    if waiting.oldest_due is not None and now - waiting.oldest_due > OVERDUE:
        late = format_duration(now - waiting.oldest_due)
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.RETRIES,
            f"The oldest retry has been due for {late}, since {format_time(waiting.oldest_due)}; "
            f"{pluralize(waiting.parked, 'notification waits', 'notifications wait')} for a retry.",
            "No sweep is running, or it cannot keep up: run `hookrow replay --parked`. If "
            f"none is on, {TURN_ON_SWEEP}",
        )
    if waiting.expired > waiting.to_unknown:
        yield Finding(
            StatusLevel.ATTENTION,
            StatusSubject.EXPIRED,
            f"{pluralize(waiting.expired, 'notification')}, of which {waiting.to_unknown:,} for "
            "unknown addresses, could not be recorded in time.",
            "See `hookrow log --expired`. Once their rows exist, `hookrow replay --expired` "
            "records them.",
        )


def _silence(silence: Silence, now: datetime, parsers: Parsers | None) -> Finding:
    entry, last, pause = silence
    to = f" at the entry {entry}" if entry else ""
    remedy = "`hookrow check` with the URL of the webhook tests the way to hookrow"
    if _provider_name(entry, parsers) == Postmark.name:
        remedy += ", and `hookrow provider status` the webhooks at Postmark"
    quiet = format_duration(now - last - ONE_HOUR)
    return Finding(
        StatusLevel.ATTENTION,
        StatusSubject.SILENCE,
        f"No notification has arrived{to} for {quiet}: the last one came in the hour from "
        f"{format_time(last)}. The longest pause in the four weeks before that was "
        f"{format_duration(pause)}.",
        f"{remedy}. If no mail was sent, nothing is wrong.",
    )


def _hours(first: datetime, last: datetime) -> str:
    if first == last:
        return f"all in the hour from {format_time(first)}"
    return (
        f"the first in the hour from {format_time(first)}, the last in that from "
        f"{format_time(last)}"
    )
