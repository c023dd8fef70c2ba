"""The provider's ways: what it sends comes more than once, late, and in any order.

Every notification comes three times within an hour, shuffled, through whatever befalls
a receiver. A plain model, which knows the payloads and the rows but nothing of hookrow,
says how it has to end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import insert

from hookrow import Arrival, Postmark
from hookrow.drain import Drain
from hookrow.entry import LONGEST_PAUSE
from hookrow.parked import Parked
from hookrow.quiet import Quiet
from hookrow.recording import keep_failed, record
from hookrow.replay import arrivals_of, record_late
from hookrow.spool import Spool
from hookrow.stores import Store
from hookrow.stores.log import LogReader, Query
from hookrow.stores.sql import SQLStore

sys.path.append(str(Path(__file__).parents[1] / "stores"))
from homes import COLUMNS, KEYS, OURS, SUPPRESSION, MemoryHome, Row, Rows, SQLHome

EXAMPLES = {"memory": 100, "sqlite": 30, "postgres": 20}
"""How many courses of events are tried; a database is far slower than a dict."""

STEPS = 25
"""How many things happen in one of them, at the most; each sweep takes an hour of three days."""

NOW = datetime.now(UTC)
BEFORE = NOW - timedelta(days=1)
"""When what is told of happened: so many seconds after this."""

COURSE = timedelta(hours=1)
"""How long it takes until all has come."""

parse = Postmark("a-secret-for-the-tests").parse

Payload: TypeAlias = Mapping[str, Any]
Deck: TypeAlias = Sequence[Payload]
T = TypeVar("T")

START: Rows = {
    "subscribers": [{"id": 1, "email": "ada@example.com"}, {"id": 2, "email": "bea@example.com"}],
    "dispatches": [
        {"id": 1, "provider_message_id": "m-ada", "subscriber_id": 1, "list_id": 1},
        {"id": 2, "provider_message_id": "m-ada-2", "subscriber_id": 1, "list_id": 2},
        {"id": 3, "provider_message_id": "m-bea", "subscriber_id": 2, "list_id": 1},
        {"id": 4, "provider_message_id": "m-alone", "subscriber_id": 2, "list_id": None},
    ],
    "subscriptions": [
        {"list_id": 1, "subscriber_id": 1},
        {"list_id": 2, "subscriber_id": 1},
        {"list_id": 1, "subscriber_id": 2},
    ],
}
NOTED = ("outcome", "first_outcome", "attempts", "received_at", "last_received_at")
"""What the model knows of an entry of the log."""

LATE: Mapping[str, Rows] = {
    "m-late": {
        "dispatches": [
            {"id": 5, "provider_message_id": "m-late", "subscriber_id": 1, "list_id": 1},
        ],
    },
    "m-cyd": {
        "subscribers": [{"id": 3, "email": "cyd@example.com"}],
        "dispatches": [
            {"id": 6, "provider_message_id": "m-cyd", "subscriber_id": 3, "list_id": 2},
        ],
        "subscriptions": [{"list_id": 2, "subscriber_id": 3}],
    },
}
"""What the host inserts later, by the message that comes before its rows."""

# A change that names a dispatch which is not there yet is recorded without it, for good.
# Only Cyd's may do so: as there is no Cyd either, all of it waits.
CHANGED = ["m-ada", "m-ada", "m-ada-2", "m-bea", "m-alone", "m-nowhere"]
MESSAGES = [*CHANGED, *LATE]
KNOWN = ["ada@example.com", "ADA@example.com", "bea@example.com", "nobody@example.com"]
CYD = "cyd@example.com"
REASONS = ["HardBounce", "SpamComplaint", None]


def _at(second: int) -> str:
    return (BEFORE + timedelta(seconds=second)).isoformat()


def _delivery(recipient: str, message_id: str, second: int) -> Payload:
    """Return a delivery: of one message all say the same second."""
    del second
    delivered_at = _at(MESSAGES.index(message_id))
    return _payload("Delivery", recipient, message_id, DeliveredAt=delivered_at)


def _open(recipient: str, message_id: str, second: int) -> Payload:
    return _payload("Open", recipient, message_id, ReceivedAt=_at(second))


def _change(recipient: str, message_id: str, second: int, reason: str | None) -> Payload:
    return _payload(
        "SubscriptionChange",
        recipient,
        message_id,
        ChangedAt=_at(second),
        SuppressSending=reason is not None,
        SuppressionReason=reason,
    )


def _bounce(recipient: str, message_id: str, second: int) -> Payload:
    return _payload("Bounce", recipient, message_id, BouncedAt=_at(second))


def _payload(kind: str, recipient: str, message_id: str, **fields: object) -> Payload:
    return {"RecordType": kind, "Recipient": recipient, "MessageID": message_id, **fields}


def _deck(makers: Sequence[Callable[[int], Payload]], seconds: Sequence[int]) -> Deck:
    """Return three of each; no two are of the same second, but for deliveries."""
    return [maker(second) for maker, second in zip(makers, seconds, strict=False)] * 3


def _makers(
    maker: Callable[..., Payload], *choices: Sequence[Any]
) -> st.SearchStrategy[Callable[[int], Payload]]:
    """Draw a payload that only wants for the second of its event."""

    def make(recipient: str, message_id: str, *more: str | None) -> Callable[[int], Payload]:
        return lambda second: maker(recipient, message_id, second, *more)

    return st.builds(make, *map(st.sampled_from, choices))


makers = st.one_of(
    _makers(_delivery, [*KNOWN, CYD], MESSAGES),
    _makers(_open, [*KNOWN, CYD], MESSAGES),
    # Half of what comes is about the same rows.
    _makers(_open, KNOWN[:1], ["m-ada", "m-late"]),
    _makers(_change, KNOWN[:2], CHANGED[:3], REASONS),
    _makers(_change, KNOWN, CHANGED, REASONS),
    _makers(_change, [CYD], [*CHANGED, "m-cyd"], REASONS),
    _makers(_bounce, KNOWN, MESSAGES),
)
decks = st.builds(
    _deck,
    st.lists(makers, min_size=4, max_size=12),
    st.lists(st.integers(0, 3600), min_size=12, max_size=12, unique=True),
).flatmap(st.permutations)
groups = st.integers(1, 9)


class Model:
    """The rows and the log as they have to be: one notification at a time, by the plain rules."""

    def __init__(self, *parts: Rows) -> None:
        self.rows: Rows = {name: [] for name in COLUMNS}
        self.log: dict[str, dict[str, Any]] = {}
        for part in parts:
            self.add(part)

    def add(self, rows: Rows) -> None:
        """Add rows of which nothing is known yet."""
        for name, added in rows.items():
            self.rows[name] += [dict.fromkeys(COLUMNS[name]) | row for row in added]

    def record(self, payload: Payload, *, live: bool) -> str:
        """Change the rows; return the outcome."""
        if payload["RecordType"] == "Bounce":
            return "unsupported"
        person = self._one("subscribers", email=payload["Recipient"].lower())
        if person is None:
            return "subscriber_not_found"
        dispatch = self._one("dispatches", provider_message_id=payload["MessageID"])
        if payload["RecordType"] == "SubscriptionChange":
            list_ = dispatch and dispatch["list_id"]
            member = self._one("subscriptions", list_id=list_, subscriber_id=person["id"])
            for row in filter(None, (person, dispatch, member)):
                _suppress(row, payload)
        elif dispatch is None:
            return "dispatch_not_found"
        elif dispatch["subscriber_id"] != person["id"]:
            return "recipient_mismatch"
        else:
            _set_time(dispatch, payload, live=live)
        return "recorded"

    def keep(self, payload: Payload, outcome: str, times: Sequence[datetime] = ()) -> None:
        """Note in the log how a notification ended, which came at these times."""
        entry = self.log.setdefault(_body(payload), {"first_outcome": outcome, "times": []})
        entry["payload"], entry["outcome"] = payload, outcome
        entry["times"] += times

    def sweep(self, *message_ids: str) -> int:
        """Record what is parked and can be recorded now, of all messages or of these."""
        swept = 0
        for entry in self.log.values():
            payload = entry["payload"]
            if (
                entry["outcome"] not in {"recorded", "unsupported"}
                and (not message_ids or payload["MessageID"] in message_ids)
                and self.record(payload, live=False) == "recorded"
            ):
                entry["outcome"] = "recorded"
                swept += 1
        return swept

    def sorted(self) -> Rows:
        """Return the rows in the order of their keys."""
        return {name: sorted(rows, key=itemgetter(*KEYS[name])) for name, rows in self.rows.items()}

    def logged(self) -> Mapping[str, Row]:
        """Return what the log says of each body."""
        return {
            body: {
                "outcome": entry["outcome"],
                "first_outcome": entry["first_outcome"],
                "attempts": len(entry["times"]),
                "received_at": min(entry["times"]),
                "last_received_at": max(entry["times"]),
            }
            for body, entry in self.log.items()
        }

    def _one(self, name: str, **wanted: object) -> dict[str, Any] | None:
        return next((row for row in self.rows[name] if wanted.items() <= row.items()), None)


def _suppress(row: dict[str, Any], payload: Payload) -> None:
    at = datetime.fromisoformat(payload["ChangedAt"])
    if row["suppression_changed_at"] is None or row["suppression_changed_at"] <= at:
        reason = payload["SuppressionReason"]
        values = (at if reason else None, reason, at)
        row.update(zip(SUPPRESSION, values, strict=True))


def _set_time(row: dict[str, Any], payload: Payload, *, live: bool) -> None:
    column, field = {
        "Delivery": ("delivered_at", "DeliveredAt"),
        "Open": ("opened_at", "ReceivedAt"),
    }[payload["RecordType"]]
    at = datetime.fromisoformat(payload[field])
    if live or row[column] is None or row[column] < at:
        row[column] = at


def _body(payload: Payload) -> str:
    return json.dumps(payload)


class Place(Protocol):
    """A home to which a host adds rows, and where hookrow is started anew."""

    @property
    def store(self) -> Store:
        """The store, with nobody else in it."""

    def fill(self, **rows: Sequence[Row]) -> None:
        """Put these rows in the place of all others. Empty the log."""

    def rows(self) -> Rows:
        """Read every row, by a way that is not the store's."""

    def logged(self) -> list[dict[str, Any]]:
        """Read the log, by a way that is not the store's."""

    def add(self, rows: Rows) -> None:
        """Insert rows beside those that are there."""

    def restart(self) -> None:
        """Close the store and open another."""


class MemoryPlace(MemoryHome):
    """Dicts, which no store can be started anew on."""

    def __init__(self) -> None:
        super().__init__(OURS)

    def add(self, rows: Rows) -> None:
        """Put rows into the dicts."""
        for name, added in rows.items():
            for row in added:
                key = tuple(row[column] for column in KEYS[name])
                self._tables()[name][key if len(key) > 1 else key[0]] = dict(row)

    def restart(self) -> None:
        """Do nothing."""


class SQLPlace(SQLHome):
    """Our own tables."""

    def __init__(self, url: str) -> None:
        super().__init__(url, OURS)
        self._url = url

    def add(self, rows: Rows) -> None:
        """Insert rows as a host does: in one transaction."""
        with self._engine.begin() as connection:
            for name, added in rows.items():
                connection.execute(insert(self._tables[name]), added)

    def restart(self) -> None:
        """Open the database again."""
        self.store.close()
        self.store = SQLStore(self._url)


class Course(RuleBasedStateMachine):
    """What may befall a receiver, in any order, and at last that all has come and is swept."""

    def __init__(self, place: Place, spool: Path) -> None:
        super().__init__()
        self._place = place
        self._file = spool
        self._model = Model(START)
        self._late = dict(LATE)
        self._spooled: dict[str, tuple[Payload, list[datetime]]] = {}
        self._clock = NOW
        place.fill(**START)
        spool.unlink(missing_ok=True)

    @initialize(deck=decks)
    def _deal(self, deck: Deck) -> None:
        """Shuffle what will come."""
        between = COURSE / len(deck)
        self._told = {_body(payload): payload for payload in deck}
        self._coming = [
            (payload, NOW - COURSE + number * between) for number, payload in enumerate(deck)
        ]

    @rule(size=groups)
    def deliver(self, size: int) -> None:
        """Record a group that comes."""
        group = self._next(size)
        record(self._place.store, [_read(_body(payload).encode(), at) for payload, at in group])
        for payload, at in group:
            self._model.keep(payload, self._model.record(payload, live=True), [at])

    @rule(size=groups)
    def fail(self, size: int) -> None:
        """Fail to record a group that comes."""
        group = self._next(size)
        arrivals = [_read(_body(payload).encode(), at) for payload, at in group]
        keep_failed(self._place.store, arrivals)
        for payload, at in group:
            supported = payload["RecordType"] != "Bounce"
            self._model.keep(payload, "failed" if supported else "unsupported", [at])

    @rule(size=groups)
    def spool(self, size: int) -> None:
        """Put a group aside that comes while the database cannot be reached."""
        group = self._next(size)
        self._spool().put([_read(_body(payload).encode(), at) for payload, at in group])
        for payload, at in group:
            self._spooled.setdefault(_body(payload), (payload, []))[1].append(at)

    @rule()
    def drain(self) -> None:
        """Record what was put aside: the database is back."""
        Drain(self._spool(), self._place.store, _read, _tell, bodies=True, swept=True)()
        for payload, times in self._spooled.values():
            self._model.keep(payload, self._model.record(payload, live=False), times)
        self._spooled.clear()

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Send again what is in the log, all of it or some."""
        logged = self._log.oldest(Query(), limit=len(self._told) + 1)
        if not logged:
            return
        chosen = data.draw(st.lists(st.sampled_from(logged), unique=True))
        arrivals = arrivals_of(chosen, parse)
        assert len(arrivals) == len(chosen)
        record_late(self._place.store, arrivals, quiet=Quiet())
        for each in chosen:
            payload = self._model.log[_found(each.body)]["payload"]
            self._model.keep(payload, self._model.record(payload, live=False))

    @rule()
    def sweep(self) -> None:
        """Wait until all that is parked is due, and sweep it."""
        self._clock = max(self._clock, datetime.now(UTC)) + LONGEST_PAUSE + timedelta(minutes=1)
        with patch("hookrow.parked.datetime") as clock:
            clock.now.return_value = self._clock
            swept = self._parked().sweep()
        assert swept == self._model.sweep()

    @precondition(lambda self: self._late)
    @rule(data=st.data(), told=st.booleans())
    def appear(self, data: st.DataObject, *, told: bool) -> None:
        """Insert rows that notifications came before, as the host does; it may tell of them."""
        message_id = data.draw(st.sampled_from(sorted(self._late)))
        self._insert(message_id)
        if told:
            with closing(self._parked()) as parked:
                revisited = parked.revisit([message_id]).result()
            assert revisited == self._model.sweep(message_id)

    @rule()
    def restart(self) -> None:
        """Stop hookrow and start it: it knows what is kept, and nothing else."""
        self._place.restart()

    def teardown(self) -> None:
        """See to it that all has come and been swept, and compare."""
        self.deliver(len(self._coming))
        self.drain()
        for message_id in list(self._late):
            self._insert(message_id)
        self.sweep()
        rows, logged = self._place.rows(), self._place.logged()
        assert _but_opened(rows) == _but_opened(self._in_order())
        assert rows == self._model.sorted()
        assert len(logged) == len(self._told)
        assert {row["body"]: {name: row[name] for name in NOTED} for row in logged} == (
            self._model.logged()
        )

    @property
    def _log(self) -> LogReader:
        return _found(self._place.store.log)

    def _next(self, size: int) -> Sequence[tuple[Payload, datetime]]:
        group, self._coming = self._coming[:size], self._coming[size:]
        return group

    def _spool(self) -> Spool:
        return Spool(self._file)

    def _parked(self) -> Parked:
        return Parked(self._place.store, self._log, parse, _tell)

    def _insert(self, message_id: str) -> None:
        rows = self._late.pop(message_id)
        self._place.add(rows)
        self._model.add(rows)

    def _in_order(self) -> Rows:
        """Return the rows as they are where each notification comes once, and in order."""
        model = Model(START, *LATE.values())
        for payload in sorted(self._told.values(), key=_happened):
            model.record(payload, live=True)
        return model.sorted()


def _read(body: bytes, received_at: datetime) -> Arrival:
    return Arrival(parse(body), body, received_at)


def _tell(arrivals: object, outcomes: object) -> None:
    """Be told how arrivals ended."""


def _happened(payload: Payload) -> str:
    return next(str(value) for name, value in payload.items() if name.endswith("At"))


def _but_opened(rows: Rows) -> Rows:
    return {
        name: [
            {column: row[column] for column in row if column != "opened_at"} for row in rows[name]
        ]
        for name in rows
    }


def _found(value: T | None) -> T:
    assert value is not None
    return value


@pytest.fixture(params=EXAMPLES)
def place(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Place]:
    """Make one place for all courses of events; each fills it anew."""
    if request.param == "memory":
        yield MemoryPlace()
        return
    with closing(SQLPlace(new_database(request.param))) as place:
        yield place


def test_all_ends_as_if_it_had_come_once_and_in_order(
    place: Place, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Suppression and delivery times do; a message was opened when the last one says.

    The log has each notification once, how often it came, and how it ended.
    """

    class Here(Course):
        def __init__(self) -> None:
            super().__init__(place, tmp_path / "spool")

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=EXAMPLES[request.node.callspec.params["place"]],
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
