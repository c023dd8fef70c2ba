"""`hookrow stats`: what is printed for people, and as JSON."""

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

import world
from command import Command
from engines import database_user, run
from hookrow import testing
from hookrow.cli import hookrow
from hookrow.dashboard import Dashboard
from hookrow.http import Request, RequestHead
from hookrow.receiver.recorder import keep_failed, record
from hookrow.stores import Unavailable
from hookrow.stores.sql import SQLStore
from received import arrival
from session import ROOT
from times import DAY, HOUR, SECOND
from wire import ADA, ADAS

# The lines about the rows; without the log, there are no others.
ROWS = {
    "sent": "6",
    "delivered": "16.7%",
    "opened": "16.7%",
    "undelivered": "0",
    "suppressed": "1",
    "HardBounce": "1",
    "list": "sent",
    "news": "6",
    "offers": "0",
}


@pytest.fixture(autouse=True)
def _received(sqlite_url: str) -> None:
    """Have a database that received notifications up to two months ago."""
    world.fill(sqlite_url)
    now = datetime.now(UTC)
    recovered = testing.opening(ADA, ADAS, at=now - DAY)
    with closing(SQLStore(sqlite_url)) as store:
        for ago, payload in (
            (60 * DAY, testing.opening(ADA, ADAS, at=now - 60 * DAY)),
            (5 * DAY, {"RecordType": "\x1b[31mRed"}),
            (5 * DAY, recovered),
            (5 * DAY, testing.suppression("nobody@x.com", None, at=now, reason="SpamComplaint")),
            (1.5 * HOUR, testing.opening(ADA, "not-saved", at=now)),
            (0 * DAY, testing.delivery(ADA, ADAS, at=now + HOUR - 30 * SECOND)),
            (0 * DAY, testing.opening(ADA, ADAS, at=now)),
        ):
            arrived = arrival(payload, now - ago)
            if payload is recovered:
                keep_failed(store, [arrived])
            record(store, [arrived])


def figures(lines: list[str]) -> dict[str, str]:
    return {line[:20].strip(): line[20:].split()[0] for line in lines if line}


def test_privileges(
    command: Command,
    postgres_url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user who may only read sees the same figures and notifications, and all pages.

    To change the log, no privilege on other tables is needed.
    """
    world.fill(postgres_url)
    now = datetime.now(UTC)
    module = import_module("hookrow.cli.stats")
    monkeypatch.setattr(module, "datetime", Mock(now=lambda _: now))  # one minute for both
    suppressed = arrival(testing.suppression(ADA, None, at=now))
    with closing(SQLStore(postgres_url)) as store:
        record(store, [suppressed])
    grant = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}"
    with database_user(postgres_url, grant) as reader_url:
        reader = make_url(reader_url).username
        for arguments in (["stats"], ["stats", "--period", "hour"], ["log"]):
            printed = [
                command.call(*arguments, "--json", "--database-url", url)
                for url in (postgres_url, reader_url)
            ]
            assert [each.returncode for each in printed] == [0, 0], printed[1].stderr
            volatile = r'"(now|health)":"[^"]*"|"starts":\[[^]]*\]'
            assert len({re.sub(volatile, "", each.stdout) for each in printed}) == 1
        with closing(SQLStore(reader_url)) as store:
            dashboard = Dashboard(store, authorize=lambda _: True)
            for path, query in (("", ""), ("lists", ""), ("subscriber", f"email={ADA}")):
                head = RequestHead("GET", f"/{path}", (), query=query)
                assert dashboard(Request(head, b"")).status == 200
            dashboard.close()
            assert not caplog.messages
            with pytest.raises(Unavailable, match=f"GRANT UPDATE ON .* TO {reader}"):
                record(store, [suppressed])
        for typed, privileges in (("log forget a@b", "UPDATE"), ("prune", "DELETE, UPDATE")):
            changed = partial(command.call, *typed.split(), "--database-url", reader_url)
            grant = f'GRANT {privileges} ON "hookrow_notifications" TO {reader}'
            denied = "Error: permission denied for table hookrow_notifications"
            assert (changed().returncode, changed().stderr) == (1, f"{denied}: {grant}\n")
            run(postgres_url, grant)
            assert changed().returncode == 0
            run(postgres_url, f"REVOKE UPDATE ON hookrow_notifications FROM {reader}")


def test_text(command: Command) -> None:
    """It prints the state, counts by type, first outcome and reason, rates and the delay."""
    lines = command.call("stats", "--period", "week").stdout.splitlines()
    assert lines[0].startswith("The last notification was received ")
    assert lines[2].startswith("6 notifications from ")
    printed = figures(lines[3:])
    assert printed == {
        "type": "count",
        "Open": "3",
        "Delivery": "1",
        "SubscriptionChange": "1",
        "other": "1",
        "first outcome": "count",
        "recorded": "2",
        "subscriber_not_found": "1",
        "dispatch_not_found": "1",
        "unsupported": "1",
        "failed": "1",
        "recorded later": "1",
        "suppressions": "1",
        "SpamComplaint": "1",
        "rate": "share",
        **dict.fromkeys(("bounce", "complaint", "unsubscribe"), "0.00%"),
        "parked": "1",
        "median": printed["median"],
        **ROWS,
    }
    bars = {line[:20].strip(): line[20:].split(maxsplit=1)[1] for line in lines[3:] if line}
    assert bars["delivered"] == "█" * 5
    assert bars["recorded"].endswith("█|")
    assert bars["median"].startswith("s  from sent to delivered; 95 % within 3,5")


@pytest.mark.parametrize(("period", "total"), [("hour", 2), ("WEEK", 6)])
def test_json(command: Command, period: str, total: int) -> None:
    """Each period has its totals; the output is one object, whose keys the page explains."""
    found = json.loads(command.call("stats", "--json", "--period", period).stdout)
    page = (ROOT / "docs/reference/stats.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", "".join(rows)) == [*found]
    assert (found["period"], found["total"]) == (period.lower(), total)
    assert sum(map(sum, found["by_type"].values())) == total
    recovered, reasons = (1, {"SpamComplaint": 1}) if period == "WEEK" else (0, {})
    assert (found["recovered"], found["by_reason"]) == (recovered, reasons)
    assert {len(row) for row in found["by_first_outcome"].values()} == {len(found["starts"])}
    assert found["rates"]["bounce"] == {"current": 0, "previous": None}
    assert (found["parked"], found["sent"], found["suppressed"]) == (1, 6, {"HardBounce": 1})
    assert found["delivery_rate"] == pytest.approx(1 / 6)
    assert found["lists"][0]["delivered"] == 1


def test_no_log(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log the rows alone are counted; bars are ASCII if the encoding has no blocks."""
    (command.folder / "hookrow.toml").write_text("[tables]\nlog = false")
    monkeypatch.chdir(command.folder)
    printed = CliRunner(charset="latin-1").invoke(hookrow, ["stats"]).stdout
    first, *lines = printed.splitlines()
    assert first == "This store has no log, so notifications are not counted."
    assert figures(lines) == ROWS
    assert printed.isascii()
    assert "@@@@@" in printed
    found = json.loads(command.call("stats", "--json").stdout)
    names = ("total", "recovered", "last_received", "parked", "sent")
    assert [found[name] for name in names] == [*[None] * 4, 6]
