"""The settings of `hookrow serve`, and the file `hookrow.toml` that may hold them.

The file is read and checked here. The command line's parser decides which source of a setting
takes precedence: a flag, the environment, the file, the default.
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
from hookrow.http import ENDPOINT, endpoint_path

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
    """The settings of a server, which its worker processes get as JSON.

    The log keeps entries for `keep`, and their bodies for `keep_bodies` (zero: no bodies); None
    means forever. The `dashboard` requires a password or `dashboard_access`.
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
        """Return the secrets; if they are in a file, read it at each call.

        Raises `ConfigurationError` if the file cannot be read, or if secrets are set besides it.
        """
        if self.secret_file is None:
            return self.secrets
        if self.secrets:
            raise ConfigurationError("Both secret_file and HOOKROW_SECRET are set; use only one.")
        try:
            lines = Path(self.secret_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"The secret file cannot be read: {error}.") from error
        return [line.strip() for line in lines if line.strip()]


Value: TypeAlias = str | int | bool
"""The types that a setting may have in a file."""


def read(path: Path, known: Collection[str]) -> tuple[Mapping[str, Value], Schema]:
    """Read a file; return its plain settings and its schema.

    Raises `ConfigurationError` if the file cannot be read, a name is not `known`, or a value is
    neither text nor a whole number, true or false.
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
    """Return the URL to which the provider posts."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{endpoint_path(mount_path)}"


def dashboard_path(mount_path: str) -> str:
    """Return the path of the dashboard, without a trailing slash."""
    return f"{endpoint_path(mount_path).removesuffix(ENDPOINT)}/dashboard"


def schema_of(tables: object) -> Schema:
    """Build a schema from plain values, in which False stands for None.

    In `where`, the meaning of False depends on the column, so it stays. Raises
    `ConfigurationError` for anything that a schema does not have.
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
        raise ConfigurationError(f"the role {name!r} has no table: write its name as 'table'.")


def _check_form(tables: object) -> None:
    """Refuse a role that is only the name of a table, with the lines to write instead."""
    given = tables if isinstance(tables, Mapping) else {"subscribers": tables}
    for name, role in given.items():
        if name in _ROLES and not isinstance(role, Mapping) and role is not False:
            table = role if isinstance(role, str) else "its_name"
            raise ConfigurationError(f'write [tables.{name}] and below it table = "{table}".')


def _refuse_unknown(kind: str, given: object, known: Collection[str]) -> None:
    for name in given if isinstance(given, Mapping | list) else ():
        if isinstance(name, str) and name not in known:
            raise ConfigurationError(f"no {kind} {name!r}.{nearest(name, known)}")


def _none_for_false(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: part if key == "where" else _none_for_false(part) for key, part in value.items()
        }
    return None if value is False else value
