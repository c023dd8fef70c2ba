"""`hookrow simulate` with many notifications: what is posted, how, and what is told of it."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import msgspec
import pytest

from command import Command
from wire import PATIENCE, SECRET, free_port

ADA = "ada@example.com"

MILLISECOND = timedelta(milliseconds=1)


class Provider(ThreadingHTTPServer):
    """A server that keeps what is posted and answers 200, but 404 to strangers.

    It answers when as many are on the way at once as pass its barrier.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.posted: list[dict[str, Any]] = []
        self.fewer = 0
        self.barrier = Barrier(1)


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        """Answer a POST."""
        payload = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(payload)
        try:
            self.server.barrier.wait(PATIENCE)
        except BrokenBarrierError:
            self.server.fewer += 1
        text = b"" if payload["Recipient"].startswith("ada") else b"nobody"
        self.send_response(404 if text else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Run a server."""
    with Provider() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


def simulate(
    command: Command, provider: Provider, *arguments: object
) -> tuple[CompletedProcess[str], Sequence[dict[str, Any]]]:
    """Simulate; return how it ended, and what was posted."""
    url = f"http://127.0.0.1:{provider.server_port}/"
    done = command.call("simulate", *arguments, "--url", url, "--secret", SECRET)
    return done, provider.posted


def told(done: CompletedProcess[str]) -> dict[str, int]:
    """Return how often each answer came, as it is told."""
    first, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ posted in \d+\.\d s, [\d,]+ a second:", first)
    counts = {text.strip(): int(number) for number, text in (line.split(None, 1) for line in lines)}
    assert first.startswith(f"{sum(counts.values())} posted")
    return counts


@pytest.mark.parametrize("kind", ["delivery", "open", "suppression", "reactivation"])
def test_count(command: Command, provider: Provider, kind: str) -> None:
    """So many are posted, each of a millisecond of its own, none of the future, in order."""
    began = time.time()
    done, posted = simulate(command, provider, kind, ADA, "m", "--count", 5)
    assert (done.returncode, told(done)) == (0, {"200": 5})
    (name,) = {"DeliveredAt", "ReceivedAt", "ChangedAt"} & set(posted[0])
    times = [datetime.fromisoformat(payload[name]) for payload in posted]
    assert [after - before for before, after in pairwise(times)] == [MILLISECOND] * 4
    assert began - 0.1 <= times[-1].timestamp() <= time.time()
    assert {(payload["Recipient"], payload["MessageID"]) for payload in posted} == {(ADA, "m")}


def test_numbers(command: Command, provider: Provider) -> None:
    """Braces in the address and the message id are each one's number, from 1 on."""
    _, posted = simulate(command, provider, "open", "ada{}@a{}.example", "m-{}", "--count", 3)
    assert [(payload["Recipient"], payload["MessageID"]) for payload in posted] == [
        (f"ada{n}@a{n}.example", f"m-{n}") for n in (1, 2, 3)
    ]


def test_one(command: Command, provider: Provider) -> None:
    """A single one has its number too, and its answer is the only line."""
    done, posted = simulate(command, provider, "open", "ada{}@example.com")
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")
    assert posted[0]["Recipient"] == "ada1@example.com"
    assert posted[0]["MessageID"] is None


def test_repeat(command: Command, provider: Provider) -> None:
    """Each is posted so often, the same to the byte, one after the other."""
    done, posted = simulate(command, provider, "open", ADA, "m-{}", "--count", 2, "--repeat", 3)
    assert told(done) == {"200": 6}
    assert [payload["MessageID"] for payload in posted] == ["m-1"] * 3 + ["m-2"] * 3
    assert len({msgspec.json.encode(payload) for payload in posted}) == 2


def test_shuffle(command: Command, provider: Provider) -> None:
    """Shuffled, the same are posted in another order."""
    arguments = ("open", ADA, "m-{}", "--count", 30, "--repeat", 2, "--shuffle")
    done, posted = simulate(command, provider, *arguments)
    assert told(done) == {"200": 60}
    names = [payload["MessageID"] for payload in posted]
    assert Counter(names) == {f"m-{n}": 2 for n in range(1, 31)}
    assert names != sorted(names, key=lambda name: int(name[2:]))


def test_concurrency(command: Command, provider: Provider) -> None:
    """So many are on the way at once."""
    provider.barrier = Barrier(8)
    done, posted = simulate(command, provider, "open", ADA, "--count", 32, "--concurrency", 8)
    assert (done.returncode, told(done), len(posted)) == (0, {"200": 32}, 32)
    assert provider.fewer == 0


def test_answers(command: Command, provider: Provider) -> None:
    """Every answer is counted, the most frequent first; the status is 1 where one is not 200."""
    done, _ = simulate(command, provider, "open", "eve@example.com", "--count", 4)
    assert (done.returncode, told(done)) == (1, {"404 nobody": 4})


def test_nobody_listens(command: Command) -> None:
    """Where nobody listens, that is counted too, and nothing is raised."""
    done = command.call("simulate", "open", ADA, "--count", 3, "--port", free_port())
    assert (done.returncode, told(done)) == (1, {"without an answer": 3})


def test_progress(command: Command, provider: Provider) -> None:
    """How far it is goes to standard error, and leaves the summary alone."""
    done, _ = simulate(command, provider, "open", ADA, "--count", 3)
    assert done.stderr.startswith("Posting")
    assert "Posting" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--count", "0"), ("--repeat", "0"), ("--concurrency", "0"), ("--concurrency", "1001")),
        *(("--count", "many"), ("--shuffle", "yes", "no")),
    ],
)
def test_misuse(command: Command, arguments: Sequence[str]) -> None:
    """A number that makes no sense is refused before anything is posted."""
    done = command.call("simulate", "open", ADA, *arguments, "--port", free_port())
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((ADA, "--url", "nowhere"), "is no web address"),
        ((ADA, "--secret", "hunter2\r"), "secret"),
        (("a\udcff@example.com",), "cannot be written as JSON"),
    ],
)
def test_in_vain(command: Command, arguments: Sequence[str], says: str) -> None:
    """What can never be posted ends it in one line, however many there are."""
    port = ("--port", free_port(), "--count", 3)
    done = command.call("simulate", "open", *arguments, *port, HOOKROW_SECRET=SECRET)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert says in done.stderr
    assert "hunter2" not in done.stderr


def test_too_many(command: Command) -> None:
    """More than can be made at once are refused before any is."""
    done = command.call("simulate", "open", ADA, "--count", 100_000, "--repeat", 3)
    assert (done.returncode, done.stdout) == (2, "")
    assert "That is 300,000 posts: at most 200,000 at a time." in done.stderr
