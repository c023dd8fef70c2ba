"""Tenants: customers of a host that share its tables, each with notifications of its own.

The law for groups of several tenants is in `test_law`.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from contract import ADA, NOON, statuses
from host_tables import make
from locations import empty_engine
from sqlalchemy import Engine

from copying import replace
from databases import kind_of
from engines import MEMORY, run
from hookrow import (
    Arrival,
    ConfigurationError,
    Delivered,
    Postmark,
    Reactivated,
    Receiver,
    Request,
    RequestHead,
    Role,
    Schema,
    SchemaMismatch,
    Suppressed,
    Tenant,
    testing,
)
from hookrow._core.known_entries import KnownEntries
from hookrow._core.notification import Key, Notification, Refusal, Source, Suppressible
from hookrow._core.schema import SUPPRESSION
from hookrow._diagnostics.advice import check_tenants as check_rows_of_tenants
from hookrow._diagnostics.advice import repeated_emails
from hookrow._diagnostics.indexes import missing_indexes
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import read_entries
from hookrow._receiver.manual import change_suppression, find_subscriber
from hookrow._receiver.recorder import record
from hookrow._receiver.replay import ParkedRetry, arrivals_of, dry_run, replay_entries
from hookrow.migrations import upgrade
from hookrow.stores._errors import Rejected, Unavailable, WrongMapping
from hookrow.stores._log import START, Origin, Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._suppressions import Filter, SuppressionRange
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify
from times import DAY, HOUR
from wire import ENDPOINT, PATIENCE, SECRET, eventually

engine = pytest.fixture(empty_engine)

MAIL = "m-1"
"""The message id of a dispatch of each tenant."""

ALL = ("subscribers", "dispatches", "subscriptions")
UNDATED = {"suppression_changed_at": None}
BARE = dict.fromkeys(SUPPRESSION)
UUIDS: tuple[Key, Key] = (UUID(int=10), UUID("b7bc2f4a-e38e-4336-af7d-e6c392c2f817"))
BINARY = "binary(16)"

TYPES: list[tuple[str, Key, Key]] = [
    ("integer", 1, 2),
    ("integer", "1", "2"),
    ("bigint", 2**40, -1),
    ("text", "acme", "globex"),
    ("text", "it's 100%", '\\ "{,}'),
    ("char(10)", "acme", "globex"),
    ("varchar(40)", UUIDS[0], UUIDS[1]),
    ("no case", "acme", "ACME"),
]
"""A type of columns of tenants on every database, and the values of two tenants."""

TYPES_OF: Mapping[str, list[tuple[str, Key, Key]]] = {
    "postgresql": [("uuid", *UUIDS), ("uuid", str(UUIDS[0]), str(UUIDS[1])), ("citext", "a", "A")],
    "sqlite": [("char(32)", *UUIDS), ("", 1, 2), ("char(32)", str(UUIDS[0]), str(UUIDS[1]))],
    "mariadb": [
        ("char(32)", *UUIDS),
        (BINARY, *UUIDS),
        (BINARY, str(UUIDS[0]), str(UUIDS[1])),
        ("varchar(9) COLLATE utf8mb4_general_ci", "a", "a "),
    ],
}
"""More of them, by dialect."""


def schema_of(*roles: str, log: str | None = None) -> Schema:
    """Return a schema of `host_tables` in which these roles have a column of tenants."""
    named: dict[str, Any] = {
        "subscribers": Role("people", UNDATED),
        "dispatches": Role("sends", BARE),
        "subscriptions": Role("members", {"suppression_reason": None, **UNDATED}),
    }
    return Schema(
        **{
            name: replace(role, tenant="team") if name in roles else role
            for name, role in named.items()
        },
        log=log,
    )


def make_teams(engine: Engine, type_: str, first: Key, second: Key) -> None:
    """Make the tables, in which each of two tenants has Ada, a dispatch and a subscription."""
    if type_ == "no case":
        type_ = kind_of(engine).text_without_case(engine)
    elif type_ == "citext":
        kind_of(engine).text_without_case(engine)  # creates the extension
    make(engine)
    for table in ("people", "sends", "members"):
        run(engine, f"ALTER TABLE {table} ADD COLUMN team {type_}")
    for number, tenant in ((1, first), (2, second)):
        team = literal(engine, type_, tenant)
        run(
            engine,
            f"INSERT INTO people (id, email, team) VALUES ({number}, '{ADA}', {team})",
            "INSERT INTO sends (id, provider_message_id, subscriber_id, list_id, team) "
            f"VALUES ({number}, '{MAIL}', {number}, 7, {team})",
            f"INSERT INTO members (list_id, subscriber_id, team) VALUES (7, {number}, {team})",
        )


def literal(engine: Engine, type_: str, tenant: Key) -> str:
    """Return the value of a tenant as SQL text, as a host stores it."""
    if isinstance(tenant, int):
        return str(tenant)
    text = str(tenant)
    if type_ in {"char(32)", BINARY}:
        text = UUID(text).hex
    quoted = text.replace("'", "''")
    if kind_of(engine).name == "mariadb":
        quoted = quoted.replace("\\", "\\\\")
    quoted = quoted.replace(":", "\\:")
    return f"unhex('{quoted}')" if type_ == BINARY else f"'{quoted}'"


def of_tenant(tenant: Key | None, *notifications: Notification) -> Arrival:
    return Arrival(notifications, repr(notifications).encode(), NOON, tenant=tenant)


def changed(engine: Engine) -> list[tuple[int | None, ...]]:
    """Return the numbers of the changed rows of each role."""
    columns = {
        "people": ("id", "suppressed_at"),
        "sends": ("id", "delivered_at"),
        "members": ("subscriber_id", "suppressed_at"),
    }
    return [
        tuple(
            number
            for (number,) in run(
                engine, f"SELECT {key} FROM {table} WHERE {column} IS NOT NULL ORDER BY {key}"
            )
        )
        for table, (key, column) in columns.items()
    ]


@pytest.mark.parametrize("roles", [("subscribers",), ALL], ids=["owners", "all"])
def test_every_type_of_column(engine: Engine, roles: tuple[str, ...]) -> None:
    """Of one email and one message id, a notification changes only the rows of its tenant."""
    for type_, first, second in [*TYPES, *TYPES_OF[kind_of(engine).dialect]]:
        kind_of(engine).clear(engine)
        make_teams(engine, type_, first, second)
        with closing(SQLStore(engine, schema_of(*roles))) as store:
            store.use_entries(KnownEntries(tenants={"first": first, "second": second}))
            sent = [
                of_tenant(second, Suppressed(ADA, MAIL, NOON, "SpamComplaint")),
                of_tenant(first, Delivered("nobody@example.com", MAIL, NOON)),
                of_tenant(second, Delivered(ADA, MAIL, NOON)),
            ]
            assert statuses(record(store, sent)) == [200, 404, 200], (type_, first, second)
            assert changed(engine) == [(2,), (2,), (2,)]
            found = (
                store.suppressions.read(SuppressionRange(), Filter(tenant=first), limit=9),
                store.suppressions.count(SuppressionRange(), Filter(tenant=second), limit=9),
            )
            assert (len(found[0]), found[1]) == (0, 1)
            assert statuses(record(store, [of_tenant(first, Delivered(ADA, MAIL, NOON))])) == [200]
            assert changed(engine)[1] == (1, 2)


REFUSED: list[tuple[str, Key]] = [("integer", "acme"), ("integer", "01"), ("varchar(4)", "globex")]
REFUSED_OF: Mapping[str, list[tuple[str, Key]]] = {
    "postgresql": [("uuid", "acme"), ("smallint", 40_000), ("numeric(9, 2)", 7), ("bytea", "a")],
    "sqlite": [
        ("blob", "acme"),
        ("datetime", "2026-03-04"),
        ("real", 1),
        ("double precision", "2"),
    ],
    "mariadb": [
        ("smallint", 40_000),
        ("decimal(9, 2)", 7),
        ("time", "10:00"),
        (BINARY, "acme"),
        ("varchar(9) CHARACTER SET latin1", "\u0142"),
    ],
}


def test_values_that_a_column_cannot_hold(engine: Engine) -> None:
    """The values of tenants are verified with the tables, and named with their entries."""
    kind = kind_of(engine)
    for type_, tenant in [*REFUSED, *REFUSED_OF[kind.dialect]]:
        if kind.dialect == "sqlite" and type_.startswith("varchar"):
            continue  # any text fits
        kind.clear(engine)
        make(engine)
        run(engine, f"ALTER TABLE people ADD COLUMN team {type_}")
        store = SQLStore(engine, schema_of("subscribers"))
        store.use_entries(KnownEntries(tenants={"first": tenant}))
        with pytest.raises(Unavailable, match="never equals the value of the tenant of 'first'"):
            record(store, [of_tenant(tenant, Delivered(ADA, MAIL, NOON))])
        with pytest.raises(SchemaMismatch, match=f"correct the value {tenant!r}") as caught:
            SQLStore(engine, schema_of("subscribers"), verify=True).use_entries(
                KnownEntries(tenants={"first": tenant})
            )
        assert "The column 'team' of 'people' is of the type" in str(caught.value)


def test_a_missing_column(engine: Engine) -> None:
    make(engine)
    run(engine, "ALTER TABLE people ADD COLUMN team integer")
    with pytest.raises(SchemaMismatch, match="'sends' has no column 'team'"):
        SQLStore(engine, schema_of("subscribers", "dispatches"), verify=True)


def test_rows_of_another_tenant_or_of_none(engine: Engine) -> None:
    """A foreign dispatch is not found, nor one whose subscriber is another tenant's named."""
    make_teams(engine, "integer", 1, 2)
    run(
        engine,
        "UPDATE sends SET provider_message_id = 'foreign' WHERE id = 2",
        "UPDATE members SET team = 1 WHERE subscriber_id = 2",
        "INSERT INTO people (id, email, team) VALUES (3, 'bea@example.com', NULL)",
        "INSERT INTO sends (id, provider_message_id, subscriber_id, list_id, team) "
        "VALUES (3, 'mixed', 2, 7, 1), (4, 'lost', 1, 7, NULL)",
    )
    store = SQLStore(engine, schema_of(*ALL))
    sent: list[tuple[Key, Notification]] = [
        (1, Delivered(ADA, "foreign", NOON)),
        (1, Delivered("bea@example.com", MAIL, NOON)),
        (1, Delivered(ADA, "lost", NOON)),
        (1, Delivered(ADA, "mixed", NOON)),
        (2, Suppressed(ADA, "foreign", NOON, "SpamComplaint")),
    ]
    outcomes = record(store, [of_tenant(*each) for each in sent])
    assert statuses(outcomes) == [404, 404, 404, 400, 200]
    refused = Refusal.RECIPIENT_MISMATCH.refused(owner="", recipient=ADA)
    assert outcomes[3] == refused
    assert changed(engine) == [(2,), (), ()]  # the subscription is the first tenant's


def test_an_arrival_without_a_tenant(engine: Engine) -> None:
    """It is rejected, as is one with a tenant at a store without tenants; no row is changed."""
    make_teams(engine, "integer", 1, 2)
    delivered = Delivered(ADA, MAIL, NOON)
    for schema, tenant in ((schema_of(*ALL), None), (schema_of(), 1)):
        with pytest.raises(Rejected, match="The arrival has "):
            record(SQLStore(engine, schema), [of_tenant(tenant, delivered)])
    assert changed(engine)[1] == ()


def test_counts_of_a_tenant(engine: Engine) -> None:
    """Rows without a column of tenants count for the tenant of their subscriber."""
    make_teams(engine, "integer", 1, 2)
    run(engine, "INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (3, 'x', 2)")
    for roles, of_second in ((("subscribers",), 2), (ALL, 1)):
        counts = SQLStore(engine, schema_of(*roles)).row_counts
        assert [counts.undelivered(tenant=each) for each in (1, 2, None)] == [1, of_second, 3]
        assert sum(each.sent for each in counts.lists(tenant=2)) == of_second
        assert [each.subscribed for each in counts.lists(tenant=1)] == [1]
    run(engine, "UPDATE people SET suppressed_at = '2026-03-04 12:00:00' WHERE id = 2")
    assert [counts.suppressed(tenant=each) for each in (1, 2)] == [{}, {None: 1}]


def test_manual_changes(engine: Engine) -> None:
    """A user suppresses the person of one tenant; the log has the name of its entry."""
    make_teams(engine, "integer", 1, 2)
    store = SQLStore(engine, schema_of(*ALL))
    change_suppression(
        store, ADA, reason="x", by="eve", at=NOON, message_id=MAIL, entry="second", tenant=2
    )
    assert changed(engine) == [(2,), (), (2,)]
    with store.reading() as reading:
        found = [find_subscriber(reading, ADA, tenant) for tenant in (1, 2, 3)]
    assert found == [(Suppressible.SUBSCRIBER, 1), (Suppressible.SUBSCRIBER, 2), None]
    dry = dry_run(store, of_tenant(1, Reactivated(ADA, MAIL, NOON)))
    assert {row[1] for row in dry.after} == {1, (7, 1)}


def test_manual_changes_through_a_receiver(engine: Engine) -> None:
    """The name of an entry selects the tenant, and is required."""
    make_teams(engine, "integer", 1, 2)
    entries = {
        name: Tenant(Postmark(f"{name}-{SECRET}"), id_) for id_, name in ((1, "a"), (2, "b"))
    }
    with closing(Receiver(entries, SQLStore(engine, schema_of(*ALL)))) as receiver:
        receiver.suppress(ADA, reason="x", by="eve", message_id=MAIL, entry="b")
        assert changed(engine) == [(2,), (), (2,)]
        for name, message in ((None, "pass entry=, one of 'a', 'b'"), ("c", "no entry 'c'")):
            with pytest.raises(ConfigurationError, match=message):
                receiver.lift(ADA, reason="x", by="eve", entry=name)


class TestLog:
    """The log of a receiver with several tenants."""

    SCHEMA = schema_of(*ALL, log="hookrow_notifications")
    TENANTS: Mapping[str, Key] = {"first": 1, "second": 2}

    @pytest.fixture
    def store(self, engine: Engine) -> SQLStore:
        make_teams(engine, "integer", 1, 2)
        upgrade(engine, self.SCHEMA)
        return SQLStore(engine, self.SCHEMA)

    def _sent(self, notification: Notification) -> list[Arrival]:
        """Return a notification as it arrives at the entry of each tenant."""
        return [
            replace(of_tenant(tenant, notification), entry=name)
            for name, tenant in self.TENANTS.items()
        ]

    def test_entries_of_several_tenants(self, store: SQLStore, engine: Engine) -> None:
        """The same event of two tenants is two entries, and each is retried for its tenant."""
        sent = self._sent(Delivered(ADA, "late", NOON))
        assert statuses(record(store, sent, clock=lambda: NOON)) == [404, 404]
        log = store.log
        assert log is not None
        assert len(log.newest(Query(), limit=9)) == 2
        run(
            engine,
            "INSERT INTO sends (id, provider_message_id, subscriber_id, team) "
            "VALUES (9, 'late', 2, 2)",
        )
        origins = [Origin(name, None) for name in self.TENANTS]
        hopeful = partial(log.hopeful, NOON + DAY, origins=origins, after=START, limit=9)
        found = log.newest(Query(ids=hopeful(tenants=self.TENANTS).ids), limit=9)
        assert [each.entry for each in found] == ["second"]
        for tenants in ({"first": 1}, {"other": 2}, {}):
            assert not hopeful(tenants=tenants).ids
        later = NOON + DAY
        replayed = [
            replace(each, source=Source.REPLAY, attempts=0, applied_at=later) for each in sent
        ]
        assert statuses(record(store, replayed)) == [404, 200]
        assert changed(engine)[1] == (9,)
        assert {each.entry: each.outcome.value for each in log.newest(Query(), limit=9)} == {
            "first": "dispatch_not_found",
            "second": "recorded",
        }

    def test_dates_beside_the_log(self, store: SQLStore, engine: Engine) -> None:
        """An older change of one tenant does not lift the suppression of another one's person."""
        record(store, [self._sent(Suppressed(ADA, None, NOON, "HardBounce"))[1]])
        record(store, self._sent(Reactivated(ADA, None, NOON - DAY)))
        assert changed(engine)[0] == (2,)

    def test_another_mapping(self, store: SQLStore, engine: Engine) -> None:
        """Nothing is retried under a mapping without the tenants, or with other columns of them."""
        record(store, self._sent(Delivered(ADA, MAIL, NOON)))
        store.check_mapping()
        for roles in ((), ("subscribers",)):
            other = SQLStore(engine, schema_of(*roles, log="hookrow_notifications"))
            with pytest.raises(WrongMapping, match="with the tenant in team"):
                other.check_mapping()


class TestReceiver:
    """A receiver with an entry for each of two tenants, whose events are the same."""

    ENTRIES: Mapping[str, Tenant] = {
        "first": Tenant(Postmark(SECRET), 1),
        "second": Tenant(Postmark(SECRET), "2"),
    }
    COMPLAINT = testing.suppression(ADA, MAIL, at=NOON, reason="SpamComplaint")
    LATE = testing.delivery(ADA, "late", at=NOON)
    SEND_LATE = (
        "INSERT INTO sends (id, provider_message_id, subscriber_id, team) VALUES (9, 'late', 2, 2)"
    )

    @pytest.fixture
    def store(self, engine: Engine) -> SQLStore:
        make_teams(engine, "integer", 1, 2)
        schema = schema_of(*ALL, log="hookrow_notifications")
        upgrade(engine, schema)
        return SQLStore(engine, schema)

    def _post(self, receiver: Receiver, name: str, payload: Mapping[str, object]) -> int:
        head = RequestHead("POST", f"{ENDPOINT}/{name}", [(b"x-provider-secret", SECRET.encode())])
        assert receiver.admit(head) is None
        return receiver(Request(head, json.dumps(payload).encode())).status

    def test_each_entry_changes_the_rows_of_its_tenant(
        self, store: SQLStore, engine: Engine
    ) -> None:
        """A refusal does not name the subscriber of another tenant."""
        with closing(Receiver(self.ENTRIES, store)) as receiver:
            assert self._post(receiver, "second", self.COMPLAINT) == 200
            assert changed(engine) == [(2,), (), (2,)]
            run(engine, self.SEND_LATE)
            assert [self._post(receiver, name, self.LATE) for name in self.ENTRIES] == [404, 200]
        assert changed(engine)[1] == (9,)

    def test_parked_notifications(self, store: SQLStore, engine: Engine) -> None:
        """By `retry_now` or by a sweep, each is recorded for the tenant of its entry."""
        assert store.log is not None
        with closing(Receiver(self.ENTRIES, store, sweep=False)) as receiver:
            assert [self._post(receiver, name, self.LATE) for name in self.ENTRIES] == [404, 404]
            run(engine, self.SEND_LATE)
            sweep = ParkedRetry(
                store,
                store.log,
                receiver.entries,
                lambda *_: None,
                Clock(store, lambda: datetime.now(UTC) + HOUR),
            )
            assert sweep.retry_due() == 1
            assert changed(engine)[1] == (9,)
            run(engine, self.SEND_LATE.replace("9, 'late', 2, 2", "8, 'late', 1, 1"))
            assert receiver.retry_now("late").result(PATIENCE) == 1
        assert changed(engine)[1] == (8, 9)

    def test_replay(self, store: SQLStore, engine: Engine) -> None:
        """It knows the tenant by the name of the entry; without the entry, it reads nothing."""
        log = store.log
        assert log is not None
        with closing(Receiver(self.ENTRIES, store)) as receiver:
            for name in self.ENTRIES:
                self._post(receiver, name, self.LATE)
            run(engine, self.SEND_LATE)
            entries = log.oldest(Query(), limit=9)
            assert statuses(replay_entries(store, log, entries, receiver.entries)) == [404, 200]
        assert changed(engine)[1] == (9,)
        first = read_entries({"first": self.ENTRIES["first"]})
        assert [each.tenant for each in arrivals_of(store, entries, first, NOON)] == [1]

    def test_spool(self, store: SQLStore, engine: Engine, tmp_path: Path) -> None:
        """After an outage, each notification is recorded for the tenant of its entry."""
        path = tmp_path / "spool.db"
        with closing(Receiver(self.ENTRIES, store, spool=path)) as receiver:
            assert self._post(receiver, "first", self.LATE) == 404
            run(engine, "ALTER TABLE people RENAME TO away")
            assert self._post(receiver, "second", self.COMPLAINT) == 503
            run(engine, "ALTER TABLE away RENAME TO people")
            eventually(lambda: changed(engine) == [(2,), (), (2,)])


def test_mapping_key() -> None:
    """The spool distinguishes mappings by their columns of tenants."""
    keys = [
        SQLStore(MEMORY, replace(schema_of(*roles), log=None)).mapping_key
        for roles in ((), ("subscribers",), ALL)
    ]
    assert keys[:2] == ["", '{"tenant":{"subscribers":"team"}}']
    assert len({*keys}) == 3


def test_receiver_and_store_must_agree() -> None:
    """The error shows the line to write."""
    with_tenants, without = (SQLStore(MEMORY, schema_of(*roles)) for roles in (ALL, ()))
    first, third = ({"first": Tenant(Postmark(SECRET), each)} for each in (1, 3))
    for providers in (Postmark(SECRET), {"first": Postmark(SECRET)}):
        with pytest.raises(ConfigurationError, match=r'"acme": Tenant\(Postmark\(secret\), 1\)'):
            Receiver(providers, with_tenants)
    with pytest.raises(ConfigurationError, match=r'Role\("people", tenant="team_id"\)'):
        Receiver(first, without)
    for _ in range(2):
        Receiver(first, with_tenants).close()
    assert with_tenants.tenants == {"first": 1}
    with pytest.raises(ConfigurationError, match="'first' stands for the tenants 1 and 3"):
        Receiver(third, with_tenants)


class TestDiagnostics:
    """What `hookrow check` reports about tenants."""

    @pytest.fixture
    def tables(self, engine: Engine) -> RoleTables:
        make_teams(engine, "integer", 1, 2)
        return verify(open_database(engine), schema_of("subscribers", "dispatches")).tables

    def test_tenants_without_rows(self, tables: RoleTables, engine: Engine) -> None:
        database = open_database(engine)
        assert not list(check_rows_of_tenants(database, tables, {"first": 1, "second": 2}))
        [warning] = check_rows_of_tenants(database, tables, {"first": 1, "third": 3})
        assert "has the tenant of these entries in 'team': 'third'. Their" in warning.text

    def test_emails(self, tables: RoleTables, engine: Engine) -> None:
        """Only an email in several rows of one tenant is reported."""
        assert not list(repeated_emails(open_database(engine), tables))
        run(engine, f"INSERT INTO people (id, email, team) VALUES (3, '{ADA.upper()}', 1)")
        [warning] = repeated_emails(open_database(engine), tables)
        assert "1 email is in several rows that differ only by case" in warning
        assert "name the column with the tenant of a row in the mapping: `tenant`." in warning

    def test_indexes(self, engine: Engine) -> None:
        """An index may begin with the tenant, but one on the tenant alone is not enough."""
        make_teams(engine, "integer", 1, 2)
        schema = schema_of("subscribers", "dispatches")
        exact = replace(schema, subscribers=replace(schema.subscribers, fold="exact"))
        tables = verify(open_database(engine), exact).tables
        run(
            engine,
            "CREATE INDEX teams ON people (team)",
            "CREATE INDEX teams_of_sends ON sends (team)",
        )
        email, message_id = missing_indexes(open_database(engine), tables)
        assert "people" in email
        assert "sends" in message_id
        run(
            engine,
            "CREATE INDEX emails ON people (team, email)",
            "CREATE INDEX messages ON sends (team, provider_message_id)",
        )
        assert not list(missing_indexes(open_database(engine), tables))

    def test_an_index_that_excludes_hidden_rows(self, engine: Engine) -> None:
        """An index that begins with the tenant may be partial, too, with the rows of `where`."""
        make_teams(engine, "integer", 1, 2)
        schema = schema_of("subscribers")
        people = replace(schema.subscribers, fold="exact", where={"confirmed_at": None})
        run(engine, "ALTER TABLE people ADD COLUMN confirmed_at INTEGER")
        tables = verify(open_database(engine), replace(schema, subscribers=people)).tables
        emails, _ = missing_indexes(open_database(engine), tables)
        assert "people" in emails
        index = "CREATE INDEX emails ON people"
        if kind_of(engine).has_partial_indexes:
            run(engine, f"{index} (team, email) WHERE confirmed_at IS NULL")
        else:
            run(engine, f"{index} (confirmed_at, team, email)")
        [message_id] = missing_indexes(open_database(engine), tables)
        assert "sends" in message_id
