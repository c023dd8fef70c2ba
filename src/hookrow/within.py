"""A time limit on what is awaited, which costs nothing where there is nothing to wait for.

`asyncio.timeout` sets a timer even for a body that is there, which takes longer than to read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, awaited: Coroutine[Any, Any, T]) -> T:
    """Return what it ends with. Raises `TimeoutError` where it waits for so many seconds."""
    try:
        step = awaited.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _rest(awaited, step)


@coroutine
def _rest(awaited: Coroutine[Any, Any, T], step: object) -> Generator[Any, Any, T]:
    """Go on with what has begun, and waits for its first step (PEP 380 says how)."""
    try:
        while True:
            try:
                yield step
            except BaseException as error:  # noqa: BLE001 - a task that is cancelled says so
                step = awaited.throw(error)
            else:
                step = awaited.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
