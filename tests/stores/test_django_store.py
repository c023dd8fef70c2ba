"""The Django store: transactions of the project, and mappings of its models."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from contract import ADA, NOON, arrival, opens, statuses
from django.db import NotSupportedError, connections
from django.db.models import CheckConstraint, Q
from django.test import override_settings
from django_home import DjangoHome
from locations import filled_home
from log_contract import reader
from test_near_misses import logged

import django_host
import mariadb
import postgres
from copying import replace
from crm.models import Group, Mail, Membership, Person, Reason, Send, Team
from crm.schema import MUTED
from databases import kind_of, places
from hookrow import Delivered, Recorded, Refusal, Role, Schema, SchemaMismatch, Suppressed, testing
from hookrow._core.known_entries import KnownEntries
from hookrow._core.notification import Key, LookupKeys, Notification, Suppressible
from hookrow._near_misses import near_misses
from hookrow._receiver.entries import Entries, Entry
from hookrow._receiver.recorder import record
from hookrow.django._store import DjangoStore
from hookrow.stores._errors import Locked, Unavailable
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._verify import verify
from senders import SENDERS

UID = UUID(int=1)
OPENED = arrival(opens(ADA, "m-ada"))


pg = pytest.fixture(filled_home, params=["django-postgres"])
"""hookrow's tables on PostgreSQL, with a few rows."""

served = pytest.fixture(filled_home, params=places("django", "postgres", "mariadb"))
"""hookrow's tables on a server, with a few rows."""


class TestTransactions:
    def test_lost_connection(self, served: DjangoHome, request: pytest.FixtureRequest) -> None:
        """A lost connection is replaced: writing does not fail, reading fails once."""
        server: postgres.Databases | mariadb.Databases
        server = request.getfixturevalue(kind_of(served.url).name)
        record(served.store, [OPENED])
        server.terminate(served.url)
        assert statuses(record(served.store, [OPENED])) == [200]
        row_counts, log = served.store.row_counts, reader(served)
        first_id = partial(log.first_id_since, NOON)
        for read in (row_counts.lists, row_counts.suppressed, log.bounds, first_id):
            read()
            server.terminate(served.url)
            with pytest.raises(Unavailable):
                read()
            read()

    def test_autocommit_turned_off(self, served: DjangoHome) -> None:
        """Nothing is recorded that would wait for a commit of the project."""
        connection = connections[served.alias]
        connection.ensure_connection()
        connection.set_autocommit(False)
        with pytest.raises(Unavailable, match="turned off autocommit"):
            record(served.store, [OPENED])
        connection.rollback()
        connection.set_autocommit(True)
        assert statuses(record(served.store, [OPENED])) == [200]

    def test_time_limit_of_reading(self, pg: DjangoHome) -> None:
        """Within `limited_to`, a read of a locked table ends with an error."""
        with pg.store.reading():
            pass  # connects, because the time to connect is limited as well
        with psycopg.connect(pg.url) as other:
            other.execute("LOCK TABLE hookrow_dispatches IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Locked), limited_to(0.5), pg.store.reading() as reading:
                reading.find(LookupKeys({"m-ada"}))
        with pg.store.reading() as reading:
            assert reading.find(LookupKeys({"m-ada"})).dispatches


HOST = Schema(
    subscribers=Role(
        "crm.Person",
        {"email": "address", **MUTED, "suppression_reason": "mute_code"},
        where={"deleted_at": None},
        fold="lower",
    ),
    dispatches=Role(
        "crm.send",
        {
            "provider_message_id": "postmark_id",
            "subscriber_id": "person_id",
            "message_id": "mail",
            "delivered_at": "arrived",
            "opened_at": "seen",
            **dict.fromkeys(MUTED),
        },
        where={"mail": str(UUID(int=7))},
    ),
    messages=Role("crm.Mail", {"list_id": "group"}),
    subscriptions=Role(
        "crm.Membership",
        {"list_id": "group", "subscriber_id": "person", **MUTED, "suppression_reason": None},
    ),
    reasons={"HardBounce": Reason.BOUNCE, "*": Reason.OTHER},
    log=None,
)
"""The list is found by a message; soft deletion, numbers for reasons, a condition on a key."""


@pytest.fixture
def crm(empty_database_url: str) -> Iterator[str]:
    """Create the tables: Ada and a deleted person, both in a group, each with a mail."""
    with django_host.alias(empty_database_url) as alias:
        with connections[alias].schema_editor() as editor:
            for model in (Group, Person, Mail, Send, Membership):
                editor.create_model(model)
        group = Group.objects.using(alias).create(uid=UID)
        mail = Mail.objects.using(alias).create(uid=UUID(int=7), group=group)
        people = Person(address="Ada@Example.com"), Person(address="x@x", deleted_at=NOON)
        for number, person in enumerate(people, 1):
            person.uid = UUID(int=number)
            person.save(using=alias)
            Membership.objects.using(alias).create(group=group, person=person)
            Send(person.uid, f"m-{number}", person.uid, mail.uid).save(using=alias)
        yield alias


def respond(schema: Schema, alias: str, *notifications: Notification) -> list[int]:
    """Record the notifications as one group; return the statuses."""
    return statuses(record(DjangoStore(schema, alias), [*map(arrival, notifications)]))


def subscribers(**changes: Any) -> Schema:  # noqa: ANN401 - a Role's own
    """Return the schema with changes of the role of the subscribers."""
    return replace(HOST, subscribers=replace(HOST.subscribers, **changes))


def muting(field: str) -> Schema:
    """Return the schema with the reasons of the provider in this field of the subscribers."""
    columns = {**HOST.subscribers.columns, "suppression_reason": field}
    return replace(subscribers(columns=columns), reasons=None)


def limit(alias: str, error: str) -> AbstractContextManager[object]:
    """Expect an error about the size of a value, except in a database that ignores sizes."""
    if not kind_of(connections[alias].vendor).keeps_lengths:
        return nullcontext()
    return pytest.raises(SchemaMismatch, match=re.escape(error))


class TestModelsOfAHost:
    def test_hidden_rows(self, crm: str) -> None:
        """A deleted person is not found, but is named as the owner of a dispatch."""
        arrivals = [arrival(opens(email, "m-2")) for email in ("x@x", ADA)]
        outcomes = record(DjangoStore(HOST, crm), arrivals)
        assert statuses(outcomes) == [404, 400]
        assert "Dispatch subscriber x@x does not match" in str(outcomes[1])
        without_mail = replace(HOST, dispatches=replace(HOST.dispatches, where={"mail": None}))
        for schema, expected in (
            (without_mail, [404, 404]),
            (HOST, [404, 200]),
            (subscribers(where={"deleted_at": False}), [404, 200]),  # means null
            (subscribers(where={"deleted_at": NOON.isoformat()}), [400, 404]),
        ):
            assert respond(schema, crm, opens("x@x", "m-1"), opens(ADA, "m-1")) == expected

    def test_a_hidden_row_is_a_near_miss(self, crm: str) -> None:
        postmark = SENDERS["postmark"].construct()
        parsers = Entries(Entry(None, postmark))
        event = testing.opening("x@x", "m-2", at=NOON)
        with closing(SQLStore("sqlite://")) as own:
            refused = Refusal.SUBSCRIBER_NOT_FOUND.refused()
            entry = logged(own, "postmark", event, refused)
        [near] = near_misses(DjangoStore(HOST, crm), entry, parsers)
        assert near.text == (
            "A subscriber has the address \"x@x\". `where` hides this row: see its 'deleted_at'."
        )

    def test_values_of_tenants(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The fields check them without the database, and must not convert them."""
        tenants: tuple[Key, ...] = ("acme", 1)  # of which Django makes a UUID
        for tenant in tenants:
            store = DjangoStore(subscribers(tenant="team"), crm)
            expected = f"team cannot hold {tenant!r}: use a value for a UUIDField"
            with pytest.raises(SchemaMismatch, match=expected):
                store.use_entries(KnownEntries(tenants={"acme": tenant}))
        DjangoStore(subscribers(tenant="team"), crm).use_entries(
            KnownEntries(tenants={"acme": uuid4().hex.upper()})
        )
        uid = Team._meta.get_field("uid")
        monkeypatch.setattr(uid, "from_db_value", lambda value, *_: value, raising=False)
        with pytest.raises(SchemaMismatch, match=r"crm\.Team\.uid converts its values"):
            DjangoStore(subscribers(tenant="team"), crm)

    def test_a_column_that_is_missing(self, crm: str) -> None:
        """The tables are verified after an error, even if the reasons are an enum."""
        store = DjangoStore(HOST, crm)
        connections[crm].cursor().execute("ALTER TABLE crm_send RENAME COLUMN seen TO away")
        with pytest.raises(Unavailable, match="no column 'seen'"):
            record(store, [arrival(opens(ADA, "m-1"))])

    def test_a_quoted_column(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A `db_column` in quotes is the name in quotes, as in Django."""
        quoted = connections[crm].ops.quote_name("address")
        monkeypatch.setattr(Person.address.field, "column", quoted)
        assert respond(HOST, crm, opens(ADA, "m-1")) == [200]

    def test_citext(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A field whose collation ignores case, for a single notification and in a group."""
        Person.objects.using(crm).create(uid=UUID(int=3), address="ZOË@example.net")
        if (ignore_case := _IGNORE_CASE.get(connections[crm].vendor)) is not None:
            monkeypatch.setattr(Person.address.field, "db_collation", ignore_case(crm))
        schema = subscribers(fold="citext")
        emails = ("Ada@Example.com", "ADA@example.com", "ZOË@EXAMPLE.NET")
        sent = [opens(email, "m-1") for email in emails]
        assert [respond(schema, crm, each) for each in sent] == [[200], [200], [400]]
        assert respond(schema, crm, *sent) == [200, 200, 400]
        store = DjangoStore(schema, crm)
        verify(store.database, store.schema)

    def test_fields_with_conversions(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keys, reasons and times are converted by their fields."""
        stored = Person.objects.using(crm).get(uid=UID).uid

        def convert(field: Any, read: Any, write: Any) -> None:  # noqa: ANN401 - Django's own
            prepare = field.get_prep_value
            monkeypatch.setattr(field, "get_prep_value", lambda value: prepare(write(value)))
            monkeypatch.setattr(field, "from_db_value", lambda it, *_: read(it), raising=False)

        shift, later = UUID(int=stored.int + 100), timedelta(days=1)
        convert(
            Person.uid.field,
            lambda it: it and UUID(int=it.int + 100),
            lambda it: it and UUID(int=UUID(str(it)).int - 100),
        )
        convert(Person.mute_code.field, lambda it: it and it - 100, lambda it: it and it + 100)
        convert(Person.muted_at.field, lambda it: it and it + later, lambda it: it and it - later)
        store = DjangoStore(HOST, crm)
        [outcome] = record(store, [arrival(Suppressed(ADA, "m-1", NOON, "HardBounce"))])
        assert isinstance(outcome, Recorded)
        assert [each.row for each in outcome.changes] == [
            (Suppressible.SUBSCRIBER, shift),
            (Suppressible.SUBSCRIPTION, (UID, shift)),
        ]
        ada = Person.objects.using(crm).get(uid=shift)
        assert (ada.muted_at, ada.mute_code) == (NOON, Reason.BOUNCE)
        row = (Suppressible.SUBSCRIBER, shift)
        with store.transaction() as transaction:
            assert not transaction.lock([row])
            assert transaction.read([row])[row]["suppressed_at"] == NOON
        with connections[crm].cursor() as cursor:
            cursor.execute("SELECT mute_code, muted_at FROM crm_person WHERE mute_code > 0")
            [(code, at)] = cursor.fetchall()
        assert (code, str(at)[:10]) == (100 + Reason.BOUNCE, str(NOON - later)[:10])

    def test_fields_of_limited_size(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A field that cannot hold a reason is rejected, unless its database ignores the limit."""
        # Django keeps the validators of the default database that was the first to need them.
        monkeypatch.delitem(vars(Person.mute_code.field), "validators", raising=False)
        long = muting("mute_word")
        mute = Suppressed(ADA, None, NOON, "ManualSuppression")
        too_short = "'mute_word' of 'crm.Person' is of the type CharField(max_length=12), which"
        with limit(crm, too_short):
            assert respond(long, crm, mute) == [200]
        with limit(crm, "crm.Person.mute_code cannot hold 32768: use a value for a SmallInteger"):
            assert respond(replace(muting("mute_code"), reasons={"*": 2**15}), crm, mute) == [200]
        assert respond(replace(long, reasons={"*": "other"}), crm, mute) == [200]

    def test_a_field_that_shortens_reasons(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What counts is the stored form; if that is too long, the tables are rejected."""
        field, length = Person.mute_word.field, 12
        monkeypatch.setattr(field, "get_prep_value", lambda value: value and value[:length])
        store = DjangoStore(muting("mute_word"), crm)
        mute = arrival(Suppressed(ADA, None, NOON, "ManualSuppression"))
        assert statuses(record(store, [mute])) == [200]
        assert Person.objects.using(crm).get(uid=UID).mute_word == "ManualSuppre"
        verify(store.database, store.schema)
        length = 13
        with limit(crm, "(12), which cannot hold the reasons 'SpamComp"):
            verify(store.database, store.schema)
        monkeypatch.setattr(field, "get_prep_value", {"HardBounce": "b", None: None}.__getitem__)
        with pytest.raises(SchemaMismatch, match="hold the reasons 'SpamComplaint', 'ManualSupp"):
            verify(store.database, store.schema)
        monkeypatch.setattr(field, "get_prep_value", {}.__getitem__)
        with pytest.raises(SchemaMismatch, match="hold the reasons 'HardBounce', 'SpamComplaint',"):
            verify(store.database, store.schema)

    def test_a_constraint_of_a_model(self, crm: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The database evaluates the constraints of a model."""
        condition = Q(mute_reason__in=["HardBounce", "SpamComplaint"])
        constraint = CheckConstraint(condition=condition, name="known_reason")
        monkeypatch.setattr(Person._meta, "constraints", [constraint])  # for SQLite's editor
        with connections[crm].schema_editor() as editor:
            editor.add_constraint(Person, constraint)
        store = DjangoStore(muting("mute_reason"), crm)
        with pytest.raises(SchemaMismatch, match="known_reason, which rejects the reason 'Manual"):
            verify(store.database, store.schema)

    @pytest.mark.parametrize("use_tz", [True, False])
    def test_times_of_the_project(self, crm: str, *, use_tz: bool) -> None:
        """Without USE_TZ, times are stored in TIME_ZONE, and guards compare them correctly."""
        later = NOON.replace(hour=13)
        with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
            store = DjangoStore(HOST, crm)
            record(store, [arrival(opens(ADA, "m-1"))])
            seen = Send.objects.using(crm).get(key=UID).seen
            assert seen == (NOON if use_tz else datetime(2026, 3, 4, 13, 0, 0, 123456))  # noqa: DTZ001 - a clock's
            row = (Suppressible.DISPATCH, UID)
            with store.transaction() as transaction:
                assert transaction.read([row])[row]["opened_at"] == NOON
            deliveries = [Delivered(ADA, "m-1", at) for at in (later, NOON)]
            record(store, [arrival(each, live=False) for each in deliveries])
            with store.transaction() as transaction:
                assert transaction.read([row])[row]["delivered_at"] == later

    @pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
    @override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
    def test_the_end_of_summer_time(self, crm: str) -> None:
        """Without USE_TZ, PostgreSQL distinguishes two times with the same local time.

        SQLite stores the local time.
        """
        store, row = DjangoStore(HOST, crm), (Suppressible.DISPATCH, UID)
        for hour in (0, 1):
            at = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
            record(store, [arrival(Delivered(ADA, "m-1", at))])
            with store.transaction() as transaction:
                assert transaction.read([row])[row]["delivered_at"] == at


@pytest.mark.parametrize("field", [Person.address.field, Send.postmark_id.field], ids=str)
def test_converted_text(field: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that converts its text cannot be compared with notifications."""
    monkeypatch.setattr(field, "get_prep_value", str.swapcase)
    with pytest.raises(SchemaMismatch, match=f"{field} converts its values"):
        DjangoStore(HOST, "default")


@pytest.mark.parametrize("collation", ["", "de_DE.utf8", "C.utf8", "C.UTF-8"])
def test_a_field_that_does_not_ignore_case(collation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold `citext` is refused for a field with a case-sensitive collation."""
    monkeypatch.setattr(Person.address.field, "db_collation", collation)
    error = r"EmailField\(max_length=320\), not CITEXT, and case-sensitive: set another"
    url = "postgresql:///nothing"
    with django_host.alias(url) as alias, pytest.raises(SchemaMismatch, match=error):
        DjangoStore(subscribers(fold="citext"), alias)


def _ignore_case_on_postgresql(alias: str) -> str:
    """Give the addresses a collation that ignores case; return its name."""
    cursor = connections[alias].cursor()
    try:
        cursor.execute(
            "CREATE COLLATION no_case "
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except NotSupportedError:
        pytest.skip("this PostgreSQL was built without ICU")
    cursor.execute("ALTER TABLE crm_person ALTER address TYPE varchar(320) COLLATE no_case")
    return "no_case"


def _ignore_case_on_mysql(alias: str) -> str:
    """Give the addresses a collation that ignores case; return its name."""
    name = "utf8mb4_general_ci"
    modify = f"ALTER TABLE crm_person MODIFY address varchar(320) COLLATE {name}"
    connections[alias].cursor().execute(modify)
    return name


_IGNORE_CASE: Mapping[str, Callable[[str], str]] = {
    "postgresql": _ignore_case_on_postgresql,
    "mysql": _ignore_case_on_mysql,
}
"""By vendor: SQLite needs no such collation."""
