"""Notifications arrive three times within an hour, shuffled, with outages, replays and restarts.

A plain model predicts the rows and the log.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

import pytest
from homes import KEYS, OURS, MemoryHome, Row, Rows, SQLHome
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import LATE, NOW, START, Model, Payload, body_of, decks, happened
from sqlalchemy import insert

from hookrow import Arrival, Postmark
from hookrow.core.log_entry import LONGEST_PAUSE
from hookrow.receiver.drain import Drain
from hookrow.receiver.recorder import keep_failed, record
from hookrow.receiver.replay import arrivals_of, replay
from hookrow.receiver.retry import ParkedRetry
from hookrow.receiver.spool import Spool
from hookrow.stores.log import LogReader, Query
from hookrow.stores.sql import SQLStore

EXAMPLES = {"memory": 40, "sqlite": 20, "postgres": 15}
"""The number of courses of events for each store."""

STEPS = 25
"""The most steps of one course; a sweep advances the clock by an hour, of three days."""

COURSE = timedelta(hours=1)
"""The time in which all notifications arrive."""

parse = Postmark("a-secret-for-the-tests").parse

Group: TypeAlias = Sequence[tuple[Payload, datetime]]

groups = st.integers(1, 9)


class Course(RuleBasedStateMachine):
    """What may happen to a receiver, in any order; in the end, all has arrived and is swept."""

    finished = 0

    def __init__(self, home: MemoryHome | SQLHome, spool: Path) -> None:
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
    def _deal(self, deck: Sequence[Payload]) -> None:
        """Spread the notifications over an hour."""
        between = COURSE / len(deck)
        self._deck = {body_of(payload): payload for payload in deck}
        self._coming = [
            (payload, NOW - COURSE + number * between) for number, payload in enumerate(deck)
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
        keep_failed(self._home.store, _arrivals(group))
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
        """Record what is in the spool: the database is back."""
        Drain(Spool(self._file), self._home.store, _read, _tell, bodies=True, swept=True)()
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
        arrivals = arrivals_of(chosen, parse)
        assert len(arrivals) == len(chosen)
        replay(self._home.store, arrivals)
        for each in chosen:
            payload = self._model.log[str(each.body)]["payload"]
            self._model.keep(payload, self._model.record(payload, live=False))

    @rule()
    def sweep(self) -> None:
        """Sweep when everything parked is due."""
        self._clock = max(self._clock, datetime.now(UTC)) + LONGEST_PAUSE + timedelta(minutes=1)
        with patch("hookrow.receiver.retry.datetime") as clock:
            clock.now.return_value = self._clock
            swept = self._retry().retry_due()
        assert swept == self._model.sweep()

    @precondition(lambda self: self._late)
    @rule(data=st.data(), retried=st.booleans())
    def appear(self, data: st.DataObject, *, retried: bool) -> None:
        """Insert rows whose notifications came first, as a host does; it may call `retry_now`."""
        message_id = data.draw(st.sampled_from(sorted(self._late)))
        self._insert(message_id)
        if retried:
            with closing(self._retry()) as retry:
                recorded = retry.retry_now([message_id]).result()
            assert recorded == self._model.sweep(message_id)

    @rule()
    def restart(self) -> None:
        """Stop hookrow and start it again."""
        if isinstance(self._home, SQLHome):
            self._home.store.close()
            self._home.store = SQLStore(self._home.url)

    def teardown(self) -> None:
        """Let everything arrive and be swept, and compare."""
        self.deliver(len(self._coming))
        self.drain()
        for message_id in list(self._late):
            self._insert(message_id)
        self.sweep()
        in_order = Model(START, *LATE.values())
        for payload in sorted(self._deck.values(), key=happened):
            in_order.record(payload, live=True)
        rows, wanted = self._home.rows(), self._model.logged()
        assert _but_opened(rows) == _but_opened(in_order.sorted())
        assert rows == self._model.sorted()
        logged = {row["body"]: row for row in self._home.logged()}
        assert len(logged) == len(self._home.logged()) == len(self._deck)
        for body, entry in wanted.items():
            assert entry.items() <= logged[body].items()
        type(self).finished += 1

    @property
    def _log(self) -> LogReader:
        log = self._home.store.log
        assert log is not None
        return log

    def _next(self, size: int) -> Group:
        group, self._coming = self._coming[:size], self._coming[size:]
        return group

    def _retry(self) -> ParkedRetry:
        return ParkedRetry(self._home.store, self._log, parse, _tell)

    def _insert(self, message_id: str) -> None:
        rows = self._late.pop(message_id)
        _add(self._home, rows)
        self._model.add(rows)


def _add(home: MemoryHome | SQLHome, rows: Mapping[str, Sequence[Row]]) -> None:
    """Insert rows as a host does: in one transaction."""
    if isinstance(home, MemoryHome):
        for name, added in rows.items():
            for row in added:
                getattr(home.store, name)[itemgetter(*KEYS[name])(row)] = dict(row)
        return
    with home._engine.begin() as connection:
        for name, added in rows.items():
            connection.execute(insert(home._tables[name]), list(added))


def _read(body: bytes, received_at: datetime) -> Arrival:
    return Arrival(parse(body), body, received_at)


def _arrivals(group: Group) -> Sequence[Arrival]:
    return [_read(body_of(payload).encode(), at) for payload, at in group]


def _tell(arrivals: object, outcomes: object) -> None:
    """Ignore the outcomes."""


def _but_opened(rows: Rows) -> Rows:
    return {name: [{**row, "opened_at": None} for row in each] for name, each in rows.items()}


@pytest.fixture(params=EXAMPLES)
def home(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[MemoryHome | SQLHome]:
    """Open one home for all courses of events; each fills it again."""
    on_sql = request.param != "memory"
    made = SQLHome(new_database(request.param), OURS) if on_sql else MemoryHome(OURS)
    with closing(made) as home:
        yield home


def test_all_ends_as_if_it_had_come_once_and_in_order(
    home: MemoryHome | SQLHome, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Suppression and delivery times do; `opened_at` is that of the open processed last.

    The log has each notification once, how often it arrived, and its outcome.
    """

    class Here(Course):
        def __init__(self) -> None:
            super().__init__(home, tmp_path / "spool")

    examples = EXAMPLES[request.node.callspec.params["home"]]
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    assert Here.finished >= examples
