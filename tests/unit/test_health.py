"""Health checks, and the comparison of the database's clock with this machine's."""

import asyncio
from threading import Event
from unittest.mock import Mock

import pytest

from hookrow import Request, RequestHead, Response
from hookrow.diagnostics.advice import compare_clocks
from hookrow.http import LoopHandler
from hookrow.server.health import Liveness, Readiness
from wire import PATIENCE, TEXT

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")
READY = Response(200, b"ready\n", {"Content-Type": TEXT})
SILENT = Response(503, b"The database does not respond.\n", {"Content-Type": TEXT})
NOW = 1_800_000_000.0


async def ask(handler: LoopHandler, number: int = 1) -> list[Response]:
    """Submit requests in the running event loop; return all responses."""
    responses: asyncio.Queue[Response] = asyncio.Queue()
    for _ in range(number):
        handler.submit(REQUEST, asyncio.get_running_loop(), responses.put_nowait)
    async with asyncio.timeout(PATIENCE):
        return [await responses.get() for _ in range(number)]


def test_a_running_process_responds() -> None:
    liveness = Liveness()
    alive = Response(200, b"ok\n", {"Content-Type": TEXT})
    assert (liveness.admit(REQUEST.head), liveness(REQUEST)) == (None, alive)
    assert asyncio.run(ask(liveness)) == [alive]


def test_readiness_is_the_result_of_the_probe() -> None:
    """A fault, or an error of the probe, is a 503 that contains it; without one, 200."""
    probe = Mock(side_effect=["The table 'größe' is missing.", None, LookupError, None])
    readiness = Readiness(probe)
    fault = "The table 'größe' is missing.\n".encode()
    error = b"The check of the database failed: LookupError.\n"

    async def ask_often() -> list[Response]:
        return [*await ask(readiness), *await ask(readiness), *await ask(readiness)]

    assert asyncio.run(ask_often()) == [
        Response(503, fault, {"Content-Type": TEXT}),
        READY,
        Response(503, error, {"Content-Type": TEXT}),
    ]
    assert (readiness.admit(REQUEST.head), readiness(REQUEST)) == (None, READY)
    readiness.close()


def test_requests_share_a_probe_and_get_503_if_it_hangs() -> None:
    """After the deadline, requests get 503; they start no other probe while one is running."""
    started, end = Mock(), Event()

    def probe() -> None:
        started()
        assert end.wait(PATIENCE)

    async def ask_during_and_after() -> list[Response]:
        responses = await ask(readiness, 1000)
        readiness._deadline = PATIENCE
        late = asyncio.create_task(ask(readiness))
        await asyncio.sleep(0)
        started.assert_called_once()
        end.set()
        return responses + await late

    readiness = Readiness(probe, deadline=0.02)
    assert asyncio.run(ask_during_and_after()) == [SILENT] * 1000 + [READY]
    started.assert_called_once()
    readiness.close()


def test_no_thread_is_left() -> None:
    """If no thread can be started, or after `close`, the response is 503."""
    readiness = Readiness(Mock())
    readiness.close()
    assert asyncio.run(ask(readiness)) == [SILENT]


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
    warning = compare_clocks(NOW, NOW + ahead, NOW) or ""
    assert warning.startswith(f"This machine's clock is {text} the database's. If it is wrong, ")
    assert effect in warning
    assert "NTP" in warning


@pytest.mark.parametrize(("before", "after"), [(-60, -60), (60, 60), (-600, 600)])
def test_clocks_within_the_tolerance_or_the_duration_of_the_query(
    before: float, after: float
) -> None:
    assert compare_clocks(NOW + before, NOW, NOW + after) is None
