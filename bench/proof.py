"""Proof that the work was done: that rows say what was posted, and that a secret was asked for."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Engine, and_, func, or_, select

from data import payload
from hookrow.stores.tables import dispatches, notifications, subscribers, subscriptions
from load import Load
from places import Place, opened
from processes import ask
from subjects import Subject


class Unproved(Exception):
    """Something did not do what it was measured for."""


def prove_door(subject: Subject, port: int) -> None:
    """See who comes in: nobody without the secret. Raises `Unproved`."""
    door, body = subject.family.door, payload(0, "Open", 0)
    name, _, value = door.proof.partition(": ")
    for proof, wanted in (({}, subject.family.refusal), ({name: value}, 200)):
        given = ask(port, door.path, body, {"Content-Type": "application/json", **proof})
        if given.status != wanted:
            raise Unproved(f"{subject.name} answers {given}, where it should say {wanted}.")


def prove_load(subject: Subject, place: Place | None, load: Load) -> None:
    """See that as many rows changed as notifications were answered. Raises `Unproved`.

    What was in flight at the end, one for each connection at the most, may have been done.
    """
    if load.errors or not load.answered:
        raise Unproved(f"{subject.name} answered {load.answered} times, and failed {load.errors}.")
    if place is None:
        return
    with opened(place.url) as engine:
        counts = {"rows": _dispatches(engine, load.at)}
        if subject.log:
            counts["entries of the log"] = _entries(engine, load.at)
        for what, count in counts.items():
            if not 0 <= count - load.answered <= load.connections:
                raise Unproved(
                    f"{subject.name} answered {load.answered} times over {load.connections} "
                    f"connections, and changed {count} {what}."
                )
        _prove_suppressions(subject, engine, load.at)


def _prove_suppressions(subject: Subject, engine: Engine, at: datetime) -> None:
    """See that those to whom a suppressed dispatch went are suppressed too, on its list as well."""
    for table, key in (
        (subscribers, subscribers.c.id),
        (subscriptions, subscriptions.c.subscriber_id),
    ):
        changed_at = table.c.suppression_changed_at
        behind = (
            select(func.count())
            .select_from(dispatches.join(table, key == dispatches.c.subscriber_id))
            .where(_during(dispatches.c.suppression_changed_at, at))
            .where(or_(changed_at.is_(None), changed_at < at))
        )
        with engine.connect() as connection:
            if count := connection.execute(behind).scalar_one():
                raise Unproved(f"{subject.name} left {count} rows of {table.name} behind.")


def _dispatches(engine: Engine, at: datetime) -> int:
    columns = ("delivered_at", "opened_at", "suppression_changed_at")
    counts = [func.count().filter(_during(dispatches.c[name], at)) for name in columns]
    with engine.connect() as connection:
        return sum(connection.execute(select(*counts).select_from(dispatches)).one())


def _entries(engine: Engine, at: datetime) -> int:
    with engine.connect() as connection:
        during = _during(notifications.c.occurred_at, at)
        return connection.execute(select(func.count()).where(during)).scalar_one()


def _during(column: ColumnElement[datetime], at: datetime) -> ColumnElement[bool]:
    """Tell whether it is of the second that begins then."""
    return and_(column >= at, column < at + timedelta(seconds=1))
