"""Several receivers behind one nginx, with the configuration that comes with hookrow."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import sleep

import pytest
import traffic
from traffic import Load, report

from command import Command, Serving
from nginx import installed, running
from wire import ENDPOINT, PATIENCE, SECRET, Connection, eventually, free_port, head

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"

OFTEN = "keepalive_requests 100;"
"""nginx ends a connection after so many, not a thousand: each one ends while receivers restart."""

DEADLINE = 5.0
"""In seconds; in which every answer of a receiver comes that does not hang."""


class Secured(Connection):
    """A connection with TLS, to a server whose certificate is in that file."""

    def __init__(self, certificate: Path, port: int) -> None:
        super().__init__(port)
        context = ssl.create_default_context(cafile=certificate)
        self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._file = self._socket.makefile("rb")


class Receivers:
    """The receivers that nginx.conf knows, on one database; nginx listens at `port`."""

    def __init__(self, folder: Path, database_url: str, ending: ExitStack) -> None:
        self.certificate = folder / "fullchain.pem"
        self._command = Command(folder)
        self._url = database_url
        self._ending = ending
        self._certify(folder)
        text = CONFIGURATION.read_text().replace("/etc/ssl/hookrow", str(folder))
        ports = {int(port): free_port() for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
        for port, free in ports.items():
            text = text.replace(f":{port} ", f":{free} ")
        self.port = free_port()
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{self.port} ")
        text = text.replace("listen [::]:443 ", f"listen unix:{folder}/ipv6 ")  # not all have it
        self._each = {port: self._start(port) for port in ports.values()}
        ending.enter_context(running(folder, self.port, f"{OFTEN} {text}"))

    def restart(self, how: signal.Signals, status: int) -> None:
        """End one after the other with a signal, and start another at its port."""
        for port, receiver in self._each.items():
            sleep(0.5)
            receiver.send(how)
            assert receiver.ended() == status
            sleep(0.5)
            self._each[port] = self._start(port)

    @property
    def first(self) -> Serving:
        """The one that nginx asks first."""
        return next(iter(self._each.values()))

    def check(self) -> subprocess.CompletedProcess[str]:
        """Look at the webhook from outside."""
        trusted = {"SSL_CERT_FILE": str(self.certificate), "HOOKROW_SECRET": SECRET}
        return self._command.run("check", f"https://127.0.0.1:{self.port}{ENDPOINT}", **trusted)

    def _start(self, port: int) -> Serving:
        at = {"HOOKROW_DATABASE_URL": self._url, "HOOKROW_PORT": str(port)}
        return self._ending.enter_context(self._command.serving(**at))

    def _certify(self, folder: Path) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
        made = ("-keyout", folder / "privkey.pem", "-out", self.certificate)
        openssl = installed("openssl", "openssl")
        done = self._command.execute(openssl, "req", "-x509", *curve, *names, *made)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def receivers(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Receivers]:
    """Run two receivers on one PostgreSQL, and nginx in front of them, for clients with TLS."""
    with ExitStack() as ending:
        started = Receivers(tmp_path, postgres_url, ending)
        monkeypatch.setattr(traffic, "Connection", partial(Secured, started.certificate))
        yield started


@pytest.mark.slow
def test_each_is_restarted_in_turn(receivers: Receivers, postgres_url: str) -> None:
    """The provider sees nothing of it: all is answered 200 and recorded, and counted once."""
    load = Load(postgres_url)
    with load.on(receivers.port):
        receivers.restart(signal.SIGTERM, 0)
    report(f"Each of two restarted: {load.told()}")
    assert set(load.statuses()) == {200}
    assert (load.lost(), load.miscounted(), load.unposted()) == ([], [], [])


@pytest.mark.slow
def test_each_is_killed_in_turn(receivers: Receivers, postgres_url: str) -> None:
    """The provider sees nothing of it: what one was at goes to the next, and is recorded."""
    load = Load(postgres_url)
    with load.on(receivers.port):
        receivers.restart(signal.SIGKILL, -signal.SIGKILL)
    report(f"Each of two killed: {load.told()}")
    assert set(load.statuses()) == {200}
    assert (load.lost(), load.unposted()) == ([], [])


@pytest.mark.slow
def test_one_hangs(receivers: Receivers, postgres_url: str) -> None:
    """What it has goes to the next when nginx has waited for it; few others are sent to it."""
    load = Load(postgres_url)
    with load.on(receivers.port):
        sleep(0.5)
        receivers.first.send(signal.SIGSTOP)
        eventually(lambda: load.slowest > DEADLINE, seconds=2 * PATIENCE)
        receivers.first.send(signal.SIGKILL)
    waited = sum(each.seconds > DEADLINE for note in load.notes for each in note.tries)
    report(f"One hangs: {load.told()}, {waited} of which waited for it")
    assert set(load.statuses()) == {200}
    assert load.lost() == []
    assert waited <= len(load.clients)


def test_from_outside(receivers: Receivers) -> None:
    """`hookrow check` finds all well, on a machine that is not public; no other page is shown."""
    done = receivers.check()
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^(?!ok)\w+ +\w+", done.stdout, re.MULTILINE) == ["warning  dns"]
    for path in ("/metrics", "/readyz", "/provider"):
        with Secured(receivers.certificate, receivers.port) as connection:
            connection.send(head(path, method="GET", secret=None))
            assert connection.answer().status == 404
