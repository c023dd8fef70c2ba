"""The Django store beyond the contract: its queries, the host's transactions, tables of a host."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from contract import NOON, SECOND, arrival, fill, opens, statuses
from django.db import NotSupportedError, connections
from django.db.models import EmailField
from django.db.transaction import atomic
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django_home import DjangoHome
from homes import OURS
from log_contract import entry, keep, numbers, parked, reader

import django_host
from crm.models import Group, Mail, Membership, Person, Reason, Send
from hookrow import Delivered, Reactivated, Role, Schema, SchemaMismatch, Suppressed
from hookrow.decide import mentioned
from hookrow.django.duplicates import duplicates
from hookrow.django.mapping import models
from hookrow.django.store import DjangoStore
from hookrow.notification import Mentioned, Notification, Suppressible
from hookrow.recording import record
from hookrow.stores import Conflict, Locked, Unavailable
from hookrow.stores.limits import limited_to
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore

ADA = UUID(int=1)


@pytest.fixture
def home(empty_database_url: str) -> Iterator[DjangoHome]:
    """Make our tables, with the rows of the contract."""
    with closing(DjangoHome(empty_database_url, OURS)) as home:
        fill(home)
        yield home


def test_a_read_ends_within_its_time(empty_postgres_url: str) -> None:
    """What is locked by another session holds no page for ever; without `within` it is waited."""
    with closing(DjangoHome(empty_postgres_url, OURS)) as home:
        with psycopg.connect(empty_postgres_url) as other, limited_to(0.1):
            other.execute("LOCK TABLE hookrow_dispatches IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Locked), home.store.reading() as reading:
                reading.find(mentioned([arrival(opens("ada@example.com", "m-ada"))]))
        with home.store.reading() as reading:
            assert not reading.find(Mentioned({"ada@example.com"}, (), ())).dispatches


@pytest.mark.parametrize(
    ("told", "most"),
    [
        (Delivered("ada@example.com", "m-ada", NOON), 5),
        (opens("ada@example.com", "m-ada"), 5),
        (Suppressed("ada@example.com", "m-ada", NOON, "HardBounce"), 8),
        (Reactivated("ada@example.com", "m-ada", NOON), 8),
    ],
    ids=["delivery", "open", "suppression", "reactivation"],
)
def test_the_queries(home: DjangoHome, told: Notification, most: int) -> None:
    """So many with the log at the most, whatever the group; SQLite needs one less."""
    connection = connections[home.alias]
    with CaptureQueriesContext(connection) as captured:
        assert statuses(record(home.store, [arrival(told)])) == [200]
    said = [query["sql"] for query in captured]
    assert said[0] == ("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
    assert said[-1] == "COMMIT"
    assert len(said) - 2 == most - (connection.vendor == "sqlite")


def test_what_is_parked_is_found_by_its_index(home: DjangoHome) -> None:
    """Also where the newest or the oldest are asked for, which the primary key would lead to."""
    keep(home, *(entry(number) for number in range(100, 4000)))
    keep(home, *(parked(number, minutes=1) for number in range(1, 50)))
    connection, log = connections[home.alias], reader(home)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        with CaptureQueriesContext(connection) as captured:
            log.newest(Query(parked=True), before=9000, limit=64, bodies=False)
            log.oldest(Query(parked=True), limit=64, bodies=False)
        word = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        for query in list(captured):
            cursor.execute(f"{word} {query['sql']}")
            assert "hookrow_notifications_parked_retry_at" in str(cursor.fetchall())


class TestTransactions:
    """On the host's own connection."""

    def test_in_one_of_the_host(self, home: DjangoHome) -> None:
        """It is a savepoint there: what the host rolls back has not been recorded."""
        before = home.rows(), home.logged()
        with pytest.raises(ZeroDivisionError), atomic(home.alias):  # noqa: PT012 - as a host may
            assert statuses(record(home.store, [arrival(opens("ada@example.com", "m-ada"))]))
            connections[home.alias].cursor().execute("SELECT 1")
            raise ZeroDivisionError
        assert (home.rows(), home.logged()) == before

    def test_the_settings_of_the_host(self, home: DjangoHome) -> None:
        """How SQLite begins a transaction is the host's again after one of ours."""
        connection = connections[home.alias]
        record(home.store, [arrival(opens("ada@example.com", "m-ada"))])
        with CaptureQueriesContext(connection) as captured, atomic(home.alias):
            record(home.store, [arrival(opens("ada@example.com", "m-ada"))])
        said = [query["sql"] for query in captured]
        assert not [each for each in said if "IMMEDIATE" in each]
        limits = [each for each in said if "set_config" in each]
        assert len(limits) == (2 if connection.vendor == "postgresql" else 0)

    def test_a_server_that_was_restarted(
        self,
        empty_postgres_url: str,
        postgres: Any,  # noqa: ANN401 - the server
    ) -> None:
        """A connection that idled meanwhile is replaced, and nothing is answered 503."""
        with closing(DjangoHome(empty_postgres_url, OURS)) as home:
            fill(home)
            told = [arrival(opens("ada@example.com", "m-ada"))]
            record(home.store, told)
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                "pg_backend_pid() AND backend_type = 'client backend'"
            )
            assert statuses(record(home.store, told)) == [200]

    def test_who_reads_in_a_thread_connects_anew(
        self,
        empty_postgres_url: str,
        postgres: Any,  # noqa: ANN401 - the server
    ) -> None:
        """What is read as the server ends the connection fails; the next time goes well."""
        with closing(DjangoHome(empty_postgres_url, OURS)) as home:
            fill(home)
            census, log = home.store.census, reader(home)
            for read in (census.lists, census.suppressed, log.bounds, partial(log.reached, NOON)):
                read()
                postgres.terminate(empty_postgres_url)
                with pytest.raises(Unavailable):
                    read()
                read()

    def test_many_at_once(self, home: DjangoHome) -> None:
        """Whether alone, when no row is locked before it is changed, or in groups: none fails."""
        people = ("ada@example.com", "bea.upper@example.com", "zoë@example.net")

        def work(number: int) -> list[int]:
            ends: list[int] = []
            for turn in range(12):
                at = NOON + SECOND * turn
                told: list[Notification] = [
                    *(Suppressed(person, "m-ada", at, "HardBounce") for person in people),
                    *(opens("ada@example.com", "m-ada"), Reactivated(people[0], "m-bea", at)),
                ]
                size = 1 + (number + turn) % 3
                ordered = told[number:] + told[:number]
                for start in range(0, len(ordered), size):
                    group = [arrival(each) for each in ordered[start : start + size]]
                    ends += statuses(record(home.store, group))
            return ends

        with ThreadPoolExecutor(4) as pool:
            ended = [each.result() for each in [pool.submit(work, number) for number in range(4)]]
        assert {status for ends in ended for status in ends} == {200}

    def test_none_is_taken_twice(self, home: DjangoHome) -> None:
        """Who takes what is due at the same time takes others, until none is left."""
        keep(home, *(parked(number, minutes=number % 7) for number in range(1, 101)))

        def take() -> list[int]:
            taken: list[int] = []
            while found := numbers(reader(home).due(NOON + timedelta(days=1), limit=7)):
                taken += found
            connections[home.alias].close()
            return taken

        with ThreadPoolExecutor(4) as pool:
            taken = [each.result() for each in [pool.submit(take) for _ in range(4)]]
        assert sorted(number for one in taken for number in one) == [*range(1, 101)]

    def test_one_prunes(self, empty_postgres_url: str) -> None:
        """While another process does, nothing is pruned; then all that is over."""
        with closing(DjangoHome(empty_postgres_url, OURS)) as home:
            keep(home, *map(entry, range(1, 4)))
            over = {"before": NOON + timedelta(days=1), "parked_before": NOON}
            with psycopg.connect(empty_postgres_url) as other:
                other.execute("SELECT pg_advisory_xact_lock(%s)", [0x686F6F6B70])
                assert [*reader(home).prune(**over, bodies_only=False)] == []
            assert [*reader(home).prune(**over, bodies_only=False)] == [3]

    def test_a_file_that_is_held(self, empty_sqlite_url: str) -> None:
        """SQLite's is waited for as long as the project says; then it may be tried again."""
        with closing(DjangoHome(empty_sqlite_url, OURS)) as home:
            fill(home)
            connection = connections[home.alias]
            connection.cursor().execute("PRAGMA busy_timeout = 10")
            told = [arrival(opens("ada@example.com", "m-ada"))]
            with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(Conflict):
                    record(home.store, told)
            assert statuses(record(home.store, told)) == [200]

    def test_a_held_row(self, empty_postgres_url: str) -> None:
        """It is waited for two seconds; then the others are recorded without it."""
        with closing(DjangoHome(empty_postgres_url, OURS)) as home:
            fill(home)
            told = [
                arrival(opens("ada@example.com", "m-ada")),
                arrival(opens("bea.upper@example.com", "m-bea")),
            ]
            with closing(SQLStore(empty_postgres_url)) as other, other.transaction() as holding:
                holding.lock([(Suppressible.DISPATCH, 2)])
                assert statuses(record(home.store, told, skip_locked=True)) == [200, 503]
                with pytest.raises(Locked):
                    record(home.store, told)


_MUTED = {
    "suppressed_at": "muted_at",
    "suppression_reason": "mute_reason",
    "suppression_changed_at": "mute_changed",
}
HOST = Schema(
    subscribers=Role(
        "crm.Person",
        {"email": "address", **_MUTED, "suppression_reason": "mute_code"},
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
            **dict.fromkeys(_MUTED),
        },
        where={"mail__group": str(ADA)},
    ),
    messages=Role("crm.Mail", {"list_id": "group"}),
    subscriptions=Role(
        "crm.Membership",
        {"list_id": "group", "subscriber_id": "person", **_MUTED, "suppression_reason": None},
    ),
    reasons={"HardBounce": Reason.BOUNCE, "*": Reason.OTHER},
    log=None,
)
"""The list by a message, soft deletion, numbers for reasons, a condition across models."""


@pytest.fixture
def crm(empty_database_url: str) -> Iterator[str]:
    """Make the host's tables; Ada is in a group and gets a mail, and so is who left."""
    with django_host.alias(empty_database_url) as alias:
        with connections[alias].schema_editor() as editor:
            for model in (Group, Person, Mail, Send, Membership):
                editor.create_model(model)
        group = Group.objects.using(alias).create(uid=ADA)
        mail = Mail.objects.using(alias).create(uid=UUID(int=7), group=group)
        for number, (address, deleted_at) in enumerate(
            (("Ada@Example.com", None), ("x@x", NOON)), 1
        ):
            key = UUID(int=number)
            person = Person.objects.using(alias).create(
                uid=key, address=address, deleted_at=deleted_at
            )
            Membership.objects.using(alias).create(group=group, person=person)
            Send.objects.using(alias).create(
                key=key, postmark_id=f"m-{number}", person=person, mail=mail
            )
        yield alias


class TestModelsOfAHost:
    """What only a host's own models have."""

    @pytest.mark.parametrize(
        ("word", "kept"), [("HardBounce", Reason.BOUNCE), ("Whatever", Reason.OTHER)]
    )
    def test_numbers_for_reasons(self, crm: str, word: str, kept: Reason) -> None:
        """The subscriber has the number; the membership, found by the mail's group, the time."""
        told = Suppressed("ada@example.com", "m-1", NOON, word)
        assert statuses(record(DjangoStore(HOST, crm), [arrival(told)])) == [200]
        ada = Person.objects.using(crm).get(uid=ADA)
        assert (ada.muted_at, ada.mute_code, ada.mute_reason) == (NOON, kept, None)
        members = Membership.objects.using(crm).order_by("person_id")
        assert [each.muted_at for each in members] == [NOON, None]

    def test_hidden_rows(self, crm: str) -> None:
        """Who was deleted is not there; their dispatch stays theirs, and the answer names them."""
        told = [
            arrival(opens(email, f"m-{n}")) for email, n in (("x@x", 2), ("ada@example.com", 2))
        ]
        outcomes = record(DjangoStore(HOST, crm), told)
        assert statuses(outcomes) == [404, 400]
        assert "Dispatch subscriber x@x does not match" in str(outcomes[1])
        hidden = replace(HOST, dispatches=replace(HOST.dispatches, where={"mail": None}))
        told = [arrival(opens("ada@example.com", "m-1"))]
        assert statuses(record(DjangoStore(hidden, crm), told)) == [404]
        assert statuses(record(DjangoStore(HOST, crm), told)) == [200]

    def test_duplicates(self, crm: str) -> None:
        """Each email counts once, however often it is there, and one that is hidden not at all."""
        assert duplicates(models(HOST), crm) == (0, "")
        for number, address in enumerate(("ADA@example.com", "ada@example.com", "X@x"), 3):
            Person.objects.using(crm).create(uid=UUID(int=number), address=address)
        assert duplicates(models(HOST), crm) == (1, "ada@example.com")

    def test_false_is_null(self, crm: str) -> None:
        """Where the field is not boolean, as for the SQL store."""
        people = replace(HOST.subscribers, where={"deleted_at": False})
        told = [arrival(opens(email, "m-1")) for email in ("x@x", "ada@example.com")]
        store = DjangoStore(replace(HOST, subscribers=people), crm)
        assert statuses(record(store, told)) == [404, 200]

    @pytest.mark.parametrize(
        ("fold", "found"),
        [
            ("ascii", [200, 200, 400]),
            ("lower", [200, 200, 400]),
            ("exact", [200, 404, 404]),
            ("citext", [200, 200, 400]),
        ],
    )
    def test_how_emails_fold(
        self,
        crm: str,
        fold: Any,  # noqa: ANN401 - one of four
        found: list[int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Each finds an email as the table has it; but for one any other case, too.

        Alone and in a group, also of one with letters beyond ASCII.
        """
        Person.objects.using(crm).create(uid=UUID(int=3), address="ZOË@example.net")
        schema = replace(HOST, subscribers=replace(HOST.subscribers, fold=fold))
        if fold == "citext" and connections[crm].vendor == "postgresql":
            monkeypatch.setattr(Person.address.field, "db_collation", _ignore_case(crm))
        store = DjangoStore(schema, crm)
        emails = ("Ada@Example.com", "ADA@example.com", "ZOË@EXAMPLE.NET")
        told = [arrival(opens(email, "m-1")) for email in emails]
        assert [statuses(record(store, [each])) for each in told] == [[each] for each in found]
        assert statuses(record(store, told)) == found

    def test_a_field_that_changes_its_values(
        self, crm: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it makes of a text is what is looked for."""
        field = Send.postmark_id.field
        monkeypatch.setattr(field, "get_prep_value", lambda text: text and text.strip("\x01"))
        store = DjangoStore(HOST, crm)
        told = [arrival(opens("ada@example.com", each)) for each in ("m-1", "m-2", "m-3")]
        assert statuses(record(store, told)) == [200, 400, 404]

    @pytest.mark.parametrize("use_tz", [True, False])
    def test_times_of_the_project(self, crm: str, *, use_tz: bool) -> None:
        """Without USE_TZ its fields hold the clock of TIME_ZONE, which guards can read."""
        later = NOON.replace(hour=13)
        with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
            store = DjangoStore(HOST, crm)
            record(store, [arrival(opens("ada@example.com", "m-1"))])
            seen = Send.objects.using(crm).get(key=ADA).seen
            assert seen == (NOON if use_tz else datetime(2026, 3, 4, 13, 0, 0, 123456))  # noqa: DTZ001 - a clock's
            row = (Suppressible.DISPATCH, ADA)
            with store.transaction() as transaction:
                assert transaction.read([row])[row]["opened_at"] == NOON
            told = [Delivered("ada@example.com", "m-1", at) for at in (later, NOON)]
            record(store, [arrival(each, live=False) for each in told])
            with store.transaction() as transaction:
                assert transaction.read([row])[row]["delivered_at"] == later


@pytest.mark.parametrize("collation", ["", "C", "de_DE.utf8", "en-x-icu"])
def test_a_field_that_does_not_ignore_case(collation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused where it is said to, for in a group another's spelling would find it."""
    monkeypatch.setattr(Person.address.field, "db_collation", collation)
    schema = replace(HOST, subscribers=replace(HOST.subscribers, fold="citext"))
    with (
        django_host.alias("postgresql:///nothing") as alias,
        pytest.raises(SchemaMismatch, match="address is neither CITEXT nor"),
    ):
        DjangoStore(schema, alias)


def _ignore_case(alias: str) -> str:
    """Have PostgreSQL compare addresses in either case; return the collation that does."""
    connection = connections[alias]
    try:
        connection.cursor().execute(
            "CREATE COLLATION no_case "
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except NotSupportedError:
        pytest.skip("this PostgreSQL was built without ICU")
    new: EmailField[str, str] = EmailField(max_length=320, db_collation="no_case")
    new.set_attributes_from_name("address")
    with connection.schema_editor() as editor:
        editor.alter_field(Person, Person.address.field, new)
    return "no_case"
