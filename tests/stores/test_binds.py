"""Models that are bound to one of several databases, by Flask-SQLAlchemy or by a session."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import pytest
from contract import NOON, arrival, statuses
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine, String
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from engines import opened
from hookrow import ConfigurationError, Role, Schema, SchemaMismatch, Suppressed
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from wire import ADA


class MailBase(DeclarativeBase):
    """The base of models in the database of mail."""


class Reader(MailBase):
    """A subscriber in it."""

    __tablename__ = "readers"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(String(320))
    suppressed_at: Mapped[datetime | None]


SUPPRESSED = arrival(Suppressed(ADA, None, NOON, "HardBounce"))


def schema_of(model: type) -> Schema:
    """Map the subscribers alone."""
    return Schema(subscribers=Role.of(model), dispatches=None, subscriptions=None, log=None)


@pytest.fixture
def mail(empty_database_url: str) -> Iterator[Engine]:
    """Return the engine of the database of mail."""
    with opened(empty_database_url) as engine:
        yield engine


@pytest.fixture
def other(empty_sqlite_url: str) -> Iterator[Engine]:
    """Return that of another database, which has no tables."""
    with opened(f"{empty_sqlite_url}.other") as engine:
        yield engine


def test_a_session_with_several_binds(mail: Engine, other: Engine) -> None:
    """The store uses the engine that it gets, whatever the binds of sessions are."""
    MailBase.metadata.create_all(mail)
    with Session(other, binds={MailBase: mail}) as session:
        session.add(Reader(id=1, email=ADA))
        session.commit()
        schema = schema_of(Reader)
        assert statuses(record(SQLStore(mail, schema), [SUPPRESSED])) == [200]
        reader = session.get(Reader, 1, populate_existing=True)
        assert reader is not None
        assert reader.suppressed_at is not None
    with pytest.raises(SchemaMismatch, match="no table 'readers' for the subscr"):
        SQLStore(other, schema, verify=True)


def test_a_bind_key(mail: Engine, other: Engine) -> None:
    """The message for the engine of the other database names the right one."""
    app, db = Flask(__name__), SQLAlchemy()
    url, mail_url = (each.url.render_as_string(hide_password=False) for each in (other, mail))
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_BINDS"] = {"mail": mail_url}
    db.init_app(app)

    class Person(db.Model):  # type: ignore[misc, name-defined] # a class that mypy does not know
        __bind_key__ = "mail"
        id = db.Column(db.Integer, primary_key=True)
        email = db.Column(db.String(320))
        suppressed_at = db.Column(db.DateTime)

    class Send(db.Model):  # type: ignore[misc, name-defined] # a class that mypy does not know
        id = db.Column(db.Integer, primary_key=True)
        provider_message_id = db.Column(db.String(99))
        subscriber_id = db.Column(db.Integer)
        delivered_at = db.Column(db.DateTime)
        opened_at = db.Column(db.DateTime)

    schema = schema_of(Person)
    with app.app_context():
        db.create_all()
        db.session.add(Person(id=1, email=ADA))
        db.session.commit()
        with closing(SQLStore(db.engines["mail"], schema, verify=True)) as store:
            assert statuses(record(store, [SUPPRESSED])) == [200]
        with pytest.raises(SchemaMismatch) as caught:
            SQLStore(db.engine, schema, verify=True)
        for each in db.engines.values():
            each.dispose()
    assert "Person is bound to 'mail': pass the engine of that database, db.engines[\"mail\"]" in (
        str(caught.value)
    )
    with pytest.raises(ConfigurationError) as caught_at_once:
        Schema(subscribers=Role.of(Person), dispatches=Role.of(Send), subscriptions=None, log=None)
    assert str(caught_at_once.value) == (
        "The models are bound to several databases, Person to mail and Send to the default, but "
        "all roles must be in one: map models with the same `__bind_key__`."
    )
