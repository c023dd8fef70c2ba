"""A column that is too short for the message ids of the receiver's providers is reported."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from contract import arrival, opens
from host_tables import HOST, make
from sqlalchemy import Engine, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlmodel import Field, SQLModel

from checking import check_at
from databases import kind_of
from engines import opened
from hookrow import ConfigurationError, Postmark, Receiver, Role, Schema, SchemaMismatch
from hookrow._diagnostics import Level
from hookrow._receiver.recorder import record
from hookrow._server.preflight import check_and_prepare
from hookrow._server.settings import EntrySettings, Settings
from hookrow.providers import Provider
from hookrow.stores import Unavailable
from hookrow.stores.sql import SQLStore
from senders import SENDERS
from wire import ADA, SECRET

IDS = "sends.provider_message_id"

TOO_SHORT = (
    "The column 'provider_message_id' of 'sends' can hold 20 characters, but the message ids of "
    "postmark have up to 36, and the column would have to hold them unchanged: change its type to "
    "VARCHAR(36), or to a longer one."
)


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Return an engine on an empty database of each kind."""
    with opened(empty_database_url) as engine:
        yield engine


@pytest.fixture
def limited(engine: Engine) -> Engine:
    """Return an engine whose database enforces the lengths of texts."""
    if not kind_of(engine).keeps_lengths:
        pytest.skip("SQLite enforces no lengths")
    return engine


def test_construction(limited: Engine) -> None:
    """A store that is verified at once is verified again with the first receiver."""
    make(limited, {IDS: "varchar(20)"})
    store = SQLStore(limited, HOST, verify=True)
    with pytest.raises(SchemaMismatch) as caught:
        Receiver(Postmark(SECRET), store)
    assert [each.text for each in caught.value.faults] == [TOO_SHORT]
    assert (caught.value.faults[0].table, caught.value.faults[0].column) == (
        "sends",
        "provider_message_id",
    )


def test_first_use(limited: Engine) -> None:
    """The report has the other faults, too."""
    make(limited, {IDS: "varchar(20)", "sends.opened_at": "date"})
    store = SQLStore(limited, HOST)
    receiver = Receiver(Postmark(SECRET), store)
    with closing(receiver), pytest.raises(Unavailable, match="2 faults") as caught:
        record(store, [arrival(opens(ADA, "m-ada"))])
    assert TOO_SHORT in str(caught.value)
    assert "The column 'opened_at' of 'sends' is of the type" in str(caught.value)


@pytest.mark.parametrize("type_", ["varchar(36)", "text", "char(32)", "uuid"])
def test_a_column_that_suffices(engine: Engine, type_: str) -> None:
    """CHAR(32) has the digits of UUIDs, except on PostgreSQL, which has a type for them."""
    if type_ == "char(32)" and kind_of(engine).has_uuids:
        pytest.skip("This is the type of another database")
    make(engine, {IDS: kind_of(engine).types[type_]})
    store = SQLStore(engine, HOST, verify=True)
    with closing(Receiver(Postmark(SECRET), store)):
        store.probe()


def test_the_command(limited: Engine) -> None:
    """`hookrow check` reports it, and `hookrow serve` does not start."""
    make(limited, {IDS: "varchar(20)"})
    url = limited.url.render_as_string(hide_password=False)
    [result] = [each for each in check_at(url, HOST) if each.text == TOO_SHORT]
    assert (result.level, result.subject) == (Level.ERROR, "tables")
    settings = Settings(
        entries=[EntrySettings(credentials=(SECRET,))], database_url=url, schema=HOST
    )
    with pytest.raises(ConfigurationError) as caught:
        check_and_prepare(settings)
    assert str(caught.value) == TOO_SHORT


def test_several_providers(limited: Engine) -> None:
    """Those whose ids are too long are named; a provider that states no length has none."""
    make(limited, {IDS: "varchar(18)"})
    store = SQLStore(limited, HOST, verify=True)
    names = ("brevo", "mailjet", "postmark")
    expected = "can hold 18 characters, but the message ids of mailjet and postmark have up to 36"
    with pytest.raises(SchemaMismatch, match=expected):
        Receiver({name: SENDERS[name].construct() for name in names}, store)


def test_a_provider_of_the_host(limited: Engine) -> None:
    """It may state the length of its ids."""

    class Courier(Postmark):
        """Has longer ids."""

        name = "courier"
        message_id_length = 40

    make(limited, {IDS: "varchar(36)"})
    store = SQLStore(limited, HOST, verify=True)
    with pytest.raises(SchemaMismatch, match="message ids of courier have up to 40"):
        Receiver(Courier(SECRET), store)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        ("40", "message_id_length must be a number or None, not str"),
        (0, "message_id_length must be an integer of at least 1, not 0"),
    ],
)
def test_an_invalid_length(length: object, text: str) -> None:
    provider: Provider = type("Courier", (Postmark,), {"message_id_length": length})(SECRET)
    with pytest.raises(ConfigurationError, match=text):
        Receiver(provider, SQLStore("sqlite://"))


class Base(DeclarativeBase):
    """The base of the models."""


class Person(Base):
    """A subscriber."""

    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    suppressed_at: Mapped[str | None] = mapped_column(String(40))


class Send(Base):
    """A dispatch whose column is too short for Postmark's ids."""

    __tablename__ = "sends"

    id: Mapped[int] = mapped_column(primary_key=True)
    postmark_id: Mapped[str] = mapped_column("provider_message_id", String(20))
    subscriber_id: Mapped[int]
    delivered_at: Mapped[object | None] = mapped_column(String(40))
    opened_at: Mapped[object | None] = mapped_column(String(40))


class Mailing(SQLModel, table=True):
    """The same as an SQLModel."""

    __tablename__ = "short_mailings"

    id: int = Field(primary_key=True)
    postmark_id: str = Field(max_length=20)
    subscriber_id: int
    delivered_at: str | None
    opened_at: str | None


@pytest.mark.parametrize(
    ("role", "line", "attribute"),
    [
        (
            Role.of(Send, provider_message_id=Send.postmark_id),
            "write String(36).",
            "Send.postmark_id",
        ),
        (
            Role.of(Mailing, provider_message_id=Mailing.postmark_id),
            "write max_length=36.",
            "Mailing.postmark_id",
        ),
    ],
    ids=["SQLAlchemy", "SQLModel"],
)
def test_models(engine: Engine, role: Role, line: str, attribute: str) -> None:
    """The declaration counts on every database, because migrations create the table from it."""
    schema = Schema(
        subscribers=Role("people", {"suppression_changed_at": None}),
        dispatches=role,
        subscriptions=None,
        log=None,
    )
    store = SQLStore(engine, schema)
    with pytest.raises(ConfigurationError) as caught:
        Receiver(Postmark(SECRET), store)
    text = str(caught.value)
    assert "can hold 20 characters, but the message ids of postmark have up to 36, and " in text
    assert text.endswith(
        f"{line} To change the column, change {attribute}, and run your migrations."
    )
