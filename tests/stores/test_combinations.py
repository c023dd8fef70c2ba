"""Every provider, tenant and effect in one receiver, recorded in each of the ways there are.

A change of one tenant leaves all rows of the others as they are, although these have the same
addresses and message ids. `acceptance/test_order.py` searches for faults in random orders.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django_home import MODELS_OF_TENANTS
from homes import Home
from locations import few_places, open_home
from model import START, Draft, Event, happened
from sites import POSTS, Models, Site, providers_of, request_of, site_of
from tenanted import OWNED, TENANTED, tenants_of

from databases import IN_MEMORY
from hookrow import Receiver
from hookrow._receiver.clock import Clock
from hookrow._receiver.manual import change_suppression
from hookrow._receiver.replay import ParkedRetry, replay_entries
from hookrow._receiver.spool import Spool
from hookrow.stores._log import Query
from hookrow.stores.sql._log import SQLLog
from times import HOUR
from wire import PATIENCE, eventually

pytestmark = pytest.mark.unmeasured

ADA, BEA = "ada@example.com", "bea@example.com"

DRAFTS: Sequence[Draft] = [
    ("SubscriptionChange", BEA, "m-bea", "HardBounce"),
    ("SubscriptionChange", BEA, "m-bea", None),
    ("SubscriptionChange", "ADA@example.com", "m-ada", "SpamComplaint"),
    ("Delivery", ADA, "m-ada", None),
    ("Open", ADA, "m-ada-2", None),
    ("OpenAndDrop", BEA, "m-bea", "SpamComplaint"),
    ("DropAndOpen", BEA, "m-nowhere", "HardBounce"),
    ("Delivery", BEA, "m-ada", None),
    ("Bounce", ADA, "m-ada", None),
]
"""Each happens a second after the one before it. The last one is not supported."""


@pytest.fixture
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    place = request.param
    schema = MODELS_OF_TENANTS if place.startswith("django-") else TENANTED
    if place == IN_MEMORY:
        schema = OWNED
    with closing(open_home(place, schema, new_database)) as home:
        yield home


def in_places(turn: int) -> pytest.MarkDecorator:
    """Run a test in a few places, and in memory with other tables of tenants."""
    return pytest.mark.parametrize("home", [*few_places(turn), IN_MEMORY], indirect=True)


def events_of(tenant: str) -> list[Event]:
    """Return what the providers of a tenant post."""
    return [
        post(f"{tenant}-{provider}", draft, second)
        for second, draft in enumerate(DRAFTS)
        for provider, post in POSTS.items()
    ]


class Trial:
    """A receiver, and the models of its tenants, of which one gets all events."""

    def __init__(self, home: Home, site: Site, receiver: Receiver, tenant: str) -> None:
        self.store, self.receiver = home.store, receiver
        self._home = home
        self.value = tenants_of(home.schema)[tenant]
        self.events = events_of(tenant)
        self.models = Models(home, site)
        self.own = self.models.of(self.events[0])
        self._others = {*tenants_of(home.schema).values()} - {self.value}
        home.fill()
        self.models.insert(START, self._others)

    @property
    def log(self) -> SQLLog:
        log = self._home.store.log
        assert log is not None
        return log

    def insert(self) -> None:
        """Insert the rows of the tenant."""
        self.models.insert(START, [self.value])

    def post(self) -> list[int]:
        """Post each event to its entry; return the statuses."""
        statuses = []
        for event in self.events:
            entry = self.receiver.entries.named(str(event.entry))
            assert entry is not None
            request = request_of(entry, event.body)
            assert self.receiver.admit(request.head) is None
            statuses.append(self.receiver(request).status)
        return statuses

    def post_live(self) -> None:
        """Post the events, and record them in the model."""
        outcomes = []
        for event in self.events:
            outcomes.append(self.own.record(event, live=True))
            self.own.keep(event, outcomes[-1], [datetime.now(UTC)])
        assert self.post() == [*map(status_of, self.events, outcomes)]

    def check(self) -> None:
        """Compare all rows of all tenants, and the log, with the models."""
        assert self._home.rows() == self.models.rows()
        logged = {(row["entry"], row["body"]): row for row in self._home.logged()}
        expected = self.own.logged()
        assert logged.keys() == expected.keys()
        for key, entry in expected.items():
            of_entry = {name: entry[name] for name in entry if not name.endswith("_at")}
            assert of_entry.items() <= logged[key].items()


def status_of(event: Event, outcome: str) -> int:
    """Return the status of a response: only Postmark's says why the log does not record an event.

    One of Postmark's that is not supported needs no log.
    """
    is_postmark = event.fields["provider"] == "postmark"
    if is_postmark and event.payloads[0]["RecordType"] == "Bounce":
        return 422
    if outcome == "unavailable":
        return 503
    return {"recorded": 200, "recipient_mismatch": 400}.get(outcome, 404) if is_postmark else 200


@contextmanager
def trials(home: Home, **options: Any) -> Iterator[Iterator[Trial]]:  # noqa: ANN401 - of Receiver
    """Open a receiver; yield a trial for each tenant."""
    providers, site = providers_of(home.schema), site_of(home.schema)
    with closing(Receiver(providers, home.store, deadline=PATIENCE, **options)) as receiver:
        yield (Trial(home, site, receiver, tenant) for tenant in tenants_of(home.schema))


@in_places(0)
def test_live(home: Home) -> None:
    """Each event counts its arrivals; the same body at two entries is two events."""
    with trials(home) as tenants:
        for trial in tenants:
            trial.insert()
            for _ in range(2):
                trial.post_live()
            trial.check()


def _sweep(trial: Trial) -> None:
    clock = Clock(trial.store, lambda: datetime.now(UTC) + HOUR)
    retry = ParkedRetry(trial.store, trial.log, trial.receiver.entries, lambda *_: None, clock)
    assert retry.retry_due() == trial.own.sweep()


def _retry_now(trial: Trial) -> None:
    """Retry those with a message, and the suppressions of a provider that names none."""
    messages = {message_id for _, _, message_id, _ in DRAFTS}
    recorded = trial.receiver.retry_now(*messages).result(PATIENCE)
    assert recorded == trial.own.sweep(*messages)
    trial.check()
    _sweep(trial)


def _replay(trial: Trial) -> None:
    entries = trial.log.oldest(Query(), limit=len(trial.events))
    replay_entries(trial.store, trial.log, entries, trial.receiver.entries)
    for event in trial.events:
        trial.own.keep(event, trial.own.record(event, live=False))


@in_places(1)
@pytest.mark.parametrize("again", [_sweep, _retry_now, _replay])
def test_parked(home: Home, again: Callable[[Trial], None]) -> None:
    """They arrive before the rows of their tenant exist, although those of others do."""
    with trials(home) as tenants:
        for trial in tenants:
            trial.post_live()
            trial.check()
            trial.insert()
            again(trial)
            trial.check()


@in_places(2)
def test_after_an_outage(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spool keeps them, with the entry of each."""
    monkeypatch.setattr("hookrow._receiver.spool.DRAIN_EVERY", 0.1)
    table, away, path = home.schema.subscribers.table, "away", tmp_path / "spool.db"
    with trials(home, spool=path) as tenants:
        for trial in tenants:
            trial.insert()
            home.run(f"ALTER TABLE {table} RENAME TO {away}")
            expected = [status_of(event, "unavailable") for event in trial.events]
            assert trial.post() == expected
            home.run(f"ALTER TABLE {away} RENAME TO {table}")
            for event in trial.events:
                outcome = trial.own.record(event, live=False)
                trial.own.keep(event, outcome, [datetime.now(UTC)])
            eventually(lambda: Spool(path).count() == 0)
            trial.check()


@in_places(0)
def test_by_hand(home: Home) -> None:
    """A user suppresses a person of one tenant, and lifts the suppression."""
    with trials(home) as tenants:
        for trial in tenants:
            trial.insert()
            for second, reason in enumerate(["HardBounce", None]):
                draft = "SubscriptionChange", ADA, "m-ada", reason
                event = POSTS["mail"](str(trial.events[0].entry), draft, second)
                change_suppression(
                    trial.store,
                    ADA,
                    reason=reason,
                    by="eve",
                    at=happened(event),
                    message_id="m-ada",
                    entry=event.entry,
                    tenant=trial.value,
                )
                assert trial.own.record(event, live=True) == "recorded"
                assert home.rows() == trial.models.rows()
