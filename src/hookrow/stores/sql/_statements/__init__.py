"""The statements that find, lock and change rows and add entries to the log, as SQL text.

`base` has the templates that all databases share, and the module of each database the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from hookrow.stores.sql._statements.base import Statements
from hookrow.stores.sql._statements.mariadb import MariaDBStatements
from hookrow.stores.sql._statements.postgresql import PostgresStatements
from hookrow.stores.sql._statements.sqlite import SQLiteStatements

STATEMENTS: Mapping[str, type[Statements]] = {
    "postgresql": PostgresStatements,
    "sqlite": SQLiteStatements,
    "mariadb": MariaDBStatements,
}
"""The statements of each dialect, by its name."""
