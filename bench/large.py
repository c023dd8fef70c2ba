"""Large tables: how they are filled in little time, and how large they and their indexes are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from sqlalchemy import Engine, text

from data import Size, fill, payload
from hookrow import Schema, migrations
from log import fill_log
from places import POSTGRESQL, Place, opened, settle

GROWING = ("hookrow_dispatches", "hookrow_notifications")
"""The tables that become large."""

_CONSTRAINTS = text("""
    SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid::regclass::text = ANY(:tables) AND contype IN ('p', 'u', 'f')
""")
_INDEXES = text("""
    SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid::regclass::text = ANY(:tables)
""")
_RELATIONS = """
    SELECT relname, pg_relation_size(oid), CASE relkind WHEN 'i' THEN {level} END
    FROM pg_class
    WHERE relname LIKE 'hookrow%' AND relkind IN ('r', 'i') AND pg_relation_size(oid) > 8192
    ORDER BY relname
"""
_INSPECTING = text("SELECT count(*) FROM pg_available_extensions WHERE name = 'pageinspect'")
_LEVEL = "(SELECT level FROM bt_metap(relname::text))"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or an index: its bytes, and of an index how many levels are above its leaves.

    Only the extension pageinspect, which not every PostgreSQL brings, tells of levels.
    """

    name: str
    bytes: int
    level: int | None


def sized(rows: int) -> Size:
    """Return so many dispatches to a tenth as many subscribers, of whom short payloads tell."""
    return Size(rows, max(1000, rows // 10), short=True)


def fill_large(place: Place, rows: int, *before: str) -> float:
    """Make our tables, with so many dispatches and entries of the log; return the seconds.

    The statements `before` find the tables empty.
    """
    began = perf_counter()
    body = payload(0, "Open", 0, short=True).decode()
    with opened(place.url) as engine:
        migrations.upgrade(engine, Schema())
        with engine.begin() as connection:
            for statement in before:
                connection.execute(text(statement))
        with _unindexed(engine):
            fill(engine, sized(rows))
            fill_log(engine, rows, body=body)
        settle(engine)
    return perf_counter() - began


def relations(place: Place) -> list[Relation]:
    """Return the tables and indexes that have more than a page; SQLite does not say."""
    if place.name != POSTGRESQL:
        return []
    with opened(place.url) as engine, engine.begin() as connection:
        level = "CAST(NULL AS int)"
        if connection.execute(_INSPECTING).scalar():
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS pageinspect"))
            level = _LEVEL
        statement = text(_RELATIONS.format(level=level))
        return [Relation(*row) for row in connection.execute(statement)]


@contextmanager
def _unindexed(engine: Engine) -> Iterator[None]:
    """Take the large tables' indexes away while the block runs: to sort is quicker than to add.

    SQLite has no constraint that can be taken away, and keeps them.
    """
    if engine.dialect.name == "sqlite":
        yield
        return
    tables = {"tables": list(GROWING)}
    with engine.begin() as connection:
        constraints = connection.execute(_CONSTRAINTS, tables).all()
        for table, name, _ in constraints:
            connection.execute(text(f"ALTER TABLE {table} DROP CONSTRAINT {name}"))
        indexes = connection.execute(_INDEXES, tables).all()
        for name, _ in indexes:
            connection.execute(text(f"DROP INDEX {name}"))
    yield
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
        for table, name, definition in constraints:
            connection.execute(text(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"))
        for _, definition in indexes:
            connection.execute(text(definition))
