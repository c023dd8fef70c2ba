"""The SQL that selects, adds and merges rows of the log, and their conversion to entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hookrow.core.log_entry import LogEntry, StoredEntry
from hookrow.core.notification import Source
from hookrow.core.result import PARKED, Result
from hookrow.stores.log import KNOWN_TYPES, Query
from hookrow.stores.sql.dialects import Dialect, utc
from hookrow.stores.sql.updates import Statement

LOG_COLUMNS = StoredEntry.__struct_fields__
"""The columns that are read, in order."""

REQUIRED_COLUMNS = (*LOG_COLUMNS, "entry")
"""The columns that a log must have; no store reads or writes `entry` yet."""

ALL = ", ".join(LOG_COLUMNS)
"""All columns of an entry."""

BODILESS = ", ".join("NULL" if name == "body" else name for name in LOG_COLUMNS)
"""All columns of an entry except the body."""

_READ: Mapping[str, Callable[[Any], Any]] = {
    **{name: utc for name in LOG_COLUMNS if name.endswith("_at")},
    **dict.fromkeys(("outcome", "first_outcome"), Result),
    "fingerprint": bytes,
    "source": Source,
}
"""The conversions of the driver's values by column; other values need none."""

WITHIN = "id BETWEEN %s AND %s"

_JSON_TYPES = {
    **dict.fromkeys(("occurred_at", "received_at", "last_received_at", "ended_at"), "timestamptz"),
    "retry_at": "timestamptz",
    "status": "smallint",
    "attempts": "bigint",
}

_STAYS = f"kept.outcome = '{Result.RECORDED.value}' AND excluded.outcome = kept.outcome"


def _unless_erased(name: str) -> str:
    """Fill in a null if the notification arrived again; a replay restores nothing."""
    filled = f"coalesce(kept.{name}, excluded.{name})"
    return f"{name} = CASE WHEN excluded.attempts > 0 THEN {filled} ELSE kept.{name} END"


_MERGE = f"""ON CONFLICT (fingerprint) DO UPDATE SET
outcome = excluded.outcome, status = excluded.status, retry_at = excluded.retry_at,
ended_at = CASE WHEN {_STAYS} THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN {_STAYS} THEN kept.source ELSE excluded.source END,
{", ".join(map(_unless_erased, ("recipient", "body", "reason", "provider", "trace_id")))},
attempts = kept.attempts + excluded.attempts,
received_at = CASE WHEN kept.received_at < excluded.received_at
    THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at
    THEN kept.last_received_at ELSE excluded.last_received_at END"""
"""`log_entry.merge_entries` in SQL."""


def log_insert(dialect: Dialect, log: str) -> Statement:
    """Return the statement that adds entries to the log, or merges those that arrived before.

    The parameters are those of `Dialect.encode_entries`.
    """
    fields = LogEntry.__struct_fields__
    into = f"INSERT INTO {dialect.table(log)} AS kept ({', '.join(fields)}, first_outcome) "
    if not dialect.takes_rows:
        values = ", ".join(["%s"] * (len(fields) + 1))
        return Statement(f"{into}VALUES ({values})", rest=f" {_MERGE}")
    types = ", ".join(f"{name} {_JSON_TYPES.get(name, 'text')}" for name in fields)
    given = ", ".join(fields).replace("fingerprint", "decode(fingerprint, 'base64')")
    rows = f"json_to_recordset(%s::json) AS given({types})"
    return Statement(f"{into}SELECT {given}, outcome FROM {rows} WHERE true", rest=f" {_MERGE}")


def has_outcome(table: str, results: Collection[Result]) -> str:
    """Return the condition that an entry has one of the outcomes, as constants.

    The planner then finds a partial index with the same condition.
    """
    names = ", ".join(f"'{name}'" for name in sorted(each.value for each in results))
    return f"{table}.outcome IN ({names})" if table else f"outcome IN ({names})"


_EXPIRED = f"retry_at IS NULL AND body IS NOT NULL AND {has_outcome('', PARKED)}"
"""The condition of `log.has_expired`, which is that of an index."""


def conditions(
    dialect: Dialect, first: str, given: Sequence[Any], query: Query
) -> tuple[str, Sequence[Any]]:
    """Return the first condition and those of the query, and their parameters."""
    conditions, values = [first], [*given]
    for name, value in query.equal.items():
        conditions.append(f"{name} = %s")
        values.append(value)
    if isinstance(query.ids, range) and query.ids.step == 1:
        conditions.append(WITHIN)
        values += [query.ids.start, query.ids.stop - 1]
    elif query.ids is not None:
        conditions.append(dialect.any_of("id", "bigint"))
        values.append(dialect.encode(query.ids))
    for operator, time in ((">=", query.since), ("<", query.until)):
        if time is not None:
            conditions.append(f"received_at {operator} %s")
            values.append(time)
    if query.other_types:
        marks = ", ".join(["%s"] * len(KNOWN_TYPES))
        conditions.append(f"(record_type IS NULL OR record_type NOT IN ({marks}))")
        values += KNOWN_TYPES
    conditions += ["retry_at IS NOT NULL"] * query.parked
    conditions += [_EXPIRED] * query.expired
    conditions += ["attempts > 0 AND provider IS NOT NULL"] * query.posted
    conditions += ["(recipient IS NULL OR recipient = '')"] * query.unaddressed
    return " AND ".join(conditions), list(map(dialect.write, values))


def stored_entry(row: Sequence[Any]) -> StoredEntry:
    """Return the entry in a row of `ALL` or `BODILESS`."""
    named = zip(LOG_COLUMNS, row, strict=True)
    return StoredEntry(*(_READ[name](value) if name in _READ else value for name, value in named))
