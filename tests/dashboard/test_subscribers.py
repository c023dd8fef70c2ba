"""The rows of a subscriber, and the search for subscribers and messages by a beginning."""

import html
import re
from collections.abc import Iterator
from contextlib import closing

import pytest

import world
from engines import MEMORY
from hookrow import Schema, testing
from hookrow.dashboard import _queries
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._row_search import SQLRowSearch
from hookrow.testing import Tables
from visitor import HOST, Visitor, receive
from wire import ADA, ADAS, AT, PATIENCE

ARABIC = "مرحبا@example.com"


@pytest.fixture
def store() -> Iterator[SQLStore]:
    """Return a store with a subscriber, a list and a dispatch."""
    with closing(SQLStore(MEMORY)) as store:
        tables = Tables(store)
        tables.add_dispatch(ADAS, tables.add_subscriber(ADA), tables.add_list("news"))
        yield store


@pytest.fixture
def tables(store: SQLStore) -> Tables:
    return Tables(store)


@pytest.fixture
def visitor(store: SQLStore) -> Iterator[Visitor]:
    visitor = Visitor(store)
    yield visitor
    visitor.dashboard.close(PATIENCE)


def cells(page: str, label: str) -> list[str]:
    """Return the texts of the cells with a label."""
    found = re.findall(rf'<td data-label="{label}"[^>]*>(.*?)</td>', page, re.DOTALL)
    return [html.unescape(re.sub("<[^>]+>", "", each)).strip() for each in found]


class TestRows:
    def test_messages_and_lists(self, store: SQLStore, tables: Tables, visitor: Visitor) -> None:
        """The page has the subscriber's messages and lists, with their states, and links."""
        ada = tables.subscriber(ADA).id
        tables.add_subscription(1, ada)
        offers = tables.add_list("<offers>")
        tables.add_subscription(offers, ada, suppressed_at=AT, suppression_reason="ManualUnsub")
        tables.add_dispatch("m-2", ada, suppressed_at=AT)
        tables.add_dispatch(None, ada)
        tables.add_dispatch("m-other", tables.add_subscriber("eve@example.com"))
        receive(store, testing.delivery(ADA, ADAS, at=AT))
        page = visitor.shows("/subscriber", email=ADA)
        assert {*cells(page, "Message ID")} == {"not sent yet", "m-2", ADAS}
        assert sorted(cells(page, "Suppressed")) == ["no", "no", "suppressed"]
        by_message = dict(zip(cells(page, "Message ID"), cells(page, "Delivered"), strict=True))
        assert by_message[ADAS] == "2026-03-04 05:06:07Z"
        assert by_message["m-2"] == "none"
        assert f'href="./dispatch?message_id={ADAS}"' in page
        assert "m-other" not in page
        assert cells(page, "List")[:2] == ["news", "<offers>"]
        assert cells(page, "Subscription") == ["active", "suppressed"]
        assert cells(page, "Reason") == ["none", "ManualUnsub"]
        assert 'href="./suppressions?list=1"' in page

    def test_many(self, tables: Tables, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
        """The newest rows are shown, and the page says that there are more."""
        monkeypatch.setattr(_queries, "MAX_ROWS_OF_SUBSCRIBER", 1)
        ada = tables.subscriber(ADA).id
        assert "there are more" not in visitor.shows("/subscriber", email=ADA)
        tables.add_dispatch("m-2", ada)
        for name in ("b", "c"):
            tables.add_subscription(tables.add_list(name), ada)
        page = visitor.shows("/subscriber", email=ADA)
        assert cells(page, "Message ID") == ["m-2"]
        assert "The newest 1 messages; there are more." in page
        assert cells(page, "Subscription") == ["active"]
        assert "There are more lists than these 1." in page

    def test_a_subscriber_without_rows(self, tables: Tables, visitor: Visitor) -> None:
        tables.add_subscriber("eve@example.com")
        page = visitor.shows("/subscriber", email="eve@example.com")
        assert "No messages." in page
        assert "No subscriptions." in page

    def test_tables_of_a_host(self, store: SQLStore) -> None:
        """Without names of lists and times of sending, the page has the keys and no times."""
        page = Visitor(SQLStore(store.database, HOST)).shows("/subscriber", email=ADA)
        assert cells(page, "Message ID") == [ADAS]
        assert cells(page, "List") == ["1"]
        assert cells(page, "Sent") == ["none"]

    def test_tables_with_people_only(self, store: SQLStore) -> None:
        """Without dispatches and lists, the page and the search have neither."""
        people = Schema(dispatches=None, subscriptions=None)
        visitor = Visitor(SQLStore(store.database, people))
        page = visitor.shows("/subscriber", email=ADA)
        assert ">Messages</h2>" not in page
        assert ">Lists</h2>" not in page
        assert "subscriber?email=" in visitor.shows("/search", q=ADA[:2])
        assert "Nothing found" in visitor.shows("/search", q=ADAS[:3])

    def test_rows_that_take_too_long(
        self, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest of the page is shown."""

        def fail(*_: object, **__: object) -> None:
            raise Unavailable

        monkeypatch.setattr(SQLRowSearch, "messages", fail)
        page = visitor.shows("/subscriber", email=ADA)
        assert "The messages and lists could not be found in time" in page
        assert ">active<" in page

    def test_where_a_suppression_is_lifted(self, tables: Tables, visitor: Visitor) -> None:
        """The page says that the provider is not told."""
        sentence = "This lifts the suppression in your tables only."
        assert sentence not in visitor.shows("/subscriber", email=ADA)
        eve = tables.add_subscriber("eve@example.com", suppressed_at=AT)
        tables.add_dispatch("m-eve", eve, suppressed_at=AT)
        assert sentence in visitor.shows("/subscriber", email="eve@example.com")
        assert sentence in visitor.shows("/dispatch", message_id="m-eve")


class TestBeginnings:
    def test_search(self, tables: Tables, visitor: Visitor) -> None:
        """Subscribers and messages are found by the beginning, regardless of case."""
        for email in ("Adam@example.com", "ad_b@example.com", "bea@example.com", ARABIC):
            tables.add_subscriber(email)
        tables.add_dispatch("ad-1", tables.subscriber(ADA).id)
        page = visitor.shows("/search", q="AD")
        assert re.findall(r'subscriber\?email=([^"]+)', page) == [
            "Adam%40example.com",
            "ad_b%40example.com",
            "ada%40example.com",
        ]
        assert re.findall(r'dispatch\?message_id=([^"]+)', page) == ["ad-1"]
        assert "There may be more" not in page
        assert "ad_b" in visitor.shows("/search", q="ad_")
        assert f"<bdi>{ARABIC}</bdi>" in visitor.shows("/search", q=ARABIC[:3])
        assert visitor.get("/search", q=ADA).status == 303

    def test_beginnings_in_the_log(self, store: SQLStore, visitor: Visitor) -> None:
        """Addresses and message ids of which there is no row; a row's spelling takes precedence."""
        receive(
            store,
            testing.delivery("Eve@example.com", "only-1", at=AT),
            testing.suppression("evelyn@example.com", "only-2", at=AT, reason="HardBounce"),
            testing.delivery(ADA.upper(), ADAS, at=AT),
        )
        page = visitor.shows("/search", q="EV")
        assert re.findall(r'subscriber\?email=([^"]+)', page) == [
            "eve%40example.com",
            "evelyn%40example.com",
        ]
        page = visitor.shows("/search", q="only")
        assert re.findall(r'dispatch\?message_id=([^"]+)', page) == ["only-1", "only-2"]
        assert visitor.shows("/search", q=ADA[:2].upper()).count("subscriber?email=") == 1

    def test_nothing_found(self, visitor: Visitor) -> None:
        """The message does not have the color of a success."""
        for text in ("nobody", "%", "a%", "'\"; --", "\\", "x" * 400):
            page = visitor.shows("/search", q=text)
            assert '<p class="notice" role="status">Nothing found for' in page

    def test_many(self, tables: Tables, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_queries, "MAX_FOUND", 3)
        for n in range(5):
            tables.add_subscriber(f"s{n}@example.com")
        page = visitor.shows("/search", q="s")
        assert page.count("subscriber?email=") == 3
        assert "There may be more: enter more of the text." in page

    def test_beside_exact_matches(self, store: SQLStore, tables: Tables, visitor: Visitor) -> None:
        """If several pages match, the others that begin with the text are listed, too."""
        receive(store, testing.delivery(ADA, ADAS, at=AT))
        for each in ("1", "12"):
            tables.add_dispatch(each, tables.subscriber(ADA).id)
        page = visitor.shows("/search", q="1")
        assert "Several pages match" in page
        assert re.findall(r"<bdi>(\d+)</bdi></a></li>", page) == ["1", "12"]

    def test_a_search_that_takes_too_long(
        self, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The page says so, and has what was found."""

        def fail(*_: object, **__: object) -> None:
            raise Unavailable

        monkeypatch.setattr(SQLRowSearch, "emails", fail)
        page = visitor.shows("/search", q=ADAS[:3])
        assert "Addresses that begin with this text could not be found in time" in page
        assert f"message_id={ADAS}" in page


def test_on_postgres(postgres_url: str) -> None:
    """The rows and the search work on PostgreSQL, which compares texts by its collation."""
    world.fill(postgres_url)
    with closing(SQLStore(postgres_url)) as store:
        visitor = Visitor(store)
        assert f"message_id={ADAS}" in visitor.shows("/subscriber", email=ADA)
        assert "subscriber?email=" in visitor.shows("/search", q=ADA[:2].upper())
        visitor.dashboard.close(PATIENCE)
