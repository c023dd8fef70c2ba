"""Rows by the beginning of a text, and those of a subscriber, in every store."""

from collections.abc import Mapping

import pytest
from contract import NOON, dispatch
from django_home import LEAN
from fitted import FITTED
from homes import OURS, SPARSE, UNDATED, Home
from locations import own_home, shared_home
from tenanted import TENANTED

from crm.schema import CRM
from databases import NAMES, places
from hookrow import Schema
from hookrow._core.notification import Key
from times import SECOND

home = pytest.fixture(shared_home, scope="class")
large = pytest.fixture(own_home, params=NAMES)

SCHEMAS: Mapping[str, Schema] = {
    "own": OURS,
    "fitted": FITTED,
    "undated": UNDATED,
    "sparse": SPARSE,
    "tenants": TENANTED,
}

IN_EVERY_STORE = pytest.mark.parametrize(
    "home",
    [
        *(
            pytest.param((place, schema), id=f"{name}-{place}")
            for name, schema in SCHEMAS.items()
            for place in NAMES
        ),
        *(pytest.param((place, CRM), id=place) for place in places("django")),
        *(pytest.param((place, LEAN), id=f"lean-{place}") for place in places("django")),
    ],
    indirect=True,
    scope="class",
)

EMAILS = ["ada@example.com", "Ada.B@Example.com", "adam@example.com", "zoë@example.com", "_@x.com"]


def fill(home: Home) -> None:
    """Insert subscribers, of whom the first has dispatches and, if there are any, subscriptions."""
    home.fill(
        subscribers=[{"id": home.key(n), "email": each} for n, each in enumerate(EMAILS, 1)],
        dispatches=[
            dispatch(home, 1, "m-1", owner=1, list_=1),
            dispatch(home, 2, "m-2", owner=1, list_=2),
            dispatch(home, 3, "M_3", owner=2),
            dispatch(home, 4, None, owner=1),
            dispatch(home, 5, "n-1", owner=2),
        ],
        subscriptions=[
            {"list_id": home.key(list_), "subscriber_id": home.key(owner)}
            for list_, owner in ((2, 1), (1, 1), (1, 2))
        ],
    )


def subscriber(home: Home, email: str) -> Key:
    """Return the key of a subscriber as a store finds it."""
    number = EMAILS.index(email) + 1
    return home.key(number)


@IN_EVERY_STORE
class TestRowSearch:
    def test_beginnings(self, home: Home) -> None:
        """Rows are found by the beginning of the address or of the message id, and sorted."""
        fill(home)
        rows = home.store.row_search
        assert rows.emails("ada@", limit=9) == ["ada@example.com"]
        assert rows.emails("adam", limit=9) == ["adam@example.com"]
        assert rows.emails("_", limit=9) == ["_@x.com"]
        assert rows.emails("zoë", limit=9) == ["zoë@example.com"]
        assert {*rows.emails("ad", limit=9)} >= {"ada@example.com", "adam@example.com"}
        assert rows.emails("%", limit=9) == rows.emails("b", limit=9) == []
        assert len(rows.emails("ad", limit=1)) <= 1
        if not home.store.role_tables.has_uuids:
            assert rows.message_ids("m-", limit=9) == ["m-1", "m-2"]
            assert rows.message_ids("M_", limit=9) == ["M_3"]
            assert rows.message_ids("x", limit=9) == []

    def test_messages(self, home: Home) -> None:
        """The dispatches of a subscriber are listed, newest first, with their lists."""
        fill(home)
        rows, ada = home.store.row_search, subscriber(home, "ada@example.com")
        found = rows.messages(ada, limit=9)
        assert [each.message_id for each in found] == [None, "m-2", "m-1"]
        assert [each.id for each in found] == [home.key(n) for n in (4, 2, 1)]
        if home.store.role_tables.list_id() is not None:
            assert [each.list for each in found] == [None, home.key(2), home.key(1)]
        is_own = home.schema.is_own
        assert {each.list_name for each in found} == ({None, "a list"} if is_own else {None})
        assert rows.messages(ada, limit=1) == found[:1]
        assert rows.messages(home.key(3), limit=9) == []

    def test_subscriptions(self, home: Home) -> None:
        """The lists of a subscriber are listed in the order of their keys."""
        fill(home)
        rows, ada = home.store.row_search, subscriber(home, "ada@example.com")
        found = rows.subscriptions(ada, limit=9)
        if "subscriptions" not in home.schema.roles:
            assert not found
            return
        keys = [(each.list, each.subscriber) for each in found]
        assert keys == [(home.key(1), ada), (home.key(2), ada)]
        assert rows.subscriptions(ada, limit=1) == found[:1]
        assert rows.subscriptions(home.key(3), limit=9) == []


def test_the_order_of_messages(large: Home) -> None:
    """If the time of sending is known, the message that was sent last comes first."""
    large.fill(
        subscribers=[{"id": 1, "email": EMAILS[0]}],
        dispatches=[dispatch(large, n, f"m-{n}", owner=1) for n in (1, 2, 3)],
    )
    write = large.store.role_tables.dialect.write
    with large.store.database.transaction() as connection:
        for n, ago in ((1, 0), (2, 9), (3, 5)):
            change = "UPDATE hookrow_dispatches SET created_at = %s WHERE id = %s"
            connection.execute(change, [write(NOON - ago * SECOND), n])
    found = large.store.row_search.messages(1, limit=9)
    assert [each.message_id for each in found] == ["m-1", "m-3", "m-2"]
    assert found[0].sent_at == NOON
