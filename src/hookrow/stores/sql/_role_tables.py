"""The tables of a schema's roles as SQL text: names, columns, conditions and comparisons.

Every condition excludes the rows that a role's `where` hides, except for the owner of a dispatch,
whose email a response may contain. `_statements` builds whole statements from these parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hookrow._core.notification import EventTime, Key, Suppressible
from hookrow._core.schema import MAY_BE_FLAGS, TOUCH, WRITTEN, Fold, Scalar, Schema
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._conversions import Conversions, digits_of_guid, uuid_of_digits
from hookrow.stores.sql._dialects.base import Dialect

ALIASES = {"subscribers": "s", "dispatches": "d", "subscriptions": "b", "messages": "m"}
"""By role: the name of its table in a statement."""

OWNER = "o"
"""The alias of the subscribers' table in the join that finds a dispatch's owner."""


_KINDS_OF_MARKERS = {"boolean", "date", "datetime"}


class RoleTables:
    """The tables of a schema's roles in a database.

    `columns` are those of each role's table, by the table's own names; `views` are the roles whose
    tables are views.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Mapping[str, Mapping[str, Column]],
        dialect: Dialect,
        *,
        views: Collection[str] = (),
    ) -> None:
        self.schema: Schema = schema
        self.dialect: Dialect = dialect
        self._views = views
        self._table_columns = columns
        self.hiding: Mapping[str, Sequence[tuple[Column, Scalar]]] = {
            name: [(columns[name][column], value) for column, value in role.where.items()]
            for name, role in schema.roles.items()
        }
        """By role: the columns of `where`, each with the value of the rows that are not hidden."""
        self.markers: Mapping[str, Sequence[str]] = {
            name: [column.name for column, _ in hiding if column.kind in _KINDS_OF_MARKERS]
            for name, hiding in self.hiding.items()
        }
        """By role: the columns of `where` that can only mark a row, for example as deleted.

        Others may stand for a tenant, also if they are null."""
        self.tenants: Mapping[str, Column] = {
            name: columns[name][role.tenant]
            for name, role in schema.roles.items()
            if role.tenant is not None
        }
        """By role: the column with the tenant of a row, if the role has one."""
        self._columns = {
            name: {field: columns[name][column] for field, column in schema.columns(name).items()}
            for name in schema.roles
        }
        self.written: Mapping[Suppressible, Sequence[str]] = {
            kind: names
            for kind in Suppressible
            if kind.value in self._columns
            and (names := [name for name in WRITTEN if name in self._columns[kind.value]])
        }
        """The columns of each kind of row that notifications set, by hookrow's names."""
        self.touched: Collection[Suppressible] = [
            kind for kind in self.written if TOUCH in self._columns[kind.value]
        ]
        """The kinds of row with a column for the time of the last write."""
        self.empty: Mapping[Suppressible, str | None] = {
            kind: schema.roles[kind.value].empty for kind in self.written
        }
        """The value that stands for no reason, by kind of row."""
        self.has_uuids: bool = self._has_uuids()
        """Whether the message ids of dispatches are UUIDs; see `_conversions`."""
        self.first_opens: bool = self.has("dispatches", EventTime.FIRST_OPENED.value)
        """Whether the first open of a dispatch is recorded."""
        self.unguarded: Collection[Suppressible] = schema.unguarded
        self.dated_in_side_table: Collection[Suppressible] = schema.dated_in_side_table
        self.time_flags: Mapping[Suppressible, Sequence[str]] = {
            kind: [name for name in names if self.has_flag(kind.value, name)]
            for kind, names in self.written.items()
        }
        """By kind of row: the boolean columns in place of times, by hookrow's names."""
        self.conversions: Conversions = Conversions(
            self._columns, self.written, self.tenants, self.time_flags
        )

    def with_hidden(self) -> RoleTables:
        """Return the same tables with the rows that `where` hides by one of the `markers` only."""
        roles: dict[str, Any] = {
            name: replace(
                role,
                where={
                    column: value
                    for column, value in role.where.items()
                    if column not in self.markers[name]
                },
            )
            for name, role in self.schema.roles.items()
        }
        schema = self.schema.changed(**roles)
        return RoleTables(schema, self._table_columns, self.dialect, views=self._views)

    def _has_uuids(self) -> bool:
        dispatches = self._columns.get("dispatches")
        return dispatches is not None and dispatches["provider_message_id"].holds_uuids

    def has(self, role: str, column: str | None = None) -> bool:
        """Return whether there is such a role, and its table has such a column."""
        return role in self._columns and (column is None or column in self._columns[role])

    def has_flag(self, role: str, name: str) -> bool:
        """Return whether a column is boolean in place of a time."""
        return name in MAY_BE_FLAGS and self._columns[role][name].kind == "boolean"

    def when_set(self, role: str, name: str) -> str:
        """Return the rest of the condition that a time or a flag is set, to follow its column."""
        return "IS TRUE" if self.has_flag(role, name) else "IS NOT NULL"

    def is_set(self, role: str, name: str) -> str:
        """Return the condition that a time or a flag is set."""
        return f"{self.column(role, name)} {self.when_set(role, name)}"

    def is_unset(self, role: str, name: str) -> str:
        """Return the condition that a time is null, or that a flag is null or false."""
        test = "IS NOT TRUE" if self.has_flag(role, name) else "IS NULL"
        return f"{self.column(role, name)} {test}"

    def state(self, role: str, name: str) -> str:
        """Return a column that notifications set, for SELECT: a flag is never null."""
        is_flag = self.has_flag(role, name)
        return self.is_set(role, name) if is_flag else self.column(role, name)

    def count_set(self, role: str, name: str) -> str:
        """Return the number of rows in which a time is set, as an aggregate."""
        if self.has_flag(role, name):
            return f"count(CASE WHEN {self.is_set(role, name)} THEN 1 END)"
        return f"count({self.column(role, name)})"

    @property
    def suppressed_since(self) -> str | None:
        """The column, by hookrow's name, with the time at which a subscriber was suppressed.

        It is None if there is only a flag: the date beside the log is not read for each row.
        """
        if not self.has_flag("subscribers", "suppressed_at"):
            return "suppressed_at"
        has_date = self.has("subscribers", "suppression_changed_at")
        return "suppression_changed_at" if has_date else None

    def columns(self, role: str) -> Mapping[str, Column]:
        """Return the columns of a role, by hookrow's names."""
        return self._columns[role]

    def named_columns(self, role: str) -> Mapping[str, Column]:
        """Return all columns that are used of a role, by the table's own names.

        They are those that are mapped, those of its `where`, and that of its tenant.
        """
        named = [*self._columns[role].values(), *(column for column, _ in self.hiding[role])]
        if role in self.tenants:
            named.append(self.tenants[role])
        return {column.name: column for column in named}

    def name(self, role: str) -> str:
        """Return the name of a role's table in SQL."""
        return self.dialect.table(self.schema.roles[role].table)

    def table(self, role: str, alias: str | None = None) -> str:
        """Return the table of a role with its alias, for FROM."""
        return f"{self.name(role)} AS {alias or ALIASES[role]}"

    def column(self, role: str, name: str, alias: str | None = None) -> str:
        """Return a column of a role, by hookrow's name for it."""
        return f"{alias or ALIASES[role]}.{self.dialect.quote(self._columns[role][name].name)}"

    def key(self, role: str, name: str, alias: str | None = None) -> str:
        """Return a column that holds a key, for SELECT."""
        return self.dialect.select(self.column(role, name, alias), self._columns[role][name])

    def text(self, role: str, name: str, alias: str | None = None) -> str:
        """Return a column that holds text or UUIDs, as text for SELECT."""
        column = self.column(role, name, alias)
        return self.dialect.text(column, self._columns[role][name])

    def reason(self) -> str:
        """Return the reason of a subscriber's suppression as text, empty if there is none."""
        if not self.has("subscribers", "suppression_reason"):
            return self.dialect.as_text("''")
        reason = self.column("subscribers", "suppression_reason")
        return f"coalesce({self.dialect.as_text(reason)}, '')"

    def list_id(self) -> str | None:
        """Return the column with the list of a dispatch or of its message, for SELECT."""
        role = "messages" if self.has("messages") else "dispatches"
        return self.key(role, "list_id") if self.has(role, "list_id") else None

    def visible(self, *roles: str) -> str:
        """Return the conditions that exclude hidden rows, to follow another condition."""
        return "".join(self.not_hidden(role, ALIASES[role]) for role in roles)

    def not_hidden(self, role: str, alias: str) -> str:
        """Return the conditions that exclude a table's hidden rows, to follow another condition."""
        return "".join(
            f" AND {alias}.{self.dialect.quote(column.name)} {self.equals(column, value)}"
            for column, value in self.hiding[role]
        )

    def tenant(self, role: str, alias: str | None = None) -> str:
        """Return the tenant of a row as text, for SELECT: in the form of `tenant_text`."""
        return self.dialect.tenant(self._tenant(role, alias), self.tenants[role])

    def of_tenants(self, role: str) -> str:
        """Return the condition that a row is of any tenant of a parameter, to follow another one.

        An index on the tenant and other columns serves it. A collation may regard the tenants of
        more rows as equal; `rules.decide` compares them exactly.
        """
        is_any = self.dialect.tenant_is_any(self._tenant(role), self.tenants[role])
        return f" AND {is_any}"

    def of_unknown_tenant(self, role: str) -> str:
        """Return the condition that a row is of one tenant, to plan a statement with it.

        From a value, even from none, the planner could conclude that other conditions hold.
        """
        null = self.dialect.cast("NULL", self.tenants[role].type)
        return f" AND {self._tenant(role)} = (SELECT {null})"

    def of_given_tenant(self, role: str) -> str:
        """Return the condition that a row is of the tenant of `given`, to follow another one.

        The relation has the tenant of an entry of the log by role; see `Statements.of_entries`.
        """
        given = self.dialect.given(role, self.tenants[role])
        return f" AND {self._tenant(role)} = {given}"

    def of_tenant(self, role: str, tenant: Key) -> tuple[str, Sequence[Any]]:
        """Return the condition that a row is of exactly one tenant, and its parameters.

        A row whose table has no column of tenants has the tenant of its subscriber.
        """
        if role not in self.tenants:
            subscriber = self.refers(role, "subscriber_id", "subscribers", "id")
            of_subscriber, values = self.of_tenant("subscribers", tenant)
            rows = f"{self.table('subscribers')} WHERE {subscriber} AND {of_subscriber}"
            return f"EXISTS (SELECT 1 FROM {rows})", values
        column, value = self.tenants[role], self.tenant_value(role, tenant)
        condition = f"{self._tenant(role)} = {self.dialect.tenant_parameter(column)}"
        if column.kind != "text" or column.holds_uuids:
            return condition, [value]
        is_same = self.dialect.is_same_text(self.tenant(role))
        return f"{condition} AND {is_same}", [value, str(tenant)]

    def tenant_values(
        self, role: str, tenants: Collection[Key | None]
    ) -> Sequence[Collection[Key]]:
        """Return the parameter of `of_tenants`: one, or none if the role has no such column."""
        if role not in self.tenants:
            return ()
        return [{self.tenant_value(role, each) for each in tenants if each is not None}]

    def tenant_value(self, role: str, tenant: Key) -> Key:
        """Return the value of a tenant as a parameter to compare with a role's column."""
        column = self.tenants[role]
        is_digits = column.holds_uuids or column.kind == "binary"
        if is_digits:
            return digits_of_guid(str(tenant))
        return tenant if isinstance(tenant, int) else str(tenant)

    def tenant_text(self, tenant: Key) -> str:
        """Return the value of a tenant in the form in which all rows are compared with it."""
        convert = self.conversions.tenant
        return convert(str(tenant)) if convert else str(tenant)

    def _tenant(self, role: str, alias: str | None = None) -> str:
        return f"{alias or ALIASES[role]}.{self.dialect.quote(self.tenants[role].name)}"

    def may_hide(self, role: str) -> bool:
        """Return whether a change, also one by a trigger, may hide a row from a later statement."""
        return bool(self.hiding[role]) or role in self._views

    def equals(self, column: Column, value: Scalar) -> str:
        """Return the rest of a condition of `where`, to follow the column."""
        selected = _selected(column, value)
        return "IS NULL" if selected is None else f"= {self.dialect.literal(selected)}"

    def selecting(self, role: str) -> Mapping[str, Scalar]:
        """Return the values of columns that select the rows of a role; None stands for null."""
        return {column.name: _selected(column, value) for column, value in self.hiding[role]}

    def any_of(self, role: str, name: str) -> str:
        """Return the condition that a column has one of the values of a parameter.

        Its index serves it.
        """
        return self.dialect.any_of(self.column(role, name), self._columns[role][name].type)

    def email_is_any(self, fold: Fold) -> str:
        """Return the condition that an email is one of a parameter's, by the index of a fold.

        This may find more rows than `rules.fold` considers equal; `rules.decide` chooses.
        """
        column = self._columns["subscribers"]["email"]
        return self.dialect.email_is_any(fold, ALIASES["subscribers"], column)

    def refers(self, role: str, name: str, other: str, key: str, alias: str | None = None) -> str:
        """Return the condition that a reference equals a key, which the key's index serves."""
        return f"{self.column(other, key, alias)} = {self.reference(role, name, other, key)}"

    def reference(self, role: str, name: str, other: str, key: str) -> str:
        """Return a reference to a key, as a value that can be compared with it."""
        columns = self._columns[role][name], self._columns[other][key]
        return self.dialect.as_key(self.column(role, name), *columns)

    def joined_messages(self) -> str:
        """Return the join of the dispatches with their messages, if there is such a role."""
        if not self.has("messages"):
            return ""
        same = self.refers("dispatches", "message_id", "messages", "id")
        return f" LEFT JOIN {self.table('messages')} ON {same}{self.visible('messages')}"

    def time(self, role: str, name: str) -> str:
        """Return a parameter to compare with a column of times; its value is `stored`."""
        return self.dialect.instant(self._columns[role][name].type)

    def parameter(self, role: str, name: str) -> str:
        """Return a parameter of the type of a column."""
        return self.dialect.cast("%s", self._columns[role][name].type)

    def stored(self, role: str, name: str, value: Any) -> Any:  # noqa: ANN401 - of a column
        """Return a value as a column stores it."""
        write = self._columns[role][name].write
        return self.dialect.write(write(value) if write else value)


def _selected(column: Column, value: Scalar) -> Scalar:
    """Return the value of a condition as the column stores it.

    False also means null, unless the column is boolean. A UUID has only digits in a column of text
    that SQLAlchemy or Django created for UUIDs.
    """
    if value is False and column.kind != "boolean":
        return None
    if isinstance(value, str) and column.read_key is uuid_of_digits:
        return digits_of_guid(value)
    return value
