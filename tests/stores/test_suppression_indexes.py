"""How databases find the suppressed subscribers of a reason or a list, among many others."""

import pytest
from contract import NOON
from homes import Home
from locations import own_home

from databases import NAMES
from hookrow.stores.sql import _suppressions
from hookrow.stores.sql._row_counts import MAX_COUNTED_REASON
from hookrow.stores.sql._suppressions import Filter, SuppressionRange
from times import SECOND

home = pytest.fixture(own_home, params=NAMES)

LONG = "n" * _suppressions.MAX_INDEXED
MANY = 4000
RARE = {1: "SpamComplaint", 2: "SpamComplaint", 3: LONG, 4: LONG + "x", 5: LONG + "y" * 10_000}


@pytest.fixture
def large(home: Home) -> Home:
    """Return hookrow's tables with many subscribers, all suppressed, and a small and a big list."""
    rows = range(1, MANY + 1)
    home.fill(
        subscribers=[
            {
                "id": n,
                "email": f"s{n}@example.com",
                "suppressed_at": NOON + n * SECOND,
                "suppression_reason": RARE.get(n, "HardBounce"),
            }
            for n in rows
        ],
        lists=[{"id": 1, "name": "big"}, {"id": 2, "name": "small"}],
        subscriptions=[
            *({"list_id": 1, "subscriber_id": n} for n in rows),
            *({"list_id": 2, "subscriber_id": n} for n in (7, 9)),
        ],
    )
    return home


def found(home: Home, selected: Filter) -> list[str]:
    """Return the newest rows of a filter, with and without its plan."""
    reader = home.store.suppressions
    rows = reader.read(SuppressionRange(), selected, limit=3)
    planned = reader.plan(selected)
    assert reader.read(SuppressionRange(), planned, limit=3) == rows
    assert reader.count(SuppressionRange(), planned, limit=MANY) == reader.count(
        SuppressionRange(), selected, limit=MANY
    )
    return [each.email.partition("@")[0] for each in rows]


def test_reasons(large: Home) -> None:
    """An index finds the rows of a reason, unless it is too long for the index."""
    reader = large.store.suppressions
    for reason, rows, direct in (
        ("HardBounce", ["s4000", "s3999", "s3998"], True),
        ("SpamComplaint", ["s2", "s1"], True),
        ("Unknown", [], True),
        (LONG, ["s3"], True),
        (RARE[4], ["s4"], False),
        ("", [], False),
    ):
        selected = Filter(reason=reason)
        assert (found(large, selected), reader.plan(selected).direct) == (rows, direct)
        since = Filter(reason=reason, since=NOON + 2 * SECOND)
        assert found(large, since) == [each for each in rows if each != "s1"]
        oldest = reader.read(SuppressionRange(oldest=True), reader.plan(selected), limit=MANY)
        assert [each.email for each in oldest[-3:][::-1]] == [
            f"{each}@example.com" for each in rows
        ]


def test_counts(large: Home) -> None:
    """Reasons are counted by their text, of which only the beginning needs to be exact."""
    counts = large.store.row_counts.suppressed()
    assert {(reason or "")[:MAX_COUNTED_REASON]: number for reason, number in counts.items()} == {
        "HardBounce": MANY - len(RARE),
        "SpamComplaint": 2,
        LONG: 1,
        RARE[4]: 1,
        RARE[5][:MAX_COUNTED_REASON]: 1,
    }


def test_lists(large: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscribers of a small list are looked up, and not those of a big one."""
    monkeypatch.setattr(_suppressions, "_SMALL_LIST", 100)
    reader = large.store.suppressions
    for selected, rows, direct in (
        (Filter(list=1), ["s4000", "s3999", "s3998"], False),
        (Filter(list=2), ["s9", "s7"], True),
        (Filter(list=2, reason="HardBounce", since=NOON + 8 * SECOND), ["s9"], True),
        (Filter(list=2, reason="SpamComplaint"), [], True),
        (Filter(list=1, reason="SpamComplaint"), ["s2", "s1"], False),
    ):
        assert (found(large, selected), reader.plan(selected).direct) == (rows, direct)
