"""Reads the URLs of MariaDB and MySQL: hosts, login, TLS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from hookrow._arguments import refuse_windows
from hookrow.errors import ConfigurationError
from hookrow.stores.sql._connections import CONNECT_TIMEOUT, NOT_A_URL

DEFAULT_PORT = 3306

_HOST_PATTERN = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s\[\]:/?#@]*))(?::(\d{1,5}))?")
"""Matches an IPv6 address in brackets, an IPv4 address or a name, and a port if there is one."""

_TLS_FLAGS = ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity", "ssl_check_hostname")
"""Options that are true or false. The last is SQLAlchemy's name for the one before it."""

_URL_OPTIONS = (
    *("unix_socket", "connect_timeout", "charset", "ssl_ca", "ssl_cert", "ssl_key", "ssl-mode"),
    *_TLS_FLAGS,
)

_FLAG_VALUES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Host(NamedTuple):
    """The address of a server."""

    name: str
    port: int

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == DEFAULT_PORT else f"{name}:{self.port}"


class TLSLevel(IntEnum):
    """The levels of security of a connection: the values of `ssl-mode`.

    https://dev.mysql.com/doc/refman/8.4/en/connection-options.html#option_general_ssl-mode
    """

    DISABLED = 0
    PREFERRED = 1
    """If the server supports it."""
    REQUIRED = 2
    """With any certificate."""
    VERIFY_CA = 3
    """With a certificate of a trusted authority, for any name."""
    VERIFY_IDENTITY = 4
    """With a certificate for the name of the host."""


class TLS(NamedTuple):
    """How a connection uses TLS, and the paths of its certificates and private key."""

    level: TLSLevel
    ca: str | None
    """The certificates of the authorities that are trusted; the system's if this is None."""
    cert: str | None
    key: str | None

    @property
    def files(self) -> Mapping[str, str]:
        """The paths that are set, by name."""
        paths = {"ca": self.ca, "cert": self.cert, "key": self.key}
        return {name: path for name, path in paths.items() if path is not None}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The parts of a URL."""

    scheme: str
    """The name and the driver, such as `mysql+pymysql`."""
    hosts: tuple[Host, ...]
    """The servers, in the order in which they are tried: only one if there is a `unix_socket`."""
    unix_socket: str | None
    """The path of the socket to use instead of the host."""
    user: str | None
    password: str | None
    database: str
    connect_timeout: float
    """Seconds to wait for a connection, for all hosts together."""
    tls: TLS

    def place(self, host: Host) -> str:
        """Return the address of a host's server, for messages."""
        return self.unix_socket or str(host)

    def __str__(self) -> str:
        """Return the URL without the password and the options, for display."""
        password = ":***" if self.password is not None else ""
        login = f"{self.user}{password}@" if self.user else ""
        return f"{self.scheme}://{login}{','.join(map(str, self.hosts))}/{self.database}"


def parse(url: str) -> Options:
    """Parse a URL. Raises `ConfigurationError`, whose text does not contain the password."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    name, _, query = path.partition("?")
    if "@" in login:  # in a password, it must be written %40
        raise ConfigurationError(NOT_A_URL)
    try:
        url.encode()
        given = dict(parse_qsl(query, keep_blank_values=True, errors="strict"))
        user, password, name = (unquote(each, errors="strict") for each in (user, password, name))
    except UnicodeError:  # whose text quotes the URL
        raise ConfigurationError(NOT_A_URL) from None
    if not name:
        raise ConfigurationError(
            f"The URL names no database: write, for example, {scheme}://user@host/database."
        )
    if given.pop("charset", "utf8mb4").lower() != "utf8mb4":
        raise ConfigurationError(
            "hookrow uses the character set utf8mb4: remove charset from the URL."
        )
    unix_socket = given.pop("unix_socket", None)
    if unix_socket == "":
        raise ConfigurationError(
            "unix_socket is empty: write the path of the server's socket, or remove unix_socket "
            "from the URL."
        )
    if unix_socket:
        refuse_windows("A connection by unix_socket", "remove unix_socket from the URL")
    options = Options(
        scheme=scheme.lower(),
        hosts=tuple(map(_host, hosts.split(",")))[: 1 if unix_socket else None],
        unix_socket=unix_socket,
        user=user or None,
        password=password if colon else None,
        database=name,
        connect_timeout=_seconds(given.pop("connect_timeout", None)),
        tls=_tls(given),
    )
    for unknown in given:
        raise ConfigurationError(
            f"hookrow has no option {unknown!r} for MariaDB and MySQL: remove it from the URL. "
            f"The options are {', '.join(_URL_OPTIONS)}."
        )
    return options


def _host(text: str) -> Host:
    match = _HOST_PATTERN.fullmatch(text)
    if match is None:
        raise ConfigurationError(NOT_A_URL)
    port = int(match[3] or DEFAULT_PORT)
    if not 0 < port < 1 << 16:
        raise ConfigurationError("The URL has a port that is not between 1 and 65535: correct it.")
    return Host(match[1] or match[2] or "localhost", port)


def _seconds(value: str | None) -> float:
    if value is None:
        return CONNECT_TIMEOUT
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", value) or float(value) == 0:
        raise ConfigurationError(
            f"connect_timeout must be a number of seconds, such as {CONNECT_TIMEOUT}, "
            f"not {value!r}."
        )
    return float(value)


def _tls(given: dict[str, str]) -> TLS:
    """Remove the options for TLS from those given, and return their combined meaning.

    With the certificate of an authority, the server's certificate and the name of the host are
    verified, unless an option says otherwise: PyMySQL itself would verify neither.
    """
    mode = given.pop("ssl-mode", None) or given.pop("ssl_mode", None)
    flags = {name: _flag(name, given.pop(name)) for name in _TLS_FLAGS if name in given}
    ca, cert, key = (given.pop(f"ssl_{each}", None) for each in ("ca", "cert", "key"))
    if mode is None:
        level = _level(flags, has_ca=ca is not None, has_cert=cert is not None)
    elif mode.upper() in TLSLevel.__members__ and not flags:
        level = TLSLevel[mode.upper()]
    else:
        raise ConfigurationError(
            f"ssl-mode must be one of {', '.join(TLSLevel.__members__)}, and replaces "
            f"{', '.join(_TLS_FLAGS)}: remove those."
        )
    if level < TLSLevel.VERIFY_CA and ca is not None:
        raise ConfigurationError(
            "The URL has ssl_ca, but its other options turn off the verification of the server's "
            "certificate: remove ssl_ca or those."
        )
    if key is not None and cert is None:
        raise ConfigurationError("The URL has ssl_key without ssl_cert: add ssl_cert.")
    return TLS(level, ca, cert, key)


def _level(flags: Mapping[str, bool], *, has_ca: bool, has_cert: bool) -> TLSLevel:
    verifies_name = flags.get("ssl_verify_identity", flags.get("ssl_check_hostname"))
    if flags.get("ssl_disabled"):
        return TLSLevel.DISABLED
    if flags.get("ssl_verify_cert", has_ca or bool(verifies_name)):
        return TLSLevel.VERIFY_CA if verifies_name is False else TLSLevel.VERIFY_IDENTITY
    return TLSLevel.REQUIRED if has_cert or "ssl_verify_cert" in flags else TLSLevel.PREFERRED


def _flag(name: str, value: str) -> bool:
    if value.lower() not in _FLAG_VALUES:
        raise ConfigurationError(f"{name} must be true or false, not {value!r}.")
    return _FLAG_VALUES[value.lower()]
