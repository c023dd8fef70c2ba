"""Roles of models: the classes of SQLAlchemy and SQLModel, and every mistake in one."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Computed,
    Date,
    DateTime,
    Enum,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    StaticPool,
    String,
    Table,
    Text,
    Time,
    TypeDecorator,
    UniqueConstraint,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.dialects.mysql import DATETIME, SET, TINYINT, VARCHAR
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.declarative import DeferredReflection
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    aliased,
    column_property,
    composite,
    declared_attr,
    mapped_column,
    registry,
    relationship,
    synonym,
)
from sqlmodel import Field, Session, SQLModel

from engines import MEMORY
from hookrow import ConfigurationError, Postmark, Receiver, Role, Schema, Tenant
from hookrow._core.column_rules import differs
from hookrow._core.notification import Key
from hookrow._core.schema import OPTIONAL, REQUIRED, _Columns
from hookrow._models import DeclaredColumn
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import attach
from hookrow.testing import StoreContract
from wire import SECRET


class Base(DeclarativeBase):
    """The base of a host's models, whose tables are in another schema."""

    metadata = MetaData(schema="crm")


class Suppressible:
    """A mixin."""

    suppressed_at: Mapped[datetime | None] = mapped_column("muted_at")
    reason: Mapped[str | None]

    @declared_attr
    def region(self) -> Mapped[str | None]:
        """Return a column that each model has for itself."""
        return mapped_column("region_code")


class Entity(Base):
    """An abstract class."""

    __abstract__ = True

    deleted_at: Mapped[datetime | None] = mapped_column("gone_at")


class Person(Suppressible, Entity):
    """A model with other names, a relationship to a class that does not exist, and no `id`."""

    __tablename__ = "people"

    uid: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str] = mapped_column("adr")
    team_id: Mapped[int]
    kind: Mapped[str]
    x: Mapped[int] = mapped_column()
    y: Mapped[int] = mapped_column()
    sends: Mapped[list["Unknown"]] = relationship()  # type: ignore[name-defined] # noqa: F821 - it does not exist
    mail: Mapped[str] = synonym("address")
    shout: Mapped[str] = column_property(func.upper(address))
    point: Mapped[list[int]] = composite(lambda *parts: [*parts], x, y)
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012 - SQLAlchemy's form

    @hybrid_property
    def domain(self) -> str:
        """Return an expression."""
        return self.address


class Customer(Person):
    """A class that shares the table of its base."""

    discount: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "customer"}  # noqa: RUF012 - SQLAlchemy's form


class Supplier(Person):
    """A class that shares the table of its base with a class of its own."""

    __mapper_args__ = {"polymorphic_identity": "supplier"}  # noqa: RUF012 - SQLAlchemy's form


class Importer(Supplier):
    """The class below it."""

    __mapper_args__ = {"polymorphic_identity": "importer"}  # noqa: RUF012 - SQLAlchemy's form


class Employee(Person):
    """A class with a table of its own beside that of its base."""

    __tablename__ = "employees"

    uid: Mapped[int] = mapped_column(ForeignKey("crm.people.uid"), primary_key=True)
    salary: Mapped[int]
    __mapper_args__ = {"polymorphic_identity": "employee"}  # noqa: RUF012 - SQLAlchemy's form


class Send(Base):
    """A model of dispatches, in its own schema."""

    __tablename__ = "sends"
    __table_args__ = {"schema": "mail"}  # noqa: RUF012 - SQLAlchemy's form

    id: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[str | None]
    person_id: Mapped[int] = mapped_column(ForeignKey("crm.people.uid"))
    person: Mapped[Person] = relationship()
    sent_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]
    clicked_at: Mapped[datetime | None]


class Open(Base):
    """A model of dispatches that lacks columns."""

    __tablename__ = "opens"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str]
    person_id: Mapped[int] = mapped_column(ForeignKey("crm.people.uid"))
    person: Mapped[Person] = relationship()
    opened_at: Mapped[datetime | None]


class Membership(Base):
    """A model with a composite key."""

    __tablename__ = "memberships"

    list_id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(primary_key=True)


class Reflected(DeferredReflection, Base):
    """A base of classes whose tables are reflected."""

    __abstract__ = True


class Later(Reflected):
    """A class whose table has not been reflected."""

    __tablename__ = "later"


class Queried(Base):
    """A class that is mapped to a query."""

    __table__ = select(Membership.__table__).subquery()
    __mapper_args__ = {"primary_key": [__table__.c.list_id]}  # noqa: RUF012 - SQLAlchemy's form


class Others(DeclarativeBase):
    """The base of models whose relationships exist."""


class Author(Others):
    """A model with a name."""

    __tablename__ = "authors"

    id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str]


class Letter(Others):
    """A model whose author's address is an attribute, too."""

    __tablename__ = "letters"

    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
    author: Mapped[Author] = relationship()
    sender = association_proxy("author", "address")


class Contact(SQLModel, table=True):
    """A model of SQLModel, whose attributes have the types of their values for type checkers."""

    __tablename__ = "contacts"

    id: int | None = Field(default=None, primary_key=True)
    address: str = Field(sa_column_kwargs={"name": "adr"})
    deleted_at: datetime | None = None
    suppressed_at: datetime | None = None
    reason: str | None = None
    team_id: int | None = None


class Mailing(SQLModel, table=True):
    """A model of SQLModel for dispatches."""

    id: int | None = Field(default=None, primary_key=True)
    contact_id: int | None = Field(default=None, foreign_key="contacts.id")
    postmark_id: str | None = None
    delivered_at: datetime | None = None
    opened_at: datetime | None = None


class Reader(SQLModel, table=True):
    """A model of SQLModel without tenants."""

    id: int | None = Field(default=None, primary_key=True)
    email: str
    suppressed_at: datetime | None = None


class Form(SQLModel):
    """A class without a table."""

    email: str


class Registered(SQLModel):
    """A class without a table, from which a model inherits."""

    email: str


class Client(Registered, table=True):
    """The model to map."""

    id: int | None = Field(default=None, primary_key=True)
    suppressed_at: datetime | None = None


PEOPLE = Role.of(
    Person,
    email=Person.address,
    suppression_reason=Person.reason,
    where={Person.deleted_at: None, "kind": "person"},
    tenant=Person.team_id,
    fold="lower",
    empty="",
)
SENDS = Role.of(Send, provider_message_id=Send.message_id, subscriber_id=Send.person_id)


def test_attributes_stand_for_the_names_of_their_columns() -> None:
    """No mapper is configured, which would fail: `Person` has a relationship to no class."""
    schema = Schema(subscribers=PEOPLE, dispatches=SENDS, subscriptions=None)
    assert (PEOPLE.table, SENDS.table) == ("crm.people", "mail.sends")
    assert schema.columns("subscribers") == {
        "id": "uid",
        "email": "adr",
        "suppressed_at": "muted_at",
        "suppression_reason": "reason",
    }
    assert PEOPLE.where == {"gone_at": None, "kind": "person"}
    assert (PEOPLE.tenant, PEOPLE.fold, PEOPLE.empty) == ("team_id", "lower", "")
    assert all(
        type(each) is str for each in (PEOPLE.table, *schema.columns("subscribers").values())
    )


def test_a_column_is_used_once_and_a_record_only_if_it_is_named() -> None:
    """`message_id` has another meaning in this model; `sent_at` and `clicked_at` may have one."""
    schema = Schema(subscribers=PEOPLE, dispatches=SENDS)
    assert schema.columns("dispatches") == {
        "id": "id",
        "provider_message_id": "message_id",
        "subscriber_id": "person_id",
        "delivered_at": "delivered_at",
        "opened_at": "opened_at",
    }
    named = Role.of(
        Send,
        provider_message_id=Send.message_id,
        subscriber_id=Send.person_id,
        opened_at="opened_at",
        sent_at=Send.sent_at,
        clicked_at=Send.clicked_at,
    )
    columns = Schema(dispatches=named, record=("click",)).columns("dispatches")
    assert columns.keys() - schema.columns("dispatches").keys() == {"sent_at", "clicked_at"}


def test_a_column_can_be_left_out() -> None:
    bare = Role.of(Person, email=Person.address, suppression_reason=None)
    assert "suppression_reason" not in Schema(subscribers=bare).columns("subscribers")
    pairs = Schema(subscriptions=Role.of(Membership, subscriber_id=Membership.person_id))
    assert pairs.columns("subscriptions") == {"list_id": "list_id", "subscriber_id": "person_id"}


def test_a_subclass_in_the_same_table_needs_the_column_that_distinguishes_its_rows() -> None:
    role = Role.of(Customer, email=Person.address, where={Customer.kind: "customer"})
    assert (role.table, role.columns, role.where) == (
        "crm.people",
        {"email": "adr"},
        {"kind": "customer"},
    )


def test_a_class_that_is_mapped_without_a_base() -> None:
    class Plain:
        email: Any

    plain, columns = registry(), (Column("id", Integer, primary_key=True), Column("email", String))
    plain.map_imperatively(Plain, Table("plain", plain.metadata, *columns))
    role = Role.of(Plain, email=Plain.email)
    assert (role.table, role.columns, role.column("id")) == ("plain", {"email": "email"}, "id")


def test_type_checkers_know_the_keywords_and_accept_the_attributes_of_every_library() -> None:
    """For them, an attribute of an SQLModel is its value; mypy reports an unused comment."""
    Role.of(
        Contact, email=Contact.address, where={Contact.deleted_at: None}, tenant=Contact.team_id
    )
    misspelled = Role.of(Contact, emial=Contact.address)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"no column 'emial'. Did you mean 'email'\?"):
        Schema(subscribers=misspelled)
    columns = [name for each in (REQUIRED, OPTIONAL) for names in each.values() for name in names]
    assert {*_Columns.__annotations__} == {*columns}


MISTAKES = [
    (
        lambda: of(Suppressible),
        "the class of a model, which has a table, not the class Suppressi",
    ),
    (
        lambda: of(int),
        "which has a table, not the class int: write Role.of(Person, email=Person.a",
    ),
    (lambda: of(Base), "which has a table, not the class Base"),
    (
        lambda: of(Entity),
        "the class is abstract: map a class that inherits from it, such as Person",
    ),
    (
        lambda: of(Form),
        "Role.of(Form): the class has no table: write class Form(SQLModel, table=Tru",
    ),
    (
        lambda: of(Registered),
        "Role.of(Registered): the class has no table: map a class that inherits from it, such as C",
    ),
    (
        lambda: of(Later),
        "Role.of(Later): the class is not mapped yet: with DeferredReflection, cal",
    ),
    (lambda: of(Queried), "Role.of(Queried): the class is mapped to a query, not to a table"),
    (
        lambda: of(Contact(address="a@x")),
        "class of a model, not Contact: write Role.of(Contact).",
    ),
    (lambda: of(Person.__table__), 'class of a model, not Table: write Role("crm.people").'),
    (lambda: of("people"), 'class of a model, not str: write Role("people").'),
    (
        lambda: of(aliased(Author)),
        "class of a model, not AliasedClass: write Role.of(Person, em",
    ),
    (lambda: of(None), "The argument of Role.of() must be the class of a model, not None"),
    (
        lambda: of(Employee, email=Employee.address),
        (
            "Role.of(Employee): the class has its columns in several tables, 'crm.people' and "
            "'crm.employees': map the class of one of them that has all columns of the role"
        ),
    ),
    (
        lambda: of(Customer, email=Customer.address),
        (
            "Role.of(Customer): the class shares the table 'crm.people' with Person: add "
            "where={Customer.kind: 'customer'}."
        ),
    ),
    (
        lambda: of(Supplier, email=Supplier.address),
        (
            "shares the table 'crm.people' with Person, and no single value distinguishes its "
            "rows: map Person for the rows of both"
        ),
    ),
    (
        lambda: of(Person, email=Person.shout),
        (
            "`email` of Role.of(Person) is Person.shout, which is an SQL expression, not a column: "
            "write email=Person.<attribute>. Its attributes with columns: uid, address"
        ),
    ),
    (
        lambda: of(Person, email=Person.domain),
        "is Person.domain, which is a hybrid property, not",
    ),
    (
        lambda: of(Person, email=Person.mail),
        "is Person.mail, which is a synonym or a composite",
    ),
    (
        lambda: of(Person, email=Person.point),
        "is Person.point, which is a synonym or a composite",
    ),
    (
        lambda: of(Send, subscriber_id=Send.person),
        "is Send.person, which is a relationship, not a column: write subscriber_id=Send.person_",
    ),
    (
        lambda: of(Letter, email=Letter.sender),
        "not an attribute of Letter, but ColumnAssociation",
    ),
    (
        lambda: of(Person, id=Send.id, email=Contact.address),
        "`id` of Role.of(Person) is Send.id, an attribute of another class: write id=Person.<attr",
    ),
    (
        lambda: of(Person, email=Contact.address),
        "is Contact.address, an attribute of another class: write email=Person.address.",
    ),
    (
        lambda: of(Person, email=Customer.discount),
        "is Customer.discount, an attribute of another",
    ),
    (
        lambda: of(Author, email=aliased(Author).address),
        "is aliased(Author).address, an attribute",
    ),
    (
        lambda: of(Person, suppressed_at=Suppressible.suppressed_at),
        (
            "`suppressed_at` of Role.of(Person) is an attribute of a mixin or of an abstract "
            "class: write suppressed_at=Person.suppressed_at."
        ),
    ),
    (
        lambda: of(Person, where={Entity.deleted_at: None}),
        (
            "`where` of Role.of(Person) is an attribute of a mixin or of an abstract class: write "
            "where={Person.deleted_at: ...}."
        ),
    ),
    (
        lambda: of(Person, email=Person.__table__.c.adr),
        "is people.adr, a column of a Table: write email=Person.address.",
    ),
    (
        lambda: of(Person, tenant=Membership.__table__.c.list_id),
        "`tenant` of Role.of(Person) is memberships.list_id, a column of a Table: write tenant=Per",
    ),
    (
        lambda: of(Person, email=5),
        "`email` of Role.of(Person) is not an attribute of Person, but 5",
    ),
    (
        lambda: of(Person, where={None: 5}),
        "`where` of Role.of(Person) is not an attribute of Person",
    ),
    (
        lambda: of(Person, where="deleted_at"),
        "`where` of Role.of(Person) must be a dict, not str",
    ),
    (
        lambda: of(Person, email="address"),
        "is 'address', an attribute whose column is 'adr': write email=Person.address.",
    ),
    (lambda: of(Person, touch="updeted"), "`touch` of Role.of(Person) is 'updeted', which Person"),
    (
        lambda: of(Person, tenant="teem_id"),
        "which Person does not have. Did you mean 'team_id'?",
    ),
    (
        lambda: Schema(dispatches=role_of(Send)),
        (
            "The role 'dispatches' needs provider_message_id and subscriber_id, and Send has no "
            "attributes with these names: write Role.of(Send, provider_message_id=Send.message_id, "
            "subscriber_id=Send.person_id, ...). Its other attributes are message_id, person_id, "
            "sent_at and clicked_at."
        ),
    ),
    (
        lambda: Schema(
            dispatches=role_of(Open, provider_message_id=Open.code, subscriber_id=Open.person_id)
        ),
        (
            "The role 'dispatches' needs delivered_at, and Open has no attribute with this name, "
            "nor any other one that is not mapped yet: add `delivered_at = "
            "mapped_column(DateTime())` to it."
        ),
    ),
    (
        lambda: Schema(dispatches=role_of(Open, subscriber_id=Open.person_id)),
        (
            "needs provider_message_id and delivered_at, and Open has no attributes with these "
            "names: write Role.of(Open, provider_message_id=Open.<attribute>, "
            "delivered_at=Open.<attribute>, ...). Its other attribute is code. If none of them is "
            "meant, add provider_message_id and `delivered_at = mapped_column(DateTime())` to it."
        ),
    ),
    (
        lambda: Schema(subscribers=role_of(Membership)),
        (
            "needs id, email and suppressed_at, and Membership has no attributes with these names: "
            "write Role.of(Membership, id=Membership.<attribute>, email=Membership.<attribute>, "
            "suppressed_at=Membership.<attribute>, ...)."
        ),
    ),
    (lambda: Role(Person, tenant=Person.team_id), "write Role.of(Person, tenant=Person.team_id)."),  # type: ignore[arg-type]
    (
        lambda: Schema(subscribers=role_of(Person, email=None)),
        "The role 'subscribers' needs the column 'email': map it.",
    ),
    (lambda: Role(Person), "name of a table, not the class Person: write Role.of(Person)."),  # type: ignore[arg-type]
]


def role_of(model: Any, **arguments: Any) -> Role:  # noqa: ANN401 - of any type
    """Call `Role.of` as type checkers would not allow."""
    return Role.of(model, **arguments)


def of(model: Any, **arguments: Any) -> Schema:  # noqa: ANN401 - of any type
    """Map the subscribers to a model, because only a schema raises the faults of attributes."""
    return Schema(subscribers=role_of(model, **arguments))


@pytest.mark.parametrize(("call", "expected"), MISTAKES)
@pytest.mark.filterwarnings("ignore:Unmanaged access of declarative attribute")
def test_a_mistake_is_an_error_with_the_line_to_write(
    call: Callable[[], object], expected: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("role", "line"),
    [
        (Role("people"), 'Role("people", tenant="team_id")'),
        (Role.of(Contact, email=Contact.address), "Role.of(Contact, tenant=Contact.team_id)"),
        (Role.of(Reader), "Role.of(Reader, tenant=Reader.<attribute>)"),
    ],
)
def test_tenants_without_a_column(role: Role, line: str) -> None:
    """The message names the attribute of the model, if it has an obvious one."""
    entries = {name: Tenant(Postmark(SECRET + name), name) for name in ("acme", "globex")}
    with pytest.raises(ConfigurationError) as caught:
        Receiver(entries, SQLStore(MEMORY, Schema(subscribers=role)))
    assert str(caught.value).endswith(f"write Schema(subscribers={line}).")


SCHEMA = Schema(
    subscribers=Role.of(Contact, email=Contact.address, where={Contact.deleted_at: None}),
    dispatches=Role.of(
        Mailing, provider_message_id=Mailing.postmark_id, subscriber_id=Mailing.contact_id
    ),
    subscriptions=None,
)


class TestSQLModel(StoreContract):
    """The contract on tables that SQLModel creates, with those of hookrow in its metadata."""

    @pytest.fixture(autouse=True)
    def database(self) -> Iterator[None]:
        """Create the tables in memory."""
        metadata = MetaData()
        for model in (Contact, Mailing):
            model.metadata.tables[str(model.__tablename__)].to_metadata(metadata)
        attach(metadata, SCHEMA)
        self.engine = create_engine("sqlite://", poolclass=StaticPool)
        metadata.create_all(self.engine)
        self.store = SQLStore(self.engine, SCHEMA, verify=True)
        yield
        self.engine.dispose()

    def add_subscriber(self, email: str) -> Key:
        """Add a contact."""
        return self.save(Contact(address=email))

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Add a mailing."""
        del list_
        return self.save(Mailing(postmark_id=message_id, contact_id=int(str(subscriber))))

    def save(self, row: Contact | Mailing) -> Key:
        """Insert a row, and return its id."""
        with Session(self.engine) as session:
            session.add(row)
            session.commit()
            assert row.id is not None
            return row.id


def test_the_mistakes_of_all_roles_are_in_one_error() -> None:
    """A schema raises them, together with the columns that its models lack."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            subscribers=role_of(Person, email=Person.mail, where={Send.id: 1}),
            dispatches=role_of(Open, subscriber_id=Open.person),
        )
    assert [each.text.partition(", ")[0] for each in caught.value.faults] == [
        "`email` of Role.of(Person) is Person.mail",
        "`where` of Role.of(Person) is Send.id",
        "`subscriber_id` of Role.of(Open) is Open.person",
        "The role 'dispatches' needs provider_message_id and delivered_at",
    ]
    assert "Its other attribute is code." in caught.value.faults[-1].text


def test_a_class_that_cannot_be_mapped_hides_no_other_fault() -> None:
    """The faults of other roles are in the same error, and none that follow from this one."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            subscribers=role_of(Base, tenant="team_id"),
            dispatches=role_of(Open, subscriber_id=Open.person, tenant="code"),
            subscriptions=role_of(Queried),
            record=("click",),
        )
    beginnings = [
        "The argument of Role.of() must be the class of a model, which has a table, not the class",
        "`subscriber_id` of Role.of(Open) is Open.person, ",
        "The role 'dispatches' needs provider_message_id and delivered_at, ",
        "Role.of(Queried): the class is mapped to a query, not to a table: ",
        "`record` has 'click', but ",
    ]
    assert all(map(str.startswith, [each.text for each in caught.value.faults], beginnings))
    assert len(caught.value.faults) == len(beginnings)


def test_dispatches_that_cannot_be_mapped() -> None:
    """Whether they have columns for optional records is not known."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(dispatches=role_of(7), record=("click",))
    assert [each.text for each in caught.value.faults] == [
        (
            "The argument of Role.of() must be the class of a model, not 7: write "
            "Role.of(Person, email=Person.address)."
        )
    ]


class OnlyBase(DeclarativeBase):
    """A base of one abstract class."""


class Account(OnlyBase):
    """An abstract class, with one class that inherits from it."""

    __abstract__ = True

    id: Mapped[int] = mapped_column(primary_key=True)
    login: Mapped[str]


class Member(Account):
    """The class to map."""

    __tablename__ = "members"

    suppressed_at: Mapped[datetime | None]


@pytest.mark.filterwarnings("ignore:Unmanaged access of declarative attribute")
def test_the_attributes_of_an_abstract_class() -> None:
    """They are those of the only class to map instead, and its other faults are reported, too."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=role_of(Account, tenant=Account.id))
    assert [each.text for each in caught.value.faults] == [
        (
            "Role.of(Account): the class is abstract: map a class that inherits from it, such as "
            "Member."
        ),
        (
            "`tenant` of Role.of(Member) is an attribute of a mixin or of an abstract class: write "
            "tenant=Member.id."
        ),
        (
            "The role 'subscribers' needs email, and Member has no attribute with this name: write "
            "Role.of(Member, email=Member.<attribute>, ...). Its other attribute is login. If none "
            "of them is meant, add email to it."
        ),
    ]


def test_an_abstract_class_names_no_class_that_cannot_be_mapped_either() -> None:
    class Paying(Base):
        __abstract__ = True

        id: Mapped[int] = mapped_column(primary_key=True)

    class Donor(Paying):
        __tablename__ = "donors"

    class Patron(Donor):
        __tablename__ = "patrons"

        donor_id: Mapped[int] = mapped_column(ForeignKey("donors.id"), primary_key=True)

    with pytest.raises(ConfigurationError, match=r"inherits from it, such as Donor\.\n"):
        Schema(subscribers=role_of(Paying), dispatches=None, subscriptions=None)


class Wrapped(TypeDecorator[str]):
    """A type of the host, whose values are shorter than those that it gets."""

    impl = String(2)
    cache_ok = True


def test_a_value_that_an_enum_does_not_have() -> None:
    """SQLAlchemy refuses it on every database, and not only those that have enums."""
    model: Any = type("Guest", (), {})
    columns: list[Column[Any]] = [
        Column("id", Integer, primary_key=True),
        Column("email", String),
        Column("suppressed_at", DateTime),
        Column("state", Enum("live", "dead")),
    ]
    registry().map_imperatively(model, Table("guests", MetaData(), *columns))
    roles: dict[str, Any] = {"dispatches": None, "subscriptions": None}
    role = Role.of(model, where={model.state: "live"})
    Schema(subscribers=role, **roles)
    created = DeclaredColumn("state", "VARCHAR(4)", "text", nullable=True, generated=False)
    assert not differs(role, created)  # of a database without enums
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=Role.of(model, where={model.state: "alive"}), **roles)
    assert str(caught.value) == (
        "The column 'state' of 'guests' is of the type ENUM, which never equals 'alive': correct "
        "`where`. Did you mean 'live'? To change the column, change Guest.state, and run your "
        "migrations."
    )


def faults_of(*columns: Any, reasons: Any = None, **options: Any) -> list[str]:  # noqa: ANN401 - of any type
    """Return the faults of a model with columns in place of its usual ones."""
    usual: list[Column[Any]] = [
        Column("id", Integer, primary_key=True),
        Column("email", String, nullable=False),
        Column("suppressed_at", DateTime),
        Column("suppression_reason", String(17)),
        Column("suppression_changed_at", DateTime),
        Column("updated_at", DateTime),
    ]
    given = {each.name for each in columns}
    others = [each for each in usual if each.name not in given]
    table = Table("readers", MetaData(), *columns, *others)
    cls: Any = type("Reader", (), {})
    registry().map_imperatively(cls, table)
    arguments = {name: getattr(cls, each) for name, each in options.items() if name == "touch"}
    arguments |= {name: each for name, each in options.items() if name == "empty"}
    rest = {name: each for name, each in options.items() if name not in arguments}
    try:
        Schema(
            **{"dispatches": None, "subscriptions": None} | rest,
            subscribers=Role.of(cls, **arguments),
            reasons=reasons,
        )
    except ConfigurationError as error:
        return str(error).removeprefix(f"{len(error.faults)} faults:\n- ").split("\n- ")
    return []


DECLARED = (
    "The column '{0}' of 'readers' is {1} To change the column, {2} Reader.{0}, and run your "
    "migrations."
)


NULLED = "NOT NULL, but a reactivation sets it to null: drop NOT NULL"
ALLOW_NULL = "write nullable=True for"
BE_A_TIME = "write DateTime() for"


@pytest.mark.parametrize(
    ("column", "mistake", "change"),
    [
        (Column("suppressed_at", DateTime, nullable=False), f"{NULLED}.", ALLOW_NULL),
        (Column("suppressed_at", Wrapped, nullable=False), f"{NULLED}.", ALLOW_NULL),
        (
            Column("suppression_reason", Text, nullable=False),
            (
                f'{NULLED}, set empty="" in its role to write an empty string instead of null, or '
                "map suppression_reason=None to keep no reason."
            ),
            ALLOW_NULL,
        ),
        (
            Column("suppression_reason", String(16)),
            (
                "of the type VARCHAR(16), which cannot hold the reason 'ManualSuppression': change "
                "its type to a text of 17 characters or more, or set another value in `reasons`: "
                '{"ManualSuppression": "..."}.'
            ),
            "write String(17) for",
        ),
        (
            Column("suppression_reason", VARCHAR(5)),
            (
                "of the type VARCHAR(5), which cannot hold the reasons 'HardBounce', "
                "'SpamComplaint', 'ManualSuppression': change its type to a text of 17 characters "
                "or more, or set another value in `reasons`: "
                '{"HardBounce": "...", "SpamComplaint": "...", "ManualSuppression": "..."}.'
            ),
            "write String(17) for",
        ),
        (
            Column("suppression_reason", Enum("HardBounce", "SpamComplaint")),
            (
                "of the type ENUM: set `reasons`, with one of its values for each of the "
                "provider's reasons and for all others ('*')."
            ),
            "change",
        ),
        (
            Column("suppression_changed_at", Date),
            "of the type DATE, which cannot hold a date-time: name a column that can.",
            BE_A_TIME,
        ),
        (
            Column("suppression_changed_at", Boolean),
            "of the type BOOLEAN, which cannot hold a date-time: name a column that can.",
            BE_A_TIME,
        ),
        (
            Column("suppressed_at", Time),
            (
                "of the type TIME, which cannot hold a date-time: name a column that can, or a "
                "boolean one. If you keep a status instead, set it in the hooks on_recorded and "
                "on_refused."
            ),
            BE_A_TIME,
        ),
        (
            Column("suppressed_at", DateTime, Computed("suppression_changed_at")),
            "generated, and cannot be written: name another.",
            "change",
        ),
    ],
)
def test_what_a_model_declares_unsuitable(column: Column[Any], mistake: str, change: str) -> None:
    """No database is needed to find it. What it is depends on no database."""
    assert faults_of(column) == [DECLARED.format(column.name, mistake, change)]


def test_an_unsuitable_column_for_an_option() -> None:
    [touched] = faults_of(Column("updated_at", Integer), touch="updated_at")
    assert "which cannot hold a date-time: write touch=None." in touched
    without_date = Column("suppressed_at", Boolean)
    assert faults_of(without_date) == []
    [number] = faults_of(Column("suppression_reason", Integer))
    assert "cannot hold the reasons 'HardBounce'" in number
    assert faults_of(Column("suppression_reason", Integer), reasons={"*": 1}) == []
    assert faults_of(Column("suppression_reason", String(1)), reasons={"*": "x"}) == []
    bounced = Enum("bounced", "other")
    known = {"HardBounce": "bounced", "*": "other"}
    assert faults_of(Column("suppression_reason", bounced), reasons=known) == []
    [misspelled] = faults_of(Column("suppression_reason", bounced), reasons=known | {"*": "othr"})
    assert "type ENUM, which cannot hold the reason 'othr'" in misspelled
    assert "Did you mean 'other'?" in misspelled
    assert faults_of(Column("suppression_reason", Text, nullable=False), empty="") == []


@pytest.mark.parametrize(
    "column",
    [
        Column("suppressed_at", TINYINT(1)),
        Column("suppressed_at", DATETIME(fsp=6)),
        Column("suppression_reason", SET("a", "b")),
        Column("suppressed_at", JSON),
        Column("suppressed_at", String),
        Column("suppressed_at", Date().with_variant(DateTime, "postgresql")),
        Column("suppression_reason", Wrapped),
        Column("suppression_reason", CITEXT),
        Column("suppression_reason", Enum("a", "b").with_variant(Text(), "sqlite")),
        Column("suppression_reason", String(2).with_variant(Text, "sqlite")),
        Column("unused", String(2), nullable=False),
    ],
)
def test_what_only_a_database_knows_is_no_fault_of_a_model(column: Column[Any]) -> None:
    """Types of one database, of the host, and those that differ by database."""
    assert faults_of(column) == []


class Bounced(SQLModel, table=True):
    """A model of SQLModel with a short text."""

    id: int | None = Field(default=None, primary_key=True)
    email: str
    suppressed_at: datetime
    suppression_reason: str | None = Field(default=None, max_length=3)
    dispatch_id: int | None = None


def test_what_models_lack_and_what_they_declare_are_in_one_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            subscribers=Role.of(Bounced),
            dispatches=Role.of(Mailing, provider_message_id=Mailing.postmark_id),
            subscriptions=None,
        )
    found = [each.text.partition(", ")[0] for each in caught.value.faults]
    assert found == [
        "The role 'dispatches' needs subscriber_id",
        "The column 'suppressed_at' of 'bounced' is NOT NULL",
        "The column 'suppression_reason' of 'bounced' is of the type VARCHAR(3)",
    ]


class Follower(SQLModel, table=True):
    """A model of SQLModel for subscriptions whose key is another column."""

    id: int | None = Field(default=None, primary_key=True)
    list_id: int
    contact_id: int
    suppressed_at: datetime | None = None


class Notice(Others):
    """A dispatch whose column is too short for some message ids."""

    __tablename__ = "notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    postmark_id: Mapped[str] = mapped_column(String(20))
    author_id: Mapped[int]
    delivered_at: Mapped[datetime | None] = mapped_column(DATETIME(fsp=6))
    opened_at: Mapped[datetime | None]


DOUBTS = [
    (
        "The column 'postmark_id' of 'notices' can hold 20 characters, but the message ids of "
        "postmark and resend have up to 36, and the column would have to hold them unchanged: "
        "unless all of your notifications come from other providers, write String(36). To change "
        "the column, change Notice.postmark_id, and run your migrations."
    ),
    (
        "Follower does not declare that the columns 'list_id' and 'contact_id' of 'follower' are "
        "unique together, so one notification could change several rows: add "
        'UniqueConstraint("list_id", "contact_id") to Follower.__table_args__, unless the table '
        "has a unique index already."
    ),
]


def test_what_a_refused_schema_probably_also_needs() -> None:
    """The receiver and the database know better, so it is no reason to refuse a schema."""
    notices: dict[str, Any] = {"provider_message_id": Notice.postmark_id}
    notices["subscriber_id"] = Notice.author_id
    followers = role_of(Follower, subscriber_id=Follower.contact_id)
    schema = Schema(dispatches=role_of(Notice, **notices), subscriptions=followers)
    with pytest.raises(ConfigurationError) as caught:
        schema.changed(log="")
    assert str(caught.value).split("\n- ")[2:] == DOUBTS


def test_a_time_is_declared_as_those_of_the_other_classes() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            dispatches=role_of(
                Letter, provider_message_id=Letter.author_id, subscriber_id=Letter.id
            )
        )
    line = "mapped_column(DATETIME(fsp=6))"
    added = f"`delivered_at = {line}` and `opened_at = {line}` to it."
    assert added in str(caught.value)


def keyed(*constraints: Any, **where: Any) -> list[str]:  # noqa: ANN401 - of any type
    """Return the faults of subscriptions with constraints, in a schema that is refused anyway."""
    columns: list[Column[Any]] = [
        Column("id", Integer, primary_key=True),
        Column("list_id", Integer),
        Column("subscriber_id", Integer),
        Column("team_id", Integer),
        Column("suppressed_at", DateTime),
        Column("left_at", DateTime),
    ]
    cls: Any = type("Keyed", (), {})
    registry().map_imperatively(cls, Table("keyed", MetaData(), *columns, *constraints))
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscriptions=role_of(cls, where=where), log="")
    return [each.text for each in caught.value.faults[1:]]


@pytest.mark.parametrize(
    ("constraints", "where"),
    [
        ([UniqueConstraint("list_id", "subscriber_id")], {}),
        ([UniqueConstraint("subscriber_id", "list_id")], {"left_at": None}),
        ([Index("by_list", "list_id", "subscriber_id", unique=True)], {}),
        ([UniqueConstraint("team_id", "list_id", "subscriber_id")], {"team_id": 7}),
        (
            [
                Index(
                    "visible",
                    "list_id",
                    "subscriber_id",
                    unique=True,
                    postgresql_where=text("left_at IS NULL"),
                )
            ],
            {"left_at": None},
        ),
        ([Index("descending", text("list_id DESC"), "subscriber_id", unique=True)], {}),
    ],
)
def test_keys_that_a_model_declares(constraints: list[Any], where: dict[str, Any]) -> None:
    """A condition or an expression is left to the database."""
    assert keyed(*constraints, **where) == []


@pytest.mark.parametrize(
    ("constraints", "where", "remedy"),
    [
        (
            [],
            {"team_id": 7},
            'add UniqueConstraint("list_id", "subscriber_id") to Keyed.__table_args__, unless',
        ),
        (
            [Index("by_list", "list_id", "subscriber_id")],
            {"left_at": None},
            "declare them unique in Keyed, among the rows that `where` does not hide, unless",
        ),
        ([UniqueConstraint("team_id", "list_id", "subscriber_id")], {}, "add Unique"),
    ],
)
def test_keys_that_a_model_does_not_declare(
    constraints: list[Any], where: dict[str, Any], remedy: str
) -> None:
    [fault] = keyed(*constraints, **where)
    assert f"could change several rows: {remedy}" in fault


def test_an_id_that_is_not_unique() -> None:
    with pytest.raises(ConfigurationError, match="log") as caught:
        Schema(subscribers=role_of(Contact, id=Contact.team_id, email=Contact.address), log="")
    assert caught.value.faults[-1].text == (
        "Contact does not declare that the column 'team_id' of 'contacts' is unique, so one "
        "notification could change several rows: add unique=True to Contact.team_id, unless the "
        "table has a unique index already."
    )


def test_a_misspelled_keyword_hides_no_fault_of_its_column() -> None:
    """The column is examined as the one that is meant, and is not missing."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            subscribers=role_of(Bounced, supression_reason=Bounced.suppression_reason),
            dispatches=role_of(
                Notice, provider_mesage_id=Notice.postmark_id, subscriber=Notice.author_id
            ),
        )
    texts = [each.text for each in caught.value.faults]
    reason = "Did you mean 'suppression_reason'? Write suppression_reason=Bounced.suppression_reaso"
    assert reason in texts[0]
    message_id = "Did you mean 'provider_message_id'? Write provider_message_id=Notice.postmark_id."
    assert message_id in texts[1]
    assert "Did you mean 'subscriber_id'? Write subscriber_id=Notice.author_id." in texts[2]
    assert not any(" needs " in each for each in texts)
    assert any("VARCHAR(3), which cannot hold the reasons" in each for each in texts[4:])


class Signature(Others):
    """A subscription with a relationship, whose key is not unique."""

    __tablename__ = "signatures"

    id: Mapped[int] = mapped_column(primary_key=True)
    list_id: Mapped[int]
    notice_id: Mapped[int] = mapped_column(ForeignKey("notices.id"))
    suppressed_at: Mapped[datetime | None]
    notice: Mapped[Notice] = relationship()


def test_a_key_with_a_relationship_in_place_of_its_column() -> None:
    """It is examined as if the line to write had been written."""
    signatures = role_of(Signature, subscriber_id=Signature.notice)
    with pytest.raises(ConfigurationError) as caught:
        Schema(dispatches=None, subscriptions=signatures)
    texts = [each.text for each in caught.value.faults]
    assert any(each.endswith("write subscriber_id=Signature.notice_id.") for each in texts)
    assert texts[-1].endswith(
        'add UniqueConstraint("list_id", "notice_id") to Signature.__table_args__, unless the '
        "table has a unique index already."
    )


def test_what_models_declare_is_listed_by_table() -> None:
    """All faults of a model are together, whatever they are."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(
            subscribers=role_of(Bounced, email=Bounced.suppression_reason),
            dispatches=role_of(
                Notice, provider_message_id=Notice.postmark_id, subscriber_id=Notice.author_id
            ),
            subscriptions=role_of(Signature, subscriber_id=Signature.notice),
        )
    tables = [each.table for each in caught.value.faults if each.table]
    assert [table for table, _ in groupby(tables[1:])] == ["bounced", "notices", "signatures"]


def test_a_misspelled_keyword_of_an_attribute_without_a_column() -> None:
    """The line for the attribute is that of the other fault."""
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=role_of(Person, emial=Person.mail))
    first, second = [each.text for each in caught.value.faults][:2]
    assert first == "The role 'subscribers' has no column 'emial'. Did you mean 'email'?"
    assert second.startswith("`emial` of Role.of(Person) is Person.mail, which is a synonym")


def test_a_column_that_is_touched_is_not_suggested() -> None:
    with pytest.raises(ConfigurationError, match=r"nor any other one that is not mapped yet"):
        Schema(
            dispatches=role_of(
                Open,
                provider_message_id=Open.id,
                subscriber_id=Open.person_id,
                touch=Open.code,
            )
        )


def test_an_unsuitable_attribute_is_not_suggested() -> None:
    """Otherwise the next error would refuse it."""
    model: Any = type("Muted", (), {})
    columns: list[Column[Any]] = [
        Column("id", Integer, primary_key=True),
        Column("email", String),
        Column("muted_days", Integer),
        Column("muted_since", DateTime, nullable=False),
        Column("muted_until", DateTime),
    ]
    registry().map_imperatively(model, Table("muted", MetaData(), *columns))
    with pytest.raises(ConfigurationError, match=r"suppressed_at=Muted\.muted_until, "):
        Schema(subscribers=Role.of(model), dispatches=None, subscriptions=None)


def test_a_flag_without_a_log() -> None:
    model: Any = type("Flagged", (), {})
    columns: list[Column[Any]] = [
        Column("id", Integer, primary_key=True),
        Column("email", String),
        Column("suppressed_at", Boolean),
    ]
    registry().map_imperatively(model, Table("flagged", MetaData(), *columns))
    subscribers = Role.of(model)
    Schema(subscribers=subscribers, dispatches=None, subscriptions=None)
    with pytest.raises(ConfigurationError, match="without a log nothing stores when it last"):
        Schema(subscribers=subscribers, dispatches=None, subscriptions=None, log=None)


def test_a_text_for_the_type_of_a_bounce() -> None:
    model: Any = type("Posted", (), {})
    columns: list[Column[Any]] = []
    columns += [Column(each, DateTime) for each in ("delivered_at", "opened_at", "bounced_at")]
    columns += [Column("provider_message_id", String), Column("subscriber_id", Integer)]
    columns += [Column("id", Integer, primary_key=True), Column("bounce_type", String(3))]
    registry().map_imperatively(model, Table("posted", MetaData(), *columns))
    dispatches = Role.of(model, bounced_at=model.bounced_at, bounce_type=model.bounce_type)
    with pytest.raises(ConfigurationError, match=r"VARCHAR\(3\), which is too short: its values"):
        Schema(dispatches=dispatches, subscriptions=None, record=("bounce",))
