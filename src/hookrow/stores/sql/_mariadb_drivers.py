"""The drivers of MariaDB and MySQL: how each opens a connection, within a time limit."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.stores._errors import AccessDenied, Unavailable
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores._watchdog import duplicate_socket, watchdog
from hookrow.stores.sql._mariadb_hosts import share
from hookrow.stores.sql._mariadb_url import TLS, Host, Options, TLSLevel

CLIENT_FLAGS = 2 | 1 << 16
"""CLIENT_FOUND_ROWS: the server counts the rows that an UPDATE finds, not those that it changes.
CLIENT_MULTI_STATEMENTS: one packet may contain several statements."""

_LOGIN = {
    "charset": "utf8mb4",
    # Of parameters and other expressions; that of a column takes precedence.
    "collation": "utf8mb4_bin",
    "client_flag": CLIENT_FLAGS,
    "autocommit": None,  # the settings of the session include it
}
"""The options that both drivers know by the same names."""

_PACKAGES = {
    "cryptography": "pip install 'pymysql[rsa]', or add ssl-mode=REQUIRED to the URL",
    "pynacl": "pip install 'pymysql[ed25519]'",
}
"""The packages that PyMySQL needs for some authentication plugins, and what to do without them.

`cryptography` is needed only without TLS.
"""

_MISSING_PACKAGE = (
    "The database refuses the connection: the authentication plugin of this user needs another "
    "package. Run {}."
)

_OTHER_PROTOCOL = (IndexError, ValueError, struct.error)
"""Errors that PyMySQL raises if a server speaks another protocol."""


class OpenedConnection(NamedTuple):
    """A driver's connection, and a duplicate of its socket for the watchdog."""

    connection: Any
    socket: socket.socket

    def close(self) -> None:
        """Close both, also if the server has closed the connection. Never raises."""
        with suppress(Exception):
            self.connection.close()
        self.socket.close()


class Driver(ABC):
    """Opens connections as PEP 249 describes them."""

    errors: tuple[type[Exception], ...]
    """The base classes of the driver's errors."""

    @abstractmethod
    def connect(self, options: Options, host: Host, until: float) -> OpenedConnection:
        """Log in before `until`, on the clock of `monotonic`.

        Raises an error of the driver, or a `StoreError`.
        """


class PyMySQL(Driver):
    """PyMySQL. Raises `MissingExtra` if it is not installed."""

    def __init__(self) -> None:
        try:
            import pymysql  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("MariaDB", "mariadb") from error
        self._driver = pymysql
        self.errors = (pymysql.Error,)

    def connect(self, options: Options, host: Host, until: float) -> OpenedConnection:
        """Log in through a socket that is opened here, so that the watchdog covers the login."""
        is_local = options.unix_socket is not None
        connection = self._driver.Connection(
            defer_connect=True,
            host=host.name,
            user=options.user,
            password=(options.password or "").encode(),  # the driver would encode it as Latin 1
            database=options.database,
            **_tls_options(options.tls, is_local=is_local),
            **_LOGIN,
        )
        # No other host can read a Unix socket, so the password may be sent without encryption. The
        # driver notes this only if it opens the socket itself.
        connection._secure = is_local  # noqa: SLF001 - there is no public way
        opened = _open_socket(options, host, until)
        duplicate = duplicate_socket(opened.fileno())
        try:
            with limited_to(until - monotonic()), watchdog.watch_socket(duplicate):
                connection.connect(opened)
                _verify_encryption(connection, options, host)
        except BaseException as error:
            opened.close()
            duplicate.close()
            for package, remedy in _PACKAGES.items():
                if isinstance(error, RuntimeError) and package in str(error):
                    raise AccessDenied(_MISSING_PACKAGE.format(remedy)) from error
            if isinstance(error, _OTHER_PROTOCOL):
                raise Unavailable(
                    f"The server {options.place(host)} is neither MariaDB nor MySQL."
                ) from error
            raise
        return OpenedConnection(connection, duplicate)


class MySQLClient(Driver):
    """mysqlclient, which is written in C. Raises `ConfigurationError` if it is not installed.

    With MariaDB's client library, `VERIFY_CA` verifies the name of the host, too, `PREFERRED` does
    not use TLS, and `REQUIRED` does not require it, so that the driver's connections are verified.
    """

    def __init__(self) -> None:
        try:
            import MySQLdb  # noqa: PLC0415 - a driver of the host's choice
        except ImportError as error:
            raise ConfigurationError(
                "The URL names the driver mysqldb: pip install mysqlclient, or write mariadb:// or "
                "mysql:// without a driver."
            ) from error
        self._driver = MySQLdb
        self.errors = (MySQLdb.Error,)

    def connect(self, options: Options, host: Host, until: float) -> OpenedConnection:
        """Let the driver limit the login, in whole seconds.

        Without `unix_socket`, it would choose one itself for the name `localhost`.
        """
        is_remote = options.unix_socket is None
        name = "127.0.0.1" if is_remote and host.name == "localhost" else host.name
        given = {
            "user": options.user,
            "unix_socket": options.unix_socket,
            "password": options.password,
        }
        connection = self._driver.connect(
            host=name,
            port=host.port,
            database=options.database,
            connect_timeout=max(ceil(until - monotonic()), 1),
            ssl_mode=options.tls.level.name,
            ssl=options.tls.files,
            binary_prefix=True,
            **{name: value for name, value in given.items() if value is not None},
            **_LOGIN,
        )
        opened = OpenedConnection(connection, duplicate_socket(connection.fileno()))
        if is_remote:
            _keep_alive(opened.socket)
        try:
            _verify_encryption(connection, options, host)
        except BaseException:
            opened.close()
            raise
        return opened


def _verify_encryption(connection: Any, options: Options, host: Host) -> None:  # noqa: ANN401 - the drivers have no types
    """Raise `Unavailable` if the URL requires TLS, and the driver has connected without it.

    Older versions of PyMySQL do so, and mysqlclient with MariaDB's client library.
    """
    if options.tls.level < TLSLevel.REQUIRED:
        return
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'ssl_cipher'")
        ((_, cipher),) = cursor.fetchall()
    if not cipher:
        raise Unavailable(
            f"The server {options.place(host)} does not support TLS, which the URL requires."
        )


def driver_of(scheme: str) -> Driver:
    """Return mysqlclient if the scheme of a URL names it, and PyMySQL otherwise.

    After `pymysql.install_as_MySQLdb()`, mysqlclient cannot be imported, and PyMySQL replaces it.
    """
    is_replaced = getattr(sys.modules.get("MySQLdb"), "__name__", "") == "pymysql"
    return MySQLClient() if scheme.endswith("+mysqldb") and not is_replaced else PyMySQL()


def _open_socket(options: Options, host: Host, until: float) -> socket.socket:
    """Connect to the first address of a host that responds. Raises `Unavailable`."""
    try:
        addresses = _addresses(options, host)
        for number, (family, address) in enumerate(addresses):
            opened = socket.socket(family, socket.SOCK_STREAM)
            opened.settimeout(share(until - monotonic(), len(addresses) - number))
            try:
                opened.connect(address)
            except OSError:
                opened.close()
                if number == len(addresses) - 1:
                    raise
            else:
                break
    except OSError as error:
        raise Unavailable(
            f"Connecting to {options.place(host)} failed: {error.strerror or error}."
        ) from error
    if options.unix_socket is None:
        _keep_alive(opened)
    return opened


def _addresses(options: Options, host: Host) -> list[tuple[socket.AddressFamily, Any]]:
    if options.unix_socket is not None:
        return [(socket.AF_UNIX, options.unix_socket)]
    found = socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _keep_alive(opened: socket.socket) -> None:
    """Let the system detect that the server's machine is gone, and send each packet at once."""
    for level, name, value in _TCP_OPTIONS:
        if hasattr(socket, name):  # not on every system
            opened.setsockopt(level, getattr(socket, name), value)


_TCP_OPTIONS = (
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", STATEMENT_TIMEOUT),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", STATEMENT_TIMEOUT),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", STATEMENT_TIMEOUT * 1000),
)
"""Options of TCP sockets: the same limits as on PostgreSQL."""


def _tls_options(tls: TLS, *, is_local: bool) -> Mapping[str, Any]:
    """Return the options of PyMySQL. Raises `Unavailable` if a file cannot be read."""
    match tls.level:
        case TLSLevel.DISABLED:
            return {"ssl_disabled": True}
        case TLSLevel.PREFERRED:
            return {"ssl_disabled": is_local}  # otherwise, the driver encrypts local sockets, too
        case _:
            return {"ssl": _context(tls)}


def _context(tls: TLS) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        files = ", ".join(tls.files.values())
        raise Unavailable(
            f"The certificates {files} cannot be used: {error.strerror or error}."
        ) from error
    # Python 3.13 is strict, and refuses the authority that a server of MySQL creates for itself.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = tls.level == TLSLevel.VERIFY_IDENTITY
    if tls.level < TLSLevel.VERIFY_CA:
        context.verify_mode = ssl.CERT_NONE
    return context
