"""`hookrow simulate`: what is posted, how, and what is printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from subprocess import CompletedProcess
from threading import Barrier
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
import pytest
from werkzeug import Response

import world
from command import Command
from hookrow import Postmark, Receiver
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import SECRET, free_port

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"

Simulate = Callable[..., CompletedProcess[str]]


class Provider:
    """A server that keeps payloads and responds 200, but 404 to those for "nobody".

    It responds when as many requests are open at once as pass its barrier.
    """

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.barrier = Barrier(1)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Respond to a request."""
        payload = msgspec.json.decode(environ["wsgi.input"].read())
        self.posted.append(payload)
        self.barrier.wait(20.0)
        unknown = payload["Recipient"].startswith("nobody")
        return (Response("nobody", 404) if unknown else Response(""))(environ, start)


@pytest.fixture
def provider() -> Provider:
    """Return what receives the posts."""
    return Provider()


@pytest.fixture
def simulate(command: Command, provider: Provider) -> Iterator[Simulate]:
    """Return a function that posts to the provider."""
    with loopback(provider) as port:
        to = ("--url", f"http://127.0.0.1:{port}/", "--secret", SECRET)
        yield lambda *arguments: command.call("simulate", *arguments, *to)


def counts(done: CompletedProcess[str]) -> dict[str, int]:
    """Return the printed summary: how often each response came."""
    first, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ posted in \d+\.\d s, [\d,]+ a second:", first)
    found = {text.strip(): int(number) for number, text in (line.split(None, 1) for line in lines)}
    assert first.startswith(f"{sum(found.values())} posted")
    return found


def test_each_kind(command: Command, sqlite_url: str) -> None:
    """Each kind changes its rows; a refusal is printed and ends with status 1."""
    world.fill(sqlite_url)
    store = SQLStore(sqlite_url)
    receiver = Receiver(Postmark(SECRET), store, mount_path="/mail")
    with closing(store), closing(receiver), loopback(WSGI(receiver)) as port:

        def simulate(*arguments: str) -> tuple[int, str, str]:
            options = {"HOOKROW_PORT": str(port), "HOOKROW_MOUNT_PATH": "mail"}
            done = command.call("simulate", *arguments, HOOKROW_SECRET=SECRET, **options)
            return done.returncode, done.stdout, done.stderr

        accepted = (0, "200\n", "")
        assert simulate("delivery", ADA, ADAS) == accepted
        assert simulate("open", ADA, ADAS) == accepted
        assert simulate("suppression", ADA, ADAS, "--reason", "SpamComplaint") == accepted
        rows = world.rows(sqlite_url)
        assert rows["dispatches"][0]["delivered_at"] is not None
        assert rows["dispatches"][0]["opened_at"] is not None
        assert rows["dispatches"][0]["suppression_reason"] == "SpamComplaint"
        assert simulate("reactivation", ADA.upper()) == accepted
        assert world.rows(sqlite_url)["subscribers"][0]["suppressed_at"] is None
        refused = simulate("delivery", "eve@example.com")
        assert refused == (1, "404 Engine::Subscriber not found\n", "")
        wrong = simulate("open", ADA, "--secret", "wrong")
        assert wrong == (1, "401 Cannot verify webhook\n", "")


def test_count(simulate: Simulate, provider: Provider) -> None:
    """With --count the times differ by a millisecond, and braces are each one's number.

    With --repeat each is posted several times in a row, unchanged.
    """
    began = time.time()
    done = simulate("delivery", "ada{}@a{}.example", "m-{}", "--count", 5, "--repeat", 2)
    assert (done.returncode, counts(done)) == (0, {"200": 10})
    assert done.stderr.startswith("Posting")
    posted = provider.posted[::2]
    assert posted == provider.posted[1::2]
    times = [datetime.fromisoformat(payload["DeliveredAt"]) for payload in posted]
    assert {after - before for before, after in pairwise(times)} == {timedelta(milliseconds=1)}
    assert began - 0.1 <= times[-1].timestamp() <= time.time()
    assert [(each["Recipient"], each["MessageID"]) for each in posted] == [
        (f"ada{n}@a{n}.example", f"m-{n}") for n in range(1, 6)
    ]


def test_shuffle(simulate: Simulate, provider: Provider) -> None:
    """With --shuffle the order is another; with --concurrency so many are open at once."""
    provider.barrier = Barrier(8)
    options = ("--count", 64, "--shuffle", "--concurrency", 8)
    assert simulate("open", ADA, "m-{}", *options).returncode == 0
    names = [each["MessageID"] for each in provider.posted]
    ordered = [f"m-{n}" for n in range(1, 65)]
    assert sorted(names) == sorted(ordered)
    assert set(names[:8]) != set(ordered[:8])


def test_not_accepted(simulate: Simulate, command: Command) -> None:
    """Other responses than 200, and none at all, are counted, and end with status 1."""
    done = simulate("open", "nobody@example.com", "--count", 4)
    assert (done.returncode, counts(done)) == (1, {"404 nobody": 4})
    done = command.call("simulate", "open", ADA, "--count", 3, "--port", free_port())
    assert (done.returncode, counts(done)) == (1, {"without an answer": 3})
