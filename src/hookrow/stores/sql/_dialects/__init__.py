"""What differs between databases in SQL text and parameters: names, expressions, sets of values.

SQL text has `%s` for each parameter and `%%` for a percent sign. Whole statements that differ are
in `_statements`; what a database says about its tables is in `_catalogues`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._dialects.mariadb import MARIADB
from hookrow.stores.sql._dialects.postgresql import POSTGRESQL
from hookrow.stores.sql._dialects.sqlite import SQLITE

DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (POSTGRESQL, SQLITE, MARIADB)}

_TITLES = [title for dialect in DIALECTS.values() for title in dialect.oldest]

UNSUPPORTED_DATABASE = f"hookrow works on {', '.join(_TITLES[:-1])} and {_TITLES[-1]}, not on {{}}."
"""The error for unsupported databases."""
