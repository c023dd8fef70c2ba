"""The schema: the columns of a host's tables, and invalid schemas."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from hookrow._core.notation import Notation
from hookrow._core.notification import KNOWN_REASONS, Suppressible
from hookrow._core.schema import Role, Schema, nearest
from hookrow._core.schema_values import schema_of
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
    assert not schema.dated_in_side_table
    assert not schema.unguarded
    assert schema.is_own


def sends(columns: Mapping[str, str | None] | None = None, **others: Any) -> dict[str, Any]:  # noqa: ANN401 - roles
    """Return the roles of a host whose dispatches are in the table `sends`."""
    return {"dispatches": Role("sends", columns or {}), **others}


MAILS = Role("mails")
FULL = (*DISPATCHES, "list_id", *SUPPRESSION)
OF_MESSAGES = (*DISPATCHES, "message_id", *SUPPRESSION)
NO_LISTS = (*DISPATCHES, *SUPPRESSION)


@pytest.mark.parametrize(
    ("given", "names", "others"),
    [
        (
            {"subscribers": Role("people", {"email": "address", "suppression_reason": None})},
            *(("id", *SUPPRESSION[::2]), {"email": "address"}),
        ),
        (sends(), FULL, {}),
        (sends({"sent_at": "made", **BARE}), (*DISPATCHES, "list_id"), {"sent_at": "made"}),
        ({"dispatches": Role("hookrow_dispatches", {"sent_at": None})}, FULL, {}),
        # Without lists, a dispatch needs no list column; with messages, it has their id instead.
        (sends({"list_id": "l"}, subscriptions=None), NO_LISTS, {}),
        (sends(messages=MAILS), OF_MESSAGES, {}),
        # The name of an unused column may be mapped to another one.
        (sends({DISPATCHES[1]: "message_id"}), FULL, {DISPATCHES[1]: "message_id"}),
        (sends({"opened_at": "list_id"}, messages=MAILS), OF_MESSAGES, {"opened_at": "list_id"}),
        (
            sends({DISPATCHES[1]: "list_id", "id": "message_id"}, subscriptions=None),
            *(NO_LISTS, {DISPATCHES[1]: "list_id", "id": "message_id"}),
        ),
        ({"messages": Role("mails", {"list_id": "audience"})}, ("id",), {"list_id": "audience"}),
        ({"subscriptions": Role("m", BARE)}, ("list_id", "subscriber_id"), {}),
    ],
)
def test_columns_of_a_host(
    given: Mapping[str, Any], names: tuple[str, ...], others: Mapping[str, str]
) -> None:
    schema = Schema(**given)
    assert schema.columns(next(iter(given))) == {**_same(*names), **others}
    assert not schema.is_own
    assert ("subscriptions" in schema.roles) is (schema.subscriptions is not None)


@pytest.mark.parametrize("kind", Suppressible)
def test_a_role_without_the_date_of_its_last_change(kind: Suppressible) -> None:
    """The date is stored beside the log, or nowhere without a log."""
    roles: dict[str, Any] = {kind.value: Role("t", {"suppression_changed_at": None})}
    with_log, without = Schema(**roles), Schema(**roles, log=None)
    assert (with_log.dated_in_side_table, with_log.unguarded) == ({kind}, ())
    assert (without.dated_in_side_table, without.unguarded) == ((), {kind})


@pytest.mark.parametrize(
    ("role", "log"), [(Role("t", BARE), "log"), (Role("t", BARE), None), (None, None)]
)
def test_a_role_without_suppression_columns_needs_no_dates(
    role: Role | None, log: str | None
) -> None:
    schema = Schema(subscriptions=role, log=log)
    assert schema.suppressible == {Suppressible.SUBSCRIBER, Suppressible.DISPATCH}
    assert not schema.dated_in_side_table
    assert not schema.unguarded


@pytest.mark.parametrize(
    ("log", "expected"), [("hookrow_notifications", "dates"), ("crm.kept", "crm.dates")]
)
def test_tables_beside_the_log(log: str, expected: str) -> None:
    assert Schema(log=log).side_table("dates") == expected


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


def members(*columns: Mapping[str, str | None], **options: Any) -> dict[str, Any]:  # noqa: ANN401 - of a role
    """Return the roles of a host whose subscribers are in the table `people`."""
    return {"subscribers": Role("people", *columns, **options)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log": ""}, "The log needs a table"),
        ({"subscribers": Role("")}, "'subscribers' needs a table"),
        ({"subscribers": None}, r"'subscribers' must be a Role, not None: write subscribers=Role"),
        ({"messages": "mails"}, r"a Role, not str: write messages=Role\(\"mails\"\)"),
        (
            members(where={"tenant": 1.5}),
            "'subscribers' has 1.5 for 'tenant' in `where`: use a string, an integer, True,",
        ),
        (
            members({"emial": "address"}),
            r"^The role 'subscribers' has no column 'emial'\. Did you mean 'email'\?$",
        ),
        (sends({"zzz": "x"}), r"'dispatches' has no column 'zzz'\.$"),
        (
            sends({"delivered_at": "at", "opened_at": "at"}),
            "'dispatches' uses the column 'at' for both delivered_at and opened_at: map one",
        ),
        (
            sends({"provider_message_id": "message_id"}, messages=MAILS),
            "'message_id' for both provider_message_id and message_id: map one",
        ),
        (members({"suppression_reason": ""}), "column 'suppression_reason'"),
        (
            sends({"list_id": "audience"}, messages=MAILS),
            "mapped in both the dispatches and the messages",
        ),
        (
            sends({"message_id": None}, messages=MAILS),
            "With `messages`, the dispatches need the column 'message_id'",
        ),
        ({"subscriptions": None, "messages": MAILS}, "`messages` needs `subscriptions`"),
        ({"dispatches": None}, "`subscriptions` needs `dispatches`, because a list is found by"),
        (
            {"dispatches": None, "subscriptions": None, "messages": MAILS},
            "^`messages` needs `dispatches`, because a list is found by the dispatch: map",
        ),
        (
            {"dispatches": None, "subscriptions": None, "record": ("click",)},
            "`record` has 'click', but `dispatches` is None: map them, or remove 'click'",
        ),
        (
            {"reasons": {}},
            "`reasons` is empty: map reasons, for example 'HardBounce' to 'bounced', or",
        ),
        ({"reasons": {1: "bounced"}}, "`reasons` has the key 1: use a reason of the provider, or"),
        ({"reasons": {"": "bounced"}}, "`reasons` has the key ''"),
        ({"reasons": {"*": None}}, "`reasons` has None for '.': use a string or an integer"),
        ({"reasons": {"*": True}}, "`reasons` has True for '.': use a string or an integer"),
        ({"reasons": {"*": 9.0}}, "`reasons` has 9.0 for '.': use a string or an integer"),
        ({"reasons": {"*": 2**63}}, f"`reasons` has {2**63} for '.': use an integer that fits 64"),
        ({"reasons": {"*": -(2**63) - 1}}, "use an integer that fits 64 bits"),
        ({"reasons": {"HardBounce": 1}}, "has integers: add one for all others"),
        ({"reasons": {"HardBounce": 1, "*": "other"}}, "has strings and integers: use only one"),
        (members(fold="upper"), "has the fold 'upper': use ascii, lower, exact or citext"),
        ({"dispatches": Role("sends", fold="lower")}, "has no email: omit `fold`"),
        (members(empty="none"), "has 'none' for `empty`, which is not an empty string: use"),
        (
            {"dispatches": Role("s", {"suppression_reason": None}, empty="")},
            "'dispatches' has '' for `empty`, but no column for a reason",
        ),
        ({"messages": Role("m", empty="")}, "'messages' has '' for `empty`, but no column"),
        (members(empty="") | {"reasons": {"*": 9}}, "but `reasons` has integers"),
        (members(empty="") | {"reasons": {"Spam": ""}}, "which is also a value in `reasons`"),
        (members({"suppressed_at": "at"}, where={"at": None}), "'subscribers' hides rows by 'at'"),
        (members(tenant=""), "'subscribers' has the tenant '', which is not the name of a column"),
        (members(tenant="email"), "the tenant 'email', which notifications set or search: name"),
        (
            members({"suppressed_at": "at"}, tenant="at"),
            "the tenant 'at', which notifications set or",
        ),
        (members(tenant="t", where={"t": 1}), "the tenant 't', which also hides rows: omit it in"),
        (members(touch=""), "'subscribers' has the touch '', which is not the name of a column"),
        (members(touch="email"), "'subscribers' uses the column 'email' for both email and touch"),
        (members(touch="t", where={"t": None}), "the touch 't', which also selects rows: "),
        (members(touch="t", tenant="t"), "the touch 't', which also selects rows: "),
        (
            {"subscriptions": Role("members", dict.fromkeys(SUPPRESSION), touch="t")},
            "the touch 't', but notifications set no column of the subscriptions: omit `touch`",
        ),
        (
            {"dispatches": Role("sends", tenant="team_id")},
            "but the subscribers have none: name their column with `tenant`, too",
        ),
        (
            members(tenant="t") | {"messages": Role("m", tenant="t")},
            "'messages' has the tenant 't', but a message has the tenant of its dispatches: omit",
        ),
    ],
)
def test_an_invalid_schema_is_rejected(given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Schema(**given)


def test_all_faults_of_a_schema_are_reported_at_once() -> None:
    """One line for each; no name is suggested twice, nor one that is mapped already."""
    people = Role("people", {"emial": "a", "emaill": "b", "id": None}, fold="lower", empty="none")
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=people, dispatches=Role(""), record=("click", "clik"), reasons={})
    texts = [each.text for each in caught.value.faults]
    beginnings = [
        "The role 'subscribers' has no column 'emial'. Did you mean 'email'?",
        "The role 'subscribers' has no column 'emaill'.",
        "The role 'subscribers' needs the column 'id': map it.",
        "The role 'dispatches' needs a table: set its name.",
        "`reasons` is empty: map reasons, ",
        "`record` has 'click', but '' has no column 'clicked_at': map it in the role 'dispatches'",
        "`record` has 'clik': use 'click', 'bounce', 'complaint', 'first_open'.",
        "The role 'subscribers' has 'none' for `empty`, which is not an empty string: ",
    ]
    assert all(map(str.startswith, texts, beginnings))
    assert str(caught.value).split("\n- ") == ["8 faults:", *texts]


@pytest.mark.parametrize(
    ("role", "texts"),
    [
        (
            {"table": "crm.Person", "suppressed_at": "muted_at"},
            [
                (
                    "the role 'subscribers' has the column 'suppressed_at' beside its table: write "
                    '"columns": {"suppressed_at": "muted_at"}.'
                )
            ],
        ),
        (
            {"tabel": "crm.Person", "columns": {"email": "mail"}, "suppression_reason": False},
            [
                (
                    "the role 'subscribers' has the column 'suppression_reason' beside its table: "
                    'write "columns": {"email": "mail", "suppression_reason": None}.'
                ),
                "unknown key of a role 'tabel'. Did you mean 'table'?",
            ],
        ),
        (
            {"model": "crm.Person", "email": "mail"},
            [
                (
                    "the role 'subscribers' has the column 'email' beside its table: write "
                    '"columns": {"email": "mail"}.'
                ),
                (
                    "the role 'subscribers' names its model with the key 'model': write "
                    '"table": "crm.Person".'
                ),
            ],
        ),
        (
            "crm.Person",
            [
                (
                    "the role 'subscribers' has no table: write "
                    '"subscribers": {"table": "crm.Person"}.'
                ),
            ],
        ),
        (7, ["the role 'subscribers' has no table: set 'subscribers.table' to the table's name."]),
    ],
)
def test_a_role_of_django_that_is_written_wrongly(role: object, texts: Sequence[str]) -> None:
    """The error has the lines to write, with the columns that are in the right place."""
    with pytest.raises(ConfigurationError) as caught:
        schema_of({"subscribers": role}, Notation.DJANGO)
    assert [each.text for each in caught.value.faults] == [*texts]


def test_all_faults_of_a_role_are_reported_at_once() -> None:
    given: Any = {"email": 7, "id": 1.5}
    with pytest.raises(
        ConfigurationError, match=r"3 faults:\n- .*'email'.*\n- .*'id'.*\n- .*tenant"
    ):
        Role("people", given, tenant=given)


def test_a_tenant_that_is_not_a_name() -> None:
    """The error shows the line to write."""
    given: Any = 7
    with pytest.raises(ConfigurationError, match=r'write Role\("people", tenant="team_id"\)'):
        Role("people", tenant=given)


def test_tenants_from_plain_values() -> None:
    """In a settings file, false stands for none."""
    tables = {
        "subscribers": {"table": "people", "tenant": "team_id"},
        "dispatches": {"table": "sends", "tenant": False},
    }
    schema = schema_of(tables)
    assert (schema.subscribers.tenant, schema.roles["dispatches"].tenant) == ("team_id", None)
    assert (schema.has_tenants, Schema().has_tenants) == (True, False)


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


@pytest.mark.parametrize(
    ("reasons", "values"),
    [
        (None, KNOWN_REASONS),
        ({"HardBounce": "b"}, ["b", *KNOWN_REASONS[1:]]),
        ({"HardBounce": "b", "Spite": "s"}, ["b", *KNOWN_REASONS[1:], "s"]),
        ({"HardBounce": 1, "*": 9}, [1, 9, 9, 9]),
    ],
)
def test_values_for_reasons(
    reasons: Mapping[str, str | int] | None, values: Sequence[object]
) -> None:
    """A reason of the provider that is not mapped is written unchanged, or as all others."""
    assert [*Schema(reasons=reasons).known_values.values()] == [*values]


def test_a_mistyped_name_gets_a_hint_with_the_most_similar_name() -> None:
    assert nearest("PEOPLE", ["People"]) == " Did you mean 'People'?"
    assert nearest("people", ["people", "peoples"]) == " Did you mean 'peoples'?"
    assert nearest("zzz", ["dispatches", "subscribers"]) == ""
    assert nearest("H_ZZZ", ["H_URL"], prefix="H_") == ""
    assert nearest("H_ULR", ["H_URL"], prefix="H_") == " Did you mean 'H_URL'?"


def test_what_follows_from_the_roles_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and statements ask for it again and again."""
    schema = Schema(dispatches=Role("mails", {"list_id": None}))
    column = Mock(side_effect=AssertionError)
    monkeypatch.setattr(Role, "column", column)
    for _ in range(2):
        assert schema.columns("dispatches").keys().isdisjoint({"list_id"})
        assert schema.roles.keys() == {"subscribers", "dispatches", "subscriptions"}
        assert not schema.is_own
        assert not schema.unguarded
    column.assert_not_called()


def test_records_in_a_list() -> None:
    """A list of records is the same as a tuple of them."""
    assert Schema(record=["click", "bounce"]) == Schema(record=("click", "bounce"))
