"""The schema: plain names for tables and columns, and what of them cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from hookrow.errors import ConfigurationError
from hookrow.notification import Suppressible
from hookrow.schema import Role, Schema, nearest

SUPPRESSION = {
    "suppressed_at": "suppressed_at",
    "suppression_reason": "suppression_reason",
    "suppression_changed_at": "suppression_changed_at",
}


class TestRole:
    def test_own_name(self) -> None:
        """A column that is not named keeps our name."""
        assert Role("people").column("email") == "email"

    def test_another_name(self) -> None:
        """A column that is named goes by the table's name for it."""
        assert Role("people", {"email": "address"}).column("email") == "address"

    def test_no_such_column(self) -> None:
        """A column that the table does not have is None."""
        assert Role("people", {"suppression_reason": None}).column("suppression_reason") is None


class TestSchema:
    def test_ours_by_default(self) -> None:
        """A schema that nobody filled in names our own tables."""
        assert {name: role.table for name, role in Schema().roles.items()} == {
            "subscribers": "hookrow_subscribers",
            "dispatches": "hookrow_dispatches",
            "subscriptions": "hookrow_subscriptions",
        }

    def test_our_columns(self) -> None:
        """Our own tables have every column, by our names."""
        schema = Schema()
        assert schema.columns("subscribers") == {"id": "id", "email": "email", **SUPPRESSION}
        assert schema.columns("dispatches") == {
            "id": "id",
            "provider_message_id": "provider_message_id",
            "subscriber_id": "subscriber_id",
            "delivered_at": "delivered_at",
            "opened_at": "opened_at",
            "list_id": "list_id",
            "sent_at": "created_at",
            **SUPPRESSION,
        }
        assert schema.columns("subscriptions") == {
            "list_id": "list_id",
            "subscriber_id": "subscriber_id",
            **SUPPRESSION,
        }

    @pytest.mark.parametrize(
        ("columns", "expected"),
        [({}, None), ({"sent_at": "made"}, "made"), ({"sent_at": None}, None)],
    )
    def test_when_it_was_sent_is_named(
        self, columns: dict[str, str | None], expected: str | None
    ) -> None:
        """A host's table tells it only where the column is named; it may be hidden by."""
        dispatches = Role("sends", columns, where={"made": None})
        found = Schema(dispatches=dispatches).columns("dispatches").get("sent_at")
        assert found == expected
        assert Schema(dispatches=Role("hookrow_dispatches", columns)).ours is (not columns)

    def test_columns_of_the_host(self) -> None:
        """A role's columns are ours and, for each that is there, the table's own name."""
        schema = Schema(
            subscribers=Role(
                "people",
                {"email": "address", "suppressed_at": "off_since", "suppression_reason": None},
            )
        )
        assert schema.columns("subscribers") == {
            "id": "id",
            "email": "address",
            "suppressed_at": "off_since",
            "suppression_changed_at": "suppression_changed_at",
        }

    def test_without_lists(self) -> None:
        """A host without lists has no role for subscriptions."""
        assert list(Schema(subscriptions=None).roles) == ["subscribers", "dispatches"]

    def test_dated_by_default(self) -> None:
        """Every kind of row of ours keeps when its suppression last changed."""
        assert Schema().undated == frozenset()

    @pytest.mark.parametrize("kind", Suppressible)
    def test_undated(self, kind: Suppressible) -> None:
        """A role without that column is undated, and the others are not."""
        role = Role("t", {"suppression_changed_at": None})
        roles: dict[str, Any] = {kind.value: role}
        assert Schema(**roles).undated == {kind}

    def test_undated_only_where_there_is_a_role(self) -> None:
        """A role that the host does not have is neither dated nor undated."""
        assert Schema(subscriptions=None).undated == frozenset()

    def test_unknown_column(self) -> None:
        """A column that no role has is refused by name, with the nearest that there is."""
        message = r"^The role 'subscribers' has no column 'emial'\. Did you mean 'email'\?$"
        with pytest.raises(ConfigurationError, match=message):
            Schema(subscribers=Role("people", {"emial": "address"}))

    def test_unknown_column_like_no_other(self) -> None:
        """A column that is near to none is refused by name alone."""
        message = r"^The role 'dispatches' has no column 'zzz'\.$"
        with pytest.raises(ConfigurationError, match=message):
            Schema(dispatches=Role("sends", {"zzz": "x"}))

    def test_another_roles_column(self) -> None:
        """A column counts only for the role that has it."""
        with pytest.raises(ConfigurationError, match="'subscriptions' has no column 'email'"):
            Schema(subscriptions=Role("members", {"email": "address"}))

    def test_table_without_a_name(self) -> None:
        """A role is played by a table, and that has a name."""
        with pytest.raises(ConfigurationError, match="'subscribers' needs a table"):
            Schema(subscribers=Role(""))

    def test_log_without_a_table(self) -> None:
        """A log is named, or there is none."""
        with pytest.raises(ConfigurationError, match="The log needs a table"):
            Schema(log="")

    def test_column_twice(self) -> None:
        """One column cannot be two: what one notification sets, another would."""
        with pytest.raises(ConfigurationError, match="'dispatches' names the column 'at' twice"):
            Schema(dispatches=Role("sends", {"delivered_at": "at", "opened_at": "at"}))

    def test_optional_column_without_a_name(self) -> None:
        """What a table does not have is None; an empty name is a mistake."""
        with pytest.raises(ConfigurationError, match="needs the column 'suppression_reason'"):
            Schema(subscribers=Role("people", {"suppression_reason": ""}))

    @pytest.mark.parametrize("absent", [None, ""])
    @pytest.mark.parametrize(
        ("role", "column"),
        [
            ("subscribers", "id"),
            ("subscribers", "email"),
            ("subscribers", "suppressed_at"),
            ("dispatches", "id"),
            ("dispatches", "provider_message_id"),
            ("dispatches", "subscriber_id"),
            ("dispatches", "delivered_at"),
            ("dispatches", "opened_at"),
            ("subscriptions", "list_id"),
            ("subscriptions", "subscriber_id"),
        ],
    )
    def test_needed_column(self, role: str, column: str, absent: str | None) -> None:
        """A column that is needed cannot be left out: the message names it and its role."""
        roles: dict[str, Any] = {role: Role("t", {column: absent})}
        message = f"^The role '{role}' needs the column '{column}': name it.$"
        with pytest.raises(ConfigurationError, match=message):
            Schema(**roles)

    @pytest.mark.parametrize(
        ("role", "column"),
        [
            ("subscribers", "suppression_reason"),
            ("subscribers", "suppression_changed_at"),
            *(("dispatches", column) for column in ("list_id", *SUPPRESSION)),
            *(("subscriptions", column) for column in SUPPRESSION),
        ],
    )
    def test_optional_column(self, role: str, column: str) -> None:
        """A column that is optional may be left out, and is then not among the role's."""
        roles: dict[str, Any] = {role: Role("t", {column: None})}
        assert column not in Schema(**roles).columns(role)

    def test_roles_by_name_only(self) -> None:
        """A role is given by its name: which table plays which cannot be confused."""
        with pytest.raises(TypeError):
            Schema(Role("people"))  # type: ignore[call-arg]


class TestNearest:
    def test_near(self) -> None:
        """A name that was mistyped gets a hint at the one that was meant, whatever its case."""
        assert nearest("PEOPLE", ["People"]) == " Did you mean 'People'?"
        assert nearest("people", ["people", "peoples"]) == " Did you mean 'peoples'?"
        assert nearest("subscriber", ["dispatches", "subscribers"]) == (
            " Did you mean 'subscribers'?"
        )

    def test_far(self) -> None:
        """A name that is like none gets no hint."""
        assert nearest("zzz", ["dispatches", "subscribers"]) == ""


class TestLists:
    def test_through_a_message(self) -> None:
        """A dispatch then has a message, whose list counts, and none of its own."""
        schema = Schema(messages=Role("campaigns", {"list_id": "audience_id"}))
        assert schema.columns("messages") == {"id": "id", "list_id": "audience_id"}
        assert "list_id" not in schema.columns("dispatches")
        assert schema.columns("dispatches")["message_id"] == "message_id"

    def test_none(self) -> None:
        """A host without lists needs no column for one."""
        assert "list_id" not in Schema(subscriptions=None).columns("dispatches")

    @pytest.mark.parametrize(
        ("dispatches", "lists", "said"),
        [
            ({"list_id": "audience"}, True, "have a list, and messages"),
            ({"message_id": None}, True, "need the column 'message_id'"),
            ({}, False, "of which there are none"),
        ],
    )
    def test_two_ways_or_none(
        self, dispatches: dict[str, str | None], said: str, *, lists: bool
    ) -> None:
        """A list is reached in one way: what leads nowhere, or twice, is refused."""
        with pytest.raises(ConfigurationError, match=said):
            Schema(
                dispatches=Role("sends", dispatches),
                subscriptions=Role("members") if lists else None,
                messages=Role("campaigns"),
            )


class TestReasons:
    def test_verbatim(self) -> None:
        """Without words of the host's a reason is kept as it came."""
        assert Schema().reason("HardBounce") == "HardBounce"

    def test_of_the_host(self) -> None:
        """A reason is what the host has for it, or what it has for all others; none stays none."""
        schema = Schema(reasons={"HardBounce": 1, "*": 9})
        assert [schema.reason(word) for word in ("HardBounce", "Spite", None)] == [1, 9, None]

    def test_another_word(self) -> None:
        """Words without one for all others leave those as they came."""
        assert Schema(reasons={"HardBounce": "bounced"}).reason("Spite") == "Spite"

    @pytest.mark.parametrize("reasons", [{"HardBounce": 1}, {"HardBounce": 1, "*": "other"}])
    def test_impossible(self, reasons: dict[str, str | int]) -> None:
        """Numbers need one for whatever else may come, and no text among them."""
        with pytest.raises(ConfigurationError, match="reasons"):
            Schema(reasons=reasons)


class TestFold:
    def test_unknown(self) -> None:
        """A fold that there is not is refused, with those that there are."""
        with pytest.raises(ConfigurationError, match="write ascii, lower, exact or citext"):
            Schema(subscribers=Role("people", fold="upper"))  # type: ignore[arg-type] # the point

    def test_without_an_email(self) -> None:
        """Only the subscribers have an email to be folded."""
        with pytest.raises(ConfigurationError, match="no email"):
            Schema(dispatches=Role("sends", fold="lower"))


class TestWhere:
    @pytest.mark.parametrize(
        ("name", "column"), [("subscribers", "suppressed_at"), ("dispatches", "opened_at")]
    )
    def test_what_notifications_set(self, name: str, column: str) -> None:
        """A row that one notification would hide from the next is refused, by the table's name."""
        roles: dict[str, Any] = {name: Role("t", {column: "at"}, where={"at": None})}
        with pytest.raises(ConfigurationError, match=f"{name!r} hides rows by 'at'"):
            Schema(**roles)

    def test_another_column(self) -> None:
        """Any other may hide rows, also one that has a part in the role."""
        role = Role("sends", where={"list_id": 7, "draft": False})
        assert Schema(dispatches=role).dispatches is role
