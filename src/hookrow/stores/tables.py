"""Our own tables, the four for a host that has none and the log, and how a time is stored.

A host that has its own four names them in a `Schema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from hookrow.errors import ConfigurationError
from hookrow.schema import Schema


class UTCDateTime(TypeDecorator[datetime]):
    """An instant: aware, in UTC, with microseconds, whatever the database.

    SQLite keeps it as text with six digits always, so that equal times are equal
    text. SQLAlchemy alone would store an offset unconverted there. A column of the
    host's that has no time zone (`timezone=False`) stores UTC without an offset.
    """

    impl = DateTime
    cache_ok = True

    def __init__(self, *, timezone: bool = True) -> None:
        super().__init__(timezone=timezone)
        self.timezone = timezone

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; naive times are UTC."""
        del dialect
        utc = _utc(value)
        return utc if utc is None or self.timezone else utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC; SQLite stores no zone."""
        del dialect
        return _utc(value)


def _utc(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class folded(GenericFunction[str]):  # noqa: N801 - it reads as the SQL function it is
    """`folded(email)`: ASCII letters lowered, as `decide.fold` does it.

    Index and query must use the same expression, or the index is not used.
    """

    type = Text()
    inherit_cache = True


@compiles(folded)
def _lower(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(folded, "postgresql")
def _lower_ascii(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    # Plain lower() follows the database's locale and folds beyond ASCII. In the index the cast is
    # written as PostgreSQL does: Alembic before 1.20.1 would find a difference.
    cast = "" if options.get("include_table", True) else "::text"
    return f'lower({compiler.process(element.clauses, **options)}{cast} COLLATE "C")'


class _now(GenericFunction[datetime]):  # noqa: N801 - as above
    type = UTCDateTime()
    inherit_cache = True


@compiles(_now)
def _current(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    del element, compiler, options
    return "now()"


@compiles(_now, "sqlite")
def _current_with_six_digits(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    del element, compiler, options
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


def _id() -> Column[int]:
    # SQLite assigns an id by itself only if the declared type is exactly INTEGER.
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _suppression() -> tuple[Column[Any], ...]:
    return (
        Column("suppressed_at", UTCDateTime),
        Column("suppression_reason", Text),
        Column("suppression_changed_at", UTCDateTime),
    )


def _created_at() -> Column[datetime]:
    return Column("created_at", UTCDateTime, nullable=False, server_default=_now())


def _reference(name: str, table: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, ForeignKey(f"{table}.id"), nullable=nullable)


metadata = MetaData()

subscribers = Table(
    "hookrow_subscribers",
    metadata,
    _id(),
    Column("email", String(320), nullable=False),
    *_suppression(),
    _created_at(),
)
Index("hookrow_subscribers_email", folded(subscribers.c.email), unique=True)
_suppressed = subscribers.c.suppressed_at.is_not(None)
Index(
    "hookrow_subscribers_suppressed",
    subscribers.c.suppressed_at,
    subscribers.c.id,
    postgresql_where=_suppressed,
    sqlite_where=_suppressed,
)

lists = Table(
    "hookrow_lists",
    metadata,
    _id(),
    Column("name", String(255), nullable=False),
    _created_at(),
)

subscriptions = Table(
    "hookrow_subscriptions",
    metadata,
    _id(),
    _reference("list_id", "hookrow_lists"),
    _reference("subscriber_id", "hookrow_subscribers"),
    *_suppression(),
    _created_at(),
    UniqueConstraint("list_id", "subscriber_id", name="hookrow_subscriptions_unique"),
    Index("hookrow_subscriptions_subscriber_id", "subscriber_id"),
)

# Free space for updates of its two times, so that they change no index. SQLAlchemy 2.0 has no
# such option for tables.
_STORAGE: dict[str, Any] = (
    {"postgresql_with": {"fillfactor": 85}}
    if "with" in dict(postgresql.dialect.construct_arguments or ())[Table]
    else {}
)

dispatches = Table(
    "hookrow_dispatches",
    metadata,
    _id(),
    Column("provider_message_id", String(255)),
    _reference("subscriber_id", "hookrow_subscribers"),
    _reference("list_id", "hookrow_lists", nullable=True),
    Column("delivered_at", UTCDateTime),
    Column("opened_at", UTCDateTime),
    *_suppression(),
    _created_at(),
    Column("first_opened_at", UTCDateTime),
    Column("clicked_at", UTCDateTime),
    Column("bounced_at", UTCDateTime),
    Column("bounce_type", String(64)),
    Column("complained_at", UTCDateTime),
    UniqueConstraint("provider_message_id", name="hookrow_dispatches_message_id"),
    Index("hookrow_dispatches_subscriber_id", "subscriber_id"),
    Index("hookrow_dispatches_list_id", "list_id"),
    **_STORAGE,
)


def log_table(name: str, metadata: MetaData) -> Table:
    """Return the table of the log, by its name, which may begin with a schema's and a dot."""
    namespace, _, bare = name.rpartition(".")
    table = Table(
        bare,
        metadata,
        _id(),
        Column("fingerprint", LargeBinary(16), nullable=False),
        Column("record_type", String(64)),
        Column("message_id", String(255)),
        Column("recipient", String(320)),
        Column("occurred_at", UTCDateTime),
        Column("outcome", String(32), nullable=False),
        Column("first_outcome", String(32), nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("attempts", BigInteger, nullable=False),
        Column("received_at", UTCDateTime, nullable=False),
        Column("last_received_at", UTCDateTime, nullable=False),
        Column("ended_at", UTCDateTime, nullable=False),
        Column("retry_at", UTCDateTime),
        Column("body", Text),
        Column("reason", String(64)),
        Column("trace_id", String(255)),
        Column("provider", String(32)),
        Column("source", String(16)),
        UniqueConstraint("fingerprint", name="hookrow_notifications_fingerprint"),
        schema=namespace or None,
    )
    for column in (table.c.retry_at, table.c.message_id):
        parked = table.c.retry_at.is_not(None)
        name = f"hookrow_notifications_parked_{column.name}"
        Index(name, column, postgresql_where=parked, sqlite_where=parked)
    changes = table.c.record_type == literal_column("'SubscriptionChange'")
    Index(
        "hookrow_notifications_changes",
        table.c.recipient,
        postgresql_where=changes,
        sqlite_where=changes,
    )
    return table


def companions(schema: Schema, metadata: MetaData) -> Sequence[Table]:
    """Return the tables that accompany the log: counts by hour, settings, and late changes."""
    return [
        _companion(
            schema,
            metadata,
            "hookrow_hours",
            Column("hour", UTCDateTime, primary_key=True),
            Column("record_type", String(64), primary_key=True),
            Column("reason", String(64), primary_key=True),
            Column("first_outcome", String(32), primary_key=True),
            Column("entries", BigInteger, nullable=False),
            Column("recovered", BigInteger, nullable=False, server_default="0"),
        ),
        _companion(
            schema,
            metadata,
            "hookrow_meta",
            Column("name", String(64), primary_key=True),
            Column("value", Text, nullable=False),
        ),
        _companion(
            schema,
            metadata,
            "hookrow_suppression_changes",
            Column("role", String(32), primary_key=True),
            Column("row_key", Text, primary_key=True),
            Column("changed_at", UTCDateTime, nullable=False),
        ),
    ]


def _companion(schema: Schema, metadata: MetaData, name: str, *columns: Column[Any]) -> Table:
    key = schema.beside_log(name)
    if key in metadata.tables:
        return metadata.tables[key]
    namespace, _, bare = key.rpartition(".")
    return Table(bare, metadata, *columns, schema=namespace or None)


def attach(to: MetaData, schema: Schema = Schema()) -> Sequence[Table]:  # noqa: B008 - frozen
    """Add the hookrow tables that the schema needs to a host's metadata; return them.

    They are the four where all roles are ours, as for `hookrow db upgrade`, and the
    log. Their types are SQLAlchemy's own, so that what Alembic writes imports nothing
    of ours. Those that are there already are left alone.

    Raises `ConfigurationError` where the metadata would move them to another schema.
    """
    four = (subscribers, lists, subscriptions, dispatches) if schema.ours else ()
    if to.schema and (four or (schema.log and "." not in schema.log)):
        raise ConfigurationError(
            f"A MetaData with schema={to.schema!r} would move our tables there: attach them to "
            "another, and give Alembic both, as a list."
        )
    made = [to.tables[each.key] if each.key in to.tables else each.to_metadata(to) for each in four]
    if schema.log is not None:
        there = to.tables.get(schema.log)
        made.append(log_table(schema.log, to) if there is None else there)
        made += companions(schema, to)
    for column in (column for table in made for column in table.c):
        if isinstance(column.type, UTCDateTime):
            column.type = DateTime(timezone=True)
    return made


notifications = log_table("hookrow_notifications", metadata)
hours, meta, suppression_changes = companions(Schema(), metadata)
