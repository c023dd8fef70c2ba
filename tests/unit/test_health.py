"""Health checks, and the comparison of the database's clock with this machine's."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from unittest.mock import Mock

import pytest

from hookrow import Request, RequestHead, Response
from hookrow.diagnostics.clock import compare
from hookrow.http import LoopHandler
from hookrow.server.health import BACKLOG, Liveness, Readiness
from wire import PATIENCE, TEXT, eventually

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")
READY = Response(200, b"ready\n", {"Content-Type": TEXT})
SILENT = Response(503, b"The database does not respond.\n", {"Content-Type": TEXT})
NOW = 1_800_000_000.0


@contextmanager
def ready(probe: Callable[[], str | None], *, deadline: float = PATIENCE) -> Iterator[Readiness]:
    readiness = Readiness(probe, deadline=deadline)
    try:
        yield readiness
    finally:
        readiness.close(PATIENCE)


async def submit(handler: LoopHandler, number: int = 1) -> asyncio.Queue[Response]:
    """Submit requests in an event loop; return a queue with the responses so far."""
    responses: asyncio.Queue[Response] = asyncio.Queue()
    for _ in range(number):
        handler.submit(REQUEST, asyncio.get_running_loop(), responses.put_nowait)
    return responses


def test_a_living_process_responds_to_everybody() -> None:
    liveness = Liveness()
    assert liveness.admit(REQUEST.head) is None
    alive = Response(200, b"ok\n", {"Content-Type": TEXT})
    assert liveness(REQUEST) == alive
    assert asyncio.run(submit(liveness)).get_nowait() == alive


def test_readiness_follows_each_probe() -> None:
    probe = Mock(side_effect=["The table 'größe' is missing.", None, LookupError])
    with ready(probe) as readiness:
        assert readiness.admit(REQUEST.head) is None
        fault = "The table 'größe' is missing.\n".encode()
        assert readiness(REQUEST) == Response(503, fault, {"Content-Type": TEXT})
        assert readiness(REQUEST) == READY
        assert readiness(REQUEST).status == 503


def test_a_probe_that_hangs_is_503_and_later_200_again() -> None:
    go_on = Event()
    with ready(lambda: None if go_on.wait(PATIENCE) else "late", deadline=0.02) as readiness:

        async def late() -> Response:
            return await (await submit(readiness)).get()

        assert readiness(REQUEST) == SILENT
        assert asyncio.run(late()) == SILENT
        go_on.set()
        eventually(lambda: readiness(REQUEST) == READY)


def test_all_requests_during_a_probe_share_the_next_one_and_too_many_get_503() -> None:
    probes, go_on = [], Event()

    def probe() -> None:
        probes.append(1)
        assert go_on.wait(PATIENCE)

    async def statuses() -> list[int]:
        responses = await submit(readiness, BACKLOG + 1)
        assert responses.get_nowait() == SILENT
        assert responses.empty()
        go_on.set()
        return [(await responses.get()).status for _ in range(BACKLOG)]

    with ready(probe) as readiness:
        assert asyncio.run(statuses()) == [200] * BACKLOG
    assert len(probes) <= 2


# -- clocks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "text", "effect"),
    [
        (3 * 86_400, "3 days behind", "more than 24 hours ahead of it is not trusted"),
        (70, "70 seconds behind", "is not trusted"),
        (-5 * 3600, "5 hours ahead of", "overrides newer changes"),
    ],
)
def test_wrong_clock(ahead: float, text: str, effect: str) -> None:
    [result] = compare(NOW, NOW + ahead, NOW)
    assert result.text == f"This machine's clock is {text} the database's."
    assert effect in result.meaning
    assert "NTP" in result.remedy


@pytest.mark.parametrize(("before", "after"), [(-60, -60), (60, 60), (-600, 600)])
def test_clocks_within_the_tolerance_or_the_duration_of_the_query(
    before: float, after: float
) -> None:
    assert not list(compare(NOW + before, NOW, NOW + after))
