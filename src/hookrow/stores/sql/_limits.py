"""The time limits of a server, and the settings that hookrow's SQL needs.

SQLite limits only the wait for the file, which its connections set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from math import inf, isinf
from typing import Any, ClassVar, NamedTuple

from hookrow.stores._timeouts import (
    LOCK_TIMEOUT,
    ROW_LOCK_TIMEOUT,
    STATEMENT_TIMEOUT,
    left,
    milliseconds,
)


class HostConnection(NamedTuple):
    """A connection of the host, as far as limits need it."""

    run: Callable[..., Any]
    """Executes a statement, with a list of parameters if it has any; returns its row if it has one.
    """
    discard: Callable[[], object]
    """Closes the connection, if necessary after the host's transaction, so that it is not used with
    hookrow's settings. It has no effect if the connection is lost."""


class Limits(ABC):
    """The time limits of a server.

    They are those of `_timeouts`; for a transaction, they are shorter if less time is left. The
    statements are for hookrow's own sessions. The context managers are for a connection of the
    host, whose session has its former settings after the block.
    """

    @abstractmethod
    def session(self) -> str:
        """Limit each transaction of a session that records, and set what hookrow's SQL needs."""

    @abstractmethod
    def transaction(self, *, recording: bool) -> str:
        """Limit the transaction.

        It is for `recording` notifications, or for other work, such as on hookrow's own tables.
        """

    @abstractmethod
    def reading(self) -> str:
        """Limit each statement of the transaction to the time left, within `limited_to`."""

    @abstractmethod
    def none(self) -> str:
        """Lift the limits of the transaction."""

    @abstractmethod
    def on_host(self, host: HostConnection, *, recording: bool) -> AbstractContextManager[None]:
        """Limit a transaction of hookrow's, and set what its SQL needs.

        The block begins before the first statement that uses a table, and ends before the commit.
        """

    @abstractmethod
    def on_host_reading(self, host: HostConnection) -> AbstractContextManager[None]:
        """Do the same for a reading. Its statements are limited only within `limited_to`."""

    @abstractmethod
    def in_host_transaction(self, host: HostConnection) -> AbstractContextManager[None]:
        """Lower the limits of a transaction of the host, if they are longer than hookrow's.

        If the block raises an error, the host's transaction is rolled back to a savepoint.
        """


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
        isolation = {"default_transaction_isolation": "read committed"}
        limits = {name: f"{int(seconds * 1000)}ms" for name, seconds in self.RECORDING.items()}
        return self._set(limits | self.TUNING | isolation, local=False)

    def transaction(self, *, recording: bool, tuned: bool = False) -> str:
        """Set them until the end of the transaction; also, if `tuned`, what hookrow's SQL needs."""
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

    @contextmanager
    def on_host(self, host: HostConnection, *, recording: bool) -> Iterator[None]:
        """Set them for the transaction, whose end restores the settings."""
        host.run(self.transaction(recording=recording, tuned=True))
        yield

    @contextmanager
    def on_host_reading(self, host: HostConnection) -> Iterator[None]:
        """Set them for the transaction, whose end restores the settings."""
        limits = [] if isinf(left()) else [self.reading()]
        host.run("; ".join([self.time_format(), *limits]))
        yield

    @contextmanager
    def in_host_transaction(self, host: HostConnection) -> Iterator[None]:
        """Restore the settings; after an error, the rollback does so."""
        former = host.run(self.lowered())
        yield
        restored = ", ".join(f"set_config('{name}', %s, true)" for name in self.OTHERS)
        host.run(f"SELECT {restored}", former[: len(self.OTHERS)])

    def lowered(self) -> str:
        """Lower the limits of the host's transaction to hookrow's, if they are longer.

        The row begins with the former values.
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

    def _set(self, settings: Mapping[str, str], *, local: bool = True) -> str:
        scope = "true" if local else "false"
        return "SELECT " + ", ".join(
            f"set_config('{name}', '{value}', {scope})" for name, value in settings.items()
        )


POSTGRES_LIMITS = PostgresLimits()


class MariaDBLimits(Limits):
    """The settings of MariaDB and MySQL, which last until they are set again.

    The shortest wait for a lock is a second. MySQL limits only the statements that read: the
    watchdog limits the others. On a connection of the host, the former values are kept in user
    variables of the session, so that one round trip reads and sets all of them.

    `sets_zone` is whether hookrow sets the session's time zone, on which TIMESTAMP columns depend.
    """

    OTHERS: ClassVar[dict[str, float]] = {
        "innodb_lock_wait_timeout": LOCK_TIMEOUT,
        "lock_wait_timeout": LOCK_TIMEOUT,  # of tables that are being altered
        "max_statement_time": STATEMENT_TIMEOUT,
    }
    """Seconds by setting, for transactions other than those that record notifications."""
    RECORDING: ClassVar[dict[str, float]] = {
        "innodb_lock_wait_timeout": 1,
        "lock_wait_timeout": 1,
        "max_statement_time": STATEMENT_TIMEOUT,
    }
    """Seconds by setting, for transactions that record notifications."""
    NONE: ClassVar[dict[str, float]] = {
        "innodb_lock_wait_timeout": 31_536_000,
        "lock_wait_timeout": 31_536_000,
        "max_statement_time": 0,
    }
    """No limits: a year, the longest wait, and 0."""
    ISOLATION: ClassVar[dict[str, str]] = {
        "tx_isolation": "'READ-COMMITTED'",
        "transaction_isolation": "'READ-COMMITTED'",
    }
    ZONE: ClassVar[dict[str, str]] = {"time_zone": "'+00:00'"}
    TUNING: ClassVar[dict[str, str]] = {
        # Values that do not fit are errors; no mode changes the meaning of quotes and operators.
        "sql_mode": "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        "collation_connection": "'utf8mb4_bin'",
        "sql_safe_updates": "0",
        "sql_select_limit": "18446744073709551615",
        # MySQL would otherwise return the AUTO_INCREMENT that a client has read, for a day.
        "information_schema_stats_expiry": "0",
    }
    """Those that hookrow's SQL needs with any time zone."""
    LOWERED: ClassVar[dict[str, str]] = {
        "innodb_lock_wait_timeout": "CAST(LEAST(@@{0}, {1}) AS UNSIGNED)",
        "lock_wait_timeout": "CAST(LEAST(@@{0}, {1}) AS UNSIGNED)",
        "max_statement_time": "IF(@@{0} > 0, LEAST(@@{0}, {1}), {1})",
        "max_execution_time": "CAST(IF(@@{0} > 0, LEAST(@@{0}, {1}), {1}) AS UNSIGNED)",
    }
    """The lower one of a limit and another value; 0 means that there is no limit of statements."""
    SESSION: ClassVar[dict[str, str]] = {"autocommit": "1", "completion_type": "'NO_CHAIN'"}
    """Further settings of sessions that belong to hookrow."""

    def __init__(self, *, sets_zone: bool = True) -> None:
        self.tuning = self.ZONE | self.TUNING if sets_zone else self.TUNING
        """The settings that hookrow's SQL needs, besides the limits and the isolation level."""

    def session(self) -> str:
        limits = self._limits(self.RECORDING)
        return self._set(limits | self.tuning | self.ISOLATION | self.SESSION)

    def transaction(self, *, recording: bool) -> str:
        """Set them for the transactions that follow.

        Those of `recording` are not shortened: the session usually has them already, so that the
        statement is not executed.
        """
        if recording:
            return self._set(self._limits(self.RECORDING))
        return self._set(self._limits(self._shortened(self.OTHERS)))

    def reading(self) -> str:
        """Set the limit of statements: a reading waits for no row, only for tables."""
        seconds = {"max_statement_time": milliseconds(inf) / 1000}
        return self._set(self._limits(self.OTHERS | seconds))

    def none(self) -> str:
        return self._set(self._limits(self.NONE))

    def on_host(self, host: HostConnection, *, recording: bool) -> AbstractContextManager[None]:
        """Restore the settings before the commit, or the rollback: neither restores them."""
        limits = self._shortened(self.RECORDING if recording else self.OTHERS)
        return self._set_for_block(host, self._limits(limits) | self.tuning | self.ISOLATION)

    def on_host_reading(self, host: HostConnection) -> AbstractContextManager[None]:
        seconds = {} if isinf(left()) else {"max_statement_time": milliseconds(inf) / 1000}
        return self._set_for_block(host, self._limits(seconds) | self.tuning | self.ISOLATION)

    def in_host_transaction(self, host: HostConnection) -> AbstractContextManager[None]:
        """Lower the limits and set the rest, except the isolation level, which the host chooses."""
        return self._set_for_block(host, self._lowered() | self.tuning)

    def lowered(self) -> str:
        """Lower the limits again, within such a block, if less time is left."""
        return self._set(self._lowered())

    def on_host_without_limits(self, host: HostConnection) -> AbstractContextManager[None]:
        """Lift the limits of a transaction that changes tables."""
        return self._set_for_block(host, self._limits(self.NONE) | self.tuning | self.ISOLATION)

    @contextmanager
    def _set_for_block(self, host: HostConnection, settings: Mapping[str, str]) -> Iterator[None]:
        """Change settings for the block, and keep their former values in user variables.

        A nested block uses other variables. The host gets the connection back with the former
        settings, or not at all.
        """
        depth = _BLOCKS.get()
        former = {name: f"@hookrow_{name}_{depth}" for name in settings}
        keep = ((name, f"{former[name]} = @@{name}") for name in settings)
        host.run(_set_statement([*keep, *_assignments(settings)]))
        _BLOCKS.set(depth + 1)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the first error says why
                self._restore(host, former)
            raise
        finally:
            _BLOCKS.set(depth)
        self._restore(host, former)

    def _restore(self, host: HostConnection, former: Mapping[str, str]) -> None:
        try:
            host.run(self._set(former))
        except BaseException:
            host.discard()
            raise

    def _lowered(self) -> dict[str, str]:
        limits = self._limits(self._shortened(self.OTHERS))
        return {name: self.LOWERED[name].format(name, limits[name]) for name in limits}

    def _limits(self, seconds: Mapping[str, float]) -> dict[str, str]:
        """Return limits as the servers understand them: MySQL's is in milliseconds."""
        limits = {name: str(value) for name, value in seconds.items()}
        if "max_statement_time" in seconds:
            limits["max_execution_time"] = str(int(seconds["max_statement_time"] * 1000))
        return limits

    def _shortened(self, seconds: Mapping[str, float]) -> dict[str, float]:
        """Shorten limits to the time left; those of locks are whole seconds."""
        shortened = {name: milliseconds(value) / 1000 for name, value in seconds.items()}
        for name in ("innodb_lock_wait_timeout", "lock_wait_timeout"):
            shortened[name] = max(int(shortened[name]), 1)
        return shortened

    def _set(self, settings: Mapping[str, str]) -> str:
        return _set_statement(_assignments(settings))


MARIADB_LIMITS = MariaDBLimits()


def _texts(limits: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{milliseconds(seconds)}ms" for name, seconds in limits.items()}


_BLOCKS: ContextVar[int] = ContextVar("_BLOCKS", default=0)
"""The number of blocks in which this thread has changed settings of MariaDB on any connection."""

_MARIADB_ONLY = {"max_statement_time", "tx_isolation"}
"""The settings that MySQL does not have."""

_MYSQL_ONLY = {"max_execution_time", "transaction_isolation", "information_schema_stats_expiry"}
"""The settings that MariaDB does not have, or not in every version."""


def _assignments(settings: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return the assignments of values to settings, each after the name of its setting."""
    return [(name, f"{name} = {value}") for name, value in settings.items()]


def _set_statement(assignments: Sequence[tuple[str, str]]) -> str:
    """Return the SET of assignments, each of which follows the name of the setting it concerns.

    Those of a setting that only one of the servers has are in a comment that only this server
    executes: https://mariadb.com/kb/en/comment-syntax.
    """
    special = _MARIADB_ONLY | _MYSQL_ONLY
    common = ", ".join(text for name, text in assignments if name not in special)
    statement = f"SET {common}"
    for server, names in (("M!", _MARIADB_ONLY), ("!80000", _MYSQL_ONLY)):
        own = "".join(f", {text}" for name, text in assignments if name in names)
        if own:
            statement += f" /*{server} {own} */"
    return statement
