"""Reads what models declare: the classes of SQLAlchemy, SQLModel and Django, and their attributes.

It imports none of these libraries, because the class of a model exists only if its library has been
loaded. It never configures the mappers of SQLAlchemy: a relationship may refer to a class that is
defined later, and SQLAlchemy would keep the failure.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any, NoReturn

from hookrow._arguments import kind_of, reject
from hookrow._fault import Fault
from hookrow.errors import ConfigurationError

_ARGUMENT = "The argument of Role.of()"
_A_MODEL = "the class of a model"
_OF_PERSON = "Role.of(Person, email=Person.address)"

UNKNOWN_ATTRIBUTE = "<attribute>"
"""What a user has to replace in the lines to write: no attribute is known to be meant."""


MOST_LISTED = 12
"""How many names a message lists."""


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return names for the middle of a sentence, at least one, with a word before the last."""
    if len(names) > MOST_LISTED:
        names = [*names[:MOST_LISTED], "others"]
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """What a model declares about a column for every database.

    `kind` is text, integer, boolean, date, time, datetime or enum, or empty for any other type, of
    which only the database knows what it holds. `length` is that of a text, in characters, and
    `labels` are the values of an enum.
    """

    name: str
    type_name: str
    kind: str
    nullable: bool
    generated: bool
    length: int | None = None
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Model(ABC):
    """The table and the columns of a class.

    `columns` contains the columns by attribute, and `strings` by the strings that stand for them in
    a mapping. `key` is the column of the primary key, or None if it has several. `label` is the
    name that Django has for the model, or None. `declared` describes the columns, by their names.
    `unique` are the sets of columns that are unique together, and `partly_unique` those of indexes
    with a condition or an expression. `bind` is the key of its database if Flask-SQLAlchemy has
    several.
    """

    cls: type[Any]
    table: str
    columns: Mapping[str, str]
    strings: Mapping[str, str]
    key: str | None
    label: str | None
    declared: Mapping[str, DeclaredColumn]
    unique: Sequence[Collection[str]]
    partly_unique: Sequence[Collection[str]]
    bind: str | None = None

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.cls.__name__

    @property
    def attributes(self) -> Mapping[str, str]:
        """The first attribute of each column, by column."""
        named = {column: name for name, column in reversed([*self.columns.items()])}
        return dict(reversed([*named.items()]))

    def column_of(self, argument: str, given: object) -> str:
        """Return the column of an attribute, which an argument of `Role.of` names.

        Raises `ConfigurationError` for anything else.
        """
        column = self._column(given)
        if column is None:
            self.refuse(argument, *self._mistake(given))
        return column

    def refuse(self, argument: str, mistake: str, attribute: str | None = None) -> NoReturn:
        """Raise `ConfigurationError` for an argument, with the line to write."""
        known = UNKNOWN_ATTRIBUTE
        if attribute is not None and attribute in self.columns:
            known = attribute
        line = f"{argument}={self.name}.{known}"
        if argument == "where":
            line = f"where={{{self.name}.{known}: ...}}"
        text = f"`{argument}` of Role.of({self.name}) is {mistake}: write {line}."
        if known == UNKNOWN_ATTRIBUTE:
            text += f" Its attributes with columns: {listed([*self.attributes.values()])}."
        raise ConfigurationError(Fault(text, self.table, self.columns.get(known, "")))

    @property
    @abstractmethod
    def text_type(self) -> str:
        """How the class declares a text of a length, with {length} for it."""

    @property
    @abstractmethod
    def time_type(self) -> str:
        """How the class declares a date-time."""

    @property
    @abstractmethod
    def null(self) -> str:
        """How the class declares that a column allows null."""

    @abstractmethod
    def time_line(self, attribute: str) -> str:
        """Return the line of the class for another column with a date-time that allows null."""

    @abstractmethod
    def unique_line(self, columns: Sequence[str]) -> str:
        """Return how the class declares that several columns are unique together, and where."""

    @abstractmethod
    def check_where(self, where: Mapping[str, Any]) -> None:
        """Raise `ConfigurationError` if rows that are no objects of the class are not hidden."""

    @abstractmethod
    def _column(self, given: Any) -> str | None:  # noqa: ANN401 - anything
        """Return the column of an attribute of the class, or None."""

    @abstractmethod
    def _mistake(self, given: Any) -> tuple[str, str | None]:  # noqa: ANN401 - anything
        """Describe an object without a column, and return the attribute that may be meant."""

    def _other(self, given: object) -> tuple[str, None]:
        return f"not an attribute of {self.name}, but {kind_of(given)}", None

    def _key(self, value: object) -> str | None:
        """Return the name of an object in the class or its bases."""
        found = (
            key for base in self.cls.__mro__ for key, each in vars(base).items() if each is value
        )
        return next(found, None)

    def _attribute(self, column: str) -> str | None:
        """Return the attribute that has a column."""
        return next((name for name, each in self.columns.items() if each == column), None)

    @abstractmethod
    def is_beside(self, table: str) -> bool:
        """Return whether another table is declared with the model, so that one migration has both.

        In Django, the migrations of each app are its own.
        """


def read_model(given: Any) -> Model:  # noqa: ANN401 - anything, which is rejected
    """Return what the class of a model declares.

    Raises `ConfigurationError` for anything else, and `UnsuitableClass` for a model that cannot be
    mapped.
    """
    if not isclass(given):
        _reject_object(given)
    django, orm = sys.modules.get("django.db.models"), sys.modules.get("sqlalchemy.orm")
    if django is not None and issubclass(given, django.Model) and hasattr(given, "_meta"):
        return _read_django(given)
    mapper = None if orm is None else _mapper(given)
    if mapper is not None:
        return _read_mapped(given, mapper)
    if vars(given).get("__abstract__"):
        _refuse_abstract(given, lambda each: _mapper(each) is not None)
    if "__tablename__" in vars(given):
        _refuse_class(given, "is not mapped yet: with DeferredReflection, call prepare() first")
    if _is_sqlmodel(given):
        if any(_mapper(each) is not None for each in _below(given)):
            _refuse_abstract(given, lambda each: _mapper(each) is not None, "has no table")
        _refuse_class(given, f"has no table: write class {given.__name__}(SQLModel, table=True)")
    return reject(_ARGUMENT, "the class of a model, which has a table", given, _OF_PERSON)


def _reject_object(given: Any) -> NoReturn:  # noqa: ANN401 - anything
    """Reject an object of a model, a table, or the name of one: only classes are models."""
    table = given if isinstance(given, str) else getattr(given, "fullname", None)
    if isinstance(table, str) and table:
        reject(_ARGUMENT, _A_MODEL, given, f'Role("{table}")')
    cls = type(given)
    is_object = hasattr(cls, "__mapper__") or hasattr(cls, "_meta")
    reject(_ARGUMENT, _A_MODEL, given, f"Role.of({cls.__name__})" if is_object else _OF_PERSON)


class UnsuitableClass(ConfigurationError):
    """The class of a model cannot be mapped. `instead` is the one to map, if it is known."""

    def __init__(self, text: str, instead: type[Any] | None = None) -> None:
        super().__init__(text)
        self.instead = instead


def _refuse_class(cls: type, mistake: str, instead: type[Any] | None = None) -> NoReturn:
    raise UnsuitableClass(f"Role.of({cls.__name__}): the class {mistake}.", instead)


def _refuse_abstract(
    cls: type, is_mapped: Callable[[Any], bool], lacks: str = "is abstract"
) -> NoReturn:
    """Refuse a class that others inherit from, with the names of those to map instead."""
    found = [each for each in _below(cls) if is_mapped(each) and _is_suitable(each)]
    names = [each.__name__ for each in found]
    example = f", such as {listed(names, 'or')}" if names else ""
    mistake = f"{lacks}: map a class that inherits from it{example}"
    _refuse_class(cls, mistake, found[0] if len(found) == 1 else None)


def _is_suitable(cls: type) -> bool:
    """Return whether a class can be mapped, so that the next error does not refuse it."""
    try:
        read_model(cls)
    except UnsuitableClass:
        return False
    return True


def _below(cls: type) -> Iterator[type]:
    """Yield the classes that inherit from a class."""
    classes: list[type] = cls.__subclasses__()
    for each in classes:
        yield each
        yield from _below(each)


def _is_sqlmodel(cls: type) -> bool:
    sqlmodel = sys.modules.get("sqlmodel")
    return sqlmodel is not None and issubclass(cls, sqlmodel.SQLModel)


class _MappedClass(Model):
    """A class that SQLAlchemy maps: declarative, imperative, or of SQLModel."""

    __slots__ = ()

    @property
    def text_type(self) -> str:
        """How the class declares a text of a length."""
        return "max_length={length}" if _is_sqlmodel(self.cls) else "String({length})"

    @property
    def time_type(self) -> str:
        """How the class declares a date-time: as it or another class declares one already."""
        types: Any = sys.modules["sqlalchemy.types"]
        table = _mapper(self.cls).local_table
        for each in [table, *table.metadata.tables.values()]:
            for column in each.columns:
                if isinstance(column.type, types.DateTime) and not _has_variants(column.type):
                    return repr(column.type)
        return "DateTime(timezone=True)"

    @property
    def null(self) -> str:
        """How the class declares that a column allows null, in every style."""
        return "nullable=True"

    def time_line(self, attribute: str) -> str:
        """Return the line for a date-time: `mapped_column` needs no annotation."""
        if _is_sqlmodel(self.cls):
            return f"{attribute}: datetime | None = Field(default=None, sa_type={self.time_type})"
        return f"{attribute} = mapped_column({self.time_type})"

    def unique_line(self, columns: Sequence[str]) -> str:
        """Return the constraint, which SQLAlchemy declares by the names of the columns."""
        names = ", ".join(f'"{each}"' for each in columns)
        return f"UniqueConstraint({names}) to {self.name}.__table_args__"

    def _column(self, given: Any) -> str | None:  # noqa: ANN401 - anything
        """Return the column of an attribute; that of a base is the same column."""
        orm: Any = sys.modules["sqlalchemy.orm"]
        if isinstance(given, orm.InstrumentedAttribute) and self._owns(given):
            return self.columns.get(given.key)
        return None

    def _owns(self, attribute: Any) -> bool:  # noqa: ANN401 - an attribute
        """Return whether an attribute belongs to the class or a base, not to an alias of it."""
        return isclass(attribute.class_) and issubclass(self.cls, attribute.class_)

    def _mistake(self, given: Any) -> tuple[str, str | None]:  # noqa: ANN401 - anything
        sqlalchemy, orm = sys.modules["sqlalchemy"], sys.modules["sqlalchemy.orm"]
        if isinstance(given, orm.QueryableAttribute):
            key = given.key
            if self._owns(given):
                kind = self._kind(given)
                return f"{self.name}.{key}, which is {kind}, not a column", f"{key}_id"
            other = getattr(given.class_, "__name__", "an alias")
            return f"{other}.{key}, an attribute of another class", key
        if isinstance(given, sqlalchemy.Column) and given.table is not None:
            attribute = self._attribute(given.name) if given.table.fullname == self.table else None
            return f"{given}, a column of a Table", attribute
        if isinstance(given, sqlalchemy.Column | orm.MappedColumn):
            return "an attribute of a mixin or of an abstract class", self._key(given)
        return self._other(given)

    def check_where(self, where: Mapping[str, Any]) -> None:
        """Raise `ConfigurationError` for a class that shares its table with its base.

        SQLAlchemy distinguishes the rows of such classes by a column, which `where` has to name.
        """
        mapper = _mapper(self.cls)
        if not mapper.single or mapper.polymorphic_on is None:
            return
        column = getattr(mapper.polymorphic_on, "name", None)
        if column in where:
            return
        base = mapper.inherits.class_.__name__
        values = [each.polymorphic_identity for each in mapper.self_and_descendants]
        attribute = self._attribute(str(column))
        shared = f"shares the table {self.table!r} with {base}"
        if attribute is None or len(values) > 1:
            _refuse_class(
                self.cls,
                f"{shared}, and no single value distinguishes its rows: map {base} for the rows of "
                f'both, or a view, as in Role("{self.table}_view")',
            )
        _refuse_class(self.cls, f"{shared}: add where={{{self.name}.{attribute}: {values[0]!r}}}")

    def is_beside(self, table: str) -> bool:
        """Return whether the metadata of the class contains a table."""
        return table in _mapper(self.cls).local_table.metadata.tables

    def _kind(self, attribute: Any) -> str:  # noqa: ANN401 - an attribute of the class
        """Describe an attribute that has no column."""
        orm: Any = sys.modules["sqlalchemy.orm"]
        if not isinstance(attribute, orm.InstrumentedAttribute):
            descriptor = _mapper(self.cls).all_orm_descriptors[attribute.key]
            is_hybrid = descriptor.extension_type.name == "HYBRID_PROPERTY"
            return "a hybrid property" if is_hybrid else "a synonym or a composite"
        if isinstance(attribute.comparator, orm.RelationshipProperty.Comparator):
            return "a relationship"
        return "an SQL expression"


def _mapper(cls: type) -> Any:  # noqa: ANN401 - a Mapper, or None
    """Return the mapper of a class, as it is, or None."""
    orm: Any = sys.modules["sqlalchemy.orm"]
    try:
        return orm.class_mapper(cls, configure=False)
    except sys.modules["sqlalchemy.exc"].InvalidRequestError:  # or a subclass, for other classes
        return None


def _read_mapped(cls: type[Any], mapper: Any) -> Model:  # noqa: ANN401 - a Mapper
    table = mapper.local_table
    if not isinstance(table, sys.modules["sqlalchemy"].Table):
        _refuse_class(cls, 'is mapped to a query, not to a table: map a view, as in Role("view")')
    if len(mapper.tables) > 1:
        names = " and ".join(repr(each.fullname) for each in mapper.tables)
        _refuse_class(
            cls,
            f"has its columns in several tables, {names}: map the class of one of them that has "
            "all columns of the role, or a view of them",
        )
    keys = [str.__str__(each.name) for each in table.primary_key]
    unique, partly_unique = _unique_columns(table)
    return _MappedClass(
        cls,
        table.fullname,
        # `columns` also contains the expressions of `column_property`.
        {
            key: str.__str__(each.name)
            for key, each in mapper.columns.items()
            if getattr(each, "table", None) is table
        },
        {str.__str__(each.name): str.__str__(each.name) for each in table.columns},
        keys[0] if len(keys) == 1 else None,
        None,
        {str.__str__(each.name): _declared(each) for each in table.columns},
        [keys, *unique],
        partly_unique,
        table.metadata.info.get("bind_key"),
    )


def _unique_columns(table: Any) -> tuple[list[list[str]], list[list[str]]]:  # noqa: ANN401 - a Table
    """Return the names of the columns of unique constraints and indexes, as for `Model.unique`.

    Those of partial indexes and of indexes on expressions are in the second list.
    """
    sqlalchemy: Any = sys.modules["sqlalchemy"]
    found: tuple[list[list[str]], list[list[str]]] = ([], [])
    for each in table.constraints:
        if isinstance(each, sqlalchemy.UniqueConstraint):
            found[0].append([str.__str__(column.name) for column in each.columns])
    for each in table.indexes:
        if each.unique:
            is_partial = any(name.endswith("_where") for name in each.dialect_kwargs)
            are_columns = all(isinstance(part, sqlalchemy.Column) for part in each.expressions)
            columns = [str.__str__(column.name) for column in each.columns]
            found[is_partial or not are_columns].append(columns)
    return found


_KINDS_OF_TYPES = (
    ("Boolean", "boolean"),
    ("Integer", "integer"),
    ("Date", "date"),
    ("Time", "time"),
    ("DateTime", "datetime"),
    ("Enum", "enum"),
    ("String", "text"),
)
"""The kinds of the types of SQLAlchemy, by the first one that is the class or a base of it."""

_USUAL_TYPES = {"CHAR", "VARCHAR", "DATETIME", "TIMESTAMP"}
"""The types that SQLAlchemy also has for a single database, and that are of the same kind there."""


def _declared(column: Any) -> DeclaredColumn:  # noqa: ANN401 - a Column
    """Describe a column of a table.

    The types of hosts say nothing, nor do those of one database, except for the `_USUAL_TYPES`.
    `TINYINT(1)` of MariaDB, for example, is a boolean although it is an integer.
    """
    types: Any = sys.modules["sqlalchemy.types"]
    type_ = column.type
    sqlmodel = sys.modules.get("sqlmodel")
    if sqlmodel is not None and type(type_) is sqlmodel.AutoString:
        type_ = type_.impl  # of the same length, except on databases that need one
    kind = ""
    # Types of one database, or of the host, are in other modules.
    module = type(type_).__module__
    is_generic = module == types.String.__module__
    is_usual = module.startswith("sqlalchemy.dialects.") and type_.__visit_name__ in _USUAL_TYPES
    if (is_generic or is_usual) and not _has_variants(type_):
        bases = {name: getattr(types, name) for name, _ in _KINDS_OF_TYPES}
        kind = next((kind for name, kind in _KINDS_OF_TYPES if isinstance(type_, bases[name])), "")
    # Some databases have no enums, where the text of the type is that of a VARCHAR.
    name = "ENUM" if kind == "enum" else str(type_)
    return DeclaredColumn(
        str.__str__(column.name),
        name if kind else "",
        kind,
        nullable=column.nullable,
        generated=column.computed is not None,
        length=type_.length if kind == "text" else None,
        labels=type_.enums if kind == "enum" else (),
    )


def _has_variants(type_: Any) -> bool:  # noqa: ANN401 - a type of SQLAlchemy's
    """Return whether a column has another type on some database, from `with_variant`.

    SQLAlchemy has no public name for these types, but refuses a second one for the same database.
    """
    errors: Any = sys.modules["sqlalchemy.exc"]
    try:
        for database in ("sqlite", "postgresql", "mysql", "mariadb"):
            type_.with_variant(type_, database)
    except errors.ArgumentError:
        return True
    return False


DJANGO_TEXT = "max_length={length}"
"""How a model of Django declares a text of a length."""


class _DjangoModel(Model):
    """A model of Django. Its strings are the names of its fields, as everywhere in Django."""

    __slots__ = ()

    @property
    def text_type(self) -> str:
        """How the class declares a text of a length."""
        return DJANGO_TEXT

    @property
    def time_type(self) -> str:
        """How the class declares a date-time."""
        return "DateTimeField"

    @property
    def null(self) -> str:
        """How the class declares that a column allows null."""
        return "null=True"

    def time_line(self, attribute: str) -> str:
        """Return the field."""
        return f"{attribute} = models.DateTimeField(null=True)"

    def unique_line(self, columns: Sequence[str]) -> str:
        """Return the constraint, which Django declares by the names of the fields."""
        names = ", ".join(repr(self.attributes.get(each, each)) for each in columns)
        return f"UniqueConstraint(fields=[{names}], name=...) to the Meta of {self.name}"

    def check_where(self, where: Mapping[str, Any]) -> None:
        """Accept any: in Django, no two models share a table unless one is a proxy of the other."""

    def _column(self, given: Any) -> str | None:  # noqa: ANN401 - anything
        """Return the column of a field, which may be a foreign key by either of its attributes."""
        found = (
            column
            for name, column in self.columns.items()
            if getattr(self.cls, name, None) is given
        )
        return next(found, None)

    def _mistake(self, given: Any) -> tuple[str, str | None]:  # noqa: ANN401 - anything
        field: Any = getattr(given, "field", None)
        key = self._key(given)
        owner = getattr(field, "model", None)
        if owner is not None and owner._meta.abstract:
            return f"an attribute of the abstract class {owner.__name__}", key
        if key is not None:
            return f"{self.name}.{key}, which has no column", f"{key}_id"
        related = getattr(given, "rel", None) or getattr(given, "related", None)
        if related is not None and getattr(
            given, "reverse", True
        ):  # the other end of a foreign key
            name = f"{related.model.__name__}.{related.get_accessor_name()}"
            return f"{name}, which has no column", related.field.name
        if owner is not None:
            return f"{owner.__name__}.{field.name}, an attribute of another class", field.name
        return self._other(given)

    def is_beside(self, table: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return False."""
        return False


def _is_model_of_project(cls: type[Any]) -> bool:
    """Return whether a class is a model with a table, and not one of a migration's state."""
    return not cls._meta.abstract and cls._meta.apps is sys.modules["django.apps"].apps


def _read_django(cls: type[Any]) -> Model:
    meta = cls._meta
    if meta.abstract:
        _refuse_abstract(cls, _is_model_of_project)
    if meta.swapped:
        mistake = f"is replaced with {meta.swapped!r} by the settings: map that model"
        _refuse_class(cls, mistake, _replacement(meta))
    parents = {each.model.__name__ for each in meta.concrete_fields} - {
        meta.concrete_model.__name__
    }
    if parents:
        _refuse_class(
            cls,
            f"has fields in the tables of its parents ({', '.join(sorted(parents))}): map the "
            "model that has all fields of the role in its own table",
        )
    fields = {
        name: each.column for each in meta.concrete_fields for name in (each.name, each.attname)
    }
    key = getattr(meta.pk, "column", None)  # a composite key has none
    if key is not None:
        fields["pk"] = key
    table = meta.db_table.strip('"').replace('"."', ".")  # `"crm"."people"` names a schema, too
    declared = {each.column: _declared_field(each) for each in meta.concrete_fields}
    unique, partly_unique = _unique_fields(meta, fields)
    return _DjangoModel(
        cls, table, fields, fields, key, meta.label, declared, unique, partly_unique
    )


def _unique_fields(
    meta: Any,  # noqa: ANN401 - the options of a model
    columns: Mapping[str, str],
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the columns of unique fields and constraints, and those of partial constraints."""
    always = [[each.column] for each in meta.concrete_fields if each.unique]
    always += [[columns[name] for name in names] for names in meta.unique_together]
    always.append([each.column for each in meta.pk_fields])
    always += [[columns[name] for name in each.fields] for each in meta.total_unique_constraints]
    partly = [
        [columns[name] for name in each.fields]
        for each in meta.constraints
        if getattr(each, "fields", None) and getattr(each, "condition", None) is not None
    ]
    return always, partly


def _replacement(meta: Any) -> type[Any] | None:  # noqa: ANN401 - the options of a model
    """Return the model with which the settings replace another, if it is defined."""
    try:
        found: type[Any] = meta.apps.get_model(meta.swapped)
    except LookupError:
        return None
    return found


_KINDS_OF_FIELDS = {
    "BooleanField": "boolean",
    **dict.fromkeys(("IntegerField", "BigIntegerField", "SmallIntegerField"), "integer"),
    "DateField": "date",
    "TimeField": "time",
    "DateTimeField": "datetime",
    **dict.fromkeys(("CharField", "TextField"), "text"),
}
"""By what Django calls the internal type of a field."""


def _declared_field(field: Any) -> DeclaredColumn:  # noqa: ANN401 - a Field
    """Describe the column of a field. Only Django's own fields have a known type.

    The table of a model that Django does not manage may differ from the model.
    """
    is_managed = field.model._meta.managed
    is_known = is_managed and type(field).__module__.startswith("django.db.models.")
    kind = _KINDS_OF_FIELDS.get(field.get_internal_type(), "") if is_known else ""
    return DeclaredColumn(
        field.column,
        type_of_field(field),
        kind,
        nullable=field.null or not is_managed,
        generated=getattr(field, "generated", False),
        length=field.max_length if kind == "text" else None,
    )


def type_of_field(field: Any) -> str:  # noqa: ANN401 - a Field
    """Return the class of a field of Django, with the length of its texts, for messages."""
    name = type(field).__name__
    has_length = field.max_length and field.get_internal_type() == "CharField"
    return f"{name}(max_length={field.max_length})" if has_length else name
