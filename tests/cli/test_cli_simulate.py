"""`hookrow simulate`: the requests it posts, and its output."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from subprocess import CompletedProcess
from threading import Barrier
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
import pytest
from werkzeug import Response

from command import Command
from loopback import loopback
from wire import ADA, ADAS, ENDPOINT, SECRET, free_port

Simulate = Callable[..., CompletedProcess[str]]


class Provider:
    """A server that keeps payloads and responds 200, but 404 to those for "nobody".

    It responds when as many requests are open at once as its barrier requires.
    """

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.barrier = Barrier(1)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        assert environ["PATH_INFO"] == f"/mail{ENDPOINT}"
        assert environ["HTTP_X_PROVIDER_SECRET"] == SECRET
        payload = msgspec.json.decode(environ["wsgi.input"].read())
        self.posted.append(payload)
        self.barrier.wait(20.0)
        unknown = payload["Recipient"].startswith("nobody")
        return (Response("nobody", 404) if unknown else Response(""))(environ, start)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def simulate(command: Command, provider: Provider) -> Iterator[Simulate]:
    with loopback(provider) as port:
        options = {"HOOKROW_PORT": str(port), "HOOKROW_MOUNT_PATH": "mail"}
        yield lambda *typed: command.call("simulate", *typed, HOOKROW_SECRET=SECRET, **options)


def counts(done: CompletedProcess[str]) -> dict[str, int]:
    """Return the printed summary: the number of each response."""
    first, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ posted in \d+\.\d s, [\d,]+ per second:", first)
    found = {text.strip(): int(number) for number, text in (line.split(None, 1) for line in lines)}
    assert first.startswith(f"{sum(found.values())} posted")
    return found


@pytest.mark.parametrize(
    ("typed", "payload"),
    [
        (("delivery", ADA, ADAS), {"RecordType": "Delivery", "MessageID": ADAS}),
        (("open", ADA, ADAS), {"RecordType": "Open", "MessageID": ADAS}),
        (("suppression", ADA), {"SuppressSending": True, "SuppressionReason": "HardBounce"}),
        (("suppression", ADA, "--reason", "Spam"), {"SuppressionReason": "Spam"}),
        (("reactivation", ADA), {"RecordType": "SubscriptionChange", "SuppressSending": False}),
    ],
)
def test_each_kind(
    simulate: Simulate, provider: Provider, typed: tuple[str], payload: dict[str, object]
) -> None:
    done = simulate(*typed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")
    assert provider.posted[0].items() >= {**payload, "Recipient": ADA}.items()


def test_count_and_repeat(simulate: Simulate, provider: Provider) -> None:
    """With --count, the times differ by a millisecond, and {} is replaced by the number.

    With --repeat, each notification is posted several times in a row, unchanged.
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


def test_shuffle_and_concurrency(simulate: Simulate, provider: Provider) -> None:
    """The order is random, and as many requests are open at once as the option says."""
    provider.barrier = Barrier(8)
    options = ("--count", 64, "--shuffle", "--concurrency", 8)
    assert simulate("open", ADA, "m-{}", *options).returncode == 0
    names = [each["MessageID"] for each in provider.posted]
    ordered = [f"m-{n}" for n in range(1, 65)]
    assert sorted(names) == sorted(ordered)
    assert set(names[:8]) != set(ordered[:8])


def test_other_responses(simulate: Simulate, command: Command) -> None:
    """If a response is not 200 or there is none, it is printed or counted, and the status is 1."""
    done = simulate("open", "nobody@example.com")
    assert (done.returncode, done.stdout) == (1, "404 nobody\n")
    done = simulate("open", "nobody@example.com", "--count", 4)
    assert (done.returncode, counts(done)) == (1, {"404 nobody": 4})
    done = command.call("simulate", "open", ADA, "--count", 3, "--port", free_port())
    assert (done.returncode, counts(done)) == (1, {"no response": 3})
