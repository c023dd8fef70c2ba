"""Notifications arrive three times within an hour, shuffled, with outages, replays and restarts.

A plain model predicts the rows and the log.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from homes import OURS, Home, Row, Rows
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import LATE, NOW, START, TIMES, TWO_EFFECTS, Model, Payload, body_of, decks, happened
from sqlalchemy import insert

from databases import IN_MEMORY, NAMES, SQLITE
from engines import MEMORY
from hookrow import Arrival, Event, Postmark
from hookrow._core.result import LONGEST_PAUSE
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import Entries, Entry
from hookrow._receiver.receiver import ArrivalReader
from hookrow._receiver.recorder import keep_failed, record
from hookrow._receiver.replay import ParkedRetry, arrivals_of, replay
from hookrow._receiver.spool import Drain, Spool
from hookrow.providers._base import BodyParser
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog

pytestmark = pytest.mark.never_flaky

EXAMPLES = {IN_MEMORY: 40, **dict.fromkeys(NAMES, 15), SQLITE.name: 20}
"""The number of scenarios for each store."""

STEPS = 25
"""The largest number of steps in a scenario; each sweep advances the clock by an hour."""

ARRIVAL_PERIOD = timedelta(hours=1)
"""The period in which all notifications arrive."""


class Dropping(BodyParser):
    """Reads Postmark's events, and those of the model with two effects."""

    name = Postmark.name

    @staticmethod
    def parse(body: bytes) -> Event:
        """Return the event."""
        payload = json.loads(body)
        if payload["RecordType"] not in TWO_EFFECTS:
            return Postmark.parse(body)
        change = {"RecordType": "SubscriptionChange", "ChangedAt": payload[TIMES["Open"]]}
        opened, dropped = (
            Postmark.parse(json.dumps({**payload, **each}).encode()).notifications[0]
            for each in ({"RecordType": "Open"}, change)
        )
        is_first = payload["RecordType"] == "OpenAndDrop"
        return Event((opened, dropped) if is_first else (dropped, opened), body)


PARSERS = Entries(Entry(None, Dropping()))

Group: TypeAlias = Sequence[tuple[Payload, datetime]]

groups = st.integers(1, 9)


class Scenario(RuleBasedStateMachine):
    """Events of a receiver in any order; at the end, all notifications arrive and are retried."""

    finished = 0

    def __init__(self, home: Home, spool: Path) -> None:
        super().__init__()
        self._home = home
        self._file = spool
        self._model = Model(START)
        self._late = dict(LATE)
        self._spooled: dict[str, tuple[Payload, list[datetime]]] = {}
        self._clock = NOW
        home.fill(**START)
        spool.unlink(missing_ok=True)

    @initialize(deck=decks)
    def schedule(self, deck: Sequence[Payload]) -> None:
        """Spread the notifications over an hour."""
        between = ARRIVAL_PERIOD / len(deck)
        self._deck = {body_of(payload): payload for payload in deck}
        self._pending = [
            (payload, NOW - ARRIVAL_PERIOD + number * between)
            for number, payload in enumerate(deck)
        ]

    @rule(size=groups)
    def deliver(self, size: int) -> None:
        """Record a group that arrives."""
        group = self._next(size)
        record(self._home.store, _arrivals(group))
        for payload, at in group:
            self._model.keep(payload, self._model.record(payload, live=True), [at])

    @rule(size=groups)
    def fail(self, size: int) -> None:
        """Fail to record a group that arrives."""
        group = self._next(size)
        keep_failed(self._home.store, _arrivals(group), clock=utc_now)
        for payload, at in group:
            supported = payload["RecordType"] != "Bounce"
            self._model.keep(payload, "failed" if supported else "unsupported", [at])

    @rule(size=groups)
    def spool(self, size: int) -> None:
        """Spool a group that arrives while the database cannot be reached."""
        group = self._next(size)
        Spool(self._file).put(_arrivals(group))
        for payload, at in group:
            self._spooled.setdefault(body_of(payload), (payload, []))[1].append(at)

    @rule()
    def drain(self) -> None:
        """Drain the spool, because the database is available again."""
        spool, clock = Spool(self._file), Clock(self._home.store)
        Drain(
            spool,
            self._home.store,
            ArrivalReader(PARSERS).parse,
            _ignore,
            clock,
            bodies=True,
            swept=True,
        )()
        for payload, times in self._spooled.values():
            self._model.keep(payload, self._model.record(payload, live=False), times)
        self._spooled.clear()

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Replay some entries of the log."""
        logged = self._log.oldest(Query(), limit=len(self._deck) + 1)
        if not logged:
            return
        chosen = data.draw(st.lists(st.sampled_from(logged), unique=True))
        arrivals = arrivals_of(self._home.store, chosen, PARSERS, datetime.now(UTC))
        assert len(arrivals) == len(chosen)
        replay(self._home.store, arrivals, clock=utc_now)
        for each in chosen:
            payload = self._model.log[str(each.body)]["payload"]
            self._model.keep(payload, self._model.record(payload, live=False))

    @rule()
    def sweep(self) -> None:
        """Sweep when all parked notifications are due."""
        self._clock = max(self._clock, datetime.now(UTC)) + LONGEST_PAUSE + timedelta(minutes=1)
        swept = self._retry(self._clock).retry_due()
        assert swept == self._model.sweep()

    @precondition(lambda self: self._late)
    @rule(data=st.data(), retried=st.booleans())
    def insert_late_rows(self, data: st.DataObject, *, retried: bool) -> None:
        """Insert rows after their notifications, as a host may; it may also call `retry_now`."""
        message_id = data.draw(st.sampled_from(sorted(self._late)))
        self._insert(message_id)
        if retried:
            with closing(self._retry()) as retry:
                recorded = retry.retry_now([message_id]).result()
            assert recorded == self._model.sweep(message_id)

    @rule()
    def restart(self) -> None:
        """Restart hookrow."""
        if self._home.url != MEMORY:  # whose rows end with the store
            self._home.store.close()
            self._home.store = SQLStore(self._home.url)

    def teardown(self) -> None:
        """Deliver and retry all remaining notifications, and compare the rows and the log."""
        self.deliver(len(self._pending))
        self.drain()
        for message_id in list(self._late):
            self._insert(message_id)
        self.sweep()
        in_order = Model(START, *LATE.values())
        for payload in sorted(self._deck.values(), key=happened):
            in_order.record(payload, live=True)
        rows, expected = self._home.rows(), self._model.logged()
        assert _without_opens(rows) == _without_opens(in_order.sorted())
        assert rows == self._model.sorted()
        logged = {row["body"]: row for row in self._home.logged()}
        assert len(logged) == len(self._home.logged()) == len(self._deck)
        for body, entry in expected.items():
            assert entry.items() <= logged[body].items()
        type(self).finished += 1

    @property
    def _log(self) -> SQLLog:
        log = self._home.store.log
        assert log is not None
        return log

    def _next(self, size: int) -> Group:
        group, self._pending = self._pending[:size], self._pending[size:]
        return group

    def _retry(self, now: datetime | None = None) -> ParkedRetry:
        clock = Clock(self._home.store, None if now is None else lambda: now)
        return ParkedRetry(self._home.store, self._log, PARSERS, _ignore, clock)

    def _insert(self, message_id: str) -> None:
        rows = self._late.pop(message_id)
        _add(self._home, rows)
        self._model.add(rows)


def _add(home: Home, rows: Mapping[str, Sequence[Row]]) -> None:
    """Insert rows as a host does, in one transaction."""
    with home._engine.begin() as connection:
        for name, added in rows.items():
            connection.execute(insert(home._tables[name]), list(added))


def _arrivals(group: Group) -> Sequence[Arrival]:
    reader, entry = ArrivalReader(PARSERS), PARSERS.default
    return [
        arrival
        for payload, at in group
        for arrival in reader.arrivals(entry, [entry.provider.parse(body_of(payload).encode())], at)
    ]


def _ignore(arrivals: object, outcomes: object) -> None:
    """Ignore the outcomes."""


def _without_opens(rows: Rows) -> Rows:
    return {name: [{**row, "opened_at": None} for row in each] for name, each in rows.items()}


@pytest.fixture(params=EXAMPLES)
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Open one home for all scenarios; each fills it again."""
    with closing(Home(new_database(request.param), OURS)) as home:
        yield home


def test_repeated_and_shuffled_notifications(
    home: Home, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The rows are the same as if each notification had arrived once and in order.

    Only `opened_at` differs: it is the time of the open that was processed last. The log contains
    each notification once, with the number of its arrivals and its outcome.
    """

    class ThisScenario(Scenario):
        def __init__(self) -> None:
            super().__init__(home, tmp_path / "spool")

    examples = EXAMPLES[request.node.callspec.params["home"]]
    run_state_machine_as_test(
        ThisScenario,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    assert ThisScenario.finished >= examples
