"""The path of one notification: how much of hookrow runs between ASGI and the commit."""

import asyncio
import json
import sys
import threading
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import current_thread
from types import FrameType

from httpx import ASGITransport, AsyncClient

import hookrow
import world
from hookrow import Postmark, Receiver, testing
from hookrow.asgi import ASGI
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, AT, ENDPOINT, SECRET

MOST_MODULES = 14
MOST_CALLS = 90

SOURCE = str(Path(hookrow.__file__).parent)
THREADS = {threading.main_thread().name, "hookrow-writer"}

BODIES = [
    json.dumps(testing.delivery(ADA, ADAS, at=AT + timedelta(seconds=number))).encode()
    for number in range(9)
]


def test_one_delivery_passes_few_modules_in_few_calls(sqlite_url: str) -> None:
    """Counted in the event loop and the writer, for the last deliveries on SQLite with the log.

    Other threads, for example of periodic tasks, may run at the same time. The shortest path
    counts: in others, the writer was awake already, or waited once more.
    """
    world.fill(sqlite_url)
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE) and current_thread().name in THREADS:
            calls.append(name.removeprefix(SOURCE))

    async def deliver_all(app: ASGI) -> list[str]:
        paths = []
        headers = testing.headers(secret=SECRET)
        transport = ASGITransport(app)
        async with AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
            for body in BODIES:
                calls.clear()
                response = await client.post(ENDPOINT, content=body)
                assert response.status_code == 200
                paths.append(list(calls))
        return min(paths[3:], key=len)

    before = sys.getprofile()
    store = SQLStore(sqlite_url)
    with closing(store), closing(Receiver(Postmark(SECRET), store)) as receiver:
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            counted = asyncio.run(deliver_all(ASGI(receiver)))
        finally:
            sys.setprofile(before)
            threading.setprofile(before)
    modules = Counter(counted)
    assert "/core/rules.py" in modules
    assert len(modules) <= MOST_MODULES, modules
    assert len(counted) <= MOST_CALLS, modules
