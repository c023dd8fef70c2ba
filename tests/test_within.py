"""A time limit on what is awaited, on asyncio and uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from hookrow.within import within

Run = Callable[[Coroutine[Any, Any, object]], object]

PATIENCE = 20.0
"""In seconds; for what should come at once, on a machine that is busy."""


async def _wait(seconds: float) -> str:
    """Wait in several steps, of which one fails and the last is a wait for nothing."""
    with pytest.raises(LookupError):
        await _failing()
    await asyncio.sleep(seconds)
    await asyncio.sleep(0)
    return "done"


async def _failing() -> None:
    failing = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(failing.set_exception, LookupError("a fault"))
    await failing


async def _stubborn(seconds: float) -> str:
    """Go on though the time is over."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return "after all"


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs an event loop."""
    runs: Run = request.param
    return runs


def test_at_once() -> None:
    """What has not to wait ends with its result, or what it raises, and no timer is set."""

    async def at_once(fault: Exception | None = None) -> str:
        if fault is not None:
            raise fault
        return "done"

    async def both() -> None:
        asyncio.get_running_loop().call_at = None  # type: ignore[assignment,method-assign]
        assert await within(PATIENCE, at_once()) == "done"
        with pytest.raises(ValueError, match="a fault"):
            await within(PATIENCE, at_once(ValueError("a fault")))

    asyncio.run(both())


def test_in_time(run: Run) -> None:
    """What waits, and ends in time, ends with its result or with what it raises."""
    assert run(within(PATIENCE, _wait(0.01))) == "done"
    with pytest.raises(LookupError, match="a fault"):
        run(within(PATIENCE, _failing()))


def test_late(run: Run) -> None:
    """What takes too long is cancelled, and may say something else yet."""
    with pytest.raises(TimeoutError):
        run(within(0.01, _wait(PATIENCE)))
    assert run(within(0.01, _stubborn(PATIENCE))) == "after all"


def test_cancelled(run: Run) -> None:
    """Who waits can be cancelled, and what is waited for hears of it."""

    async def cancel(waits: Coroutine[Any, Any, str]) -> object:
        task = asyncio.create_task(within(PATIENCE, waits))
        await asyncio.sleep(0.01)
        task.cancel()
        return await task

    with pytest.raises(asyncio.CancelledError):
        run(cancel(_wait(PATIENCE)))
    assert run(cancel(_stubborn(PATIENCE))) == "after all"
