"""The schema: which columns a host's tables have, and which schemas are refused."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from hookrow.errors import ConfigurationError
from hookrow.notification import Suppressible
from hookrow.schema import Role, Schema, nearest

SUPPRESSION = ("suppressed_at", "suppression_reason", "suppression_changed_at")
SUBSCRIBERS = ("id", "email", *SUPPRESSION)
DISPATCHES = ("id", "provider_message_id", "subscriber_id", "delivered_at", "opened_at")
SUBSCRIPTIONS = ("list_id", "subscriber_id", *SUPPRESSION)


def _same(*names: str, **others: str) -> Mapping[str, str]:
    return dict(zip(names, names, strict=True)) | others


def test_defaults() -> None:
    """By default the tables are hookrow's, with all columns."""
    schema = Schema()
    assert {name: role.table for name, role in schema.roles.items()} == {
        "subscribers": "hookrow_subscribers",
        "dispatches": "hookrow_dispatches",
        "subscriptions": "hookrow_subscriptions",
    }
    assert schema.columns("subscribers") == _same(*SUBSCRIBERS)
    assert schema.columns("dispatches") == _same(
        *DISPATCHES, "list_id", *SUPPRESSION, sent_at="created_at"
    )
    assert schema.columns("subscriptions") == _same(*SUBSCRIPTIONS)
    assert schema.undated == frozenset()
    assert schema.ours


SPARSE = Role("people", {"email": "address", "suppression_reason": None})
BARE = dict.fromkeys(SUPPRESSION)


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ({"subscribers": SPARSE}, _same("id", *SUPPRESSION[::2], email="address")),
        ({"dispatches": Role("s")}, _same(*DISPATCHES, "list_id", *SUPPRESSION)),
        (
            {"dispatches": Role("s", {"sent_at": "made", **BARE})},
            _same(*DISPATCHES, "list_id", sent_at="made"),
        ),
        (
            {"dispatches": Role("hookrow_dispatches", {"sent_at": None})},
            _same(*DISPATCHES, "list_id", *SUPPRESSION),
        ),
        # Without lists a dispatch needs no column for one; with messages it has their id instead.
        (
            {"dispatches": Role("s", {"list_id": "l"}), "subscriptions": None},
            _same(*DISPATCHES, *SUPPRESSION),
        ),
        (
            {"dispatches": Role("s"), "messages": Role("mails")},
            _same(*DISPATCHES, "message_id", *SUPPRESSION),
        ),
        ({"messages": Role("mails", {"list_id": "audience"})}, _same("id", list_id="audience")),
        ({"subscriptions": Role("m", BARE)}, _same("list_id", "subscriber_id")),
    ],
)
def test_columns(given: Mapping[str, Any], columns: Mapping[str, str]) -> None:
    """A table's columns keep hookrow's names, have others, or are left out."""
    schema = Schema(**given)
    assert schema.columns(next(iter(given))) == columns
    assert not schema.ours
    assert ("subscriptions" in schema.roles) is (schema.subscriptions is not None)


@pytest.mark.parametrize("kind", Suppressible)
def test_undated(kind: Suppressible) -> None:
    """A role without the date of its last change is undated; an absent role is not."""
    roles: dict[str, Any] = {kind.value: Role("t", {"suppression_changed_at": None})}
    assert Schema(**roles).undated == {kind}
    assert Schema(subscriptions=None).undated == frozenset()


REQUIRED = {
    "subscribers": ("id", "email", "suppressed_at"),
    "dispatches": DISPATCHES,
    "subscriptions": ("list_id", "subscriber_id"),
}


@pytest.mark.parametrize("role", REQUIRED)
def test_required_columns(role: str) -> None:
    """A required column cannot be left out."""
    for column, absent in product(REQUIRED[role], (None, "")):
        roles: dict[str, Any] = {role: Role("t", {column: absent})}
        with pytest.raises(ConfigurationError, match=f"'{role}' needs the column '{column}'"):
            Schema(**roles)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log": ""}, "The log needs a table"),
        ({"subscribers": Role("")}, "'subscribers' needs a table"),
        (
            {"subscribers": Role("people", {"emial": "address"})},
            r"^The role 'subscribers' has no column 'emial'\. Did you mean 'email'\?$",
        ),
        ({"dispatches": Role("sends", {"zzz": "x"})}, r"'dispatches' has no column 'zzz'\.$"),
        ({"subscriptions": Role("m", {"email": "e"})}, "'subscriptions' has no column 'email'"),
        (
            {"dispatches": Role("sends", {"delivered_at": "at", "opened_at": "at"})},
            "'dispatches' names the column 'at' twice",
        ),
        (
            {"subscribers": Role("people", {"suppression_reason": ""})},
            "needs the column 'suppression_reason'",
        ),
        (
            {"dispatches": Role("s", {"list_id": "audience"}), "messages": Role("mails")},
            "have a list, and messages",
        ),
        (
            {"dispatches": Role("s", {"message_id": None}), "messages": Role("mails")},
            "need the column 'message_id'",
        ),
        ({"subscriptions": None, "messages": Role("mails")}, "of which there are none"),
        ({"reasons": {"HardBounce": 1}}, "need one for all others"),
        ({"reasons": {"HardBounce": 1, "*": "other"}}, "some are text and some are numbers"),
        (
            {"subscribers": Role("people", fold="upper")},  # type: ignore[arg-type]
            "write ascii, lower, exact or citext",
        ),
        ({"dispatches": Role("sends", fold="lower")}, "no email"),
        (
            {"subscribers": Role("t", {"suppressed_at": "at"}, where={"at": None})},
            "'subscribers' hides rows by 'at'",
        ),
        ({"dispatches": Role("t", where={"opened_at": None})}, "hides rows by 'opened_at'"),
    ],
)
def test_refused(given: Mapping[str, Any], message: str) -> None:
    """A schema that cannot work is refused with the name of what to change."""
    with pytest.raises(ConfigurationError, match=message):
        Schema(**given)


def test_reasons() -> None:
    """A reason is kept as the host's value for it, if there is one, or for all others."""
    for reasons, kept in (
        (None, ["HardBounce", "Spite", None]),
        ({"HardBounce": "bounced"}, ["bounced", "Spite", None]),
        ({"HardBounce": 1, "*": 9}, [1, 9, None]),
    ):
        schema = Schema(reasons=reasons)
        assert [schema.reason(word) for word in ("HardBounce", "Spite", None)] == kept


def test_nearest() -> None:
    """A mistyped name gets a hint at the most similar one, in any case."""
    assert nearest("PEOPLE", ["People"]) == " Did you mean 'People'?"
    assert nearest("people", ["people", "peoples"]) == " Did you mean 'peoples'?"
    assert nearest("zzz", ["dispatches", "subscribers"]) == ""
