"""The SQL that sets time limits on a server: of a session, a transaction and a reading.

SQLite limits only the wait for the file, which its connections set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import inf
from typing import ClassVar

from hookrow.stores._timeouts import (
    LOCK_TIMEOUT,
    ROW_LOCK_TIMEOUT,
    STATEMENT_TIMEOUT,
    milliseconds,
)


class Limits(ABC):
    """The time limits of a server, as statements that return one row.

    They are those of `_timeouts`; for a transaction, they are shorter if less time is left.
    """

    @abstractmethod
    def session(self) -> str:
        """Limit each transaction of a session that records, and set what hookrow's SQL needs."""

    @abstractmethod
    def transaction(self, *, recording: bool, tuned: bool = False) -> str:
        """Limit the transaction.

        It is for `recording` notifications, or for other work, such as on hookrow's own tables.
        With `tuned`, the settings that hookrow's SQL needs are set, too, as in `session`.
        """

    @abstractmethod
    def reading(self) -> str:
        """Limit each statement of the transaction to the time left, within `limited_to`."""

    @abstractmethod
    def time_format(self) -> str:
        """Let the transaction return times in UTC, in a form that every driver reads."""

    @abstractmethod
    def none(self, *, local: bool = True) -> str:
        """Lift the limits of the transaction or, if not `local`, of the session."""


class PostgresLimits(Limits):
    """The settings of PostgreSQL.

    Plans are generic, so that the length of an array does not cause replanning. The time zone is
    UTC, because drivers cannot represent the earliest and the latest times in other zones. Times
    are in the form that every driver reads.
    """

    OTHERS: ClassVar[dict[str, float]] = {
        "lock_timeout": LOCK_TIMEOUT,
        "statement_timeout": STATEMENT_TIMEOUT,
    }
    """Seconds by setting, for transactions other than those that record notifications."""
    RECORDING: ClassVar[dict[str, float]] = {
        "lock_timeout": ROW_LOCK_TIMEOUT,
        "statement_timeout": STATEMENT_TIMEOUT,
    }
    """Seconds by setting, for transactions that record notifications."""
    TIME_FORMAT: ClassVar[dict[str, str]] = {"TimeZone": "UTC", "DateStyle": "ISO"}
    """The settings for reading times."""
    TUNING: ClassVar[dict[str, str]] = TIME_FORMAT | {"plan_cache_mode": "force_generic_plan"}
    """The settings that hookrow's SQL needs, besides the limits."""

    def session(self) -> str:
        """Set them for the session, and the isolation level of its transactions."""
        isolation = {"default_transaction_isolation": "read committed"}
        limits = {name: f"{int(seconds * 1000)}ms" for name, seconds in self.RECORDING.items()}
        return self._set(limits | self.TUNING | isolation, local=False)

    def transaction(self, *, recording: bool, tuned: bool = False) -> str:
        """Set them until the end of the transaction."""
        limits = _texts(self.RECORDING if recording else self.OTHERS)
        return self._set(limits | (self.TUNING if tuned else {}))

    def reading(self) -> str:
        """Set the limit of statements only: a reading waits for no row."""
        return self._set({"statement_timeout": f"{milliseconds(inf)}ms"})

    def time_format(self) -> str:
        """Set the time zone and the form of dates until the end of the transaction."""
        return self._set(self.TIME_FORMAT)

    def none(self, *, local: bool = True) -> str:
        """Set the limits to zero, which means none."""
        return self._set(dict.fromkeys(self.OTHERS, "0"), local=local)

    def lowered(self) -> str:
        """Lower the limits of the host's transaction to hookrow's, if they are longer.

        The row begins with the former values, in the order of the parameters of `restored`.
        """
        limits = _texts(self.OTHERS)
        former = ", ".join(f"current_setting('{name}') AS {name}" for name in limits)
        lower = ", ".join(
            # Zero means no limit, and the units of time are those of an interval.
            f"set_config('{name}', CASE WHEN {name}::interval > '0' "
            f"AND {name}::interval < '{value}' THEN {name} ELSE '{value}' END, true)"
            for name, value in limits.items()
        )
        # Materialized, so that each value is read before it is changed.
        return (
            f"WITH former AS MATERIALIZED (SELECT {former}) "
            f"SELECT {', '.join(limits)}, {lower} FROM former"
        )

    def restored(self) -> str:
        """Set the limits of the host's transaction to parameters, one for each."""
        names = self.OTHERS
        return "SELECT " + ", ".join(f"set_config('{name}', %s, true)" for name in names)

    def _set(self, settings: Mapping[str, str], *, local: bool = True) -> str:
        scope = "true" if local else "false"
        return "SELECT " + ", ".join(
            f"set_config('{name}', '{value}', {scope})" for name, value in settings.items()
        )


POSTGRES_LIMITS = PostgresLimits()


class MariaDBLimits:
    """The settings of MariaDB and MySQL, which last until they are set again.

    Locks are waited for whole seconds. MySQL limits only a SELECT; the watchdog limits the others.
    """

    RECORDING: ClassVar[dict[str, float]] = {"lock": 1, "statement": STATEMENT_TIMEOUT}
    """Seconds, for transactions that record notifications."""
    OTHERS: ClassVar[dict[str, float]] = {"lock": LOCK_TIMEOUT, "statement": STATEMENT_TIMEOUT}
    """Seconds, for other transactions."""
    NONE: ClassVar[dict[str, float]] = {"lock": 31_536_000, "statement": 0}
    """The longest wait for a lock, a year, and no limit of statements."""
    SETTINGS: ClassVar[tuple[str, ...]] = (
        "autocommit = 1",
        "time_zone = '+00:00'",
        "sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        "sql_safe_updates = 0",
        "sql_select_limit = DEFAULT",
        "completion_type = NO_CHAIN",
    )

    def session(self) -> str:
        """Return the statement that sets the limits of recording, and what hookrow's SQL needs."""
        isolation = (
            "/*M! , tx_isolation = 'READ-COMMITTED' */ "
            "/*!80000 , transaction_isolation = 'READ-COMMITTED' */"
        )
        return f"{self.recording()}, {', '.join(self.SETTINGS)} {isolation}"

    def recording(self) -> str:
        """Return the statement that limits transactions that record notifications."""
        return self._set(self.RECORDING)

    def others(self) -> str:
        """Return the statement that limits other transactions, also to the time left."""
        return self._set({name: milliseconds(each) / 1000 for name, each in self.OTHERS.items()})

    def reading(self) -> str:
        """Return the statement that limits each statement of a reading to the time left."""
        return self._set({**self.OTHERS, "statement": milliseconds(inf) / 1000})

    def none(self) -> str:
        """Return the statement that lifts the limits."""
        return self._set(self.NONE)

    def _set(self, limits: Mapping[str, float]) -> str:
        lock, statement = max(int(limits["lock"]), 1), limits["statement"]
        return (
            f"SET innodb_lock_wait_timeout = {lock}, lock_wait_timeout = {lock} "
            f"/*M! , max_statement_time = {statement} */ "
            f"/*!80000 , max_execution_time = {int(statement * 1000)} */"
        )


MARIADB_LIMITS = MariaDBLimits()


def _texts(limits: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{milliseconds(seconds)}ms" for name, seconds in limits.items()}
