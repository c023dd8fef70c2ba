"""Several receivers behind nginx, with the configuration in the folder deploy."""

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tls import Secured, certify
from traffic import Load

from command import Command, Serving
from hookrow._migrations import sql
from nginx import running
from postgres import Databases
from wire import ENDPOINT, SECRET, eventually, free_port, head

pytestmark = pytest.mark.never_flaky

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"

FEW_REQUESTS = "keepalive_requests 100;"
"""A lower limit than the default of 1,000, so that all connections end during a restart."""

DEADLINE = 5.0
"""In seconds; a receiver that does not hang responds within this time."""


class Receivers:
    """The receivers that nginx.conf names, on one database, and nginx in front of them."""

    def __init__(self, folder: Path, url: str, ending: ExitStack) -> None:
        self._command = Command(folder)
        self._url = url
        self._ending = ending
        self._numbers = count(1, 1000)
        self._certificate = certify(folder)
        text = CONFIGURATION.read_text().replace("/etc/ssl/hookrow", str(folder))
        ports = {int(port): free_port() for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
        for port, free in ports.items():
            text = text.replace(f":{port} ", f":{free} ")
        self.port = free_port()
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{self.port} ")
        text = text.replace(
            "listen [::]:443 ", f"listen unix:{folder}/ipv6 "
        )  # not all machines have IPv6
        self.each = {port: self._start(port) for port in ports.values()}
        ending.enter_context(running(folder, self.port, f"{FEW_REQUESTS} {text}"))
        self.connect = partial(Secured, self._certificate)

    def load(self) -> Load:
        """Return a load on separate rows."""
        return Load(self._url, first=next(self._numbers), pause=0.02)

    def replace(self, port: int, how: signal.Signals) -> int:
        """End a receiver with a signal, start another at its port; return the exit status."""
        self.each[port].send(how)
        status = self.each[port].ended()
        self.each[port] = self._start(port)
        return status

    def check(self) -> str:
        """Check the webhook from outside; return the output."""
        trusted = {"SSL_CERT_FILE": str(self._certificate), "HOOKROW_SECRET": SECRET}
        address = f"https://127.0.0.1:{self.port}{ENDPOINT}"
        done = self._command.run("check", address, **trusted)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _start(self, port: int) -> Serving:
        variables = {"HOOKROW_DATABASE_URL": self._url, "HOOKROW_PORT": str(port)}
        return self._ending.enter_context(self._command.serving(**variables))


@pytest.fixture(scope="module")
def receivers(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    """Run two receivers on one PostgreSQL, and nginx in front of them, for clients with TLS."""
    url = postgres.create()
    postgres.execute(sql("postgresql"), url=url)
    with ExitStack() as ending:
        yield Receivers(tmp_path_factory.mktemp("receivers"), url, ending)


def _replace_each(receivers: Receivers, how: signal.Signals, status: int) -> Load:
    """End each receiver in turn with a signal, and start it again, under load."""
    load = receivers.load()
    with load.on(receivers.port, connect=receivers.connect):
        for port in receivers.each:
            load.wait_for(100, 200)
            assert receivers.replace(port, how) == status
        load.wait_for(100, 200)
    print(f"Each of two ended by {how.name}: {load}")
    return load


def test_each_is_restarted_in_turn(receivers: Receivers) -> None:
    """The provider notices nothing: every notification gets a 200, and is counted once."""
    load = _replace_each(receivers, signal.SIGTERM, 0)
    load.check(200)
    assert load.miscounted() == []


def test_each_is_killed_in_turn(receivers: Receivers) -> None:
    """The provider notices nothing: the other receiver gets the requests in progress."""
    load = _replace_each(receivers, signal.SIGKILL, -signal.SIGKILL)
    load.check(200)
    assert load.statuses()[200] >= 300


def test_one_hangs(receivers: Receivers) -> None:
    """Nginx passes waiting requests to the other receiver, and sends few more to the first."""
    load, first = receivers.load(), next(iter(receivers.each))
    with load.on(receivers.port, connect=receivers.connect):
        load.wait_for(100, 200)
        receivers.each[first].send(signal.SIGSTOP)
        eventually(lambda: load.slowest > DEADLINE, seconds=30)
        receivers.replace(first, signal.SIGKILL)
    waited = sum(each.seconds > DEADLINE for posting in load.postings for each in posting.attempts)
    print(f"One hangs: {load}; {waited} requests waited for it")
    load.check(200)
    assert waited <= len(load.clients)


def test_from_outside(receivers: Receivers) -> None:
    """`hookrow check` finds no fault, and no other path is served."""
    faults = re.findall(r"^(?!ok)\w+ +\w+", receivers.check(), re.MULTILINE)
    assert faults == []
    for path in ("/metrics", "/readyz", "/provider"):
        with receivers.connect(receivers.port) as connection:
            connection.send(head(path, method="GET", secret=None))
            assert connection.answer().status == 404
