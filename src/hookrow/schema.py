"""Which tables and columns play our roles: plain names, the same for every store.

What a database really has is for `stores/verification` to find out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from hookrow.errors import ConfigurationError
from hookrow.notification import Suppressible

SUPPRESSION = ("suppressed_at", "suppression_reason", "suppression_changed_at")

_REQUIRED = {
    "subscribers": ("id", "email", "suppressed_at"),
    "dispatches": ("id", "provider_message_id", "subscriber_id", "delivered_at", "opened_at"),
    "subscriptions": ("list_id", "subscriber_id"),
}
_OPTIONAL = {
    "subscribers": ("suppression_reason", "suppression_changed_at"),
    "dispatches": ("list_id", *SUPPRESSION),
    "subscriptions": SUPPRESSION,
}


@dataclass(frozen=True, slots=True)
class Role:
    """The table that plays a role, and its columns where they have names of their own.

    `Role("people", {"email": "address"})`: a column that is not named keeps our
    name; an optional one that the table does not have is None.
    """

    table: str
    columns: Mapping[str, str | None] = field(default_factory=dict)

    def column(self, name: str) -> str | None:
        """Return what the table calls our column, or None where it has none."""
        return self.columns.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of a host, ours by default. A host without lists has no subscriptions.

    `log` is the table of the log, which is ours always; None turns the log off.

    Raises `ConfigurationError` for a column that no role has, or one that is
    needed and left out.
    """

    subscribers: Role = Role("hookrow_subscribers")
    dispatches: Role = Role("hookrow_dispatches")
    subscriptions: Role | None = Role("hookrow_subscriptions")
    log: str | None = "hookrow_notifications"

    def __post_init__(self) -> None:
        if self.log == "":
            raise ConfigurationError("The log needs a table: name it, or None for no log.")
        for name, role in self.roles.items():
            _check(name, role)

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles that this host has, by name."""
        roles = {
            "subscribers": self.subscribers,
            "dispatches": self.dispatches,
            "subscriptions": self.subscriptions,
        }
        return {name: role for name, role in roles.items() if role is not None}

    @property
    def ours(self) -> bool:
        """Whether all tables of rows are those that hookrow makes."""
        return self.roles == Schema().roles

    @property
    def undated(self) -> Collection[Suppressible]:
        """The kinds of row that do not keep when their suppression last changed."""
        return frozenset(
            Suppressible(name)
            for name, role in self.roles.items()
            if role.column("suppression_changed_at") is None
        )

    def columns(self, name: str) -> Mapping[str, str]:
        """Return the columns of the role of that name: ours and, for each, the table's."""
        role = self.roles[name]
        named = {ours: role.column(ours) for ours in (*_REQUIRED[name], *_OPTIONAL[name])}
        return {ours: theirs for ours, theirs in named.items() if theirs is not None}


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at the name that was meant, empty where none is near."""
    near = get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _check(name: str, role: Role) -> None:
    known = (*_REQUIRED[name], *_OPTIONAL[name])
    if not role.table:
        raise ConfigurationError(f"The role {name!r} needs a table: name it.")
    for column in role.columns:
        if column not in known:
            raise ConfigurationError(
                f"The role {name!r} has no column {column!r}.{nearest(column, known)}"
            )
    for column in known:
        theirs = role.column(column)
        if not theirs and (column in _REQUIRED[name] or theirs is not None):
            raise ConfigurationError(f"The role {name!r} needs the column {column!r}: name it.")
        if theirs and [*map(role.column, known)].count(theirs) > 1:
            raise ConfigurationError(f"The role {name!r} names the column {theirs!r} twice.")
