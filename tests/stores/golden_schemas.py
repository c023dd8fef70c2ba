"""Schemas that lead to every form of the statements on rows, with the columns of their tables."""

from collections.abc import Mapping
from typing import NamedTuple

from hookrow import Role, Schema
from hookrow.stores.sql._columns import Column


class Golden(NamedTuple):
    """A schema, and the kind of each column of its tables, by role and the table's own names."""

    schema: Schema
    tables: Mapping[str, Mapping[str, str]]


_TYPES = {
    "integer": ("bigint", "number", "integer"),
    "text": ("text", "text", "text"),
    "char": ("bpchar", "text", "text"),
    "citext": ("citext", "text", "text"),
    "enum": ("crm.reason", "enum", "text"),
    "uuid": ("uuid", "uuid", "text"),
    "time": ("timestamp with time zone", "datetime", "datetime"),
    "naive": ("timestamp without time zone", "datetime", "datetime"),
    "boolean": ("boolean", "boolean", "boolean"),
}
"""By kind: PostgreSQL's type of the parameters, and the kind of the column on each database."""

_SUPPRESSION = {
    "suppressed_at": "time",
    "suppression_reason": "text",
    "suppression_changed_at": "time",
}
_NO_SUPPRESSION = dict.fromkeys(_SUPPRESSION)
_UNDATED = {"suppression_reason": None, "suppression_changed_at": None}

_OWN = {
    "subscribers": {"id": "integer", "email": "text", **_SUPPRESSION},
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


def _column(name: str, kind: str, dialect: str) -> Column:
    type_, kind_on_postgres, kind_on_sqlite = _TYPES[kind]
    has_types = dialect == "postgresql"
    return Column(
        name,
        type_ if has_types else "",
        kind.upper(),
        kind_on_postgres if has_types else kind_on_sqlite,
        nullable=True,
        generated=False,
        default=True,
        holds_uuids=kind == "uuid",
        ignores_case=kind == "citext" or not has_types,
    )
