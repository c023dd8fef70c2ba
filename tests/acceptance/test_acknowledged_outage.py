"""An outage in which the server does not respond, for a provider that does not repeat a 503."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import world
from hookrow import Postmark, Receiver, Request, RequestHead, testing
from hookrow._receiver.spool import Spool
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, AT, ENDPOINT, PATIENCE, SECRET, eventually, post_together

pytestmark = pytest.mark.never_flaky

DEADLINE = 10.0
"""In seconds; a fifth of it is kept for the spool, which is enough on a busy machine."""

FIRST = testing.delivery(ADA, ADAS, at=AT)
BEHIND = [testing.opening(ADA, ADAS, at=AT), testing.suppression(ADA, ADAS, at=AT)]


def post_of(payload: Mapping[str, Any]) -> Request:
    """Return the request with a payload, as a host passes it to the receiver."""
    head = RequestHead("POST", ENDPOINT, [(b"x-provider-secret", SECRET.encode())])
    return Request(head, json.dumps(payload).encode())


@pytest.mark.parametrize("is_connected", [False, True])
@pytest.mark.parametrize("server", ["own_postgres", "own_mariadb"])
def test_the_first_notifications_of_an_outage_are_acknowledged(
    server: str, request: pytest.FixtureRequest, tmp_path: Path, *, is_connected: bool
) -> None:
    """One of a thread, and those of an event loop that wait behind it, get a 200 in time.

    When the server responds again, it may still execute the statements that it has received: then,
    what the spool records has no effect but on the number of attempts.
    """
    frozen, url = request.getfixturevalue(server).frozen, request.getfixturevalue(f"{server}_url")
    world.fill(url)
    path, store = tmp_path / "spool.db", SQLStore(url)
    with (
        closing(store),
        closing(
            Receiver(
                Postmark(SECRET),
                store,
                deadline=DEADLINE,
                sweep=True,
                spool=path,
                acknowledge_spooled=True,
            )
        ) as receiver,
        ThreadPoolExecutor() as threads,
    ):
        if is_connected:
            assert receiver(post_of(testing.bounce(ADA, ADAS, at=AT))).status == 422
        with frozen():
            first = threads.submit(receiver, post_of(FIRST))
            eventually(lambda: receiver._writers[0]._in_progress)
            behind = post_together(receiver, map(post_of, BEHIND))
            assert [each.status for each in (first.result(PATIENCE), *behind)] == [200, 200, 200]
            assert Spool(path).count() == 3
        eventually(lambda: Spool(path).count() == 0)
        dispatch = testing.Tables(store).dispatch(ADAS)
        assert (dispatch.delivered_at, dispatch.opened_at, dispatch.suppressed_at) == (AT, AT, AT)
        assert store.log is not None
        entries = [each for each in store.log.oldest(Query(), limit=9) if each.status == 200]
        assert len(entries) == 3
        assert all(1 <= each.attempts <= 2 for each in entries)
