"""Schemas that lead to every form of the statements on rows, with the columns of their tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from hookrow import Role, Schema
from hookrow.stores.sql._columns import Column


class Golden(NamedTuple):
    """A schema, and a word for each column of its tables, by role and the table's own names."""

    schema: Schema
    tables: Mapping[str, Mapping[str, str]]


_KINDS = {
    **dict.fromkeys(("text", "email", "char", "citext"), "text"),
    "integer": "number",
    **dict.fromkeys(("time", "naive"), "datetime"),
}
"""The kind of the column, if that is another word."""

_POSTGRESQL = {
    "integer": "bigint",
    "email": "text",
    "char": "bpchar",
    "enum": "crm.reason",
    "time": "timestamp with time zone",
    "naive": "timestamp without time zone",
}
"""PostgreSQL's type of the parameters, if it is another word."""

_SQLITE_KINDS = {"number": "integer", "enum": "text", "uuid": "text"}

_BINARY = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_MARIADB = {
    "integer": "bigint",
    **dict.fromkeys(("text", "email"), f"varchar(321) {_BINARY}"),
    "char": "varchar(37) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
    "citext": "varchar(321) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "enum": f"varchar(256) {_BINARY}",
    "uuid": "varchar(37) CHARACTER SET ascii COLLATE ascii_bin",
    **dict.fromkeys(("time", "naive"), "datetime(6)"),
    "boolean": "tinyint",
}
"""The types of values in JSON_TABLE."""

_SUPPRESSION = {
    "suppressed_at": "time",
    "suppression_reason": "text",
    "suppression_changed_at": "time",
}
_NO_SUPPRESSION = dict.fromkeys(_SUPPRESSION)
_UNDATED = {"suppression_reason": None, "suppression_changed_at": None}

_OWN = {
    "subscribers": {"id": "integer", "email": "email", **_SUPPRESSION},
    "dispatches": {
        **dict.fromkeys(("id", "subscriber_id", "list_id"), "integer"),
        "provider_message_id": "text",
        **_SUPPRESSION,
        **dict.fromkeys(("delivered_at", "opened_at", "created_at", "clicked_at"), "time"),
        **dict.fromkeys(("bounced_at", "complained_at", "first_opened_at"), "time"),
        "bounce_type": "text",
    },
    "subscriptions": {**dict.fromkeys(("list_id", "subscriber_id"), "integer"), **_SUPPRESSION},
}

SCHEMAS = {
    "own": Golden(Schema(record=("click", "bounce", "complaint", "first_open")), _OWN),
    "without_a_log": Golden(Schema(log=None), _OWN),
    "tenants": Golden(
        Schema(
            subscribers=Role(
                'peo"ple',
                {
                    "email": "address",
                    "suppressed_at": "left_at",
                    "suppression_reason": "why",
                    "suppression_changed_at": "100%",
                },
                where={"tenant": 7, "active": True, "deleted_at": None},
                fold="lower",
            ),
            dispatches=Role(
                "mail.sends",
                {
                    "id": "key",
                    "provider_message_id": "postmark_id",
                    "subscriber_id": "person",
                    "message_id": "campaign",
                    "delivered_at": "got",
                    "opened_at": "saw",
                    **_NO_SUPPRESSION,
                },
                where={"state": False},
            ),
            subscriptions=Role("members", {"suppressed_at": "left_at", **_UNDATED}),
            messages=Role("campaigns", where={"tenant": 7}),
            reasons={"HardBounce": "bounced", "*": "other"},
            log="mail.notifications",
        ),
        {
            "subscribers": {
                "id": "char",
                "address": "text",
                "left_at": "naive",
                "why": "enum",
                "100%": "naive",
                "tenant": "integer",
                "active": "boolean",
                "deleted_at": "time",
            },
            "dispatches": {
                **dict.fromkeys(("key", "postmark_id"), "uuid"),
                "person": "text",
                "campaign": "integer",
                "got": "naive",
                "saw": "time",
                "state": "integer",
            },
            "subscriptions": {"list_id": "integer", "subscriber_id": "char", "left_at": "time"},
            "messages": {"id": "integer", "list_id": "integer", "tenant": "integer"},
        },
    ),
    "columns_of_tenants": Golden(
        Schema(
            subscribers=Role("people", tenant="team"),
            dispatches=Role("mails", tenant="team_name"),
            subscriptions=Role("members", tenant="team"),
        ),
        {
            "subscribers": {**_OWN["subscribers"], "team": "uuid"},
            "dispatches": {**_OWN["dispatches"], "team_name": "text"},
            "subscriptions": {**_OWN["subscriptions"], "team": "uuid"},
        },
    ),
    "tenants_of_owners": Golden(
        Schema(
            subscribers=Role("people", tenant="team"),
            dispatches=Role("mails"),
            subscriptions=Role("members"),
        ),
        {**_OWN, "subscribers": {**_OWN["subscribers"], "team": "integer"}},
    ),
    "dates_beside_the_log": Golden(
        Schema(
            subscribers=Role("people", _UNDATED, fold="citext"),
            dispatches=Role("mails", _NO_SUPPRESSION),
            subscriptions=None,
        ),
        {
            "subscribers": {"id": "uuid", "email": "citext", "suppressed_at": "time"},
            "dispatches": {
                "id": "integer",
                "provider_message_id": "text",
                "subscriber_id": "uuid",
                "delivered_at": "time",
                "opened_at": "time",
            },
        },
    ),
    "touched": Golden(
        Schema(
            subscribers=Role("people", _UNDATED, touch="updated_at"),
            dispatches=Role("mails", {"list_id": None}, touch="updated_at"),
            subscriptions=None,
        ),
        {
            "subscribers": {
                "id": "integer",
                "email": "email",
                "suppressed_at": "time",
                "updated_at": "naive",
            },
            "dispatches": {**_OWN["dispatches"], "updated_at": "time"},
        },
    ),
    "flags": Golden(
        Schema(
            subscribers=Role("people", _UNDATED),
            dispatches=Role("mails", {"list_id": None}, touch="updated_at"),
            subscriptions=None,
        ),
        {
            "subscribers": {"id": "integer", "email": "email", "suppressed_at": "boolean"},
            "dispatches": {
                **_OWN["dispatches"],
                **dict.fromkeys(("suppressed_at", "delivered_at", "opened_at"), "boolean"),
                "updated_at": "time",
            },
        },
    ),
    "people": Golden(
        Schema(
            subscribers=Role("people", where={"deleted_at": None}),
            dispatches=None,
            subscriptions=None,
        ),
        {"subscribers": {**_OWN["subscribers"], "deleted_at": "time"}},
    ),
    "exact_emails": Golden(
        Schema(
            subscribers=Role("people", fold="exact"),
            dispatches=Role("mails", {"list_id": None}),
            log=None,
        ),
        _OWN,
    ),
}


def columns(golden: Golden, dialect: str) -> Mapping[str, Mapping[str, Column]]:
    """Return the columns as the catalogue of a database has them."""
    return {
        role: {name: _column(name, kind, dialect) for name, kind in kinds.items()}
        for role, kinds in golden.tables.items()
    }


def _column(name: str, word: str, dialect: str) -> Column:
    return _COLUMNS[dialect](name, word)


def _postgresql(name: str, word: str) -> Column:
    return _described(name, word, _POSTGRESQL.get(word, word))


def _sqlite(name: str, word: str) -> Column:
    column = _described(name, word, "")
    kind = _SQLITE_KINDS.get(column.kind, column.kind)
    return replace(column, kind=kind, ignores_case=True)


def _mariadb(name: str, word: str) -> Column:
    column = _described(name, word, _MARIADB[word])
    if column.kind not in {"text", "enum"}:
        return column
    _, _, charset, _, collation = column.type.rsplit(maxsplit=4)
    column = replace(
        column,
        charset=charset,
        collation=collation,
        ignores_case=collation.endswith("_ci"),
    )
    if word == "email":
        folded = replace(column, name=f"{name}_folded", generated=True)
        return replace(column, folded=folded, folds_ascii=True)
    return column


def _described(name: str, word: str, type_: str) -> Column:
    return Column(
        name,
        type_,
        word.upper(),
        _KINDS.get(word, word),
        nullable=True,
        generated=False,
        default=True,
        holds_uuids=word == "uuid",
        ignores_case=word == "citext",
    )


_COLUMNS = {"postgresql": _postgresql, "sqlite": _sqlite, "mariadb": _mariadb}
