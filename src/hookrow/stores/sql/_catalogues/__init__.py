"""Reads what a database knows: tables, keys, privileges, plans, other transactions, locks."""

from __future__ import annotations

from collections.abc import Mapping

from hookrow.stores.sql._catalogues.base import Catalogue
from hookrow.stores.sql._catalogues.mariadb import MariaDBCatalogue
from hookrow.stores.sql._catalogues.postgresql import PostgresCatalogue
from hookrow.stores.sql._catalogues.sqlite import SQLiteCatalogue
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect

CATALOGUES: Mapping[str, type[Catalogue]] = {
    "mariadb": MariaDBCatalogue,
    "postgresql": PostgresCatalogue,
    "sqlite": SQLiteCatalogue,
}
"""The catalogue of each dialect, by its name."""


def catalogue_of(connection: Connection, dialect: Dialect) -> Catalogue:
    """Return the catalogue of a connection's database."""
    return CATALOGUES[dialect.name](connection, dialect)
