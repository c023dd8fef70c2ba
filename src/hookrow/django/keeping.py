"""How the Django store writes to the log: one INSERT, which adds to what is there.

`bulk_create` cannot add up: this is SQL, in words that PostgreSQL and SQLite have in
common, but for how many rows are handed over. What it says is what `stores/keeping`
says for the SQL store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BinaryField, Model

from hookrow.django.field_types import AnyField
from hookrow.entry import Ending, Entry

ROWS = 1000
"""How many entries a statement takes; SQLite has 32,766 parameters for it, PostgreSQL more."""

_ADD_UP = """
ON CONFLICT (fingerprint) DO UPDATE SET
    outcome = excluded.outcome,
    status = excluded.status,
    retry_at = excluded.retry_at,
    ended_at = CASE WHEN {log}.outcome = '{recorded}' AND excluded.outcome = '{recorded}'
        THEN {log}.ended_at ELSE excluded.ended_at END,
    recipient = CASE WHEN excluded.attempts > 0
        THEN coalesce({log}.recipient, excluded.recipient) ELSE {log}.recipient END,
    body = CASE WHEN excluded.attempts > 0
        THEN coalesce({log}.body, excluded.body) ELSE {log}.body END,
    attempts = {log}.attempts + excluded.attempts,
    received_at = CASE WHEN {log}.received_at < excluded.received_at
        THEN {log}.received_at ELSE excluded.received_at END,
    last_received_at = CASE WHEN {log}.last_received_at > excluded.last_received_at
        THEN {log}.last_received_at ELSE excluded.last_received_at END
"""


class Keeping:
    """The INSERT into the table of the log's model, in the database of an alias."""

    def __init__(self, log: type[Model], using: str) -> None:
        meta, connection = log._meta, connections[using]  # noqa: SLF001 - Django's public name
        self._fields = [field for field in meta.concrete_fields if not field.primary_key]
        table = connection.ops.quote_name(meta.db_table)
        columns = ", ".join(field.attname for field in self._fields)
        self._insert = f"INSERT INTO {table} ({columns}) "
        self._row = f"({', '.join(['%s'] * len(self._fields))})"
        self._add_up = _ADD_UP.format(log=table, recorded=Ending.RECORDED.value)
        postgresql = connection.vendor == "postgresql"
        self._json = _from_json(self._fields, connection) if postgresql else None

    def __call__(self, entries: Sequence[Entry], connection: BaseDatabaseWrapper) -> None:
        """Keep new entries, in the order of their fingerprints."""
        with connection.cursor() as cursor:
            for start in range(0, len(entries), ROWS):
                some = entries[start : start + ROWS]
                if self._json is not None:
                    rows, values = self._json, [msgspec.json.encode(some).decode()]
                else:
                    rows = f"VALUES {', '.join([self._row] * len(some))}"
                    values = [value for entry in some for value in self._values(entry, connection)]
                cursor.execute(f"{self._insert}{rows}{self._add_up}", values)

    def _values(self, entry: Entry, connection: BaseDatabaseWrapper) -> Iterator[Any]:
        """Yield what the driver takes; what entries hold has the fields' own types already."""
        for field in self._fields:
            value = getattr(entry, _told(field))
            known = value.value if isinstance(value, Enum) else value
            yield field.get_db_prep_value(known, connection, prepared=True)


def _from_json(fields: Sequence[AnyField], connection: BaseDatabaseWrapper) -> str:
    """Have PostgreSQL read the rows from one text: the driver takes long over many parameters.

    Bytes are in base64 there, as msgspec writes them.
    """
    given = {
        field.attname: "text" if isinstance(field, BinaryField) else field.db_type(connection)
        for field in fields
        if field.name != "first_outcome"
    }
    values = [
        f"decode({_told(field)}, 'base64')" if isinstance(field, BinaryField) else _told(field)
        for field in fields
    ]
    types = ", ".join(f"{name} {type_}" for name, type_ in given.items())
    return f"SELECT {', '.join(values)} FROM json_to_recordset(%s::json) AS given ({types})"  # noqa: S608 - names are ours


def _told(field: AnyField) -> str:
    """Return what an entry calls the field: a new one's first outcome is its outcome."""
    return "outcome" if field.name == "first_outcome" else field.attname
