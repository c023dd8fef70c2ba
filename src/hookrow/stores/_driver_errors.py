"""Translates the errors of drivers and of SQLAlchemy into a `StoreError`.

The texts are safe to log. A database's own message may quote a row, so a text contains only the
error's class and code, and the names of a constraint and a table.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from hookrow.stores._errors import (
    AccessDenied,
    Conflict,
    Locked,
    ReadOnly,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
)

UNWRITABLE = (UnicodeError, OverflowError)
"""Errors of a driver that cannot encode a value as a parameter."""

_STATEMENT_ERRORS = {
    "DataError",
    "IntegrityError",
    "NotSupportedError",
    "ProgrammingError",
    "StatementError",
}
"""Errors that a driver (PEP 249) or SQLAlchemy raises about a statement or its values."""


_REFUSED_LOGIN = (
    "The database refuses the connection: {}. Check {} in its URL: HOOKROW_DATABASE_URL, or that "
    "of your application."
)


class _Family(ABC):
    """The errors of the drivers of one database."""

    DRIVERS: frozenset[str]
    """The packages of the drivers."""

    @abstractmethod
    def translate(self, error: BaseException) -> StoreError | None:
        """Return the `StoreError` for an error, or None for an error of another family."""

    def text(self, error: BaseException) -> str:
        """Return the message of an error."""
        return str(error)

    def remedy(self, error: BaseException) -> str | None:  # noqa: ARG002 - most families have no such error
        """Return the remedy for an error, if the database's message does not contain it."""
        return None

    def refuses_one_statement(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether the tables can be changed, but only in several statements."""
        return False

    def failed_check(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether a statement found that it did not lock or change each row."""
        return False

    def lacks_operator(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether the types in a statement have no operator, function or cast for it."""
        return False


class _PostgreSQLErrors(_Family):
    """The errors of psycopg and psycopg2, by SQLSTATE or its first characters.

    PostgreSQL's manual lists them in appendix A. An error with any other SQLSTATE concerns one
    statement and its data: `Rejected`.
    """

    DRIVERS = frozenset({"psycopg", "psycopg2"})
    KINDS: Mapping[str, type[StoreError]] = {
        "40001": Conflict,  # serialization_failure
        "40P01": Conflict,  # deadlock_detected
        "26000": Conflict,  # invalid_sql_statement_name: the session lost its prepared statements
        "55P03": Locked,  # lock_not_available
        "57014": Locked,  # query_canceled, by statement_timeout: most often behind a lock
        "08": Unavailable,  # connection exception
        "25006": ReadOnly,  # read_only_sql_transaction
        "25": Unavailable,  # invalid transaction state
        "28": Unavailable,  # invalid authorization specification
        "3D": Unavailable,  # invalid catalog name
        "53": Unavailable,  # insufficient resources
        "57P": Unavailable,  # operator intervention: shutdown, crash
        "58": Unavailable,  # system error
        "F0": Unavailable,  # configuration file error
        "XX": Unavailable,  # internal error
        "3F": SchemaChanged,  # invalid schema name
        "42": SchemaChanged,  # syntax error or access rule violation: undefined table or column
    }
    MEANINGS: Mapping[str, str] = {
        "25006": "the server is read-only: a standby, or default_transaction_read_only is on",
        "53100": "the disk of the server is full: free space on it",
        "57P03": "the server is starting or shutting down",
    }
    """The meaning of some: the server's messages may be translated, or quote a row."""
    NEEDS_SEVERAL_STATEMENTS = (
        "0A000",  # feature_not_supported: a rule turns a part into several statements
        "27000",  # triggered_data_change_violation: a trigger changes a row of another part
    )
    LACKS_OPERATOR = (
        "42725",  # ambiguous_function
        "42804",  # datatype_mismatch
        "42846",  # cannot_coerce
        "42883",  # undefined_function
    )
    FAILED_CHECK = "22012"  # division_by_zero, at the end of a `CombinedStatement`
    DENIED = re.compile(
        r"\w+ authentication failed[^\n]*|fe_sendauth: no password supplied|"
        r'(role|database) "[^\n]*" (does not exist|is not permitted to log in)|'
        r"(no )?pg_hba\.conf (entry|rejects)[^\n]*|permission denied for database[^\n]*"
    )
    """The messages, in English, about a refused login, whose error has no SQLSTATE."""
    READ_ONLY = re.compile(
        r"(connection to server [^\n]* failed: )?"
        r"(session is read-only|server is in hot standby mode)"
    )
    """libpq's messages, in English, about a host that `target_session_attrs` excludes."""
    IDENTIFIER = re.compile(r"[\w$ :-]{1,63}")

    def translate(self, error: BaseException) -> StoreError | None:
        """Describe the error by its code, its constraint and its table."""
        state = self._state(error)
        if not state:
            return self._refused_login(error)
        codes = (state, state[:3], state[:2])
        kind = next((self.KINDS[code] for code in codes if code in self.KINDS), Rejected)
        if self._is_stale_plan(error):
            kind = Conflict
        meaning = f": {self.MEANINGS[state]}" if state in self.MEANINGS else ""
        return kind(" ".join([type(error).__name__, state, *self._names(error)]) + meaning)

    def refuses_one_statement(self, error: BaseException) -> bool:
        is_refusal = self._state(error) in self.NEEDS_SEVERAL_STATEMENTS
        return is_refusal and not self._is_stale_plan(error)

    def failed_check(self, error: BaseException) -> bool:
        # A host's trigger may raise the same error; in separate statements, it does so again.
        return self._state(error) == self.FAILED_CHECK

    def lacks_operator(self, error: BaseException) -> bool:
        return self._state(error) in self.LACKS_OPERATOR

    def _refused_login(self, error: BaseException) -> StoreError | None:
        """Describe an error of a login, which has no SQLSTATE, by its text."""
        is_driver = type(error).__module__.startswith("psycopg")
        if not is_driver or _is_of_statement(error):
            return None
        if denied := self.DENIED.search(str(error)):
            parts = "the user, the password and the name of the database"
            return AccessDenied(_REFUSED_LOGIN.format(denied[0], parts))
        if read_only := self.READ_ONLY.search(str(error)):
            return ReadOnly(f"{type(error).__name__}: {read_only[0]}")
        return None

    def _state(self, error: BaseException) -> str:
        """Return the SQLSTATE, or an empty string."""
        return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""

    def _is_stale_plan(self, error: BaseException) -> bool:
        """Return whether a prepared statement no longer fits its tables; a new one will.

        The message, "cached plan must not change result type", may be translated; the name of the
        function that raises it is not.
        """
        function: object = getattr(getattr(error, "diag", None), "source_function", None)
        return function == "RevalidateCachedQuery"

    def _names(self, error: BaseException) -> list[str]:
        """Return the names of the constraint and the table, but no other text of a trigger."""
        diagnosis = getattr(error, "diag", None)
        kinds = ("constraint", "table")
        named = ((kind, getattr(diagnosis, f"{kind}_name", None)) for kind in kinds)
        return [
            f"{kind} {name}" for kind, name in named if name and self.IDENTIFIER.fullmatch(name)
        ]


class _SQLiteErrors(_Family):
    """The errors of the standard library's module, by SQLite's primary result code.

    https://sqlite.org/rescode.html lists them. An error with any other code concerns one statement
    and its data: `Rejected`.
    """

    DRIVERS = frozenset({"sqlite3"})
    KINDS: Mapping[int, type[StoreError]] = {
        sqlite3.SQLITE_BUSY: Conflict,
        sqlite3.SQLITE_LOCKED: Conflict,
        sqlite3.SQLITE_PROTOCOL: Conflict,  # another process opened or closed the file
        sqlite3.SQLITE_SCHEMA: Conflict,
        sqlite3.SQLITE_INTERRUPT: Locked,  # by a time limit
        sqlite3.SQLITE_CANTOPEN: Unavailable,
        sqlite3.SQLITE_IOERR: Unavailable,
        sqlite3.SQLITE_FULL: Unavailable,
        sqlite3.SQLITE_READONLY: Unavailable,
        sqlite3.SQLITE_CORRUPT: Unavailable,
        sqlite3.SQLITE_NOTADB: Unavailable,
        sqlite3.SQLITE_NOMEM: Unavailable,
        sqlite3.SQLITE_PERM: Unavailable,
        sqlite3.SQLITE_NOLFS: Unavailable,  # the file is too large for its file system
        sqlite3.SQLITE_INTERNAL: Unavailable,
        sqlite3.SQLITE_ERROR: SchemaChanged,  # such as "no such table", without a specific code
    }
    REMEDIES: Mapping[int, str] = {
        sqlite3.SQLITE_CANTOPEN: "Create its directory, and give this user write access to it.",
        sqlite3.SQLITE_READONLY: "Give this user write access to the file and its directory.",
        sqlite3.SQLITE_FULL: "Free space on the disk.",
        sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it from a backup, or recover its "
        "rows with the sqlite3 shell's .recover.",
        sqlite3.SQLITE_NOTADB: "Name another file, or restore this one from a backup.",
    }
    """The remedies for errors that concern the file."""
    CONSTRAINT = re.compile(r"[A-Z ]+ constraint failed: ([\w$ .,]{1,130})")
    """The message about a constraint: with its name, or with its columns."""

    def translate(self, error: BaseException) -> StoreError | None:
        """Describe the error by its message, unless that could be the text of a trigger."""
        code = self._code(error)
        if not code:
            return None
        kind = self.KINDS.get(code, Rejected)
        if kind is Rejected or kind is SchemaChanged:
            return kind(self._named(error))
        return kind(_described(error))

    def remedy(self, error: BaseException) -> str | None:
        return self.REMEDIES.get(self._code(error))

    def _code(self, error: BaseException) -> int:
        """Return the primary result code, or 0."""
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF

    def _named(self, error: BaseException) -> str:
        """Return the error's class, its code and the constraint, but no text of a trigger."""
        name = getattr(error, "sqlite_errorname", "")
        parts = [type(error).__name__, name]
        failed = self.CONSTRAINT.fullmatch(str(error))
        if failed and name != "SQLITE_CONSTRAINT_TRIGGER":
            parts.append(f"constraint {failed[1]}")
        return " ".join(filter(None, parts))


class _MariaDBErrors(_Family):
    """The errors of the drivers of MariaDB and MySQL, by number.

    https://mariadb.com/kb/en/mariadb-error-code-reference/ and
    https://dev.mysql.com/doc/mysql-errors/9.0/en/ list them; from 1900 on, the servers use the same
    numbers for different errors, but no number here has two meanings that hookrow could meet. The
    client raises those from 2000 to 2999 if the connection is lost, or was never made. Those below
    100 concern the server's files, and ProxySQL raises those from 9001 on if it has no server to
    connect to. An error with any other number concerns one statement and its data: `Rejected`.
    """

    FAILED_CHECK = 1242  # subquery_returns_more_than_1_row, in a `Packet`

    DRIVERS = frozenset({"pymysql", "MySQLdb", "mariadb", "mysql", "asyncmy", "aiomysql"})
    KINDS: Mapping[int, type[StoreError]] = {
        0: Unavailable,  # PyMySQL and mysqlclient: the connection is closed
        1020: Conflict,  # ER_CHECKREAD: the row has changed since the transaction began
        1213: Conflict,  # ER_LOCK_DEADLOCK, also if another node of a cluster changed the row first
        1412: Conflict,  # ER_TABLE_DEF_CHANGED since the transaction began
        1614: Conflict,  # ER_XA_RBDEADLOCK
        1615: Conflict,  # ER_NEED_REPREPARE
        3101: Conflict,  # ER_TRANSACTION_ROLLBACK_DURING_COMMIT: MySQL's group replication
        1205: Locked,  # ER_LOCK_WAIT_TIMEOUT, of rows and of tables
        1317: Locked,  # ER_QUERY_INTERRUPTED
        1689: Locked,  # ER_LOCK_ABORTED, by another session that needs the table
        1969: Locked,  # ER_STATEMENT_TIMEOUT: MariaDB's max_statement_time
        3024: Locked,  # ER_QUERY_TIMEOUT: MySQL's max_execution_time
        3177: Locked,  # ER_LOCK_REFUSED_BY_ENGINE
        3572: Locked,  # ER_LOCK_NOWAIT
        1036: ReadOnly,  # ER_OPEN_AS_READONLY
        1207: ReadOnly,  # ER_READ_ONLY_TRANSACTION
        1290: ReadOnly,  # ER_OPTION_PREVENTS_STATEMENT: most often read_only
        1792: ReadOnly,  # ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        1836: ReadOnly,  # ER_READ_ONLY_MODE
        1874: ReadOnly,  # ER_INNODB_READ_ONLY
        3989: ReadOnly,  # ER_SCHEMA_READ_ONLY
        1015: Unavailable,  # ER_CANT_LOCK
        1016: Unavailable,  # ER_CANT_OPEN_FILE
        1017: Unavailable,  # ER_FILE_NOT_FOUND
        1021: Unavailable,  # ER_DISK_FULL
        1023: Unavailable,  # ER_ERROR_ON_CLOSE
        1024: Unavailable,  # ER_ERROR_ON_READ
        1026: Unavailable,  # ER_ERROR_ON_WRITE
        1028: Unavailable,  # ER_FILSORT_ABORT
        1030: Unavailable,  # ER_GET_ERRNO: the storage engine fails
        1034: Unavailable,  # ER_NOT_KEYFILE: there is no space for a temporary table
        1035: Unavailable,  # ER_OLD_KEYFILE
        1037: Unavailable,  # ER_OUTOFMEMORY
        1038: Unavailable,  # ER_OUT_OF_SORTMEMORY
        1040: Unavailable,  # ER_CON_COUNT_ERROR
        1041: Unavailable,  # ER_OUT_OF_RESOURCES
        1042: Unavailable,  # ER_BAD_HOST_ERROR
        1043: Unavailable,  # ER_HANDSHAKE_ERROR
        1047: Unavailable,  # ER_UNKNOWN_COM_ERROR: a node of a Galera cluster is not ready
        1053: Unavailable,  # ER_SERVER_SHUTDOWN
        1077: Unavailable,  # ER_NORMAL_SHUTDOWN
        1079: Unavailable,  # ER_SHUTDOWN_COMPLETE
        1080: Unavailable,  # ER_FORCING_CLOSE
        1114: Unavailable,  # ER_RECORD_FILE_FULL
        1115: Unavailable,  # ER_UNKNOWN_CHARACTER_SET
        1135: Unavailable,  # ER_CANT_CREATE_THREAD
        1152: Unavailable,  # ER_ABORTING_CONNECTION
        1154: Unavailable,  # ER_NET_READ_ERROR_FROM_PIPE
        1155: Unavailable,  # ER_NET_FCNTL_ERROR
        1156: Unavailable,  # ER_NET_PACKETS_OUT_OF_ORDER
        1157: Unavailable,  # ER_NET_UNCOMPRESS_ERROR
        1158: Unavailable,  # ER_NET_READ_ERROR
        1159: Unavailable,  # ER_NET_READ_INTERRUPTED
        1160: Unavailable,  # ER_NET_ERROR_ON_WRITE
        1161: Unavailable,  # ER_NET_WRITE_INTERRUPTED
        1180: Unavailable,  # ER_ERROR_DURING_COMMIT, unless it is a `DEADLOCK`
        1181: Unavailable,  # ER_ERROR_DURING_ROLLBACK
        1184: Unavailable,  # ER_NEW_ABORTING_CONNECTION
        1194: Unavailable,  # ER_CRASHED_ON_USAGE
        1195: Unavailable,  # ER_CRASHED_ON_REPAIR
        1203: Unavailable,  # ER_TOO_MANY_USER_CONNECTIONS
        1206: Unavailable,  # ER_LOCK_TABLE_FULL
        1226: Unavailable,  # ER_USER_LIMIT_REACHED
        1429: Unavailable,  # ER_CONNECT_TO_FOREIGN_DATA_SOURCE
        1467: Unavailable,  # ER_AUTOINC_READ_FAILED
        1534: Unavailable,  # ER_BINLOG_ROW_LOGGING_FAILED
        1598: Unavailable,  # ER_BINLOG_LOGGING_IMPOSSIBLE
        1637: Unavailable,  # ER_TOO_MANY_CONCURRENT_TRXS
        1665: Unavailable,  # ER_BINLOG_STMT_MODE_AND_ROW_ENGINE
        1712: Unavailable,  # ER_INDEX_CORRUPT
        1810: Unavailable,  # ER_IO_READ_ERROR
        1811: Unavailable,  # ER_IO_WRITE_ERROR
        1812: Unavailable,  # ER_TABLESPACE_MISSING
        1814: Unavailable,  # ER_TABLESPACE_DISCARDED
        1815: Unavailable,  # ER_INTERNAL_ERROR
        1817: Unavailable,  # ER_INNODB_INDEX_CORRUPT
        1877: Unavailable,  # ER_TABLE_CORRUPT
        1878: Unavailable,  # ER_TEMP_FILE_WRITE_FAILURE
        1927: Unavailable,  # ER_CONNECTION_KILLED
        1950: Unavailable,  # ER_GTID_STRICT_OUT_OF_ORDER
        3000: Unavailable,  # ER_FILE_CORRUPT
        3003: Unavailable,  # ER_STORAGE_ENGINE_NOT_LOADED
        3015: Unavailable,  # ER_ENGINE_OUT_OF_MEMORY
        3019: Unavailable,  # ER_INNODB_UNDO_LOG_FULL
        3032: Unavailable,  # ER_SERVER_OFFLINE_MODE
        3092: Unavailable,  # ER_GROUP_REPLICATION_CONFIGURATION
        3100: Unavailable,  # ER_RUN_HOOK_ERROR: MySQL's group replication
        3168: Unavailable,  # ER_SERVER_ISNT_AVAILABLE
        3169: Unavailable,  # ER_SESSION_WAS_KILLED
        3185: Unavailable,  # ER_CANNOT_FIND_KEY_IN_KEYRING
        3781: Unavailable,  # ER_GR_HOLD_WAIT_TIMEOUT
        3782: Unavailable,  # ER_GR_HOLD_KILLED
        3783: Unavailable,  # ER_GR_HOLD_MEMBER_STATUS_ERROR
        3799: Unavailable,  # ER_GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED
        3884: Unavailable,  # ER_NO_SESSION_TEMP
        3950: Unavailable,  # ER_DA_OOM
        3985: Unavailable,  # ER_MDL_OUT_OF_RESOURCES
        4031: Unavailable,  # ER_CLIENT_INTERACTION_TIMEOUT
        4081: Unavailable,  # ER_DA_GLOBAL_CONN_LIMIT
        4082: Unavailable,  # ER_DA_CONN_LIMIT
        1046: SchemaChanged,  # ER_NO_DB_ERROR
        1051: SchemaChanged,  # ER_BAD_TABLE_ERROR
        1054: SchemaChanged,  # ER_BAD_FIELD_ERROR
        1064: SchemaChanged,  # ER_PARSE_ERROR
        1109: SchemaChanged,  # ER_UNKNOWN_TABLE
        1142: SchemaChanged,  # ER_TABLEACCESS_DENIED_ERROR
        1143: SchemaChanged,  # ER_COLUMNACCESS_DENIED_ERROR
        1146: SchemaChanged,  # ER_NO_SUCH_TABLE
        1227: SchemaChanged,  # ER_SPECIFIC_ACCESS_DENIED_ERROR
        1267: SchemaChanged,  # ER_CANT_AGGREGATE_2COLLATIONS
        1288: SchemaChanged,  # ER_NON_UPDATABLE_TABLE
        1305: SchemaChanged,  # ER_SP_DOES_NOT_EXIST
        1347: SchemaChanged,  # ER_WRONG_OBJECT
        1348: SchemaChanged,  # ER_NONUPDATEABLE_COLUMN
        1356: SchemaChanged,  # ER_VIEW_INVALID
        1370: SchemaChanged,  # ER_PROCACCESS_DENIED_ERROR
        1449: SchemaChanged,  # ER_NO_SUCH_USER: the one that defined a view or a trigger
        1471: SchemaChanged,  # ER_NON_INSERTABLE_TABLE
        1932: SchemaChanged,  # ER_NO_SUCH_TABLE_IN_ENGINE
    }
    MEANINGS: Mapping[int, str] = {
        0: "the connection is closed",
        3: "a file of the server cannot be written: free space on its disk if that is full",
        1021: "the disk of the server is full: free space on it",
        1040: "the server has too many connections: increase max_connections",
        1047: "this node of the cluster is not ready",
        1053: "the server is shutting down",
        1114: "a table, or the disk of the server, is full: free space on it",
        1115: "the server does not have the character set utf8mb4",
        1153: "the statement is longer than the server's max_allowed_packet: increase it",
        1203: "the user has too many connections: increase its MAX_USER_CONNECTIONS",
        1290: "the server is read-only: a replica, or read_only is on",
        1665: "set binlog_format to MIXED or ROW on the server",
        1927: "the connection was killed",
    } | dict.fromkeys((1792, 1836, 1874), "the server, or the session, is read-only")
    """The meaning of some: the server's messages may be translated, or quote a row."""
    DENIED: Mapping[int, str] = {
        1045: "the user and the password",
        1049: "the name of the database",
        1698: "the user and the password",
    }
    """The parts of the URL that may be wrong after a refused login."""
    REFUSED: Mapping[int, str] = {
        1044: "Grant the user privileges on the database, or name another one in the URL.",
        1129: "Run mariadb-admin flush-hosts, or mysqladmin flush-hosts.",
        1130: "Create the user for this host.",
        1820: "Set a new password for the user.",
        1862: "Set a new password for the user.",
        3118: "Unlock the account of the user.",
        3159: "Add ssl-mode=REQUIRED to its URL.",
        3955: "Unlock the account of the user.",
        4150: "Run FLUSH PRIVILEGES.",
        4151: "Unlock the account of the user.",
    } | dict.fromkeys(
        (1251, 1524, 2049, 2059, 2061),
        "The driver does not support the authentication plugin of this user: choose another plugin "
        "for the user, or another driver.",
    )
    """The remedies for other refused logins."""
    TOO_LONG = 2020  # CR_NET_PACKET_TOO_LARGE, noticed by the client
    CONNECTION = range(2000, 3000)
    """The numbers of errors of the client, whose messages quote no row."""
    FILES = range(1, 100)
    """The numbers of errors of the server's files."""
    PROXY = range(9001, 9010)
    """The numbers of errors of ProxySQL. A host's trigger may raise others from 9000 on."""
    FAILED_COMMIT = 1180
    DEADLOCK = re.compile(r"Got error 149\b")  # another node of a cluster changed the row first
    CONSTRAINT = re.compile(
        r"Duplicate entry .* for key '(?:[\w$]+\.)?([\w$ -]{1,64})'|"
        r".* a foreign key constraint fails \(.*, CONSTRAINT `([\w$ -]{1,64})` FOREIGN KEY .*|"
        r"CONSTRAINT `([\w$ .-]{1,130})` failed for `.*`|"
        r"Check constraint '([\w$ -]{1,64})' is violated\.",
        re.DOTALL,
    )
    """The messages, in English, that name a constraint."""

    def translate(self, error: BaseException) -> StoreError | None:
        """Describe the error by its number and its constraint."""
        number = self._number(error)
        if number is None:
            return None
        if number in self.DENIED:
            return AccessDenied(_REFUSED_LOGIN.format(self.text(error), self.DENIED[number]))
        if number in self.REFUSED:
            line = self.text(error).rstrip(".")
            remedy = self.REFUSED[number]
            return AccessDenied(f"The database refuses the connection: {line}. {remedy}")
        if number in self.CONNECTION and number != self.TOO_LONG:
            return Unavailable(_described(error))
        is_outage = number in self.FILES or number in self.PROXY
        kind = self.KINDS.get(number, Unavailable if is_outage else Rejected)
        if number == self.FAILED_COMMIT and self.DEADLOCK.match(self.text(error)):
            kind = Conflict
        meaning = f": {self.MEANINGS[number]}" if number in self.MEANINGS else ""
        return kind(" ".join([type(error).__name__, str(number), *self._names(error)]) + meaning)

    def text(self, error: BaseException) -> str:
        """Return the message without the number."""
        if self._number(error) is None:
            return str(error)
        return str(getattr(error, "msg", None) or error.args[-1])

    def failed_check(self, error: BaseException) -> bool:
        # A host's trigger may raise the same error; in separate statements, it does so again.
        return self._number(error) == self.FAILED_CHECK

    def _number(self, error: BaseException) -> int | None:
        """Return the number of an error of these drivers, if it has one."""
        if not self.DRIVERS & _packages(error):
            return None
        number: object = getattr(error, "errno", None)
        if number is None and error.args:
            number = error.args[0]
        # mysql.connector has -1 for errors without a number.
        return number if isinstance(number, int) and number >= 0 else None

    def _names(self, error: BaseException) -> list[str]:
        """Return the name of the constraint, but no other text of a row or a trigger."""
        failed = self.CONSTRAINT.fullmatch(self.text(error))
        return [f"constraint {name}" for name in failed.groups() if name] if failed else []


_FAMILIES: tuple[_Family, ...] = (_PostgreSQLErrors(), _SQLiteErrors(), _MariaDBErrors())


def _families(error: BaseException) -> Sequence[_Family]:
    """Return the family of the driver that raised an error, or all of them if it is unknown.

    The attributes do not suffice to distinguish them: drivers of MariaDB have SQLSTATEs, too.
    """
    packages = _packages(error)
    return [each for each in _FAMILIES if each.DRIVERS & packages] or _FAMILIES


def _packages(error: BaseException) -> set[str]:
    """Return the packages that define the class of an error and its bases."""
    return {each.__module__.partition(".")[0] for each in type(error).__mro__}


def store_error(error: BaseException) -> StoreError:
    """Return the `StoreError` for an error of a driver or of SQLAlchemy, with a loggable text."""
    error = _driver_error(error)
    for family in _families(error):
        if (translated := family.translate(error)) is not None:
            return translated
    if _is_of_statement(error) or isinstance(error, UNWRITABLE):
        return Rejected(type(error).__name__)
    # It concerns the connection, or the attempt to make one.
    if type(error).__module__.startswith("sqlalchemy"):  # whose texts may quote a value
        return Unavailable(type(error).__name__)
    return Unavailable(_described(error))


def is_of_session(error: BaseException) -> bool:
    """Return whether an error concerns the session or its server, so that both may stay useless."""
    cause = store_error(error)
    return isinstance(cause, Unavailable) and not isinstance(cause, SchemaChanged)


def message(error: StoreError) -> str:
    """Return the first line of the driver's message, for a terminal but never for a log.

    Returns the error's own text if it is not the translation of a driver's error.
    """
    cause = error.__cause__
    if cause is None or str(error) != str(store_error(cause)):
        return str(error)
    return _described(_driver_error(cause))


def refuses_one_statement(error: BaseException) -> bool:
    """Return whether the tables can be changed, but only in several statements."""
    error = _driver_error(error)
    return any(family.refuses_one_statement(error) for family in _families(error))


def failed_check(error: BaseException) -> bool:
    """Return whether a combined statement found that it did not lock or change each row."""
    error = _driver_error(error)
    return any(family.failed_check(error) for family in _families(error))


def lacks_operator(error: BaseException) -> bool:
    """Return whether the types in a statement cannot be compared, converted or used as it does."""
    error = _driver_error(error)
    return any(family.lacks_operator(error) for family in _families(error))


def _driver_error(error: BaseException) -> BaseException:
    """Return the driver's error that one of SQLAlchemy or Django wraps, or the error itself."""
    if type(error).__module__ == "django.db.utils":
        # Its MySQL backend raises an IntegrityError itself while it handles some of the driver's.
        return error.__cause__ or error.__context__ or error
    is_wrapped = "DBAPIError" in {each.__name__ for each in type(error).__mro__}
    return (is_wrapped and getattr(error, "orig", None)) or error


def _is_of_statement(error: BaseException) -> bool:
    return not _STATEMENT_ERRORS.isdisjoint(each.__name__ for each in type(error).__mro__)


def _described(error: BaseException) -> str:
    """Return the error's class, the first line of its text, and a remedy if there is one."""
    families = _families(error)
    line = families[0].text(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {line}"
    remedies = filter(None, (family.remedy(error) for family in families))
    return ". ".join([text, *remedies])
