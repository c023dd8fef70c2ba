"""The schema: the columns of a host's tables, and invalid schemas."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from hookrow.core.notification import Suppressible
from hookrow.core.schema import Role, Schema, nearest
from hookrow.errors import ConfigurationError

SUPPRESSION = ("suppressed_at", "suppression_reason", "suppression_changed_at")
DISPATCHES = ("id", "provider_message_id", "subscriber_id", "delivered_at", "opened_at")
BARE = dict.fromkeys(SUPPRESSION)


def _same(*names: str, **others: str) -> Mapping[str, str]:
    return dict(zip(names, names, strict=True)) | others


def test_tables_of_hookrow() -> None:
    schema = Schema()
    assert [*schema.roles] == ["subscribers", "dispatches", "subscriptions"]
    assert all(role.table == f"hookrow_{name}" for name, role in schema.roles.items())
    assert schema.columns("subscribers") == _same("id", "email", *SUPPRESSION)
    assert schema.columns("subscriptions") == _same("list_id", "subscriber_id", *SUPPRESSION)
    columns = _same(*DISPATCHES, "list_id", *SUPPRESSION, sent_at="created_at")
    assert schema.columns("dispatches") == columns
    assert not schema.dated_beside_log
    assert not schema.undated
    assert schema.ours


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (
            {"subscribers": Role("people", {"email": "address", "suppression_reason": None})},
            _same("id", *SUPPRESSION[::2], email="address"),
        ),
        ({"dispatches": Role("s")}, _same(*DISPATCHES, "list_id", *SUPPRESSION)),
        (
            {"dispatches": Role("s", {"sent_at": "made", **BARE})},
            _same(*DISPATCHES, "list_id", sent_at="made"),
        ),
        (
            {"dispatches": Role("hookrow_dispatches", {"sent_at": None})},
            _same(*DISPATCHES, "list_id", *SUPPRESSION),
        ),
        # Without lists, a dispatch needs no list column; with messages, it has their id instead.
        (
            {"dispatches": Role("s", {"list_id": "l"}), "subscriptions": None},
            _same(*DISPATCHES, *SUPPRESSION),
        ),
        (
            {"dispatches": Role("s"), "messages": Role("mails")},
            _same(*DISPATCHES, "message_id", *SUPPRESSION),
        ),
        # The name of an unused column may be mapped to another one.
        (
            {"dispatches": Role("s", {"provider_message_id": "message_id"})},
            {**_same(*DISPATCHES, "list_id", *SUPPRESSION), "provider_message_id": "message_id"},
        ),
        (
            {"dispatches": Role("s", {"opened_at": "list_id"}), "messages": Role("mails")},
            {**_same(*DISPATCHES, "message_id", *SUPPRESSION), "opened_at": "list_id"},
        ),
        (
            {
                "dispatches": Role("s", {"provider_message_id": "list_id", "id": "message_id"}),
                "subscriptions": None,
            },
            {
                **_same(*DISPATCHES, *SUPPRESSION),
                "provider_message_id": "list_id",
                "id": "message_id",
            },
        ),
        ({"messages": Role("mails", {"list_id": "audience"})}, _same("id", list_id="audience")),
        ({"subscriptions": Role("m", BARE)}, _same("list_id", "subscriber_id")),
    ],
)
def test_columns_of_a_host(given: Mapping[str, Any], columns: Mapping[str, str]) -> None:
    schema = Schema(**given)
    assert schema.columns(next(iter(given))) == columns
    assert not schema.ours
    assert ("subscriptions" in schema.roles) is (schema.subscriptions is not None)


@pytest.mark.parametrize("kind", Suppressible)
def test_a_role_without_the_date_of_its_last_change(kind: Suppressible) -> None:
    """The date is stored beside the log, or nowhere without a log."""
    roles: dict[str, Any] = {kind.value: Role("t", {"suppression_changed_at": None})}
    with_log, without = Schema(**roles), Schema(**roles, log=None)
    assert (with_log.dated_beside_log, with_log.undated) == ({kind}, ())
    assert (without.dated_beside_log, without.undated) == ((), {kind})


def test_a_role_without_suppression_columns_needs_no_dates() -> None:
    bare = Role("t", dict.fromkeys(SUPPRESSION))
    for role, log in ((bare, "log"), (bare, None), (None, None)):
        schema = Schema(subscriptions=role, log=log)
        assert not schema.dated_beside_log
    assert not schema.undated


@pytest.mark.parametrize(
    ("log", "expected"), [("hookrow_notifications", "dates"), ("crm.kept", "crm.dates")]
)
def test_tables_beside_the_log(log: str, expected: str) -> None:
    assert Schema(log=log).beside_log("dates") == expected


REQUIRED = {
    "subscribers": ("id", "email", "suppressed_at"),
    "dispatches": DISPATCHES,
    "subscriptions": ("list_id", "subscriber_id"),
}


@pytest.mark.parametrize("role", REQUIRED)
def test_a_required_column_must_be_mapped(role: str) -> None:
    for column, absent in product(REQUIRED[role], (None, "")):
        roles: dict[str, Any] = {role: Role("t", {column: absent})}
        with pytest.raises(ConfigurationError, match=f"'{role}' needs the column '{column}'"):
            Schema(**roles)


MAILS = Role("mails")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log": ""}, "The log needs a table"),
        ({"subscribers": Role("")}, "'subscribers' needs a table"),
        ({"subscribers": None}, r"'subscribers' is None: use Role\('a_table'\)"),
        ({"messages": "mails"}, r"'messages' is 'mails': use Role\('a_table'\)"),
        (
            {"subscribers": Role("people", where={"tenant": 1.5})},  # type: ignore[dict-item]
            "'subscribers' has 1.5 for 'tenant' in `where`: use a string, an integer, True,",
        ),
        (
            {"subscribers": Role("people", {"emial": "address"})},
            r"^The role 'subscribers' has no column 'emial'\. Did you mean 'email'\?$",
        ),
        ({"dispatches": Role("sends", {"zzz": "x"})}, r"'dispatches' has no column 'zzz'\.$"),
        (
            {"dispatches": Role("sends", {"delivered_at": "at", "opened_at": "at"})},
            "'dispatches' uses the column 'at' for both delivered_at and opened_at: map one",
        ),
        (
            {
                "dispatches": Role("s", {"provider_message_id": "message_id"}),
                "messages": Role("mails"),
            },
            "'message_id' for both provider_message_id and message_id: map one",
        ),
        ({"subscribers": Role("p", {"suppression_reason": ""})}, "column 'suppression_reason'"),
        (
            {"dispatches": Role("s", {"list_id": "audience"}), "messages": MAILS},
            "mapped in the dispatches and in the messages",
        ),
        (
            {"dispatches": Role("s", {"message_id": None}), "messages": MAILS},
            "With `messages`, the dispatches need the column 'message_id'",
        ),
        ({"subscriptions": None, "messages": MAILS}, "`messages` needs `subscriptions`"),
        ({"reasons": {"HardBounce": 1}}, "has integers: add one for all others"),
        ({"reasons": {"HardBounce": 1, "*": "other"}}, "has strings and integers: use only one"),
        (
            {"subscribers": Role("people", fold="upper")},  # type: ignore[arg-type]
            "has fold='upper': use ascii, lower, exact or citext",
        ),
        ({"dispatches": Role("sends", fold="lower")}, "has no email: omit `fold`"),
        (
            {"subscribers": Role("p", empty="none")},
            "empty='none', which is not an empty string: use",
        ),
        (
            {"dispatches": Role("s", {"suppression_reason": None}, empty="")},
            "'dispatches' has empty='', but no column for a reason",
        ),
        ({"messages": Role("m", empty="")}, "'messages' has empty='', but no column"),
        (
            {"subscribers": Role("p", empty=""), "reasons": {"*": 9}},
            "but `reasons` has integers",
        ),
        (
            {"subscribers": Role("p", empty=""), "reasons": {"Spam": ""}},
            "which is also a value in `reasons`",
        ),
        (
            {"subscribers": Role("t", {"suppressed_at": "at"}, where={"at": None})},
            "'subscribers' hides rows by 'at'",
        ),
    ],
)
def test_an_invalid_schema_is_rejected(given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Schema(**given)


@pytest.mark.parametrize(
    ("reasons", "kept"),
    [
        (None, ["HardBounce", "Spite", None]),
        ({"HardBounce": "bounced"}, ["bounced", "Spite", None]),
        ({"HardBounce": 1, "*": 9}, [1, 9, None]),
    ],
)
def test_reasons_of_a_host(reasons: Mapping[str, str | int] | None, kept: list[object]) -> None:
    schema = Schema(reasons=reasons)
    assert [schema.reason(word) for word in ("HardBounce", "Spite", None)] == kept


def test_a_mistyped_name_gets_a_hint_with_the_most_similar_name() -> None:
    assert nearest("PEOPLE", ["People"]) == " Did you mean 'People'?"
    assert nearest("people", ["people", "peoples"]) == " Did you mean 'peoples'?"
    assert nearest("zzz", ["dispatches", "subscribers"]) == ""
