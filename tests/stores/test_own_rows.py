"""`hookrow.testing.Tables` adds rows to hookrow's own tables, and reads them, on every database."""

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from databases import IN_MEMORY, NAMES
from engines import MEMORY
from hookrow import ConfigurationError, Role, Schema, testing
from hookrow._core.notification import Key
from hookrow.stores._errors import Rejected, Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.testing import StoreContract, SubscriberRow, Tables, open_receiver, post
from times import HOUR, NOON
from wire import ADA


@pytest.fixture(params=[IN_MEMORY, *NAMES])
def store(request: pytest.FixtureRequest) -> Iterator[SQLStore]:
    """Open a store with every record on hookrow's own tables, empty."""
    url = MEMORY
    if request.param != IN_MEMORY:
        url = request.getfixturevalue(f"{request.param}_url")
    schema = Schema(record=("first_open", "click", "bounce", "complaint"))
    with closing(SQLStore(url, schema)) as store:
        yield store


@pytest.fixture
def tables(store: SQLStore) -> Tables:
    return Tables(store)


def test_notifications_change_rows_that_were_added(store: SQLStore, tables: Tables) -> None:
    """Every column that a notification sets can be read, with times in UTC."""
    ada, news = tables.add_subscriber(ADA), tables.add_list(name="news")
    tables.add_subscription(news, ada)
    tables.add_dispatch("m-ada", ada, list_=news)
    with open_receiver(store) as receiver:
        for payload in (
            testing.delivery(ADA, "m-ada", at=NOON),
            testing.opening(ADA, "m-ada", at=NOON + HOUR),
            testing.click(ADA, "m-ada", at=NOON + 2 * HOUR),
            testing.bounce(ADA, "m-ada", at=NOON + 3 * HOUR),
            testing.complaint(ADA, "m-ada", at=NOON + 4 * HOUR),
            testing.suppression(ADA, "m-ada", at=NOON + 5 * HOUR, reason="SpamComplaint"),
        ):
            assert post(receiver, payload) == (200, "")
    dispatch, subscription = tables.dispatch("m-ada"), tables.subscription(news, ada)
    assert (dispatch.subscriber_id, dispatch.list_id) == (ada, news)
    assert [dispatch.delivered_at, dispatch.opened_at, dispatch.first_opened_at] == [
        *(NOON, NOON + HOUR, NOON + HOUR)
    ]
    assert (dispatch.clicked_at, dispatch.complained_at) == (NOON + 2 * HOUR, NOON + 4 * HOUR)
    assert (dispatch.bounced_at, dispatch.bounce_type) == (NOON + 3 * HOUR, "HardBounce")
    for row in (tables.subscriber(ADA), subscription, dispatch):
        assert row.suppressed_at == row.suppression_changed_at == NOON + 5 * HOUR
        assert row.suppression_reason == "SpamComplaint"


def test_columns_by_name(tables: Tables) -> None:
    """All columns can be given, and those that are not given are null."""
    ada = tables.add_subscriber(ADA, suppressed_at=NOON, suppression_reason="HardBounce")
    news = tables.add_list()
    assert tables.subscriber(ADA) == SubscriberRow(
        id=ada,
        email=ADA,
        suppressed_at=NOON,
        suppression_reason="HardBounce",
        suppression_changed_at=None,
    )
    tables.add_subscription(news, ada, suppression_changed_at=NOON)
    tables.add_dispatch("m-ada", ada, bounced_at=NOON, bounce_type="SoftBounce")
    tables.add_dispatch(None, ada)
    assert tables.subscription(news, ada).suppression_changed_at == NOON
    dispatch = tables.dispatch("m-ada")
    assert (dispatch.list_id, dispatch.bounced_at, dispatch.bounce_type) == (
        *(None, NOON),
        "SoftBounce",
    )


def test_mistakes(tables: Tables) -> None:
    """A column or a row that does not exist is named; the constraints of the tables apply."""
    ada = tables.add_subscriber(ADA)
    with pytest.raises(ConfigurationError, match=r"'suppresed_at'\. Did you mean 'suppressed_at'"):
        tables.add_subscriber("bea@example.com", suppresed_at=NOON)  # type: ignore[call-arg]
    with pytest.raises(Rejected):
        tables.add_subscriber(ADA.upper())
    with pytest.raises(Rejected):
        tables.add_dispatch("m-ada", ada + 1)
    with pytest.raises(LookupError, match="hookrow_subscribers has no row with email 'bea@exam"):
        tables.subscriber("bea@example.com")
    with pytest.raises(LookupError, match=f"no row with list_id 7, subscriber_id {ada}"):
        tables.subscription(7, ada)
    with pytest.raises(LookupError, match="hookrow_dispatches has no row with provider_message_i"):
        tables.dispatch("m-ada")


def test_other_tables(empty_sqlite_url: str) -> None:
    """Only hookrow's own tables are accepted, which must exist."""
    schema = Schema(subscribers=Role("people"))
    with pytest.raises(ConfigurationError, match="has tables of your own: save their rows as you"):
        Tables(SQLStore(MEMORY, schema))
    with pytest.raises(ConfigurationError, match=r'write Tables\(SQLStore\("sqlite://"\)\)'):
        Tables(MEMORY)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match=r"does not exist\. .* run `hookrow db upgrade`"):
        Tables(SQLStore(empty_sqlite_url)).add_subscriber(ADA)


class TestContract(StoreContract):
    """The methods fit those that the contract of a mapping needs."""

    @pytest.fixture(autouse=True)
    def _tables(self, store: SQLStore, tables: Tables) -> None:
        self.store, self.tables = store, tables

    def add_subscriber(self, email: str, /) -> Key:
        return self.tables.add_subscriber(email)

    def add_list(self) -> Key:
        return self.tables.add_list()

    def add_subscription(self, list_: Key, subscriber: Key, /) -> None:
        self.tables.add_subscription(cast("int", list_), cast("int", subscriber))

    def add_dispatch(self, message_id: str, subscriber: Key, list_: Key | None, /) -> Key:
        on_list = cast("int | None", list_)
        return self.tables.add_dispatch(message_id, cast("int", subscriber), on_list)
