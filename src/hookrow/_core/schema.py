"""The schema: the tables and columns of a host that fill hookrow's roles, the same for every store.

`stores.sql._verify` compares it with a database, `django._mapping` with a Django project.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from inspect import isclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from hookrow._arguments import collected, rejection
from hookrow._core.changes import WRITES
from hookrow._core.notation import ModelNotation, Notation
from hookrow._core.notification import KNOWN_REASONS, Suppressible
from hookrow._core.optional import OPTIONAL_COLUMNS, OWN_DISPATCHES, faults_of_records, requested
from hookrow._fault import Fault
from hookrow._models import UNKNOWN_ATTRIBUTE, Model, UnsuitableClass, listed, read_model
from hookrow.errors import ConfigurationError

SUPPRESSION = WRITES[Suppressible.SUBSCRIBER].columns
"""The columns of a suppression, in each table that has them."""

WRITTEN = tuple(dict.fromkeys(each for write in WRITES.values() for each in write.columns))
"""The columns that notifications set, in any table that has them."""

NULLED = ("suppressed_at", "suppression_reason")
"""The columns that a reactivation sets to null."""

TOUCH = "touch"
"""The option of a role for the column with the time of the last write, and its name here."""

TIMES = {*WRITTEN, "sent_at", TOUCH} - {"suppression_reason", "bounce_type"}
"""Columns with a time; `sent_at` is only read."""

MAY_BE_FLAGS = TIMES - {"suppression_changed_at", "sent_at", TOUCH}
"""The times in place of which a column may be boolean: it is true if the time would be set."""

KEYS = {
    Suppressible.SUBSCRIBER: ("id",),
    Suppressible.DISPATCH: ("id",),
    Suppressible.SUBSCRIPTION: ("list_id", "subscriber_id"),
}
"""The columns of the key in a `RowId`: one column by itself, two as a pair."""

REQUIRED: Mapping[str, Sequence[str]] = {
    "subscribers": ("id", "email", "suppressed_at"),
    "dispatches": ("id", "provider_message_id", "subscriber_id", "delivered_at", "opened_at"),
    "subscriptions": ("list_id", "subscriber_id"),
    "messages": ("id", "list_id"),
}
"""The columns that the table of each role must have."""

ROLE_NAMES = tuple(REQUIRED)
"""The names of all roles."""

OPTIONAL: Mapping[str, Sequence[str]] = {
    "subscribers": ("suppression_reason", "suppression_changed_at"),
    "dispatches": ("list_id", "message_id", "sent_at", *SUPPRESSION, *OPTIONAL_COLUMNS),
    "subscriptions": SUPPRESSION,
    "messages": (),
}
"""The columns that the table of each role may lack."""

MAY_BE_NONE = {"dispatches", "subscriptions", "messages"}
"""The roles that a host may lack."""

_SENT_AT_BY_TABLE = {OWN_DISPATCHES: "created_at"}
"""The default column for `sent_at`, by table: only hookrow's own table has one."""

Fold: TypeAlias = Literal["ascii", "lower", "exact", "citext"]
"""The index of a table's emails, which determines how they are compared.

`ascii`: on `lower(email COLLATE "C")`, as in hookrow's table; `lower`: on `lower(email)`;
`exact`: on the column itself, which finds an email in its original spelling or in lower case;
`citext`: on a column of that type or with a collation that ignores case; on SQLite, on one with
`COLLATE NOCASE`.
"""

Scalar: TypeAlias = str | int | bool | None
"""A value that a column can equal; None is null."""

OTHERWISE = "*"
"""The key in `Schema.reasons` for all other reasons."""


class _Columns(TypedDict, total=False):
    """The columns of all roles, by hookrow's names.

    Type checkers take the attributes of an SQLModel for their values, so any type is accepted.
    """

    id: object
    email: object
    suppressed_at: object
    suppression_reason: object
    suppression_changed_at: object
    provider_message_id: object
    subscriber_id: object
    list_id: object
    message_id: object
    sent_at: object
    delivered_at: object
    opened_at: object
    clicked_at: object
    bounced_at: object
    bounce_type: object
    complained_at: object
    first_opened_at: object


def _role_for(value: object) -> str:
    """Return the expression for a role of a model, a table or the name of one; else an example."""
    if isclass(value):
        return f"Role.of({value.__name__})"
    table = value if isinstance(value, str) and value else getattr(value, "fullname", None)
    return f'Role("{table}")' if isinstance(table, str) else 'Role("people")'


def _faults_of_names(argument: str, names: object, example: str) -> Iterator[str]:
    """Yield why a mapping of columns is not one, or which of its keys are not names."""
    if not isinstance(names, Mapping):
        yield rejection(f"`{argument}` of a role", "a dict", names, example)
        return
    for name in names:
        if not isinstance(name, str):
            key = f"A key in `{argument}` of a role"
            yield rejection(key, "the name of a column", name, example)


def _refuse(faults: Iterable[Fault | str]) -> None:
    """Raise `ConfigurationError` with all faults, if there are any."""
    if found := [*faults]:
        raise ConfigurationError(*found)


def _plain(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values without the subclasses of `str` and `int`, such as members of enums.

    Drivers and encoders write those in different forms, or not at all.
    """
    return {name: _as_builtin(value) for name, value in values.items()}


def _as_builtin(value: Any) -> Any:  # noqa: ANN401 - other values remain, and are rejected later
    if isinstance(value, str):
        return str.__str__(value)  # `str` returns the name of a member
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    return value


@dataclass(frozen=True, slots=True)
class Role:
    """The table for a role, and its columns whose names differ from hookrow's.

    `Role("people", {"email": "address"})`: a column that is not mapped has hookrow's name; an
    optional column that the table lacks is None. A table outside the default database schema is
    written `"crm.people"`.

    A boolean column may stand for a time that notifications set, except `suppression_changed_at`:
    it is true if the time would be set.

    `where` hides all rows whose columns, by the table's own names, do not equal these values:
    `{"deleted_at": None}`. For a column that is not boolean, False also means null, because a
    settings file cannot express null. `fold` applies only to the subscribers. `empty` is the value
    of `suppression_reason` for no reason: null, or an empty string if the column does not allow
    null. The empty string is read as null. Members of enums are replaced with their values.

    `tenant` is the column with the tenant of a row, by the table's own name. A notification then
    finds only the rows of its receiver's entry, which is a `Tenant`. The subscribers need the
    column; a dispatch or a subscription without it has the tenant of its subscriber.

    `touch` is a column with a time, by the table's own name, that is set to the time of each write
    that changes a row. It stays as it is if a row has the values already, or newer ones.

    Raises `ConfigurationError` for an object that is not a name. `Role.of` takes models.
    """

    table: str
    columns: Mapping[str, str | None] = field(default_factory=dict)
    where: Mapping[str, Scalar] = field(default_factory=dict, kw_only=True)
    fold: Fold = field(default="ascii", kw_only=True)
    empty: str | None = field(default=None, kw_only=True)
    tenant: str | None = field(default=None, kw_only=True)
    touch: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse(self._faults())
        object.__setattr__(self, "where", _plain(self.where))

    def _faults(self) -> Iterator[str]:
        if not isinstance(self.table, str):
            line = _role_for(self.table)
            yield rejection("The table of a role", "the name of a table", self.table, line)
        yield from _faults_of_names("columns", self.columns, '{"email": "address"}')
        yield from _faults_of_names("where", self.where, '{"deleted_at": None}')
        columns: object = self.columns
        for name, column in columns.items() if isinstance(columns, Mapping) else ():
            if not isinstance(column, str | None):
                line = f'{{"{name}": "{getattr(column, "name", None) or name}"}}'
                subject = f"The column for {name!r}"
                yield rejection(subject, "the name of a column, or None", column, line)
        for option, example in (("tenant", "team_id"), (TOUCH, "updated_at")):
            given = getattr(self, option)
            if isinstance(given, str | None):
                continue
            name = getattr(given, "name", None) or example
            line = f'{_role_for(self.table)[:-1]}, {option}="{name}")'
            if isclass(self.table):
                model = self.table.__name__
                attribute = getattr(given, "key", None) or name
                line = f"Role.of({model}, {option}={model}.{attribute})"
            subject = f"The {option} of a role"
            yield rejection(subject, "the name of a column, or None", given, line)

    @classmethod
    def of(
        cls,
        model: type[Any],
        /,
        *,
        where: Mapping[Any, Scalar] | None = None,
        fold: Fold = "ascii",
        empty: str | None = None,
        tenant: object = None,
        touch: object = None,
        **columns: Unpack[_Columns],
    ) -> Role:
        """Return the role of a model: a class of SQLAlchemy or SQLModel, or a model of Django.

        `Role.of(Person, email=Person.address, where={Person.deleted_at: None})`: an attribute of
        the model stands for its column, in all keywords and in the keys of `where`. A foreign key
        of Django may be `Send.person` or `Send.person_id`. Strings stand for columns, too: in
        Django, the names of fields, and otherwise those of columns. None is no column.

        A column without a keyword is that of the attribute with hookrow's name, or of the primary
        key for `id`. An optional column that the model lacks is None. As in other roles, `sent_at`
        and the columns of optional records are used only if they are named. The schema and the
        database know only the names of tables and columns, so no mapper needs to be configured.

        Raises no exception: `Schema` raises `ConfigurationError` with the faults of all its roles.
        These are a class that is no model or whose columns are in several tables, a class with a
        table of its base unless `where` names the column that distinguishes its rows, each
        attribute that has no column or belongs to another class, and required columns that the
        model lacks. If a class is abstract, or the settings of Django replace it, the attributes
        are compared with those of the one class to map instead.
        """
        mistakes = defaultdict[str, list[Fault]](list)
        read = _read(model, mistakes["model"])
        if read is None:
            return UnreadRole("", faults=mistakes["model"])
        hidden: Mapping[Any, Scalar] = {}
        if isinstance(where, Mapping):
            hidden = where
        elif where is not None:
            example = f"where={{{read.name}.deleted_at: None}}"
            subject = f"`where` of Role.of({read.name})"
            mistakes["where"].append(Fault(rejection(subject, "a dict", where, example)))
        named: dict[str, str | None] = {}
        for name, given in {**columns, "tenant": tenant, TOUCH: touch}.items():
            named[name] = None
            if given is not None:
                with collected(mistakes[name]):
                    named[name] = _column_of(read, name, given)
        conditions: dict[str, Scalar] = {}
        for given, value in hidden.items():
            with collected(mistakes["where"]):
                conditions[_column_of(read, "where", given)] = value
        if not mistakes["where"]:
            with collected(mistakes["model"]):
                read.check_where(conditions)
        return ModelRole(
            read.table,
            where=conditions,
            fold=fold,
            empty=empty,
            tenant=named.pop("tenant"),
            touch=named.pop(TOUCH),
            columns=named,
            model=read,
            mistakes={name: faults for name, faults in mistakes.items() if faults},
        )

    def column(self, name: str) -> str | None:
        """Return a column's name in the table by hookrow's name, or None if the table lacks it.

        `sent_at` exists only if it is mapped, except in hookrow's own table; a column for optional
        records, only if it is mapped.
        """
        usual = None if name in OPTIONAL_COLUMNS else name
        if name == "sent_at":
            usual = _SENT_AT_BY_TABLE.get(self.table)
        return self.columns.get(name, usual)

    @property
    def line_with_tenant(self) -> str:
        """The expression for the table's role with a column of tenants, for messages."""
        return f'Role("{self.table}", tenant="team_id")'


@dataclass(frozen=True, slots=True)
class ModelRole(Role):
    """The role of a model: a column that is not mapped is that of the attribute with its name.

    `mistakes` are the faults of arguments without a column, by their names, and those of the class
    itself. `Schema` raises them, so that one error has those of all its roles.
    """

    model: Model = field(kw_only=True, repr=False)
    mistakes: Mapping[str, Sequence[Fault]] = field(kw_only=True, repr=False)

    @property
    def line_with_tenant(self) -> str:
        """The expression for the model's role with an attribute for tenants, for messages."""
        name = self.model.name
        attribute = "team_id" if "team_id" in self.model.columns else UNKNOWN_ATTRIBUTE
        return f"Role.of({name}, tenant={name}.{attribute})"

    def column(self, name: str) -> str | None:
        """Return a column's name in the table, or None if the model lacks it.

        A column that is mapped by another name is not used twice.
        """
        usual = None
        if name not in {"sent_at", *OPTIONAL_COLUMNS}:
            usual = self.model.columns.get(name, self.model.key if name == "id" else None)
        if usual in self.columns.values():
            usual = None
        return self.columns.get(name, usual)


@dataclass(frozen=True, slots=True)
class UnreadRole(Role):
    """The role of a class that declares no columns of one table; `Schema` raises the faults."""

    faults: Sequence[Fault] = field(kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The tables of a host, by default hookrow's. A host without lists has no subscriptions.

    A host that has only people has no dispatches, either: suppressions are recorded, and the
    response to deliveries and opens is the contract's 404.

    With `messages`, the list of a dispatch is that of its message: `dispatches.message_id` refers
    to `messages.id`, and the message's `list_id` is the list. `reasons` maps the provider's reasons
    to the host's values, and `"*"` all others; without it, reasons are stored unchanged. `log` is
    the table of the log, always one of hookrow's own; None disables the log. `record` requests
    optional records: "click", "bounce", "complaint" and "first_open". A host's dispatches need
    columns for them.

    Raises `ConfigurationError` for unknown columns, required columns that are None, values that
    no column can hold, contradictory options, and columns that a model declares unsuitable, such
    as NOT NULL if a reactivation sets them to null.
    """

    subscribers: Role = Role("hookrow_subscribers")
    dispatches: Role | None = Role("hookrow_dispatches")
    subscriptions: Role | None = Role("hookrow_subscriptions")
    messages: Role | None = None
    reasons: Mapping[str, str | int] | None = None
    log: str | None = "hookrow_notifications"
    record: Sequence[str] = ()
    notation: Notation | None = field(
        default=Notation.PYTHON, init=False, compare=False, repr=False
    )
    """The form in which it is written, for messages; None if models determine its names."""

    def __post_init__(self) -> None:
        _refuse(_faults_of_types(self))
        object.__setattr__(self, "record", (*self.record,))
        if self.reasons is not None:
            object.__setattr__(self, "reasons", _plain(self.reasons))
        faults = [*self._faults()]
        of_models = [*self._faults_of_models(is_refused=bool(faults))]
        if faults or of_models:
            of_models += self._doubts_of_models()
        tables = [each.table for each in self.roles.values()]
        _refuse([*faults, *sorted(of_models, key=lambda each: tables.index(each.table))])

    def _faults_of_models(self, *, is_refused: bool) -> Iterator[Fault]:
        """Yield the unsuitable columns that models declare.

        For those of Django, the system checks do, with hints, if the schema is not refused anyway.
        """
        models = {
            name: role.model
            for name, role in self.roles.items()
            if isinstance(role, ModelRole) and (is_refused or role.model.label is None)
        }
        if models:
            # The module imports this one.
            from hookrow._core.column_rules import faults_of_declarations  # noqa: PLC0415

            yield from faults_of_declarations(
                self, {name: model.declared for name, model in models.items()}
            )

    def _doubts_of_models(self) -> Iterator[Fault]:
        """Yield what models declare that is a fault unless the database or the provider differs.

        A schema is not refused for this alone. If it is, the same error has these, because they
        would probably be the next one.
        """
        # The modules import this one.
        from hookrow._core.column_rules import doubts_of_message_ids  # noqa: PLC0415
        from hookrow._core.keys import faults_of_declared_keys  # noqa: PLC0415

        yield from doubts_of_message_ids(self)
        yield from faults_of_declared_keys(self)

    def _faults(self) -> Iterator[Fault | str]:
        """Yield all faults of a schema whose parts have the right types."""
        if self.log == "":
            yield "The log needs a table: set its name, or disable the log."
        for name, role in self.roles.items():
            if isinstance(role, UnreadRole):
                yield from role.faults
                continue
            yield from _faults_of_spelling(self, name, role)
            role = _spelled(name, role)  # noqa: PLW2901 - as it is meant
            yield from _faults_of_role(self, name, role)
            yield from _faults_of_shared_columns(name, self.columns(name))
            yield from _faults_of_where(name, role)
            yield from _faults_of_tenant(name, role, self.subscribers)
            yield from _faults_of_touch(name, role, self.columns(name))
        yield from _faults_of_binds(self.roles)
        if self.dispatches is None:
            yield from self._faults_without_dispatches()
        elif self.messages is not None:
            yield from self._faults_of_messages(_spelled("dispatches", self.dispatches))
        if self.reasons is not None:
            yield from _faults_of_reasons(self.reasons)
        if not isinstance(self.dispatches, UnreadRole):
            dispatches = self.columns("dispatches")
            table = self.dispatches.table if self.dispatches else None
            yield from faults_of_records(self.record, dispatches, table)
        for name, role in self.roles.items():
            if role.empty is not None:
                yield from _faults_of_empty(name, role, self.reasons or {})

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        """The roles of this host, by name."""
        roles = {
            "subscribers": self.subscribers,
            "dispatches": self.dispatches,
            "subscriptions": self.subscriptions,
            "messages": self.messages,
        }
        return {name: role for name, role in roles.items() if role is not None}

    @cached_property
    def is_own(self) -> bool:
        """Whether the tables of all roles are hookrow's own."""
        return self.roles == OWN_ROLES

    @property
    def declares_log(self) -> bool:
        """Whether the metadata of models contains the log, so that their migrations create it."""
        models = [each.model for each in self.roles.values() if isinstance(each, ModelRole)]
        return self.log is not None and any(each.is_beside(self.log) for each in models)

    @property
    def has_tenants(self) -> bool:
        """Whether every row belongs to a tenant."""
        return self.subscribers.tenant is not None

    @cached_property
    def suppressible(self) -> Collection[Suppressible]:
        """The kinds of row with a column for suppressions; others do not change by one."""
        kinds = (kind for kind in Suppressible if kind.value in self.roles)
        return frozenset(kind for kind in kinds if {*SUPPRESSION} & self.columns(kind.value).keys())

    @property
    def dated_in_side_table(self) -> Collection[Suppressible]:
        """The kinds of row whose last change hookrow dates itself, because no column does."""
        return self._without_date if self.log else ()

    @property
    def unguarded(self) -> Collection[Suppressible]:
        """The same kinds of row if there is no log, in which case nothing stores the date."""
        return () if self.log else self._without_date

    @property
    def form(self) -> Notation:
        """The notation in which messages show options: Django's settings if models have names."""
        return self.notation or Notation.DJANGO

    def changed(self, **fields: Any) -> Schema:  # noqa: ANN401 - of any field
        """Return the schema with other values of some fields, in the same notation."""
        return replace(self, **fields).written_in(self.notation)

    def written_in(self, notation: Notation | None) -> Schema:
        """Return the same schema, which messages show in another notation."""
        schema = replace(self)
        object.__setattr__(schema, "notation", notation)
        return schema

    def side_table(self, table: str) -> str:
        """Return the name of a table that accompanies the log, in the log's database schema."""
        namespace, dot, _ = (self.log or "").rpartition(".")
        return f"{namespace}{dot}{table}"

    def columns(self, name: str) -> Mapping[str, str]:
        """Return the columns of a role: hookrow's names, each with the table's name.

        A role that the mapping lacks has none.
        """
        return self._columns.get(name, {})

    def reason(self, reason: str | None) -> str | int | None:
        """Return the host's value for a reason, or None for no reason."""
        if reason is None or self.reasons is None:
            return reason
        return self.reasons.get(reason, self.reasons.get(OTHERWISE, reason))

    @cached_property
    def known_values(self) -> Mapping[str, str | int]:
        """The host's values that hookrow knows it may write, by the provider's reason or `"*"`.

        Without `"*"`, any other reason of the provider is written unchanged.
        """
        reasons = self.reasons or {}
        values = {word: reasons.get(OTHERWISE, word) for word in KNOWN_REASONS}
        return {**values, **reasons}

    @cached_property
    def _columns(self) -> Mapping[str, Mapping[str, str]]:
        return {
            name: self._columns_of(name, _spelled(name, role)) for name, role in self.roles.items()
        }

    def _columns_of(self, name: str, role: Role) -> Mapping[str, str]:
        named = {field: role.column(field) for field in (*REQUIRED[name], *OPTIONAL[name])}
        if name == "dispatches":
            wanted = requested(self.record, role.table)
            named = {field: column or wanted.get(field) for field, column in named.items()}
        named[TOUCH] = role.touch
        return {
            field: column
            for field, column in named.items()
            if column is not None and field not in self._unused(name)
        }

    @cached_property
    def _without_date(self) -> Collection[Suppressible]:
        column = "suppression_changed_at"
        return {kind for kind in self.suppressible if column not in self.columns(kind.value)}

    def _unused(self, name: str) -> Collection[str]:
        """Return the columns that this host does not use, by hookrow's names."""
        if name != "dispatches":
            return ()
        if self.subscriptions is None:
            return ("list_id", "message_id")
        return ("message_id",) if self.messages is None else ("list_id",)

    def _faults_without_dispatches(self) -> Iterator[str]:
        for name in ("subscriptions", "messages"):
            if name in self.roles:
                yield (
                    f"`{name}` needs `dispatches`, because a list is found by the dispatch: map "
                    f"the dispatches, or turn off `{name}` in the same way."
                )

    def _faults_of_messages(self, dispatches: Role) -> Iterator[str]:
        if self.subscriptions is None:
            yield "`messages` needs `subscriptions`: map the subscriptions, or omit the messages."
        if dispatches.column("message_id") is None:
            yield "With `messages`, the dispatches need the column 'message_id': map it."
        if dispatches.columns.get("list_id") is not None:
            yield (
                "The list is mapped in both the dispatches and the messages: omit one of the two."
            )


def nearest(name: str, names: Iterable[str], *, prefix: str = "") -> str:
    """Return a hint that contains the most similar name after the prefix, or an empty string."""
    near = nearest_name(name, names, prefix=prefix)
    return f" Did you mean {near!r}?" if near else ""


def nearest_name(name: str, names: Iterable[str], *, prefix: str = "") -> str | None:
    """Return the most similar name after the prefix, or None if none is similar."""
    lowered = {each.removeprefix(prefix).lower(): each for each in names if each != name}
    near = get_close_matches(name.removeprefix(prefix).lower(), lowered, n=1)
    return lowered[near[0]] if near else None


def _read(model: object, faults: list[Fault]) -> Model | None:
    """Return what a class declares, or another class in its place, and collect the faults.

    Returns None if there is none.
    """
    try:
        return read_model(model)
    except UnsuitableClass as error:
        faults += error.faults
        return None if error.instead is None else _read(error.instead, faults)
    except ConfigurationError as error:
        faults += error.faults
        return None


def _column_of(model: Model, argument: str, given: object) -> str:
    """Return the column for which an attribute or a string stands in an argument of `Role.of`."""
    if not isinstance(given, str):
        return model.column_of(argument, given)
    if given in model.strings:
        return model.strings[given]
    if given in model.columns:
        column = model.columns[given]
        model.refuse(argument, f"{given!r}, an attribute whose column is {column!r}", given)
    hint = nearest(given, model.strings)
    if model.label and "__" in given:
        hint = (
            " All fields of a role belong to one model: to find the list of a dispatch by its "
            "message, map `messages`, and the foreign key as `message_id`."
        )
    raise ConfigurationError(
        f"`{argument}` of Role.of({model.name}) is {given!r}, which {model.name} does not have."
        f"{hint}"
    )


def _faults_of_types(schema: Schema) -> Iterator[str]:
    for name in REQUIRED:
        given = getattr(schema, name)
        if not isinstance(given, Role) and (given is not None or name not in MAY_BE_NONE):
            line = f"{name}={_role_for(given)}"
            yield rejection(f"The role {name!r}", "a Role", given, line)
    if not isinstance(schema.log, str | None):
        yield rejection("log", "the name of a table, or None", schema.log, "log=None for no log")
    record: object = schema.record
    if not isinstance(record, list | tuple):
        yield rejection("record", "a tuple or list of names", record, 'record=("click", "bounce")')
    for each in record if isinstance(record, list | tuple) else ():
        if not isinstance(each, str):
            yield rejection("Each item of record", "a string", each, 'record=("click", "bounce")')
    if not isinstance(schema.reasons, Mapping | None):
        yield rejection("reasons", "a dict", schema.reasons, 'reasons={"HardBounce": "bounced"}')


_OPTIONS = ("where", "fold", "empty", "tenant", TOUCH)
"""The keywords of `Role.of` that are no columns."""


def _misspelled(name: str, role: Role) -> Mapping[str, str | None]:
    """Return the columns of a role that hookrow does not know, each with the name that is meant.

    That of a model may be another keyword of `Role.of`.
    """
    known = (*REQUIRED[name], *OPTIONAL[name])
    free = [each for each in known if each not in role.columns]
    if isinstance(role, ModelRole):
        free += _OPTIONS
    meant: dict[str, str | None] = {}
    for column in role.columns:
        if column not in known:
            near = meant[column] = nearest_name(column, free)
            free = [each for each in free if each != near]
    return meant


def _spelled(name: str, role: Role) -> Role:
    """Return a role with the columns that are meant in place of those that hookrow does not know.

    The schema is refused, but the columns have no other faults only because of their spelling.
    """
    meant = {column: near for column, near in _misspelled(name, role).items() if near is not None}
    if not meant:
        return role
    options = {column for column, near in meant.items() if near in _OPTIONS}
    columns = {
        meant.get(each, each): column
        for each, column in role.columns.items()
        if each not in options
    }
    if isinstance(role, ModelRole):
        mistakes = {
            meant.get(each, each): faults
            for each, faults in role.mistakes.items()
            if each not in options  # whose value need not be an attribute
        }
        return replace(role, columns=columns, mistakes=mistakes)
    return replace(role, columns=columns)


def notation_of(role: Role, notation: Notation) -> Notation | ModelNotation:
    """Return the form in which a role is written: that of a model if it is still the model's."""
    if isinstance(role, ModelRole) and role.table == role.model.table:
        return ModelNotation(role.model.name, role.model.attributes)
    return notation


def _faults_of_spelling(schema: Schema, name: str, role: Role) -> Iterator[str]:
    """Yield the columns that hookrow does not know, with the argument to write for a model."""
    for column, near in _misspelled(name, role).items():
        hint = f" Did you mean {near!r}?" if near else ""
        if near and isinstance(role, ModelRole) and column not in role.mistakes:
            line = notation_of(role, schema.form).entry(near, role.columns[column])
            hint += f" Write {line}."
        yield f"The role {name!r} has no column {column!r}.{hint}"


def _faults_of_role(schema: Schema, name: str, role: Role) -> Iterator[Fault | str]:
    known = (*REQUIRED[name], *OPTIONAL[name])
    if not role.table:
        yield f"The role {name!r} needs a table: set its name."
    reported: Collection[str] = ()
    if isinstance(role, ModelRole):
        yield from _faults_of_attributes(schema, name, role)
        reported = [*role.mistakes, *_missing(name, role)]
    for column in known:
        if column in reported:
            continue
        column_name = role.column(column)
        if not column_name and (column in REQUIRED[name] or column_name is not None):
            yield f"The role {name!r} needs the column {column!r}: map it."
    if role.fold not in get_args(Fold):
        yield (
            f"The role {name!r} has the fold {role.fold!r}: "
            f"use {', '.join(get_args(Fold)[:-1])} or {get_args(Fold)[-1]}."
        )
    elif role.fold != "ascii" and name != "subscribers":
        yield f"The role {name!r} has no email: omit `fold`."


def _faults_of_binds(roles: Mapping[str, Role]) -> Iterator[str]:
    """Yield the fault of models in several databases, of which a store uses one."""
    binds = {
        role.model.name: role.model.bind for role in roles.values() if isinstance(role, ModelRole)
    }
    if len({*binds.values()}) > 1:
        places = [f"{name} to {bind or 'the default'}" for name, bind in binds.items()]
        yield (
            f"The models are bound to several databases, {listed(places)}, but all roles must be "
            "in one: map models with the same `__bind_key__`."
        )


def _faults_of_attributes(schema: Schema, name: str, role: ModelRole) -> Iterator[Fault | str]:
    """Yield the arguments that name no column of the model, and the columns that it lacks."""
    for faults in role.mistakes.values():
        yield from faults
    if missing := _missing(name, role):
        yield _fault_of_model(schema, name, role, missing)


def _missing(name: str, role: ModelRole) -> Sequence[str]:
    """Return the required columns that a model lacks and that are not mapped."""
    return [
        each for each in REQUIRED[name] if each not in role.columns and role.column(each) is None
    ]


def _fault_of_model(schema: Schema, name: str, role: ModelRole, missing: Sequence[str]) -> str:
    """Return the sentences for all required columns that a model lacks."""
    # The modules import this one.
    from hookrow._core.column_rules import may_be  # noqa: PLC0415
    from hookrow._core.corrections import Table, find  # noqa: PLC0415

    model = role.model.name
    proposed = (fault.column for faults in role.mistakes.values() for fault in faults)
    used = {*role.columns.values(), *map(role.column, REQUIRED[name]), *proposed}
    used |= {*role.where, role.tenant, role.touch}
    others = [each for column, each in role.model.attributes.items() if column not in used]
    these = "attribute with this name" if len(missing) == 1 else "attributes with these names"
    fault = f"The role {name!r} needs {listed(missing)}, and {model} has no {these}"
    if not others:
        return f"{fault}, nor any other one that is not mapped yet: {_add(role.model, missing)}."
    declared = {
        attribute: role.model.declared[column]
        for column, attribute in role.model.attributes.items()
    }

    def suits(field: str, attribute: str) -> bool:
        return may_be(field, declared[attribute])

    table = Table(model, others, others, suits, suits)
    found = find(schema, name, missing, table)
    line = ", ".join(f"{each}={model}.{found.get(each, UNKNOWN_ATTRIBUTE)}" for each in missing)
    rest = "attribute is" if len(others) == 1 else "attributes are"
    fault += f": write Role.of({model}, {line}, ...). Its other {rest} {listed(others)}."
    unknown = [each for each in missing if each not in found]
    return f"{fault} If none of them is meant, {_add(role.model, unknown)}." if unknown else fault


def _add(model: Model, fields: Sequence[str]) -> str:
    """Return a clause with the attributes to add to a model, with the lines for times."""
    lines = [f"`{model.time_line(each)}`" if each in TIMES else each for each in fields]
    return f"add {listed(lines)} to it"


def _faults_of_shared_columns(name: str, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield two uses of one column; `columns` are those that the host uses."""
    users: dict[str, str] = {}
    for each, column in columns.items():
        if column and column in users:
            yield (
                f"The role {name!r} uses the column {column!r} for both {users[column]} and "
                f"{each}: map one of the two to another column."
            )
        users[column] = each


def _faults_of_where(name: str, role: Role) -> Iterator[str]:
    """Yield conditions on columns that notifications set, and values that are not plain."""
    for column in (*REQUIRED[name], *OPTIONAL[name]):
        if column in WRITTEN and role.column(column) in role.where:
            yield (
                f"The role {name!r} hides rows by {role.column(column)!r}, which notifications "
                "set: use another column in `where`."
            )
    for column_name, value in role.where.items():
        if not isinstance(value, str | int | None):
            yield (
                f"The role {name!r} has {value!r} for {column_name!r} in `where`: use a string, an "
                "integer, True, False or None."
            )


def _faults_of_tenant(name: str, role: Role, subscribers: Role) -> Iterator[str]:
    """Yield the fault of a column of tenants in a wrong role, or with another use."""
    column = role.tenant
    if column is None:
        return
    mistake = ""
    if not column:
        mistake = "which is not the name of a column: omit `tenant`."
    elif name == "messages":
        mistake = "but a message has the tenant of its dispatches: omit `tenant`."
    elif subscribers.tenant is None and not isinstance(subscribers, UnreadRole):
        mistake = "but the subscribers have none: name their column with `tenant`, too."
    elif column in role.where:
        mistake = "which also hides rows: omit it in `where`."
    elif column in {role.column(each) for each in (*WRITTEN, "email", "provider_message_id")}:
        mistake = "which notifications set or search: name another column."
    if mistake:
        yield f"The role {name!r} has the tenant {column!r}, {mistake}"


def _faults_of_touch(name: str, role: Role, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the fault of a `touch` that nothing sets, or of a column that has another use."""
    if role.touch is None:
        return
    mistake = ""
    if not role.touch:
        mistake = "which is not the name of a column: omit `touch`."
    elif not {*WRITTEN} & columns.keys():
        mistake = f"but notifications set no column of the {name}: omit `touch`."
    elif role.touch in {*role.where, role.tenant}:
        mistake = "which also selects rows: name another column."
    if mistake:
        yield f"The role {name!r} has the touch {role.touch!r}, {mistake}"


def _faults_of_reasons(reasons: Mapping[str, str | int]) -> Iterator[str]:
    if not reasons:
        yield (
            "`reasons` is empty: map reasons, for example 'HardBounce' to 'bounced', or omit it to "
            "store them unchanged."
        )
    for word, value in reasons.items():
        yield from _faults_of_reason(word, value)
    numbers = [value for value in reasons.values() if isinstance(value, int)]
    if numbers and OTHERWISE not in reasons:
        yield "`reasons` has integers: add one for all others, with the key '*'."
    if len(numbers) not in {0, len(reasons)}:
        yield "`reasons` has strings and integers: use only one of the two."


def _faults_of_reason(word: object, value: object) -> Iterator[str]:
    if not isinstance(word, str) or not word:
        yield (
            f"`reasons` has the key {word!r}: use a reason of the provider, or '*' for all others."
        )
    if isinstance(value, bool) or not isinstance(value, str | int):
        yield f"`reasons` has {value!r} for {word!r}: use a string or an integer."
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield f"`reasons` has {value} for {word!r}: use an integer that fits 64 bits."


def _faults_of_empty(name: str, role: Role, reasons: Mapping[str, str | int]) -> Iterator[str]:
    mistake = ""
    if role.empty != "":
        mistake = "which is not an empty string: use one, or omit `empty` for null."
    elif "suppression_reason" not in OPTIONAL[name] or role.column("suppression_reason") is None:
        mistake = "but no column for a reason: omit `empty`, or map suppression_reason."
    elif any(isinstance(value, int) for value in reasons.values()):
        mistake = "but `reasons` has integers: omit `empty`, and let the column allow null."
    elif "" in reasons.values():
        mistake = "which is also a value in `reasons`: use another value there."
    if mistake:
        yield f"The role {name!r} has {role.empty!r} for `empty`, {mistake}"


OWN_ROLES = Schema().roles
"""The roles of hookrow's own tables."""
