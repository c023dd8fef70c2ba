"""Events arrive three times within an hour, shuffled, with outages, replays and restarts.

They are those of one provider, or of several providers and tenants of one receiver. A plain model
predicts the rows and the log.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import pytest
from django_home import MODELS_OF_TENANTS, DjangoHome
from homes import OURS, Home, Rows
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from locations import open_home
from model import (
    BEFORE,
    KNOWN,
    LATE,
    NOW,
    REASONS,
    START,
    Event,
    happened,
)
from sites import SINGLE, Models, Site, request_of, site_of
from tenanted import TENANTED

from courier import Courier
from databases import IN_MEMORY, MARIADB, POSTGRESQL, places
from engines import MEMORY
from hookrow import Arrival
from hookrow._core.result import LONGEST_PAUSE
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.manual import change_suppression
from hookrow._receiver.receiver import ArrivalReader
from hookrow._receiver.recorder import keep_failed, record
from hookrow._receiver.replay import ParkedRetry, arrivals_of, replay
from hookrow._receiver.spool import Drain, Spool
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog

pytestmark = pytest.mark.never_flaky

EXAMPLES = {IN_MEMORY: 40, POSTGRESQL.name: 15, MARIADB.name: 15}
"""The number of scenarios for each store. In memory, SQLite gets the statements of a file."""

OTHERS = [*places("supplied", POSTGRESQL.name), *places("django", MARIADB.name)]
"""A supplied engine and Django send the same statements, so each has one database."""

STEPS = 25
"""The largest number of steps in a scenario; each sweep advances the clock by an hour."""

ARRIVAL_PERIOD = timedelta(hours=1)
"""The period in which all notifications arrive."""

Group: TypeAlias = Sequence[tuple[Event, datetime]]

groups = st.integers(1, 9)


class Scenario(RuleBasedStateMachine):
    """Events of a receiver in any order; at the end, all of them arrive and are retried."""

    finished = 0

    def __init__(self, home: Home, site: Site, spool: Path) -> None:
        super().__init__()
        self._home, self._site = home, site
        self._file = spool
        self._reader = ArrivalReader(site.entries, home.store.recorded)
        self._models = Models(home, site, START)
        self._late = dict(LATE)
        self._spooled: dict[tuple[str | None, str], tuple[Event, list[datetime]]] = {}
        self._clock = NOW
        self._changed_by_hand = 0
        home.fill(**self._models.rows())
        spool.unlink(missing_ok=True)

    @initialize(data=st.data())
    def schedule(self, data: st.DataObject) -> None:
        """Spread the events over an hour."""
        deck = data.draw(self._site.decks)
        between = ARRIVAL_PERIOD / len(deck)
        self._deck = {event.key: event for event in deck}
        self._pending = [
            (event, NOW - ARRIVAL_PERIOD + number * between) for number, event in enumerate(deck)
        ]

    @rule(size=groups)
    def deliver(self, size: int) -> None:
        """Record a group that arrives."""
        group = self._next(size)
        record(self._home.store, self._arrivals(group))
        for event, at in group:
            model = self._models.of(event)
            model.keep(event, model.record(event, live=True), [at])

    @rule(size=groups)
    def fail(self, size: int) -> None:
        """Fail to record a group that arrives."""
        group = self._next(size)
        keep_failed(self._home.store, self._arrivals(group), clock=utc_now)
        for event, at in group:
            supported = event.payloads[0]["RecordType"] != "Bounce"
            self._models.of(event).keep(event, "failed" if supported else "unsupported", [at])

    @rule(size=groups)
    def spool(self, size: int) -> None:
        """Spool a group that arrives while the database cannot be reached."""
        group = self._next(size)
        Spool(self._file).put(self._arrivals(group))
        for event, at in group:
            self._spooled.setdefault(event.key, (event, []))[1].append(at)

    @rule()
    def drain(self) -> None:
        """Drain the spool, because the database is available again."""
        spool, clock = Spool(self._file), Clock(self._home.store)
        Drain(
            spool, self._home.store, self._reader.parse, _ignore, clock, bodies=True, swept=True
        )()
        for event, times in self._spooled.values():
            model = self._models.of(event)
            model.keep(event, model.record(event, live=False), times)
        self._spooled.clear()

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Replay some entries of the log."""
        logged = self._log.oldest(Query(), limit=len(self._deck) + 1)
        if not logged:
            return
        chosen = data.draw(st.lists(st.sampled_from(logged), unique=True))
        now = datetime.now(UTC)
        arrivals = arrivals_of(self._home.store, chosen, self._site.entries, now)
        assert len(arrivals) == len(chosen)
        replay(self._home.store, arrivals, clock=utc_now)
        for each in chosen:
            event = self._deck[each.entry, str(each.body)]
            model = self._models.of(event)
            model.keep(event, model.record(event, live=False))

    @rule()
    def sweep(self) -> None:
        """Sweep when all parked events are due."""
        self._clock = max(self._clock, datetime.now(UTC)) + LONGEST_PAUSE + timedelta(minutes=1)
        swept = self._retry(self._clock).retry_due()
        assert swept == sum(model.sweep() for model in self._models)

    @precondition(lambda self: self._late)
    @rule(data=st.data(), retried=st.booleans())
    def insert_late_rows(self, data: st.DataObject, *, retried: bool) -> None:
        """Insert rows after their events, as a host may; it may also call `retry_now`."""
        message_id = data.draw(st.sampled_from(sorted(self._late)))
        self._insert(message_id)
        if retried:
            with closing(self._retry()) as retry:
                recorded = retry.retry_now([message_id]).result()
            assert recorded == sum(model.sweep(message_id) for model in self._models)

    @rule(data=st.data())
    def change_by_hand(self, data: st.DataObject) -> None:
        """Suppress a person of a tenant, or lift the suppression, as a user of the host does."""
        entry, tenant = data.draw(st.sampled_from([*self._site.tenants.items()]))
        recipient = data.draw(st.sampled_from([*KNOWN, "cyd@example.com"]))
        reason = data.draw(st.sampled_from(REASONS))
        self._changed_by_hand += 1
        at = BEFORE + timedelta(hours=1, seconds=self._changed_by_hand)
        change_suppression(
            self._home.store, recipient, reason=reason, by="eve", at=at, entry=entry, tenant=tenant
        )
        [logged] = self._log.newest(Query(), limit=1)
        payload = {
            "RecordType": "SubscriptionChange",
            "Recipient": recipient,
            "MessageID": None,
            "ChangedAt": at.isoformat(),
            "SuppressionReason": reason,
        }
        event = Event(str(logged.body), (payload,), entry, {"provider": None, "reason": reason})
        model = self._models.of(event)
        model.keep(event, model.record(event, live=True), [at])
        self._deck[event.key] = event

    @rule()
    def restart(self) -> None:
        """Restart hookrow."""
        home = self._home
        if home.url != MEMORY and not isinstance(home, DjangoHome):  # in memory, the rows would end
            home.store.close()
            home.store = SQLStore(home.url, home.schema)

    def teardown(self) -> None:
        """Deliver and retry all remaining events, and compare the rows and the log."""
        self.deliver(len(self._pending))
        self.drain()
        for message_id in list(self._late):
            self._insert(message_id)
        self.sweep()
        in_order = Models(self._home, self._site, START, *LATE.values())
        for event in sorted(self._deck.values(), key=happened):
            in_order.of(event).record(event, live=True)
        rows = self._home.rows()
        assert _without_opens(rows) == _without_opens(in_order.rows())
        assert rows == self._models.rows()
        logged = {(row["entry"], row["body"]): row for row in self._home.logged()}
        assert len(logged) == len(self._home.logged()) == len(self._deck)
        for model in self._models:
            for key, entry in model.logged().items():
                assert entry.items() <= logged[key].items()
        type(self).finished += 1

    @property
    def _log(self) -> SQLLog:
        log = self._home.store.log
        assert log is not None
        return log

    def _next(self, size: int) -> Group:
        """Take a group in the order in which it arrives: one request after the other."""
        group, self._pending = self._pending[:size], self._pending[size:]
        return sorted(group, key=lambda each: str(each[0].entry))

    def _arrivals(self, group: Group) -> Sequence[Arrival]:
        """Read the requests with the events of a group; a courier posts several together."""
        arrivals: list[Arrival] = []
        for name, posted in groupby(group, key=lambda each: each[0].entry):
            entry = self._site.entries.default if name is None else self._site.entries.named(name)
            assert entry is not None
            sent = [*posted]
            is_batch = isinstance(entry.provider, Courier)
            for together in [sent] if is_batch else [[each] for each in sent]:
                request = request_of(entry, *(event.body for event, _ in together))
                for read, (_, at) in zip(entry.provider.read(request), together, strict=True):
                    arrivals += self._reader.arrivals(entry, [read], at)
        return arrivals

    def _retry(self, now: datetime | None = None) -> ParkedRetry:
        clock = Clock(self._home.store, None if now is None else lambda: now)
        return ParkedRetry(self._home.store, self._log, self._site.entries, _ignore, clock)

    def _insert(self, message_id: str) -> None:
        """Insert rows of each tenant as a host does, in one transaction."""
        self._models.insert(self._late.pop(message_id))


def _ignore(arrivals: object, outcomes: object) -> None:
    """Ignore the outcomes."""


def _without_opens(rows: Rows) -> Rows:
    return {name: [{**row, "opened_at": None} for row in each] for name, each in rows.items()}


@pytest.fixture(params=EXAMPLES)
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Open one home for all scenarios; each fills it again."""
    with closing(Home(new_database(request.param), OURS)) as home:
        yield home


def _run(home: Home, site: Site, spool: Path, examples: int) -> None:
    class ThisScenario(Scenario):
        def __init__(self) -> None:
            super().__init__(home, site, spool)

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


def test_repeated_and_shuffled_notifications(
    home: Home, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The rows are the same as if each notification had arrived once and in order.

    Only `opened_at` differs: it is the time of the open that was processed last. The log contains
    each notification once, with the number of its arrivals and its outcome.
    """
    examples = EXAMPLES[request.node.callspec.params["home"]]
    _run(home, SINGLE, tmp_path / "spool", examples)


@pytest.mark.parametrize("place", [*EXAMPLES, *OTHERS])
def test_several_providers_and_tenants(
    place: str, new_database: Callable[[str], str], tmp_path: Path
) -> None:
    """The same holds of each tenant, as if it had a receiver and a database of its own.

    Tenants have people with the same addresses, and messages with the same ids.
    """
    schema = MODELS_OF_TENANTS if place.startswith("django-") else TENANTED
    with closing(open_home(place, schema, new_database)) as home:
        _run(home, site_of(schema), tmp_path / "spool", EXAMPLES.get(place, 10))
