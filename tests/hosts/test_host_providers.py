"""Every provider on every host: events that arrive before their rows, and during an outage."""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django_home import MODELS_OF_TENANTS
from drivers import MOUNT, mounted
from homes import OURS, Home
from locations import open_home
from sqlalchemy import insert
from tenanted import TENANTED, tenants_of

import wire
from crm.schema import CRM
from databases import POSTGRESQL
from hookrow import Receiver, Tenant
from hookrow._core.notification import Key
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import Providers
from hookrow._receiver.replay import ParkedRetry
from hookrow._receiver.spool import Spool
from hookrow.django._receiver import SyncReceiver
from hookrow.django._store import DjangoStore
from loopback import loopback
from senders import SENDERS
from senders.sender import ADA
from times import HOUR, SECOND
from wire import ENDPOINT, PATIENCE, eventually

pytestmark = pytest.mark.unmeasured

ALL, OF_A_TENANT = "all", "tenants"

PLACES = [*product(["asgi", "wsgi", "django"], ["sqlite", "postgres"])]
"""Hosts, and databases."""

CASES = [
    *((*place, ALL) for place in PLACES),
    *((*place, OF_A_TENANT) for place in PLACES if POSTGRESQL.name in place),
    *((*place, name) for place, name in zip(cycle(PLACES), SENDERS, strict=False)),
]
"""All providers in every place. Each alone differs from that only by its path: one place is enough.

A tenant's are what the stores distinguish, on any host: see `stores/test_combinations.py`.
"""


@dataclass(frozen=True)
class Mounted:
    """A receiver of some providers on a port, and the home of its rows.

    Its entries have names if `are_named`, and a tenant if it is not None.
    """

    home: Home
    receiver: Receiver
    port: int
    providers: Collection[str]
    are_named: bool
    tenant: Key | None

    def post(self, second: int) -> dict[str, int]:
        """Post an open of each provider; return the statuses."""
        return {each: self._post_one(each, second) for each in self.providers}

    def _post_one(self, name: str, second: int) -> int:
        sender = SENDERS[name]
        path = f"{MOUNT}{ENDPOINT}/{name}" if self.are_named else MOUNT + ENDPOINT
        sent = sender.request(sender.opened(second))
        extra = [b"%b: %b" % each for each in sent.head.headers]
        return wire.ask(self.port, wire.request(sent.body, path, secret=None, extra=extra)).status

    def insert(self, tenant: Key | None, *, subscriber: int) -> None:
        """Insert Ada with this id, and a dispatch of each provider, for a tenant."""
        home, of_tenant = self.home, {"tenant": tenant}
        key = home.key(subscriber)
        ada = {"id": key, "email": ADA, **of_tenant}
        dispatches = [
            {
                "id": home.key(subscriber + number),
                "provider_message_id": SENDERS[name].message_id,
                "subscriber_id": key,
                **of_tenant,
            }
            for number, name in enumerate(self.providers)
        ]
        with home._engine.begin() as connection:
            for role, rows in (("subscribers", [ada]), ("dispatches", dispatches)):
                values = [home._row(role, row) for row in rows]
                connection.execute(insert(home._tables[role]), values)

    def opened(self, tenant: Key | None = None) -> dict[str, datetime | None]:
        """Return when the dispatches of a tenant were opened, by the provider."""
        ids = {SENDERS[name].message_id: name for name in self.providers}
        return {
            ids[row["provider_message_id"]]: row["opened_at"]
            for row in self.home.rows()["dispatches"]
            if row.get("tenant") == tenant
        }

    def sweep(self) -> int:
        """Retry the parked events as the sweep does after a while; return how many it records."""
        store = self.home.store
        assert store.log is not None
        clock = Clock(store, lambda: datetime.now(UTC) + HOUR)
        entries = self.receiver.entries
        return ParkedRetry(store, store.log, entries, lambda *_: None, clock).retry_due()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Let no notification be recorded until the block ends."""
        table = self.home.schema.subscribers.table
        self.home.run(f"ALTER TABLE {table} RENAME TO away")
        yield
        self.home.run(f"ALTER TABLE away RENAME TO {table}")


@contextmanager
def mounting(
    host: str, home: Home, providers: Providers, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Receiver, int]]:
    """Mount a receiver, with a spool; yield it, and its port."""
    options = {"spool": spool, "deadline": PATIENCE}
    if host != "django":
        with (
            closing(Receiver(providers, home.store, **options)) as receiver,  # type: ignore[arg-type] # mypy does not know which option has which type
            mounted(host, receiver) as port,
        ):
            yield receiver, port
        return
    assert isinstance(home.store, DjangoStore)
    with closing(SyncReceiver(providers, home.store, **options)) as receiver:
        monkeypatch.setattr("hookrow.django._views.receiver", lambda: receiver)
        with loopback(WSGIHandler()) as port:
            yield receiver, port


@pytest.fixture
def everything(
    host: str,
    database: str,
    which: str,
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Mounted]:
    """Mount each provider alone, all of them with names, and all of them as a tenant's."""
    monkeypatch.setattr("hookrow._receiver.spool.DRAIN_EVERY", 0.1)
    has_tenants, are_named = which == OF_A_TENANT, which not in SENDERS
    in_django = host == "django"
    schema = CRM if in_django else OURS
    if has_tenants:
        schema = MODELS_OF_TENANTS if in_django else TENANTED
    place = f"django-{database}" if in_django else database
    names = [*SENDERS] if are_named else [which]
    made = {name: SENDERS[name].construct() for name in names}
    with closing(open_home(place, schema, new_database)) as home:
        tenant = tenants_of(home.schema).get("lower")
        providers: Providers = made if are_named else made[which]
        if tenant is not None:
            providers = {name: Tenant(provider, tenant) for name, provider in made.items()}
        spool = tmp_path / "spool.db"
        with mounting(host, home, providers, spool, monkeypatch) as (receiver, port):
            yield Mounted(home, receiver, port, names, are_named, tenant)


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
@pytest.mark.parametrize(("host", "database", "which"), CASES)
def test_before_the_rows_and_during_an_outage(everything: Mounted, tmp_path: Path) -> None:
    """The log keeps the former, and the spool the latter; only Postmark sends both again."""
    tenant = everything.tenant
    if tenant is not None:
        everything.insert(tenants_of(everything.home.schema)["other"], subscriber=100)
    assert everything.post(0) == {
        name: 404 if name == "postmark" else 200 for name in everything.providers
    }
    everything.insert(tenant, subscriber=1)
    assert everything.sweep() == len(everything.providers)
    before = everything.opened(tenant)
    with everything.outage():
        assert everything.post(1) == dict.fromkeys(everything.providers, 503)
    eventually(lambda: Spool(tmp_path / "spool.db").count() == 0)
    after = everything.opened(tenant)
    assert {name: at and at - SECOND for name, at in after.items()} == before
    assert None not in before.values()
    if tenant is not None:
        foreign = everything.opened(tenants_of(everything.home.schema)["other"])
        assert foreign == dict.fromkeys(everything.providers)
