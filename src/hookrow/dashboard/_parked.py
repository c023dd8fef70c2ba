"""The page of parked notifications, which wait for a retry, and the replay of those that match.

A replay of many notifications is divided into parts, each of which is a request: the response
states what has been recorded so far, and has a form for the next part, which a script submits.
So no request takes long, no thread outlives one, and any process of the server may take the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic

from hookrow._core.log_entry import StoredEntry
from hookrow._core.notification import KNOWN_REASONS, Recorded
from hookrow._core.result import PARKED, Result
from hookrow._describe import pluralize
from hookrow._receiver.replay import SWEEP_PATIENCE, matching_entries, replay_entries
from hookrow._statistics import ResultCount, count
from hookrow.dashboard._actions import RESULTS, Done
from hookrow.dashboard._forms import BadRequest, Fields, parse, parse_query
from hookrow.dashboard._queries import Context, last_id, list_entries
from hookrow.dashboard._templating import View, words
from hookrow.stores._errors import StoreError, WrongMapping
from hookrow.stores._log import KNOWN_TYPES, OTHER, Query
from hookrow.stores._timeouts import limited_to

PARKED_FILTERS = (
    *("type", "outcome", "reason", "since", "until"),
    *("recipient", "message_id", "entry"),
)
"""The fields of the query that select parked notifications."""

REPLAY_TIME = 1.0
"""Seconds after which a request begins to replay no further group of notifications."""

REPLAY_TIMEOUT = 2.5
"""Seconds after which the database stops replaying, so that there is time left for the page."""


_NONE = ResultCount(0, exact=True)


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay has come: `after` is the last id, of at most `last`, that was replayed.

    `last` keeps notifications that arrive meanwhile out of the replay, which might never end.
    `recorded` and `refused` are the numbers so far, `left` is that of the notifications that a next
    part would replay, and `fault` is why this part ended early.
    """

    after: int
    last: int
    recorded: int = 0
    refused: int = 0
    left: ResultCount = _NONE
    fault: str = ""

    @property
    def summary(self) -> str:
        """A sentence with the numbers."""
        number = self.recorded + self.refused
        if not number:
            return "No notification was replayed."
        refused = f", {self.refused:,} not recorded" if self.refused else ""
        return f"Replayed {pluralize(number, 'notification')}: {self.recorded:,} recorded{refused}."


def parked(context: Context, fields: Fields) -> View:
    """List parked notifications, newest first."""
    return _list(context, fields)


def replay_parked(context: Context, fields: Fields, form: Fields, _: str) -> Done:
    """Replay the next notifications that match, for about a second. Raises `BadRequest`.

    A row that is locked is not waited for: its notification stays parked.
    """
    if form.get("action") != "replay":
        raise BadRequest("The action must be replay.")
    query, log = _query(fields), context.log
    last = parse(form, "last")
    progress = _replay_part(
        context,
        query,
        ReplayProgress(
            parse(form, "after") or 0,
            last_id(log) if last is None else last,
            parse(form, "recorded") or 0,
            parse(form, "refused") or 0,
        ),
    )
    summary = f"{progress.recorded} recorded, {progress.refused} not"
    return Done(f"replayed parked notifications: {summary}", _list(context, fields, progress))


def _replay_part(context: Context, query: Query, progress: ReplayProgress) -> ReplayProgress:
    log, until = context.log, monotonic() + REPLAY_TIME
    rest = replace(query, ids=range(progress.after + 1, progress.last + 1))
    if not rest.ids:
        return progress
    try:
        with limited_to(REPLAY_TIMEOUT):
            for entries in matching_entries(log, rest):
                progress = _replay_group(context, entries, progress)
                if monotonic() >= until:
                    break
    except WrongMapping:
        progress = replace(progress, fault=RESULTS["wrong_mapping"])
    except StoreError as error:
        progress = replace(progress, fault=f"The database cannot be used: {error}")
    rest = replace(query, ids=range(progress.after + 1, progress.last + 1))
    return replace(progress, left=count(log, rest)) if rest.ids else progress


def _replay_group(
    context: Context, entries: Sequence[StoredEntry], progress: ReplayProgress
) -> ReplayProgress:
    outcomes = replay_entries(
        context.store, context.log, entries, context.parsers, patience=SWEEP_PATIENCE
    )
    recorded = sum(isinstance(each, Recorded) for each in outcomes)
    return replace(
        progress,
        after=entries[-1].id,
        recorded=progress.recorded + recorded,
        refused=progress.refused + len(entries) - recorded,  # some may have no readable body
    )


def _query(fields: Fields) -> Query:
    return replace(parse_query(fields), parked=True)


def _list(context: Context, fields: Fields, progress: ReplayProgress | None = None) -> View:
    if context.store.log is None:
        return View("no_log.html", {"title": "Parked notifications"})
    query, now = _query(fields), datetime.now(UTC)
    types = context.statistics.present(now, query.entry).types
    values = {
        "title": "Parked notifications",
        "listing": list_entries(context, query, fields),
        "progress": progress,
        "count": count(context.log, query),
        "filters": {name: value for name, value in fields.items() if name in PARKED_FILTERS},
        "fields": {name: fields.get(name, "") for name in PARKED_FILTERS},
        "entry_names": context.entry_choices(now),
        "types": _types(types),
        "outcomes": {each.value: words(each) for each in Result if each in PARKED},
        "reasons": {each: each for each in sorted(KNOWN_REASONS)},
        "now": now,
    }
    return View("parked.html", values)


def _types(found: Collection[str]) -> dict[str, str]:
    return {each: each for each in [*sorted(KNOWN_TYPES.union(found) - {OTHER}), OTHER]}
