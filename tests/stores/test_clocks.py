"""A receiver whose process's clock is wrong dates arrivals and retries by the database's clock."""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from contract import ADA
from homes import Home
from locations import filled_home

import received
from checking import check_open
from hookrow import Postmark, Receiver, Request, RequestHead, testing
from hookrow._diagnostics import advice
from hookrow._receiver import clock as clocks
from hookrow._receiver.recorder import keep_failed
from hookrow._receiver.spool import Spool
from times import DAY, HOUR, MINUTE, NOON
from wire import ENDPOINT, PATIENCE, SECRET, eventually

PLACES = ("postgres", "supplied-postgres", "django-postgres")
WRONG = [-3 * DAY, 40 * DAY]


home = pytest.fixture(filled_home, params=PLACES)


@pytest.fixture(params=WRONG, ids=["slow", "fast"])
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """Let the process's clock be wrong; return by how much."""
    difference: timedelta = request.param
    monkeypatch.setattr(clocks, "utc_now", lambda: datetime.now(UTC) + difference)
    return difference


def post(home: Home, *payloads: Mapping[str, Any], **options: Any) -> list[int]:  # noqa: ANN401 - of Receiver
    """Post to a new receiver, whose first group this is; return the statuses."""
    head = RequestHead("POST", ENDPOINT, [(b"x-provider-secret", SECRET.encode())])
    given = {"mount_path": "/mail", "deadline": PATIENCE, **options}
    with closing(Receiver(Postmark(SECRET), home.store, **given)) as receiver:
        requests = [Request(head, msgspec.json.encode(each)) for each in payloads]
        return [receiver.record_directly(each).status for each in requests]


def row(home: Home) -> dict[str, Any]:
    """Return Ada's row."""
    return home.rows()["subscribers"][0]


@pytest.mark.usefixtures("wrong")
def test_a_change_of_today_is_newer_than_one_of_yesterday(home: Home) -> None:
    """A slow clock made today's date implausible, so that yesterday's change blocked it."""
    now = datetime.now(UTC)
    lift = testing.reactivation(ADA, None, at=now - DAY)
    bounce = testing.suppression(ADA, None, at=now, reason="HardBounce")
    assert post(home, lift, bounce) == [200, 200]
    assert row(home)["suppressed_at"] == now


@pytest.mark.usefixtures("wrong")
def test_a_change_without_a_date_blocks_no_later_one(home: Home) -> None:
    begun = datetime.now(UTC)
    bounce = testing.suppression(ADA, None, at=begun, reason="HardBounce")
    assert post(home, bounce | {"ChangedAt": None}) == [200]
    assert begun - MINUTE < row(home)["suppression_changed_at"] < datetime.now(UTC) + MINUTE
    lift = testing.reactivation(ADA, None, at=datetime.now(UTC) + MINUTE)
    assert post(home, lift) == [200]
    assert row(home)["suppressed_at"] is None


@pytest.mark.usefixtures("wrong")
def test_a_parked_notification_is_retried_in_a_minute(home: Home) -> None:
    now = datetime.now(UTC)
    assert post(home, testing.delivery(ADA, "m-late", at=now)) == [404]
    [entry] = home.logged()
    for name, at in (("received_at", now), ("ended_at", now), ("retry_at", now + MINUTE)):
        assert abs(entry[name] - at) < MINUTE / 2, name


@pytest.mark.usefixtures("wrong")
def test_the_sweep_and_the_drain_compare_the_clock_first(home: Home, tmp_path: Path) -> None:
    """Otherwise, they would give up entries that only seem to be too old."""
    now = datetime.now(UTC)
    hour_ago = now - HOUR
    late, lost = (
        received.arrival(testing.delivery(ADA, message, at=now), hour_ago)
        for message in ("m-late", "m-lost")
    )
    keep_failed(home.store, [late], clock=lambda: hour_ago)
    path = tmp_path / "spool.db"
    Spool(path, home.store.mapping_key).put([lost])
    with closing(
        Receiver(Postmark(SECRET), home.store, sweep=True, spool=path, mount_path="/mail")
    ) as receiver:
        receiver.start()
        eventually(lambda: len(home.logged()) == 2)
        eventually(lambda: all(each["retry_at"] > now for each in home.logged()))
    for each in home.logged():
        assert abs(each["retry_at"] - now - HOUR) < 3 * MINUTE


def test_a_given_clock_is_not_corrected(home: Home) -> None:
    """Time may stand still in a host's tests."""
    bounce = testing.suppression(ADA, None, at=NOON, reason="HardBounce")
    assert post(home, bounce | {"ChangedAt": None}, clock=lambda: NOON) == [200]
    [entry] = home.logged()
    assert (row(home)["suppressed_at"], entry["received_at"], entry["ended_at"]) == (NOON,) * 3


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_check_reports_a_wrong_clock(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def warnings(difference: timedelta) -> list[str]:
        moved = Mock(wraps=datetime, now=lambda _: datetime.now(UTC) + difference)
        monkeypatch.setattr(advice, "datetime", moved)
        results = check_open(home.store.database, home.schema)
        return [each.text for each in results if each.subject == "clock"]

    assert warnings(timedelta(seconds=50)) == warnings(timedelta(seconds=-50)) == []
    [fast], [slow] = warnings(timedelta(seconds=70)), warnings(timedelta(days=-3))
    assert fast.startswith("The clock of this machine is 0:01:10 fast, compared with the database")
    assert slow.startswith("The clock of this machine is 3 days, 0:00:00 slow, compared with")
