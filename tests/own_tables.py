"""hookrow's own tables for tests, which read times in UTC whatever the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Engine, MetaData, TypeDecorator, insert, select
from sqlalchemy.dialects import mysql

from databases import MARIADB, Kind, kind_of
from hookrow import Schema
from hookrow.stores.tables import attach
from wire import ADA


class UTCDateTime(TypeDecorator[datetime]):
    """An instant, written and read in UTC. SQLAlchemy would drop an offset on some databases."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:  # noqa: ANN401 - any type's implementation
        if dialect.name in MARIADB.backends:  # otherwise without microseconds
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return super().load_dialect_impl(dialect)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        has_offset = kind_of(dialect.name).keeps_offsets
        return value.astimezone(UTC) if has_offset else value.replace(tzinfo=UTC)


def attached(schema: Schema, kind: Kind | None = None) -> MetaData:
    """Return hookrow's tables for a schema, as most databases have them, or as one kind does."""
    metadata = MetaData()
    for table in attach(metadata, schema, **(kind.attach_options if kind else {})):
        for column in table.c:
            if isinstance(column.type, DateTime):
                column.type = UTCDateTime()
    return metadata


metadata = attached(Schema())

subscribers = metadata.tables["hookrow_subscribers"]
lists = metadata.tables["hookrow_lists"]
subscriptions = metadata.tables["hookrow_subscriptions"]
dispatches = metadata.tables["hookrow_dispatches"]
notifications = metadata.tables["hookrow_notifications"]


def add_ada(engine: Engine) -> None:
    """Insert one subscriber."""
    with engine.begin() as connection:
        connection.execute(insert(subscribers), {"email": ADA})


def suppressed_at(engine: Engine) -> object:
    """Return the time at which the only subscriber was suppressed, or None."""
    with engine.connect() as connection:
        return connection.scalar(select(subscribers.c.suppressed_at))
