"""Proof that a subject requires the secret, and that rows changed as its responses state."""

from __future__ import annotations

from data import payload
from environment import Database, request
from load import Load
from subjects import Subject


class Unproven(Exception):
    """A subject did not do the work for which it was measured."""


_CHANGED = """
    SELECT count(*) FILTER (WHERE delivered_at BETWEEN '{0}' AND '{0}.999999')
        + count(*) FILTER (WHERE opened_at BETWEEN '{0}' AND '{0}.999999')
        + count(*) FILTER (WHERE suppression_changed_at BETWEEN '{0}' AND '{0}.999999')
    FROM hookrow_dispatches
"""
_LOGGED = """
    SELECT count(*) FROM hookrow_notifications
    WHERE occurred_at BETWEEN '{0}' AND '{0}.999999'
"""
_NOT_SUPPRESSED = """
    SELECT count(*)
    FROM hookrow_dispatches AS d
    JOIN hookrow_subscribers AS s ON s.id = d.subscriber_id
    JOIN hookrow_subscriptions AS o ON o.subscriber_id = s.id AND o.list_id = d.list_id
    WHERE d.suppression_changed_at BETWEEN '{0}' AND '{0}.999999'
        AND (coalesce(s.suppression_changed_at < '{0}', TRUE)
            OR coalesce(o.suppression_changed_at < '{0}', TRUE))
"""


def check_secret(subject: Subject, port: int, rows: int) -> None:
    """Post without and with the secret. Raises `Unproven` if a response has a different status."""
    name, _, value = subject.endpoint.header.partition(": ")
    body = payload(rows, 0, "Open", 0)
    for headers, expected in (({}, subject.refusal), ({name: value}, 200)):
        headers |= {"Content-Type": "application/json"}
        status = request(port, subject.endpoint.path, body, headers)
        if status != expected:
            raise Unproven(f"the status is {status} instead of {expected}")


def check_load(subject: Subject, database: Database | None, load: Load) -> None:
    """Compare the changed rows with the responses. Raises `Unproven` if they differ.

    Requests in flight at the end, at most one on each connection, may have changed rows, too.
    """
    if load.errors or not load.answered:
        raise Unproven(f"{load.answered} responses of 200, {load.errors} errors")
    if database is None:
        return
    second = f"{load.at:%Y-%m-%d %H:%M:%S}"
    queries = {"dispatches": _CHANGED, **({"log entries": _LOGGED} if subject.log else {})}
    for rows, query in queries.items():
        [(count,)] = database.execute(query.format(second))
        if not 0 <= count - load.answered <= load.connections:
            raise Unproven(f"{load.answered} responses of 200, but {count} changed {rows}")
    [(count,)] = database.execute(_NOT_SUPPRESSED.format(second))
    if count:
        raise Unproven(f"{count} dispatches are suppressed, but not their subscribers or lists")
