"""`hookrow simulate`: the requests it posts, and its output."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from subprocess import CompletedProcess
from threading import Barrier
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
import pytest
from werkzeug import Request, Response

from command import HOOKROW, Command
from loopback import loopback
from wire import ADA, ADAS, ENDPOINT, SECRET, free_port

Simulate = Callable[..., CompletedProcess[str]]


class Provider:
    """A server that keeps payloads and responds 200, but 404 to those for "nobody".

    It responds when as many requests as its barrier requires are open at once. It sends Ctrl-C to
    this process when it has received `interrupt_at` requests.
    """

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.barrier = Barrier(1)
        self.interrupt_at = 0

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        assert environ["PATH_INFO"] == f"/mail{ENDPOINT}"
        assert environ["HTTP_X_PROVIDER_SECRET"] == SECRET
        payload = msgspec.json.decode(Request(environ).get_data())
        self.posted.append(payload)
        self.barrier.wait(20.0)
        if len(self.posted) == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        unknown = payload.get("Recipient", "").startswith("nobody")
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
        (("bounce", ADA, ADAS), {"RecordType": "Bounce", "Email": ADA, "MessageID": ADAS}),
        (("complaint", ADA), {"RecordType": "SpamComplaint", "Email": ADA}),
        (("click", ADA, ADAS), {"RecordType": "Click", "Recipient": ADA}),
        (("inbound", ADA), {"From": ADA, "MessageStream": "inbound"}),
        (("test",), {"RecordType": "Delivery", "Recipient": "john@example.com"}),
    ],
)
def test_each_kind(
    simulate: Simulate, provider: Provider, typed: tuple[str], payload: dict[str, object]
) -> None:
    done = simulate(*typed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")
    assert provider.posted[0].items() >= payload.items()
    if typed[0] in {"delivery", "open", "suppression", "reactivation"}:
        assert provider.posted[0]["Recipient"] == ADA


def test_count_and_repeat(simulate: Simulate, provider: Provider) -> None:
    """With --count, the times differ by a millisecond, and {} is replaced by the number.

    With --repeat, each notification is posted several times in a row, unchanged.
    """
    began = time.time()
    done = simulate("delivery", "ada{}@a{}.example", "m-{}", "--count", 5, "--repeat", 2)
    assert (done.returncode, counts(done)) == (0, {"200": 10})
    assert done.stderr == ""
    posted = provider.posted[::2]
    assert posted == provider.posted[1::2]
    times = [datetime.fromisoformat(payload["DeliveredAt"]) for payload in posted]
    assert {after - before for before, after in pairwise(times)} == {timedelta(milliseconds=1)}
    assert began - 0.1 <= times[-1].timestamp() <= time.time()
    assert [(each["Recipient"], each["MessageID"]) for each in posted] == [
        (f"ada{n}@a{n}.example", f"m-{n}") for n in range(1, 6)
    ]


def test_shuffle_and_concurrency(simulate: Simulate, provider: Provider) -> None:
    """The order is random, and the option sets how many requests are open at once."""
    provider.barrier = Barrier(8)
    options = ("--count", 64, "--shuffle", "--concurrency", 8)
    assert simulate("open", ADA, "m-{}", *options).returncode == 0
    names = [each["MessageID"] for each in provider.posted]
    ordered = [f"m-{n}" for n in range(1, 65)]
    assert sorted(names) == sorted(ordered)
    assert set(names[:8]) != set(ordered[:8])


def test_other_responses(
    simulate: Simulate, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a response is not 200 or there is none, it is printed or counted, and the status is 1."""
    done = simulate("open", "nobody@example.com")
    assert (done.returncode, done.stdout) == (1, "404 nobody\n")
    done = simulate("open", "nobody@example.com", "--count", 4)
    assert (done.returncode, counts(done)) == (1, {"404 nobody": 4})
    monkeypatch.setattr(sys.modules["hookrow.cli.simulate"], "START_TIMEOUT", 0.0)
    done = command.call("simulate", "open", ADA, "--count", 3, "--port", free_port())
    assert (done.returncode, counts(done)) == (1, {"no response": 3})
    assert "refused. Is `hookrow serve`, or the server of your application, runn" in done.stderr


def test_a_server_that_is_just_starting(
    command: Command, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection is retried until the server listens."""
    port = free_port()
    options = ("--port", port, "--mount-path", "mail", "--secret", SECRET)
    with ExitStack() as server:

        def start(_: float) -> None:
            server.enter_context(loopback(provider, port=port))

        monkeypatch.setattr(sys.modules["hookrow.cli.simulate"], "sleep", start)
        assert command.call("simulate", "open", ADA, *options).stdout == "200\n"


def test_the_secret_file(command: Command, provider: Provider) -> None:
    """Its first secret, the newest, is sent, unless a flag names another one."""
    (command.folder / "secrets").write_text(f"\n{SECRET}\nold\n")
    with loopback(provider) as port:
        options = ("simulate", "open", ADA, "--port", port, "--mount-path", "mail")
        assert command.call(*options, "--secret-file", "secrets").stdout == "200\n"
        variables = {"HOOKROW_SECRET_FILE": "missing"}
        assert command.call(*options, "--secret", SECRET, **variables).stdout == "200\n"


def test_no_secret(command: Command) -> None:
    """A warning names the settings, because the response does not."""
    done = command.call("simulate", "open", ADA, "--count", 2, "--port", free_port())
    assert done.stderr.splitlines()[0] == (
        "Warning: No secret is set, so the requests have no X-Provider-Secret: set HOOKROW_SECRET, "
        "--secret or --secret-file."
    )


def test_interrupt(simulate: Simulate, provider: Provider) -> None:
    """Ctrl-C completes the requests in progress and prints the totals so far."""
    provider.interrupt_at = 3
    done = simulate("open", ADA, "m-{}", "--count", 1000)
    assert done.returncode == 130
    assert 3 <= counts(done)["200"] < 1000


def test_interrupted_wait(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C also ends the wait for a server that does not listen, with the same status."""

    def interrupt(_: float) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys.modules["hookrow.cli.simulate"], "sleep", interrupt)
    # A shell that starts the tests in the background lets them ignore the signal.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = command.call("simulate", "open", ADA, "--port", free_port(), "--secret", SECRET)
    finally:
        signal.signal(signal.SIGINT, former)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nAborted!\n")


def test_second_interrupt(command: Command) -> None:
    """It ends the command at once, although a request is in progress."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with subprocess.Popen(
            [HOOKROW, "simulate", "open", ADA, "--count", "9", "--port", str(port)],
            env=command.environment({"HOOKROW_SECRET": SECRET}),
            cwd=command.folder,
        ) as running:
            connection, _ = silent.accept()
            with connection:
                while running.poll() is None:
                    running.send_signal(signal.SIGINT)
                    time.sleep(0.1)
    assert running.returncode == -signal.SIGINT
