"""`hookrow stats`: what is printed for people, and as JSON."""

import json
import re
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import pytest

import world
from command import Command
from engines import run
from hookrow import Recorded, Refusal, testing
from hookrow._describe import format_time
from hookrow._receiver.clock import utc_now
from hookrow._receiver.recorder import keep_failed, record
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from received import arrival, keep
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

LIST_ID = "105be7e1-6f5a-49a6-a8d0-2099c8a3ab9d"


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
                keep_failed(store, [arrived], clock=utc_now)
            record(store, [arrived])


def figures(lines: list[str]) -> dict[str, str]:
    return {line[:20].strip(): line[20:].split()[0] for line in lines if line}


def test_text(command: Command) -> None:
    """It prints the state, counts by type, first outcome and reason, rates and the delay."""
    lines = command.call("stats", "--period", "week").stdout.splitlines()
    level, _, health, _, heading = lines[:5]
    assert level == "OK: notifications are recorded, and nothing needs attention."
    assert health.startswith("The last notification was received ")
    assert heading.startswith("6 notifications from ")
    printed = figures(lines[5:])
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
        "expired": "1",
        "median": printed["median"],
        **ROWS,
    }
    [median] = (line for line in lines if line.startswith("median"))
    assert " s  from sent to delivered; 95 % within 3,5" in median
    assert "\n".join(lines).isascii()


def test_long_names_of_lists(command: Command, sqlite_url: str) -> None:
    """A UUID, which may be the key of a list, is printed whole, and the column is aligned."""
    run(sqlite_url, f"UPDATE hookrow_lists SET name = '{LIST_ID}' WHERE name = 'news'")
    run(sqlite_url, f"UPDATE hookrow_lists SET name = '{LIST_ID}-long' WHERE name = 'offers'")
    heading, news, offers = command.call("stats").stdout.splitlines()[-3:]
    assert heading == f"{'list':36}        sent  2 lists"
    assert news == f"{LIST_ID}           6  1 delivered, 1 opened"
    assert offers == f"{LIST_ID}           0  0 delivered, 0 opened"


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
    assert found["rates"]["bounce"] == {"current": 0, "above_limit": False, "previous": None}
    assert (found["parked"], found["sent"], found["suppressed"]) == (1, 6, {"HardBounce": 1})
    assert found["delivery_rate"] == pytest.approx(1 / 6)
    assert found["lists"][0]["delivered"] == 1


def test_entry(command: Command, sqlite_url: str) -> None:
    """The notifications of an entry are counted, but no rows, which belong to none."""
    now = datetime.now(UTC)
    keep(sqlite_url, testing.opening(ADA, ADAS, at=now), Recorded(()), now, entry="sendgrid")
    refused = Refusal.DISPATCH_NOT_FOUND.refused()
    old = now - 5 * DAY
    keep(sqlite_url, testing.opening(ADA, "m-1", at=old), refused, old, entry="sendgrid")
    lines = command.call("stats", "--entry", "sendgrid").stdout.splitlines()
    _, health, _, heading, *lines = lines[lines.index("") :]
    assert health.startswith("The last notification of the entry sendgrid was received ")
    assert heading.startswith("1 notification of the entry sendgrid from ")
    assert {"Open": "1", "parked": "1"}.items() <= figures(lines).items()
    assert not ROWS.keys() & figures(lines).keys()
    found = json.loads(command.call("stats", "--json", "--entry", "sendgrid").stdout)
    assert (found["entry"], found["total"], found["parked"]) == ("sendgrid", 1, 1)
    assert {found[name] for name in ("sent", "undelivered")} == {None}
    assert (found["suppressed"], found["lists"]) == (None, None)
    refusal = command.call("stats", "--entry", "Not a name")
    assert (refusal.returncode, "is not the name of an entry" in refusal.stderr) == (2, True)


def test_requests_without_a_valid_secret(command: Command, sqlite_url: str) -> None:
    """Those of the last day are counted by entry, unless the receiver has a single provider."""
    now = datetime.now(UTC)
    keep(sqlite_url, testing.opening(ADA, ADAS, at=now), Recorded(()), now, entry="sendgrid")
    hour = now.replace(minute=0, second=0, microsecond=0)
    unauthentic = partial(RequestHour, RequestKind.WRONG_SECRET)
    with closing(SQLStore(sqlite_url)) as store:
        assert store.log is not None
        store.log.add_requests(
            {
                unauthentic("", hour): 2,
                unauthentic("", hour - 2 * DAY): 1,
                unauthentic("sendgrid", hour - HOUR): 1200,
                unauthentic("sendgrid", hour): 34,
                RequestHour(RequestKind.UNAVAILABLE, "sendgrid", hour): 5,
                unauthentic("brevo", hour): 1,
            }
        )

    def printed(*options: str, name: str = "unauthentic") -> list[str]:
        lines = command.call("stats", *options).stdout.splitlines()
        return [line[20:].lstrip() for line in lines if line.startswith(f"{name} ")]

    text = "with a missing or wrong secret in the last day"
    of_sendgrid = (
        f"1,234  {text}, to the entry sendgrid; the first after {format_time(hour - HOUR)}"
    )
    after = f"the first after {format_time(hour)}"
    of_brevo = f"1  {text}, to the entry brevo; {after}"  # whose notifications were all refused
    assert printed() == [of_sendgrid, f"2  {text}; {after}", of_brevo]
    assert printed("--entry", "sendgrid") == [of_sendgrid]
    assert printed("--entry", "brevo") == [of_brevo]
    lost = "notifications that got a 503 in the last day, at the entry sendgrid; the first after"
    assert printed(name="unavailable") == [f"5  {lost} {format_time(hour)}"]
    answer = json.loads(command.call("stats", "--json").stdout)
    assert answer["unavailable"]["sendgrid"]["number"] == 5
    assert answer["status"]["level"] == "attention"
    subjects = [each["subject"] for each in answer["status"]["findings"]]
    assert subjects == ["responses", "secrets", "secrets", "secrets"]
    found = answer["unauthentic"]
    assert {name: each["number"] for name, each in found.items()} == {
        "sendgrid": 1234,
        "": 2,
        "brevo": 1,
    }
    first, last = (datetime.fromisoformat(found["sendgrid"][name]) for name in ("first", "last"))
    assert (first, last) == (hour - HOUR, hour)


def test_no_log(command: Command) -> None:
    """Without a log the rows alone are counted."""
    (command.folder / "hookrow.toml").write_text("[tables]\nlog = false")
    level, _, first, *lines = command.call("stats").stdout.splitlines()
    assert level.startswith("OK: ")
    assert first == "This store has no log, so notifications are not counted."
    assert figures(lines) == ROWS
    found = json.loads(command.call("stats", "--json").stdout)
    names = ("total", "recovered", "last_received", "parked", "expired", "unauthentic", "sent")
    assert [found[name] for name in names] == [*[None] * 6, 6]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_tables_that_cannot_be_read(
    command: Command, sqlite_url: str, options: Sequence[str]
) -> None:
    """The status says why, before the error."""
    run(sqlite_url, "ALTER TABLE hookrow_dispatches DROP COLUMN opened_at")
    done = command.call("stats", *options)
    assert (done.returncode, "has no column 'opened_at'" in done.stderr) == (1, True)
    if options:
        answer = json.loads(done.stdout)
        assert [*answer] == ["status"]
        assert answer["status"]["level"] == "broken"
    else:
        assert done.stdout.startswith("Broken: 1 finding.\n- writes: The table 'hookrow_dis")
