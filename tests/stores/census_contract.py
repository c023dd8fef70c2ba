"""The contract of every store for counting its rows."""

from datetime import UTC, datetime, timedelta

from contract import ADA, BEA, NOON, ZOE, fill, has_lists, opens, respond
from homes import OURS, Home, SQLHome

from copying import replace
from hookrow import Delivered, Suppressed
from hookrow.stores.census import ListCount
from hookrow.stores.memory import MemoryStore


class CensusContract:
    """Counting the rows that the schema does not exclude."""

    def test_lists(self, home: Home) -> None:
        """Rows without a list come first."""
        home.fill()
        assert [each for each in home.store.census.lists() if each.sent] == []
        fill(home)
        given = (opens(ADA, "m-ada"), Delivered(BEA, "m-bea", NOON), Delivered(ADA, "m-none", NOON))
        assert respond(home, *given, Suppressed(ADA, "m-ada", NOON, "HardBounce")) == [200] * 4
        found = home.store.census.lists()
        if not has_lists(home):
            assert found == [ListCount(list=None, sent=3, delivered=2, opened=1)]
            return
        ours = isinstance(home, SQLHome) and home.schema == OURS
        assert {each.name for each in found if each.list} == {"a list" if ours else None}
        assert [replace(each, name=None) for each in found] == [
            ListCount(list=None, sent=1, delivered=1, opened=0, subscribed=0, suppressed=0),
            ListCount(list=home.key(1), sent=1, delivered=0, opened=1, subscribed=2, suppressed=1),
            ListCount(list=home.key(2), sent=1, delivered=1, opened=0, subscribed=1, suppressed=0),
        ]

    def test_suppressed(self, home: Home) -> None:
        """Suppressed subscribers are counted by reason, as the table stores it, if it does."""
        fill(home)
        assert home.store.census.suppressed() == {}
        reasons = {ADA: "HardBounce", BEA: "SpamComplaint", ZOE: "HardBounce"}
        respond(home, *(Suppressed(email, None, NOON, word) for email, word in reasons.items()))
        expected: dict[str | None, int] = {None: 3}
        if "suppression_reason" in home.schema.columns("subscribers"):
            words = ((word, reasons[BEA] == word) for word in ("HardBounce", "SpamComplaint"))
            expected = {str(home.schema.reason(word)): 1 if one else 2 for word, one in words}
        assert home.store.census.suppressed() == expected

    def test_sent(self, home: Home) -> None:
        """The time of sending is read if a column has it: `created_at` of hookrow's tables."""
        fill(home)
        begin = datetime.now(UTC) - timedelta(minutes=1)
        sent = home.store.census.sent(["m-ada", "m-bea", "m-nowhere"])
        in_database = not isinstance(home.store, MemoryStore)
        assert set(sent) == ({"m-ada", "m-bea"} if home.schema == OURS and in_database else set())
        assert all(begin < at <= datetime.now(UTC) for at in sent.values())
        assert home.store.census.sent([]) == {}
