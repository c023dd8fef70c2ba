"""What every store counts of its rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from contract import NOON, arrival, fill, opens, statuses
from homes import OURS, Home, SQLHome

from hookrow import Delivered, Suppressed
from hookrow.recording import record
from hookrow.stores.census import ListCount
from hookrow.stores.memory import MemoryStore


class CensusContract:
    """Counting the rows, but for those that the schema hides."""

    def test_dispatches_and_subscriptions_are_counted_by_list(self, home: Home) -> None:
        """What has no list comes first; without lists all are counted together."""
        fill(home)
        told = [
            arrival(opens("ada@example.com", "m-ada")),
            arrival(Delivered("bea.upper@example.com", "m-bea", NOON)),
            arrival(Delivered("ada@example.com", "m-none", NOON)),
            arrival(Suppressed("ada@example.com", "m-ada", NOON, "HardBounce")),
        ]
        assert statuses(record(home.store, told)) == [200] * 4
        found = home.store.census.lists()
        if "subscriptions" not in home.schema.roles:
            assert found == [ListCount(list=None, sent=3, delivered=2, opened=1)]
            return
        none, one, two = (None, home.key(1), home.key(2))
        ours = isinstance(home, SQLHome) and home.schema == OURS
        assert {each.name for each in found if each.list} == {"a list" if ours else None}
        found = [replace(each, name=None) for each in found]
        assert found == [
            ListCount(list=none, sent=1, delivered=1, opened=0, subscribed=0, suppressed=0),
            ListCount(list=one, sent=1, delivered=0, opened=1, subscribed=2, suppressed=1),
            ListCount(list=two, sent=1, delivered=1, opened=0, subscribed=1, suppressed=0),
        ]

    def test_suppressed_subscribers_are_counted_by_reason(self, home: Home) -> None:
        """As the host keeps it, in text; by none where it keeps none."""
        fill(home)
        assert home.store.census.suppressed() == {}
        for email, reason in (
            ("ada@example.com", "HardBounce"),
            ("bea.upper@example.com", "SpamComplaint"),
            ("zoë@example.net", "HardBounce"),
        ):
            record(home.store, [arrival(Suppressed(email, None, NOON, reason))])
        kept = "suppression_reason" in home.schema.columns("subscribers")
        reasons = ["HardBounce", "SpamComplaint"] if kept else [None, None]
        if home.schema.reasons:
            reasons = [str(home.schema.reason(each)) for each in reasons]
        assert home.store.census.suppressed() == (
            {reasons[0]: 2, reasons[1]: 1} if kept else {None: 3}
        )

    def test_it_is_told_when_messages_were_sent(self, home: Home) -> None:
        """Where a column says so: `created_at` of our own."""
        fill(home)
        begin = datetime.now(UTC) - timedelta(minutes=1)
        sent = home.store.census.sent(["m-ada", "m-bea", "m-nowhere"])
        in_database = not isinstance(home.store, MemoryStore)
        assert set(sent) == ({"m-ada", "m-bea"} if home.schema == OURS and in_database else set())
        assert all(begin < at <= datetime.now(UTC) for at in sent.values())

    def test_of_no_rows_nothing_is_counted(self, home: Home) -> None:
        """No list and no reason, and of no message is said when it was sent."""
        home.fill()
        census = home.store.census
        assert [each for each in census.lists() if each.sent] == []
        assert census.suppressed() == census.sent(["m-ada"]) == census.sent([]) == {}
