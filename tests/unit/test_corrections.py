"""Suggestions for the columns that a table lacks, and the notations of a mapping."""

from collections.abc import Mapping

import pytest

from hookrow import Role, Schema
from hookrow._core.corrections import Table, correct, correction_of
from hookrow._core.notation import Notation

BARE: Mapping[str, str | None] = dict.fromkeys(
    ("suppressed_at", "suppression_reason", "suppression_changed_at")
)


def corrected(schema: Schema, name: str, *columns: str, key: str | None = None) -> Role:
    """Return the role with suggestions from columns, of which each suits."""
    table = Table(schema.roles[name].table, columns, columns, lambda *_: True, lambda *_: True, key)
    return correct(schema, name, table, Notation.PYTHON)[0]


@pytest.mark.parametrize(
    ("column", "suggestion"),
    [
        ("address", "address"),
        ("email_address", "email_address"),
        ("e_mail", "e_mail"),
        ("emial", "emial"),
        ("home_address", None),
        ("name", None),
    ],
)
def test_column_of_emails(column: str, suggestion: str | None) -> None:
    role = corrected(Schema(subscribers=Role("people")), "subscribers", "id", column)
    assert role.columns.get("email") == suggestion


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            ("id", "postmark_id", "reader_id", "delivered", "seen_at"),
            {
                "provider_message_id": "postmark_id",
                "subscriber_id": "reader_id",
                "delivered_at": "delivered",
                "opened_at": "seen_at",
            },
        ),
        # A time that the host sets itself is never overwritten, however similar its name is.
        (("id", "deleted_at", "created_at", "updated_at"), {}),
        (("id", "message_id", "external_id"), {"provider_message_id": "message_id"}),
    ],
)
def test_columns_of_dispatches(columns: tuple[str, ...], expected: Mapping[str, str]) -> None:
    """The name of the subscribers' table is a word for the column that refers to it."""
    schema = Schema(
        subscribers=Role("crm.readers"), dispatches=Role("sends", BARE), subscriptions=None
    )
    role = corrected(schema, "dispatches", *columns)
    assert role.columns == {**BARE, **expected}


def test_primary_key() -> None:
    role = corrected(Schema(subscribers=Role("people")), "subscribers", "nr", "email", key="nr")
    assert role.columns["id"] == "nr"


def test_reason_that_is_left_out_needs_no_empty_string() -> None:
    """Nor does a bounce that is not recorded need a type."""
    schema = Schema(
        subscribers=Role("people", empty=""),
        dispatches=Role("sends", {"bounced_at": "b", "bounce_type": "t", **BARE}),
    )
    assert corrected(schema, "subscribers", "id", "email", "suppressed_at").empty is None
    sends = ("id", "provider_message_id", "subscriber_id", "delivered_at", "opened_at", "t")
    columns = corrected(schema, "dispatches", *sends).columns
    assert (columns["bounced_at"], columns["bounce_type"]) == (None, None)


@pytest.mark.parametrize(
    ("notation", "lines"),
    [
        (
            Notation.PYTHON,
            (
                'subscribers=Role(\n    "people",\n    {\n        "email": "address",\n'
                '        "suppression_reason": None,\n    },\n'
                '    where={"deleted": None, "of \\"a\\"": 1, "on": True},\n    fold="lower",\n),'
            ),
        ),
        (
            Notation.TOML,
            (
                '[tables.subscribers]\ntable = "people"\n'
                'where = { deleted = false, "of \\"a\\"" = 1, on = true }\nfold = "lower"\n\n'
                '[tables.subscribers.columns]\nemail = "address"\nsuppression_reason = false'
            ),
        ),
        (
            Notation.DJANGO,
            (
                '"subscribers": {\n    "table": "people",\n    "columns": {\n'
                '        "email": "address",\n        "suppression_reason": None,\n    },\n'
                '    "where": {"deleted": None, "of \\"a\\"": 1, "on": True},\n'
                '    "fold": "lower",\n},'
            ),
        ),
    ],
)
def test_notations(notation: Notation, lines: str) -> None:
    """A role is written with its options, as users write it."""
    role = Role(
        "people",
        {"email": "address", "suppression_reason": None},
        where={"deleted": None, 'of "a"': 1, "on": True},
        fold="lower",
    )
    columns = ("id", "address", "suppressed_at", "suppression_changed_at")
    text = correction_of(notation, Schema(subscribers=role), {"subscribers": columns})
    assert text == f"To correct the mapping, write {notation.place}:\n\n{lines}"
