"""Health checks, and the comparison of the database's clock with this machine's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from unittest.mock import Mock

import pytest
from receiving import LIMIT, result

from hookrow import Request, RequestHead, Response, clocks
from hookrow.finding import Explained
from hookrow.server.health import Liveness, Readiness
from wire import TEXT, eventually

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")
READY = Response(200, b"ready\n", {"Content-Type": TEXT})
NOW = 1_800_000_000.0


@contextmanager
def ready(probe: Callable[[], str | None], *, deadline: float = LIMIT) -> Iterator[Readiness]:
    readiness = Readiness(probe, deadline=deadline)
    try:
        yield readiness
    finally:
        readiness._commit.close(LIMIT)


def test_a_living_process_responds_to_everybody() -> None:
    liveness = Liveness()
    assert liveness.admit(REQUEST.head) is None
    assert liveness(REQUEST) == Response(200, b"ok\n", {"Content-Type": TEXT})


def test_readiness_follows_each_probe() -> None:
    probe = Mock(side_effect=["The table 'größe' is missing.", None, LookupError])
    with ready(probe) as readiness:
        assert readiness.admit(REQUEST.head) is None
        fault = "The table 'größe' is missing.\n".encode()
        assert result(readiness(REQUEST)) == Response(503, fault, {"Content-Type": TEXT})
        assert result(readiness(REQUEST)) == READY
        assert result(readiness(REQUEST)).status == 503


def test_a_probe_that_hangs_is_503_and_later_200_again() -> None:
    go_on = Event()
    with ready(lambda: None if go_on.wait(LIMIT) else "late", deadline=0.02) as readiness:
        late = result(readiness(REQUEST))
        assert (late.status, late.body) == (503, b"The database does not answer.\n")
        go_on.set()
        eventually(lambda: result(readiness(REQUEST)) == READY)


def test_all_requests_during_a_probe_share_the_next_one_and_too_many_get_503() -> None:
    probes, go_on = [], Event()

    def probe() -> None:
        probes.append(1)
        assert go_on.wait(LIMIT)

    with ready(probe) as readiness:
        waiting = [readiness(REQUEST) for _ in range(5000)]
        refused = readiness(REQUEST)
        assert isinstance(refused, Response)
        assert refused.status == 503
        go_on.set()
        assert {result(each).status for each in waiting} == {200, 503}
    assert len(probes) < 5000 / 100


# -- clocks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "text", "risk"),
    [
        (3 * 86_400, "3 days behind", "more than 24 hours ahead of it is not trusted"),
        (70, "70 seconds behind", "is not trusted"),
        (-5 * 3600, "5 hours ahead of", "overrides newer changes"),
    ],
)
def test_wrong_clock(monkeypatch: pytest.MonkeyPatch, ahead: float, text: str, risk: str) -> None:
    monkeypatch.setattr(clocks, "time", lambda: NOW)
    [finding] = clocks.compare(lambda: NOW + ahead)
    assert isinstance(finding, Explained)
    assert finding.text == f"This machine's clock is {text} the database's."
    assert risk in finding.means
    assert "NTP" in finding.change


@pytest.mark.parametrize(("before", "after"), [(-60, -60), (60, 60), (-600, 600)])
def test_tolerated_clocks(monkeypatch: pytest.MonkeyPatch, before: float, after: float) -> None:
    monkeypatch.setattr(clocks, "time", Mock(side_effect=[NOW + before, NOW + after]))
    assert not list(clocks.compare(lambda: NOW))
