"""Fields and functions that store times and fold emails exactly as the SQL store does.

On SQLite, equal times are therefore equal text, whether Django or the SQL store wrote them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col, Expression
from django.db.models.sql.compiler import SQLCompiler

from hookrow._core.times import as_utc
from hookrow.django._vendors import vendor_of

if TYPE_CHECKING:
    from django.db.models.sql.compiler import _AsSqlType

    _Time = models.DateTimeField[datetime | None, datetime | None]
    _Text = models.Func[models.TextField[str, str]]
    _Moment = models.Func[_Time]
else:  # Django's own are generic only in the stubs
    _Time = models.DateTimeField
    _Text = _Moment = models.Func


class UTCDateTimeField(_Time):
    """An aware time in UTC with microseconds, regardless of USE_TZ and TIME_ZONE.

    A time without a zone is in UTC. PostgreSQL stores a timestamp with time zone, MariaDB and MySQL
    a DATETIME(6), and SQLite text, which always has six fractional digits; the last three in UTC.
    """

    description: str = "Instant in UTC"

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
        """Convert a time or text to UTC, and a date to midnight in UTC."""
        if isinstance(value, str):
            value = super().to_python(value)
        if value is None or isinstance(value, datetime):
            return _utc(value)
        return datetime(value.year, value.month, value.day, tzinfo=UTC)

    def get_db_prep_value(
        self,
        value: Any,  # noqa: ANN401 - Django's own
        connection: BaseDatabaseWrapper,
        prepared: bool = False,  # noqa: FBT001, FBT002 - Django's own
    ) -> Any:  # noqa: ANN401 - Django's own
        """Return the stored value. Django itself would omit `.000000` from a text."""
        at = value if prepared else self.get_prep_value(value)
        if not isinstance(at, datetime) or not vendor_of(connection).writes_times_as_text:
            return at
        return at.replace(tzinfo=None).isoformat(" ", "microseconds")

    def from_db_value(
        self, value: datetime | None, expression: Expression, connection: BaseDatabaseWrapper
    ) -> datetime | None:
        """Convert a time to UTC; the backend returns it in its own zone or without a zone."""
        del expression
        if value is None:
            return None
        if vendor_of(connection).writes_times_as_text and value.tzinfo in {
            None,
            connection.timezone,
        }:
            return value.replace(tzinfo=UTC)  # what is stored is in UTC, not in the backend's zone
        if value.tzinfo is None:  # without USE_TZ: local time of the connection's zone
            value = value.replace(tzinfo=ZoneInfo(connection.timezone_name))
        return value.astimezone(UTC)


class Folded(_Text):
    """`Folded("email")` converts ASCII letters to lower case.

    hookrow does the same when it compares emails. A query can use an index only if
    both have the same expression.
    """

    function: str = "LOWER"
    arity: int = 1
    output_field = models.TextField()

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: str
    ) -> _AsSqlType:
        """Convert ASCII letters only: plain lower() depends on the database's locale."""
        template = '%(function)s(%(expressions)s COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: str
    ) -> _AsSqlType:
        """Use the generated column of hookrow's table, because only that has an index.

        Otherwise, convert ASCII letters only: lower() converts others, too, except in the character
        set ascii, in which their bytes stay as they are.
        """
        [source] = self.get_source_expressions()
        if isinstance(source, Col) and source.target.model._meta.db_table == _FOLDED_TABLE:
            return compiler.compile(Col(source.alias, _FOLDED_EMAIL))
        return self.as_sql(compiler, connection, template=_FOLDED_BY_MYSQL, **context)


_FOLDED_TABLE = "hookrow_subscribers"

_FOLDED_EMAIL = models.TextField()  # type: ignore[var-annotated] # generic in the stubs only
_FOLDED_EMAIL.set_attributes_from_name("email_folded")

_FOLDED_BY_MYSQL = (
    "CONVERT(CAST(%(function)s(CONVERT(CAST(CONVERT(%(expressions)s USING utf8mb4) AS BINARY)"
    " USING ascii)) AS BINARY) USING utf8mb4) COLLATE utf8mb4_bin"
)
"""The expression of the generated column in hookrow's script, for a text in any character set."""


class UTCNow(_Moment):
    """The current time of the database, for `db_default`, in the format of `UTCDateTimeField`."""

    template = "now()"
    output_field = UTCDateTimeField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: str
    ) -> _AsSqlType:
        """Write six digits, although SQLite's clock has three."""
        # Func.as_sql and the cursor each halve the percent signs.
        template = "strftime('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'now')"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: str
    ) -> _AsSqlType:
        """Return the time in UTC, whatever the session's zone is."""
        return self.as_sql(compiler, connection, template="utc_timestamp(6)", **context)


def _utc(value: datetime | None) -> datetime | None:
    return None if value is None else as_utc(value)
