"""The settings of `hookrow serve`, and the file `hookrow.toml` that may hold them.

A flag beats the environment, which beats the file, which beats the default: the
command line's parser does that. The file is read here, and checked whole.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Self, TypeAlias, get_args

import msgspec

from hookrow.core.schema import Fold, Role, Schema, nearest
from hookrow.errors import ConfigurationError
from hookrow.receiver.receiver import ENDPOINT, endpoint_path

DEFAULT_FILE = Path("hookrow.toml")

_ROLES = ("subscribers", "dispatches", "subscriptions", "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardAccess:
    """The credentials of a dashboard without a password, valid until the server stops.

    The parent process generates them once per start and passes them to its workers: the `token`
    in the dashboard's address and the `key` that signs the session cookie. The `port` is part of
    the cookie's name, because browsers send cookies to all ports of a host (RFC 6265, section 8.5).
    """

    token: str = field(repr=False)
    key: str = field(repr=False)
    port: int

    @classmethod
    def generate(cls, port: int) -> Self:
        """Generate new credentials for the server at a port."""
        return cls(token=token_urlsafe(), key=token_hex(), port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `hookrow serve` hands to its workers, which are processes of their own.

    Entries of the log are kept for `keep`, their bodies for `keep_bodies` (zero: none
    are); None is for ever. The `dashboard` requires a password or `dashboard_access`.
    """

    secrets: tuple[str, ...] = ()
    secret_file: str | None = None
    database_url: str
    host: str = "127.0.0.1"
    mount_path: str = ""
    sweep: bool = True
    spool: str | None = None
    keep: timedelta | None = timedelta(days=90)
    keep_bodies: timedelta | None = None
    dashboard: bool = False
    dashboard_password: str | None = None
    dashboard_access: DashboardAccess | None = None
    metrics: bool = False
    schema: Schema = field(default_factory=Schema)

    @property
    def bodies(self) -> bool:
        """Whether the log keeps bodies at all."""
        return self.keep_bodies != timedelta(0)

    def accepted(self) -> Sequence[str]:
        """Return the secrets, read anew where they are in a file.

        Raises `ConfigurationError` where it cannot be read, or others are set besides.
        """
        if self.secret_file is None:
            return self.secrets
        if self.secrets:
            raise ConfigurationError("There are secrets in a file and others: keep one of the two.")
        try:
            lines = Path(self.secret_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"The secret file cannot be read: {error}.") from error
        return [line.strip() for line in lines if line.strip()]


Value: TypeAlias = str | int | bool
"""What a file may give for a setting."""


def read(path: Path, known: Collection[str]) -> tuple[Mapping[str, Value], Schema]:
    """Read a file; return its plain settings and the schema that its tables make.

    Raises `ConfigurationError` for a file that cannot be read, a name that is not
    `known`, and a value that is neither text nor a whole number, true or false.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
    tables = content.pop("tables", {})
    for name, value in content.items():
        if name not in known:
            raise ConfigurationError(f"{path}: there is no setting {name!r}.{nearest(name, known)}")
        if not isinstance(value, Value):
            raise ConfigurationError(
                f"{path}: {name} is neither text nor a whole number, true or false."
            )
    try:
        _check_form(tables)
        return content, schema_of(tables)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: [tables]: {error}") from error


def endpoint(host: str, port: int, mount_path: str) -> str:
    """Return the web address at which `hookrow serve` takes notifications."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{endpoint_path(mount_path)}"


def dashboard_path(mount_path: str) -> str:
    """Return where `hookrow serve` has the dashboard, without the slash at its end."""
    return f"{endpoint_path(mount_path).removesuffix(ENDPOINT)}/dashboard"


def schema_of(tables: object) -> Schema:
    """Make a schema of plain values, in which False stands for None.

    Not so in `where`: there it depends on the column, which the store knows. Raises
    `ConfigurationError` for what no schema has.
    """
    _refuse_unknown("role", tables, Schema.__slots__)
    for name, role in tables.items() if isinstance(tables, Mapping) else ():
        if isinstance(role, Mapping) and name in _ROLES:
            _check_role(name, role)
    try:
        schema: Schema = msgspec.convert(_none_for_false(tables), Schema)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{error}.") from error
    return schema


def _check_role(name: str, role: Mapping[str, object]) -> None:
    _refuse_unknown("part of a role", role, Role.__slots__)
    _refuse_unknown("fold", [role.get("fold", "ascii")], get_args(Fold))
    if "table" not in role:
        raise ConfigurationError(f"the {name} have no table: name it, as their 'table'.")


def _check_form(tables: object) -> None:
    """Refuse a role that is its table's name alone, in the words of the file."""
    given = tables if isinstance(tables, Mapping) else {"subscribers": tables}
    for name, role in given.items():
        if name in _ROLES and not isinstance(role, Mapping) and role is not False:
            table = role if isinstance(role, str) else "its_name"
            raise ConfigurationError(f'write [tables.{name}] and below it table = "{table}".')


def _refuse_unknown(what: str, given: object, known: Collection[str]) -> None:
    for name in given if isinstance(given, Mapping | list) else ():
        if isinstance(name, str) and name not in known:
            raise ConfigurationError(f"no {what} {name!r}.{nearest(name, known)}")


def _none_for_false(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: part if key == "where" else _none_for_false(part) for key, part in value.items()
        }
    return None if value is False else value
