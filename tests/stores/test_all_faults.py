"""All faults of a mapping are reported at once, and what the report says to write is right."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from contract import NOON, arrival, statuses
from host_tables import HOST, drop_key, make
from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from copying import replace
from databases import kind_of
from engines import opened, run
from hookrow import Fault, Role, Schema, SchemaMismatch, Suppressed
from hookrow._core.notation import Notation
from hookrow._core.schema import SUPPRESSION
from hookrow._receiver.recorder import record
from hookrow.stores import Unavailable
from hookrow.stores._errors import CREATE_OWN_TABLES
from hookrow.stores.sql import SQLStore
from ordinary import ORDINARY, create_ordinary, create_sends

REPORT = [
    (
        "The table 'people' has no column 'email'. Did you mean 'address'? "
        'Write "email": "address".'
    ),
    (
        "The table 'people' has no column 'suppression_reason'. It is optional: with "
        '"suppression_reason": None, no reason is stored.'
    ),
    (
        "The table 'people' has no column 'suppression_changed_at'. It is optional: with "
        '"suppression_changed_at": None, the change that arrives last counts.'
    ),
    (
        "The table 'sends' has no column 'provider_message_id'. Did you mean 'postmark_id'? "
        'Write "provider_message_id": "postmark_id".'
    ),
    (
        "The table 'sends' has no column 'subscriber_id'. Did you mean 'person_id'? "
        'Write "subscriber_id": "person_id".'
    ),
    (
        "The table 'sends' has no column 'suppressed_at'. It is optional: with "
        '"suppressed_at": None, suppressions are not recorded on dispatches.'
    ),
    (
        "The table 'sends' has no column 'suppression_reason'. It is optional: with "
        '"suppression_reason": None, no reason is stored.'
    ),
    (
        "The table 'sends' has no column 'suppression_changed_at'. It is optional: with "
        '"suppression_changed_at": None, the change that arrives last counts.'
    ),
]

CORRECTION = """\
To correct the mapping, write in the Schema:

subscribers=Role(
    "people",
    {
        "email": "address",
        "suppression_reason": None,
        "suppression_changed_at": None,
    },
),
dispatches=Role(
    "sends",
    {
        "provider_message_id": "postmark_id",
        "subscriber_id": "person_id",
        "suppressed_at": None,
        "suppression_reason": None,
        "suppression_changed_at": None,
    },
),"""


def mismatch(url: str, schema: Schema) -> SchemaMismatch:
    """Return the error of tables that do not fit."""
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(url, schema, verify=True)
    return caught.value


def corrected(error: SchemaMismatch, schema: Schema) -> Schema:
    """Return the schema with the lines of the report, as a user pastes them."""
    _, _, lines = error.correction.partition(":\n\n")
    roles: Mapping[str, Any] = eval(f"dict({lines})", {"Role": Role})
    return replace(schema, **roles)


def test_ordinary_tables(empty_database_url: str) -> None:
    """One run finds everything, and the second one passes with the lines that the first says."""
    url = empty_database_url
    create_ordinary(url)
    error = mismatch(url, ORDINARY)
    assert [each.text for each in error.faults] == REPORT
    assert error.faults[0] == Fault(REPORT[0], "people", "email")
    assert error.correction == CORRECTION
    assert str(error) == "\n- ".join(["8 faults:", *REPORT]) + f"\n{CORRECTION}"
    store = SQLStore(url, corrected(error, ORDINARY), verify=True)
    suppressed = arrival(Suppressed("ada@example.com", "m-1", NOON, "HardBounce"))
    run(url, "INSERT INTO people (id, address) VALUES (1, 'ada@example.com')")
    assert statuses(record(store, [suppressed])) == [200]


class Base(DeclarativeBase):
    """The base of models that are not those of the database."""


class Person(Base):
    """A model with columns that the table lacks, and two attributes for emails."""

    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    mail: Mapped[str] = mapped_column("email")
    contact: Mapped[str] = mapped_column("address")
    suppressed_at: Mapped[datetime | None]
    why: Mapped[str | None] = mapped_column("reason")
    team_id: Mapped[int]
    removed_at: Mapped[datetime | None]


class Mailing(Base):
    """A model without a table."""

    __tablename__ = "mailings"

    id: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[str]
    person_id: Mapped[int]
    delivered_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]


MODELS = Schema(
    subscribers=Role.of(
        Person,
        email=Person.mail,
        suppression_reason=Person.why,
        where={Person.removed_at: None},
        tenant=Person.team_id,
        fold="lower",
    ),
    dispatches=Role.of(
        Mailing, provider_message_id=Mailing.message_id, subscriber_id=Mailing.person_id
    ),
    subscriptions=None,
    log=None,
)


def test_models_that_differ_from_the_tables(empty_database_url: str) -> None:
    """The database may be behind the models; what is to be written has their attributes."""
    create_ordinary(empty_database_url)
    error = mismatch(empty_database_url, MODELS)
    declares = "declares it: run your migrations, or correct the model."
    assert [each.text for each in error.faults] == [
        (
            f"The table 'people' has no column 'email'. Person.mail {declares} Did you mean "
            "'address'? Write email=Person.contact."
        ),
        (
            f"The table 'people' has no column 'reason'. Person.why {declares} It is optional: "
            "with suppression_reason=None, no reason is stored."
        ),
        f"The table 'people' has no column 'removed_at'. Person.removed_at {declares}",
        f"The table 'people' has no column 'team_id'. Person.team_id {declares}",
        (
            "The database has no table 'mailings' for the dispatches. Mailing declares it: run "
            "your migrations, or correct the model."
        ),
    ]
    assert (
        error.correction
        == """\
To correct the mapping, write in the Schema:

subscribers=Role.of(
    Person,
    email=Person.contact,
    suppression_reason=None,
    where={Person.removed_at: None},
    fold="lower",
    tenant=Person.team_id,
),"""
    )


@pytest.mark.parametrize(
    ("touch", "text"),
    [
        ("updated_an", "has no column 'updated_an'. Did you mean 'updated_on'? Write touch="),
        ("version", ", which cannot hold a date-time: write touch="),
        ("note", ", which cannot hold a date-time: write touch="),
    ],
)
def test_touch(empty_database_url: str, touch: str, text: str) -> None:
    """One error has it with all others, and names the column that is probably meant."""
    url = empty_database_url
    if touch == "note" and not kind_of(url).keeps_lengths:
        pytest.skip("SQLite stores times as text")
    create_ordinary(url)
    for column in ("version integer", "note varchar(30)"):
        default = "''" if "note" in column else "0"
        run(url, f"ALTER TABLE people ADD COLUMN {column} NOT NULL DEFAULT {default}")
    run(url, f"ALTER TABLE people ADD COLUMN updated_on {kind_of(url).types['timestamp']}")
    schema = replace(ORDINARY, subscribers=replace(ORDINARY.subscribers, touch=touch))
    error = mismatch(url, schema)
    [fault] = [each for each in error.faults if each.column == touch]
    assert f'{text}"updated_on".' in fault.text
    assert len(error.faults) == len(REPORT) + 1
    if touch == "updated_an":
        assert '    touch="updated_on",' in error.correction
    run(url, "ALTER TABLE people DROP COLUMN updated_on")
    [fault] = [each for each in mismatch(url, schema).faults if each.column == touch]
    assert "touch=None" in fault.text


def test_a_model_without_a_mistake_is_not_written_again(empty_database_url: str) -> None:
    """If only the database is behind a model, no line of the mapping changes."""
    create_ordinary(empty_database_url)
    run(empty_database_url, "ALTER TABLE people DROP COLUMN suppressed_at")
    people = Role.of(Person, email=Person.contact, suppression_reason=None)
    error = mismatch(empty_database_url, replace(ORDINARY, subscribers=people))
    assert "'suppressed_at'. Person.suppressed_at declares it: run your migr" in str(error)
    assert error.correction.startswith(
        "To correct the mapping, write in the Schema:\n\ndispatches="
    )


def test_first_use(empty_database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The same report is logged, once."""
    create_ordinary(empty_database_url)
    store = SQLStore(empty_database_url, ORDINARY)
    for _ in range(2):
        with pytest.raises(Unavailable, match="8 faults"), store.reading():
            pass
    [message] = [each.getMessage() for each in caplog.records if "faults" in each.getMessage()]
    assert all(f"\n- {each}\n" in message for each in REPORT)


def test_what_a_correction_needs_is_verified_too(empty_database_url: str) -> None:
    """These are the suggested columns, the keys, and hookrow's table with the dates of changes."""
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    people = f"(id integer, address varchar(99), suppressed_at {timestamp})"
    run(url, f"CREATE TABLE people {people}", create_sends(url))
    found = [each.text for each in mismatch(url, replace(ORDINARY, log="kept")).faults]
    for text in (
        "The database has no table 'hookrow_suppression_changes' for the dates of changes.",
        "The column 'id' of 'people' is not unique, so one notification could change several rows",
    ):
        assert any(each.startswith(text) for each in found), found


def test_faults_of_all_stages(empty_database_url: str) -> None:
    """A table that is missing does not hide the unsuitable columns and the keys of others."""
    types = {"people.suppressed_at": "boolean", "sends.opened_at": "date"}
    with opened(empty_database_url) as engine:
        make(engine, types)
        drop_key(engine, "members")
    members = Role("members", {"suppression_reason": None, "suppression_changed_at": None})
    schema = replace(HOST, messages=Role("campains"), subscriptions=members)
    found = [each.text for each in mismatch(empty_database_url, schema).faults]
    expected = [
        "The column 'suppressed_at' of 'people' is of the type",
        "The column 'opened_at' of 'sends' is of the type",
        "The columns 'list_id' and 'subscriber_id' of 'members' are not unique together",
        (
            "The database has no table 'campains' for the messages. Did you mean 'campaigns'? "
            'Write table="campaigns".'
        ),
    ]
    for text in expected:
        assert any(each.startswith(text) for each in found), found
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    ("notation", "no_log", "touch", "correction"),
    [
        (
            Notation.PYTHON,
            "set Schema(log=None)",
            "touch=None",
            "in the Schema:\n\nsubscribers=Role(",
        ),
        (
            *(Notation.TOML, "set `log = false` in [tables] in hookrow.toml", "touch = false"),
            "in hookrow.toml:\n\n[tables.subscribers]",
        ),
        (
            *(Notation.DJANGO, "set HOOKROW['LOG'] to False", '"touch": None'),
            "in HOOKROW['TABLES']:\n\n\"subscribers\": {",
        ),
    ],
)
def test_every_line_is_in_the_notation_of_the_mapping(
    empty_database_url: str, notation: Notation, no_log: str, touch: str, correction: str
) -> None:
    """Also those about hookrow's own tables, and about columns that exist."""
    url = empty_database_url
    create_ordinary(url)
    run(url, "ALTER TABLE people ADD COLUMN version integer NOT NULL DEFAULT 0")
    people = replace(ORDINARY.subscribers, touch="version")
    error = mismatch(url, replace(ORDINARY, subscribers=people, log="kept").written_in(notation))
    texts = [f"{each.text} {each.remedy}" for each in error.faults]
    assert sum(no_log in each for each in texts) == 1
    assert sum(f"write {touch}." in each for each in texts) == 1
    assert error.correction.startswith(f"To correct the mapping, write {correction}")


DISPATCHES = Role(
    "sends",
    {
        "provider_message_id": "postmark_id",
        "subscriber_id": "person_id",
        **dict.fromkeys(SUPPRESSION),
    },
)


class Reader(Base):
    """A model that lacks the constraints of its table."""

    __tablename__ = "readers"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    muted: Mapped[datetime | None] = mapped_column("suppressed_at")
    suppression_reason: Mapped[str | None] = mapped_column(String(99))


def test_unsuitable_columns_of_a_model(empty_database_url: str) -> None:
    """If the table differs from the model, a migration is missing, or the model is wrong."""
    url = empty_database_url
    create_ordinary(url)
    timestamp = kind_of(url).types["timestamp"]
    columns = f"suppressed_at {timestamp} NOT NULL, suppression_reason varchar(99) NOT NULL"
    run(url, f"CREATE TABLE readers (id integer PRIMARY KEY, email varchar(99), {columns})")
    readers = Role.of(Reader, suppressed_at=Reader.muted)
    schema = replace(ORDINARY, subscribers=readers, dispatches=DISPATCHES)
    otherwise = "declares it otherwise: run your migrations, or correct the model."
    assert [(each.column, each.remedy) for each in mismatch(url, schema).faults] == [
        ("suppressed_at", f"Reader.muted {otherwise}"),
        ("suppression_reason", f"Reader.suppression_reason {otherwise}"),
    ]


def test_a_table_that_is_older_than_its_model(empty_database_url: str) -> None:
    """A column of another type, and a text that was shorter."""
    url = empty_database_url
    if url.startswith("sqlite"):
        pytest.skip("SQLite enforces no lengths")
    create_ordinary(url)
    columns = "suppressed_at date, suppression_reason varchar(5)"
    run(url, f"CREATE TABLE readers (id integer PRIMARY KEY, email varchar(99), {columns})")
    readers = Role.of(Reader, suppressed_at=Reader.muted)
    schema = replace(ORDINARY, subscribers=readers, dispatches=DISPATCHES)
    otherwise = "declares it otherwise: run your migrations, or correct the model."
    assert {each.remedy for each in mismatch(url, schema).faults} == {
        f"Reader.muted {otherwise}",
        f"Reader.suppression_reason {otherwise}",
    }


def test_a_rule_of_the_table_that_no_model_declares(empty_database_url: str) -> None:
    """The table is as its model declares it, apart from a constraint: the model is changed."""
    url = empty_database_url
    create_ordinary(url)
    timestamp = kind_of(url).types["timestamp"]
    columns = f"suppressed_at {timestamp}, suppression_reason varchar(99)"
    check = "CHECK (suppression_reason = 'none')"
    run(url, f"CREATE TABLE readers (id integer PRIMARY KEY, email varchar(99), {columns} {check})")
    readers = Role.of(Reader, suppressed_at=Reader.muted)
    schema = replace(ORDINARY, subscribers=readers, dispatches=DISPATCHES)
    [fault] = mismatch(url, schema).faults
    change = "To change the column, change Reader.suppression_reason, and run your migrations."
    assert fault.remedy == change


class Follower(Base):
    """A model of subscriptions whose key is another column."""

    __tablename__ = "followers"

    id: Mapped[int] = mapped_column(primary_key=True)
    list: Mapped[int] = mapped_column("list_id")
    reader_id: Mapped[int]
    suppressed_at: Mapped[datetime | None]
    left_at: Mapped[datetime | None]


class Keyed(Base):
    """A model that declares the key."""

    __tablename__ = "keyed"
    __table_args__ = (UniqueConstraint("reader_id", "list_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    list_id: Mapped[int]
    reader_id: Mapped[int]
    suppressed_at: Mapped[datetime | None]


@pytest.mark.parametrize(
    ("role", "remedy"),
    [
        (
            Role.of(Follower, list_id=Follower.list, subscriber_id=Follower.reader_id),
            (
                'add UniqueConstraint("list_id", "reader_id") to Follower.__table_args__ and run '
                "your migrations, or run "
            ),
        ),
        (
            Role.of(
                Follower,
                list_id=Follower.list,
                subscriber_id=Follower.reader_id,
                where={"left_at": None},
            ),
            "declare them unique in Follower, among the rows that `where` does not hide and run",
        ),
        (
            Role.of(Keyed, subscriber_id=Keyed.reader_id),
            "run your migrations, because Keyed declares it, or run ",
        ),
    ],
    ids=["undeclared", "hidden-rows", "declared"],
)
def test_a_key_of_a_model(role: Role, remedy: str, empty_database_url: str) -> None:
    """An index that the model does not declare would be dropped by its next migration."""
    url = empty_database_url
    create_ordinary(url)
    time = kind_of(url).types["timestamp"]
    columns = "id integer PRIMARY KEY, list_id integer NOT NULL, reader_id integer NOT NULL"
    times = f"suppressed_at {time} NULL, left_at {time} NULL"
    run(url, f"CREATE TABLE {role.table} ({columns}, {times})")
    people = Role("people", {"email": "address", **dict.fromkeys(SUPPRESSION[1:])})
    sends = replace(DISPATCHES, columns={**DISPATCHES.columns, "list_id": None})
    schema = Schema(subscribers=people, dispatches=sends, subscriptions=role, log=None)
    [fault] = mismatch(url, schema).faults
    assert f"so one notification could change several rows: {remedy}" in fault.text


class Muted(Base):
    """A model that declares a column NOT NULL, which is nullable in its table."""

    __tablename__ = "muted"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    muted_at: Mapped[datetime | None]
    muted_on: Mapped[datetime]


def test_a_suggested_column_is_what_it_is_in_the_table(empty_database_url: str) -> None:
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    columns = f"id integer PRIMARY KEY, email varchar(99), muted_on {timestamp}"
    run(url, f"CREATE TABLE muted ({columns})")
    people = Role.of(Muted, suppressed_at=Muted.muted_at)
    schema = Schema(subscribers=people, dispatches=None, subscriptions=None, log=None)
    [fault] = mismatch(url, schema).faults
    assert "Did you mean 'muted_on'? Write suppressed_at=Muted.muted_on." in fault.text


def test_a_role_that_is_not_mapped(empty_database_url: str) -> None:
    """No command creates a table of hookrow's beside those of the host."""
    create_ordinary(empty_database_url)
    schema = Schema(subscribers=Role("people"), dispatches=Role("sends"), log=None)
    [fault] = [
        each
        for each in mismatch(empty_database_url, schema).faults
        if each.table == "hookrow_subscriptions"
    ]
    assert fault.text == "The database has no table 'hookrow_subscriptions' for the subscriptions."
    assert fault.remedy == (
        "The mapping does not name it: map your table of subscriptions, or write "
        "subscriptions=None if you have none."
    )
    schema = replace(schema, dispatches=Schema().dispatches, subscriptions=None)
    [fault] = [
        each
        for each in mismatch(empty_database_url, schema).faults
        if each.table == "hookrow_dispatches"
    ]
    assert "map your table of dispatches, or write dispatches=None if you have" in fault.remedy
    schema = replace(ORDINARY, subscribers=Schema().subscribers)
    [fault] = [
        each
        for each in mismatch(empty_database_url, schema).faults
        if each.table == "hookrow_subscribers"
    ]
    assert fault.remedy == "The mapping does not name it: map your table of subscribers."


@pytest.mark.parametrize("empty_database_url", ["postgres", "mariadb"], indirect=True)
def test_a_column_that_is_not_null_and_too_short(empty_database_url: str) -> None:
    """Each of the two has a remedy, so both are named; the mapping's form is that of models."""
    timestamp = kind_of(empty_database_url).types["timestamp"]
    columns = "id integer PRIMARY KEY, email varchar(99), reason varchar(12) NOT NULL"
    run(
        empty_database_url,
        f"CREATE TABLE people ({columns}, suppressed_at {timestamp} NOT NULL)",
        create_sends(empty_database_url),
    )
    people = Role.of(Person, email=Person.mail, suppression_reason=Person.why)
    error = mismatch(empty_database_url, replace(ORDINARY, subscribers=people))
    null = "is NOT NULL, but a reactivation sets it to null: drop NOT NULL"
    expected = [
        f"The column 'suppressed_at' of 'people' {null}.",
        (
            f"The column 'reason' of 'people' {null}, set empty=\"\" in its role to write an empty "
            "string instead of null, or map suppression_reason=None to keep no reason."
        ),
        "The column 'reason' of 'people' is of the type",
    ]
    found = [each.text for each in error.faults if each.table == "people"]
    assert len(found) == len(expected)
    for text, start in zip(sorted(found), sorted(expected), strict=True):
        assert text.startswith(start)
    assert "cannot hold the reasons 'SpamComplaint', 'ManualSuppression'" in str(error)


def test_no_tables_of_hookrow(empty_database_url: str) -> None:
    """One sentence has all that one command creates."""
    create_ordinary(empty_database_url)
    [fault] = mismatch(empty_database_url, Schema()).faults
    assert fault.text == (
        "The database has no table 'hookrow_subscribers' for the subscribers, nor "
        "'hookrow_dispatches', 'hookrow_subscriptions' and 'hookrow_notifications'."
    )
    assert fault.remedy == CREATE_OWN_TABLES


def test_no_column_is_suggested_twice(empty_database_url: str) -> None:
    """Neither one that is mapped already, nor one of another suggestion."""
    url = empty_database_url
    create_ordinary(url)
    columns: dict[str, str | None] = {"provider_message_id": "postmark_id", "delivered_at": "opnd"}
    columns |= {"opened_at": "opned_at", "subscriber_id": "postmark"}
    error = mismatch(url, replace(ORDINARY, dispatches=Role("sends", columns)))
    sends = corrected(error, ORDINARY).roles["dispatches"].columns
    named = [each for each in sends.values() if each not in {None, "..."}]
    assert len(named) == len({*named})
    assert (sends["opened_at"], sends["provider_message_id"]) == ("opened_at", "postmark_id")


def test_a_column_that_nothing_resembles(empty_database_url: str) -> None:
    """The report lists the columns that it may be, and has a gap to fill in."""
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    run(
        url,
        f"CREATE TABLE people (id integer PRIMARY KEY, wohin varchar(320), name varchar(99), "
        f"suppressed_at {timestamp})",
        create_sends(url),
    )
    error = mismatch(url, ORDINARY)
    assert error.faults[0].text == (
        "The table 'people' has no column 'email'. Name the column with the addresses: "
        "\"email\": \"...\". It may be one of those that are not mapped: 'wohin', 'name'."
    )
    assert "write in the Schema, with your names in place of '...':" in error.correction
    assert '"email": "...",' in error.correction


def test_columns_that_are_meant_but_cannot_be_used(empty_database_url: str) -> None:
    """The report names them, and lists the columns that only their names do not show to be ids."""
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    run(
        url,
        f"CREATE TABLE people (id integer PRIMARY KEY, email varchar(320), "
        f"suppressed_at {timestamp})",
        "CREATE TABLE sends (id integer PRIMARY KEY, postmark_id varchar(99), customer integer, "
        f"delivered date, opened_at {timestamp}, muted {timestamp} DEFAULT '2026-01-01' NOT NULL)",
    )
    sends = Role("sends", {"provider_message_id": "postmark_id"})
    error = mismatch(url, replace(ORDINARY, subscribers=Role("people"), dispatches=sends))
    cannot = "cannot be used, because of its type, or because it is NOT NULL or generated."
    assert [each.text for each in error.faults if each.table == "sends"][:3] == [
        (
            "The table 'sends' has no column 'subscriber_id'. Name the column with the id of the "
            'subscriber: "subscriber_id": "...". It may be one of those that are not mapped: '
            "'customer'."
        ),
        (
            f"The table 'sends' has no column 'delivered_at'. 'delivered' {cannot} Name the column "
            'with the time of a delivery: "delivered_at": "...". It may be one of those that are '
            "not mapped: 'muted'."
        ),
        (
            f"The table 'sends' has no column 'suppressed_at'. 'muted' {cannot} It is optional: "
            'with "suppressed_at": None, suppressions are not recorded on dispatches.'
        ),
    ]


def test_a_reason_that_is_not_null_is_meant(empty_database_url: str) -> None:
    """It may have a value for no reason, as the fault of the column says in the same report."""
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    run(
        url,
        f"CREATE TABLE people (id integer PRIMARY KEY, email varchar(320), "
        f"suppressed_at {timestamp}, reason varchar(99) NOT NULL)",
    )
    error = mismatch(url, replace(ORDINARY, dispatches=None))
    assert [re.split(r"[?:] ", each.text)[0] for each in error.faults] == [
        "The table 'people' has no column 'suppression_reason'. Did you mean 'reason'",
        "The table 'people' has no column 'suppression_changed_at'. It is optional",
        "The column 'reason' of 'people' is NOT NULL, but a reactivation sets it to null",
    ]


def test_emails_in_another_table_without_dispatches(empty_database_url: str) -> None:
    url = empty_database_url
    run(
        url,
        "CREATE TABLE people (id integer PRIMARY KEY, suppressed_at integer)",
        "CREATE TABLE contacts (id integer PRIMARY KEY, person_id integer, email varchar(320))",
    )
    schema = replace(ORDINARY, dispatches=None)
    assert "map a view of both, 'people_with_email'." in mismatch(url, schema).faults[0].text


def test_emails_in_another_table(empty_database_url: str) -> None:
    """The report has the statements that create a view, which then works in place of the table."""
    url = empty_database_url
    timestamp = kind_of(url).types["timestamp"]
    people = f"(id integer PRIMARY KEY, born integer, suppressed_at {timestamp})"
    contacts = "(id integer PRIMARY KEY, person_id integer, email varchar(320))"
    run(
        url,
        f"CREATE TABLE people {people}",
        f"CREATE TABLE contacts {contacts}",
        create_sends(url),
    )
    error = mismatch(url, ORDINARY)
    text = error.faults[0].text
    assert text.startswith(
        "The table 'people' has no column 'email'. The addresses may be in the column 'email' of "
        "'contacts': map a view of both, 'people_with_email'."
    )
    statements = text.partition(" Run ")[2]
    run(url, *re.split(r"; (?=CREATE)", statements))
    run(
        url,
        "INSERT INTO people (id) VALUES (1), (2)",
        "INSERT INTO contacts VALUES (1, 2, 'ada@example.com'), (2, 1, 'bob@example.com')",
    )
    store = SQLStore(url, corrected(error, ORDINARY), verify=True)
    assert store.schema.subscribers.table == "people_with_email"
    suppressed = arrival(Suppressed("ada@example.com", "m-1", NOON, "HardBounce"))
    assert statuses(record(store, [suppressed])) == [200]
    assert run(url, "SELECT id FROM people WHERE suppressed_at IS NOT NULL") == [(2,)]
