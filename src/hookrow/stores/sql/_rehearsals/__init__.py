"""Asks a database which values its columns can hold and compare, without writing to its tables."""

from __future__ import annotations

from collections.abc import Mapping

from hookrow.stores.sql._rehearsals.base import Rehearsal
from hookrow.stores.sql._rehearsals.mariadb import MariaDBRehearsal
from hookrow.stores.sql._rehearsals.postgresql import PostgreSQLRehearsal
from hookrow.stores.sql._rehearsals.sqlite import SQLiteRehearsal

REHEARSALS: Mapping[str, Rehearsal] = {
    "mariadb": MariaDBRehearsal(),
    "postgresql": PostgreSQLRehearsal(),
    "sqlite": SQLiteRehearsal(),
}
"""By the name of the dialect."""
