"""The Django store: the host's models, through the ORM, on the host's own connection.

It opens transactions; what is done in them is in `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from hookrow.django.census import DjangoCensus
from hookrow.django.keeping import Keeping
from hookrow.django.log import DjangoLog
from hookrow.django.lookups import Lookups, check_fold
from hookrow.django.mapping import check_null, models
from hookrow.django.rows import DjangoReading, DjangoTransaction, Kept
from hookrow.django.transactions import begun, reading
from hookrow.django.updates import Updates
from hookrow.errors import ConfigurationError
from hookrow.schema import Schema, nearest
from hookrow.stores import NOT_ON


class DjangoStore:
    """The rows of the models that the schema names, in the database of that alias.

    Raises `SchemaMismatch` where there is no such model or field, and
    `ConfigurationError` for an alias that there is none of, or a database that
    hookrow does not know. No database is asked.
    """

    def __init__(self, schema: Schema = Schema(), using: str = "default") -> None:  # noqa: B008 - frozen
        supported(using)
        self.using = using
        found = models(schema)
        check_fold(found, using)
        check_null(found)
        keeping = Keeping(found.log, using) if found.log else None
        self._kept = Kept(found, Lookups(found, using), Updates(found), keeping)
        self.census = DjangoCensus(found, self._kept.lookups, using)
        self.log = DjangoLog(using) if schema.log else None

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[DjangoTransaction]:
        """Begin a transaction, or inside one of the host's a savepoint; see `Store.transaction`."""
        with begun(self.using) as connection:
            yield DjangoTransaction(self._kept, connection, skip_locked=skip_locked)

    @contextmanager
    def reading(self) -> Iterator[DjangoReading]:
        """Look at rows, in a transaction of the host's or in none; see `Store.reading`."""
        with reading(self.using) as connection:
            yield DjangoReading(self._kept, connection)


def supported(using: str) -> None:
    """Raise `ConfigurationError` where a database alias cannot be used."""
    if using not in connections.settings:
        raise ConfigurationError(
            f"DATABASES has no alias {using!r}.{nearest(using, connections.settings)}"
        )
    connection = connections[using]
    if connection.vendor not in {"postgresql", "sqlite"}:
        raise ConfigurationError(NOT_ON.format(connection.vendor))
    if not connection.settings_dict["AUTOCOMMIT"]:
        raise ConfigurationError(
            f"DATABASES[{using!r}] has AUTOCOMMIT off, so that nothing would be committed: "
            "leave it out, or name another alias."
        )
