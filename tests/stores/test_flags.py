"""Boolean columns in place of times: what is read from them, and which are rejected.

`test_law.py` compares what is written to them with what would be written to times.
"""

from contextlib import closing

import pytest
from contract import NOON, arrival, statuses
from locations import empty_engine
from sqlalchemy import Engine

from copying import replace
from databases import MARIADB, kind_of
from engines import run
from hookrow import (
    Arrival,
    Bounced,
    Delivered,
    Opened,
    Reactivated,
    Role,
    Schema,
    SchemaMismatch,
    Suppressed,
)
from hookrow._core.notification import Notification, Source
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._row_counts import ListCount
from hookrow.stores.sql._suppressions import Filter, SuppressionRange, find_causes
from own_tables import attached
from times import HOUR, MINUTE

engine = pytest.fixture(empty_engine)
"""A database for a host's tables."""

UNDATED = {"suppressed_at": "muted", "suppression_changed_at": None}
DATED = {"suppressed_at": "muted", "suppression_changed_at": "changed"}
SCHEMA = Schema(
    subscribers=Role("people", {**UNDATED, "suppression_reason": None}),
    dispatches=Role(
        "sends",
        {
            "delivered_at": "arrived",
            "opened_at": "seen",
            **dict.fromkeys(("suppressed_at", "suppression_reason", "suppression_changed_at")),
        },
    ),
    subscriptions=None,
)
DATES = replace(SCHEMA, subscribers=Role("people", {**DATED, "suppression_reason": None}))

ADA, BEA, EVE = (f"{name}@example.com" for name in ("ada", "bea", "eve"))


def create(engine: Engine, flag: str = "boolean") -> None:
    """Create the tables of a host and the log, with three people, and a message to each."""
    time = kind_of(engine).types["timestamp"]
    name = kind_of(engine).types["name"]
    run(
        engine,
        f"CREATE TABLE people (id integer PRIMARY KEY, email {name}, muted {flag} NOT NULL, "
        f"changed {time})",
        f"CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id {name}, "
        f"subscriber_id integer, arrived {flag} NOT NULL, seen {flag})",
    )
    off = "b'0'" if flag == "bit(1)" else "false"
    for number, email in enumerate((ADA, BEA, EVE), 1):
        run(
            engine,
            f"INSERT INTO people VALUES ({number}, '{email}', {off}, NULL)",
            f"INSERT INTO sends VALUES ({number}, 'm-{number}', {number}, {off}, NULL)",
        )
    attached(SCHEMA, kind_of(engine)).create_all(engine)


@pytest.fixture(params=["boolean", "bit(1)"])
def flag(request: pytest.FixtureRequest, engine: Engine) -> str:
    """Return a type that is a flag."""
    if request.param == "bit(1)" and kind_of(engine) is not MARIADB:
        pytest.skip("a string of bits, which is no flag")
    return str(request.param)


def test_figures_and_lists(engine: Engine, flag: str) -> None:
    """A flag that is null or false is not set. Without a time, the order is that of the keys."""
    create(engine, flag)
    with closing(SQLStore(engine, SCHEMA, verify=True)) as store:
        events: list[Notification] = [
            Suppressed(EVE, None, NOON - HOUR, "HardBounce"),
            Suppressed(ADA, None, NOON, "SpamComplaint"),
            Suppressed(BEA, None, NOON, "SpamComplaint"),
            Reactivated(BEA, None, NOON + HOUR),
            Delivered(ADA, "m-1", NOON),
            Delivered(BEA, "m-2", NOON),
            Opened(BEA, "m-2", NOON),
        ]
        assert statuses(record(store, [arrival(each) for each in events])) == [200] * 7
        counts, reader = store.row_counts, store.suppressions
        assert counts.lists() == [ListCount(list=None, sent=3, delivered=2, opened=1)]
        assert counts.suppressed() == {None: 2}
        assert counts.undelivered() == 1
        [undelivered] = counts.list_undelivered(NOON, limit=10)
        assert undelivered.message_id == "m-3"
        newest, oldest = SuppressionRange(), SuppressionRange(oldest=True)
        found = reader.read(newest, Filter(), limit=10)
        assert [(each.email, each.suppressed_at) for each in found] == [(EVE, None), (ADA, None)]
        assert [*reader.read(oldest, Filter(), limit=10)] == [*found[::-1]]
        assert reader.read(newest._replace(after=found[0].cursor), Filter(), limit=10) == found[1:]
        assert reader.step(newest, 1, None) == found[0].cursor
        assert reader.count(newest, Filter(), limit=10) == 2
        assert reader.count(newest, Filter(since=NOON - 9 * HOUR), limit=10) == 0
        causes = find_causes(reader, found)
        assert [causes[each.cursor].changed_at for each in found] == [NOON - HOUR, NOON]


@pytest.mark.parametrize("schema", [SCHEMA, DATES], ids=["beside the log", "in the table"])
def test_a_change_by_the_host_has_no_date(engine: Engine, schema: Schema) -> None:
    """Older changes have no effect on it; one that is as old as the last one, or newer, applies."""
    create(engine)
    last = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
    older_lift = arrival(Reactivated(ADA, None, NOON - HOUR))
    older = replace(arrival(Suppressed(ADA, None, NOON - HOUR, "HardBounce")), body=b"older")
    newer_lift = replace(arrival(Reactivated(ADA, None, NOON + HOUR)), body=b"newer")
    with closing(SQLStore(engine, schema)) as store:

        def is_muted_after(event: Arrival, *, by_host: str) -> bool:
            run(engine, f"UPDATE people SET muted = {by_host} WHERE id = 1")
            assert statuses(record(store, [event])) == [200]
            return bool(run(engine, "SELECT id FROM people WHERE muted"))

        record(store, [last])
        assert not is_muted_after(older, by_host="false")
        assert is_muted_after(older_lift, by_host="true")
        assert is_muted_after(replace(last, source=Source.REPLAY), by_host="false")
        assert not is_muted_after(newer_lift, by_host="true")


@pytest.mark.parametrize("schema", [SCHEMA, DATES], ids=["beside the log", "in the table"])
def test_a_flag_that_the_host_has_set_has_no_cause(engine: Engine, schema: Schema) -> None:
    """The last change in the log lifts the suppression, so it is not that of the flag."""
    create(engine)
    with closing(SQLStore(engine, schema)) as store:
        record(store, [arrival(Suppressed(ADA, None, NOON, "HardBounce"))])
        record(store, [arrival(Reactivated(ADA, None, NOON + HOUR))])
        run(engine, "UPDATE people SET muted = true WHERE id = 1")
        found = store.suppressions.read(SuppressionRange(), Filter(), limit=10)
        assert [each.email for each in found] == [ADA]
        assert find_causes(store.suppressions, found) == {}
    changed_at = NOON + HOUR if schema is DATES else None
    assert [(each.suppressed_at, each.changed_at) for each in found] == [(None, changed_at)]


def test_the_cause_of_a_flag_is_the_newest_of_many_changes(engine: Engine) -> None:
    create(engine)
    with closing(SQLStore(engine, SCHEMA)) as store:
        for number in range(40):
            event = arrival(Suppressed(ADA, None, NOON + number * MINUTE, "HardBounce"))
            record(store, [replace(event, body=b"%d" % number)])
        [found] = store.suppressions.read(SuppressionRange(), Filter(), limit=10)
        causes = find_causes(store.suppressions, [found])
    assert causes[found.cursor].changed_at == NOON + 39 * MINUTE


def test_the_cause_of_a_flag_is_unknown_if_tenants_share_an_address(engine: Engine) -> None:
    create(engine)
    run(
        engine,
        "ALTER TABLE people ADD COLUMN team integer",
        "UPDATE people SET team = id",
        f"UPDATE people SET email = '{ADA}' WHERE id = 2",
    )
    schema = replace(SCHEMA, subscribers=replace(SCHEMA.subscribers, tenant="team"))
    with closing(SQLStore(engine, schema)) as store:
        for name, team, email in (("acme", 1, ADA), ("globex", 2, ADA), ("acme", 3, EVE)):
            event = arrival(Suppressed(email, None, NOON, "HardBounce"))
            record(store, [replace(event, body=b"%d" % team, entry=name, tenant=team)])
        found = store.suppressions.read(SuppressionRange(oldest=True), Filter(), limit=10)
        causes = find_causes(store.suppressions, found)
    assert [each.email for each in found] == [ADA, ADA, EVE]
    assert [*causes] == [found[-1].cursor]


def test_times_beside_flags(engine: Engine) -> None:
    """The time of a suppression is that of the last change, if the table stores it."""
    create(engine)
    with closing(SQLStore(engine, DATES, verify=True)) as store:
        record(store, [arrival(Suppressed(ADA, None, NOON, "HardBounce"))])
        [found] = store.suppressions.read(SuppressionRange(), Filter(since=NOON), limit=10)
        assert found.changed_at == NOON
        assert not store.suppressions.read(SuppressionRange(), Filter(since=NOON + HOUR), limit=10)


@pytest.mark.parametrize("schema", [SCHEMA, DATES], ids=["beside the log", "in the table"])
@pytest.mark.parametrize("is_together", [True, False])
def test_the_newest_change_counts(engine: Engine, schema: Schema, *, is_together: bool) -> None:
    """Two changes that arrive out of order, in one group or in two, by a new store or another."""
    create(engine)
    later = arrival(Reactivated(ADA, None, NOON + HOUR))
    earlier = replace(arrival(Suppressed(ADA, None, NOON, "HardBounce")), source=Source.REPLAY)
    again = arrival(Suppressed(ADA, None, NOON + 2 * HOUR, "HardBounce"))
    groups = [[later, earlier]] if is_together else [[later], [earlier]]
    for group in groups:
        with closing(SQLStore(engine, schema)) as store:
            assert statuses(record(store, group)) == [200] * len(group)
    select = "SELECT id FROM people WHERE muted"
    assert run(engine, select) == []
    with closing(SQLStore(engine, schema)) as store:
        record(store, [again])
    assert run(engine, select) == [(1,)]


LINE = 'write log="hookrow_notifications", or map suppression_changed_at to a column'


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (replace(SCHEMA, log=None), LINE),
        (replace(DATES, log=None), ""),
        (
            replace(
                SCHEMA,
                subscribers=Role("people", {**DATED, "suppression_changed_at": "muted_then"}),
            ),
            "'muted_then' of 'people' is of the type",
        ),
    ],
)
def test_a_flag_needs_a_date(engine: Engine, schema: Schema, message: str) -> None:
    create(engine)
    run(
        engine,
        "ALTER TABLE people ADD COLUMN muted_then boolean",
        "ALTER TABLE people ADD COLUMN suppression_reason varchar(90)",
    )
    if not message:
        SQLStore(engine, schema, verify=True).close()
        return
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(engine, schema, verify=True)
    [fault] = caught.value.faults
    assert message in fault.text


def test_a_type_of_a_bounce_needs_its_time(engine: Engine) -> None:
    create(engine)
    run(
        engine,
        "ALTER TABLE sends ADD COLUMN bounced boolean",
        "ALTER TABLE sends ADD COLUMN kind varchar(90)",
    )
    columns = SCHEMA.roles["dispatches"].columns
    typed = Role("sends", {**columns, "bounced_at": "bounced", "bounce_type": "kind"})
    with pytest.raises(SchemaMismatch, match='date-time, or write "bounce_type": None'):
        SQLStore(engine, replace(SCHEMA, dispatches=typed), verify=True)
    untyped = replace(typed, columns={**typed.columns, "bounce_type": None})
    with closing(SQLStore(engine, replace(SCHEMA, dispatches=untyped), verify=True)) as store:
        assert statuses(record(store, [arrival(Bounced(ADA, "m-1", NOON, "SoftBounce"))])) == [200]
    assert run(engine, "SELECT id FROM sends WHERE bounced") == [(1,)]


def test_a_time_is_suggested_rather_than_a_flag(engine: Engine) -> None:
    create(engine)
    time = kind_of(engine).types["timestamp"]
    run(engine, f"ALTER TABLE people ADD COLUMN suppressed_on {time}")
    schema = replace(
        SCHEMA, subscribers=Role("people", dict.fromkeys(UNDATED) | {"suppressed_at": "suppresed"})
    )
    with pytest.raises(SchemaMismatch, match="Did you mean 'suppressed_on'"):
        SQLStore(engine, schema, verify=True)
    run(engine, "ALTER TABLE people DROP COLUMN suppressed_on")
    with pytest.raises(SchemaMismatch, match="Did you mean 'muted'"):
        SQLStore(engine, schema, verify=True)
