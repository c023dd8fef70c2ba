"""A notification whose row another transaction has locked waits; nothing else does.

On PostgreSQL, because SQLite locks no single rows.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Thread
from time import monotonic
from typing import Self

import psycopg
import pytest
from contract import ADA, NOON, dispatch
from django.db import connections
from django_home import DjangoHome
from homes import OURS, Home
from locations import open_home

from hookrow import Postmark, Receiver, Request, RequestHead, Response, testing
from hookrow._receiver import locked
from wire import ENDPOINT, PATIENCE, SECRET, eventually

HEAD = RequestHead("POST", ENDPOINT, [(b"x-provider-secret", SECRET.encode())])
NUMBERS = range(1, 33)
PLACES = "postgres", "supplied-postgres", "django-postgres"


@pytest.fixture(params=PLACES)
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    with closing(open_home(request.param, OURS, new_database)) as home:
        home.fill(
            subscribers=[{"id": 1, "email": ADA}],
            dispatches=[dispatch(home, n, f"m-{n}", owner=1) for n in NUMBERS],
        )
        yield home


class Posts:
    """Posts an open of each dispatch, all at once, and collects the statuses as they come."""

    def __init__(self, home: Home, receiver: Receiver, way: str) -> None:
        self.statuses: dict[int, int] = {}
        self._home, self._receiver = home, receiver
        self._thread = Thread(target=getattr(self, f"_post_{way}"))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _request(self, number: int) -> Request:
        payload = testing.opening(ADA, f"m-{number}", at=NOON)
        return Request(HEAD, json.dumps(payload).encode())

    def _post_in_a_loop(self) -> None:
        async def post() -> None:
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            for number in NUMBERS:

                def reply(response: Response, number: int = number) -> None:
                    self.statuses[number] = response.status
                    if len(self.statuses) == len(NUMBERS):
                        done.set()

                self._receiver.submit(self._request(number), loop, reply)
            await asyncio.wait_for(done.wait(), PATIENCE)

        asyncio.run(post())

    def _post_in_threads(self) -> None:
        self._in_threads(self._receiver)

    def _post_directly(self) -> None:
        self._in_threads(self._receiver.record_directly)

    def _in_threads(self, record: Callable[[Request], Response]) -> None:
        def post(number: int) -> None:
            try:
                self.statuses[number] = record(self._request(number)).status
            finally:
                if isinstance(self._home, DjangoHome):
                    connections[self._home.alias].close()

        with ThreadPoolExecutor(len(NUMBERS)) as pool:
            list(pool.map(post, NUMBERS))


WAYS = "in_a_loop", "in_threads", "directly"


def lock(host: psycopg.Connection, number: int) -> None:
    host.execute("SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE", [number])


@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_is_locked_for_a_second(home: Home, way: str) -> None:
    """Its notification is recorded after that; all others are recorded meanwhile."""
    with psycopg.connect(home.url) as host, closing(Receiver(Postmark(SECRET), home.store)) as mail:
        lock(host, 1)
        locked_at = monotonic()
        with Posts(home, mail, way) as posts:
            eventually(lambda: len(posts.statuses) == len(NUMBERS) - 1)
            time.sleep(max(1.0 - (monotonic() - locked_at), 0.0))
            assert 1 not in posts.statuses
            host.rollback()
    assert posts.statuses == dict.fromkeys(NUMBERS, 200)
    assert {row["opened_at"] for row in home.rows()["dispatches"]} == {NOON}
    assert [row["attempts"] for row in home.logged()] == [1] * len(NUMBERS)


@pytest.mark.parametrize(("home", "way"), [*zip(PLACES, WAYS, strict=True)], indirect=["home"])
def test_a_row_that_stays_locked(home: Home, way: str) -> None:
    """Its notification gets a 503 by the deadline, and is in the log for a retry.

    Each wait is long, and the ways do not depend on the places.
    """
    # Shorter than the default, but enough for 32 connections at once on a busy machine.
    receiver = Receiver(Postmark(SECRET), home.store, deadline=5.0)
    with psycopg.connect(home.url) as host, closing(receiver):
        lock(host, 1)
        with Posts(home, receiver, way) as posts:
            pass
        assert posts.statuses == dict.fromkeys(NUMBERS, 200) | {1: 503}
        eventually(lambda: len(home.logged()) == len(NUMBERS))
    [failed] = [row for row in home.logged() if row["outcome"] != "recorded"]
    assert (failed["message_id"], failed["outcome"]) == ("m-1", "failed")
    assert failed["retry_at"] is not None


def test_a_receiver_that_stops_keeps_what_waits(home: Home) -> None:
    """A notification that waits for a locked row is in the log when the receiver has stopped."""
    receiver = Receiver(Postmark(SECRET), home.store)
    with psycopg.connect(home.url) as host:
        lock(host, 1)
        with Posts(home, receiver, "in_threads") as posts:
            eventually(lambda: len(posts.statuses) == len(NUMBERS) - 1)
            receiver.close(PATIENCE)
            eventually(lambda: posts.statuses.get(1) == 503)
    assert {row["outcome"] for row in home.logged()} == {"recorded", "failed"}


def test_if_too_many_wait_the_others_fail_at_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked, "MAX_LOCKED", 0)
    receiver = Receiver(Postmark(SECRET), home.store, deadline=PATIENCE)
    with psycopg.connect(home.url) as host, closing(receiver):
        lock(host, 1)
        with Posts(home, receiver, "in_a_loop") as posts:
            eventually(lambda: len(posts.statuses) == len(NUMBERS))
        assert posts.statuses[1] == 503


def test_rows_that_the_host_locks_in_the_opposite_order(home: Home) -> None:
    """No transaction of the host is aborted, and no notification fails for long."""
    over, aborted = Event(), list[BaseException]()

    def lock_all() -> None:
        """Lock the rows one by one, the last one first, again and again."""
        try:
            with psycopg.connect(home.url) as host:
                while not over.is_set():
                    with host.transaction():
                        for number in reversed(NUMBERS[:8]):
                            lock(host, number)
                            time.sleep(0.002)
        except psycopg.Error as error:
            aborted.append(error)

    threads = [Thread(target=lock_all) for _ in range(2)]
    with closing(Receiver(Postmark(SECRET), home.store)) as receiver:
        for thread in threads:
            thread.start()
        statuses: list[int] = []
        for _ in range(3):
            with Posts(home, receiver, "in_a_loop") as posts:
                pass
            statuses += posts.statuses.values()
        over.set()
        for thread in threads:
            thread.join()
    assert aborted == []
    assert statuses.count(200) > len(statuses) * 0.9
