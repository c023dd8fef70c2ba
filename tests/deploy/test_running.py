"""The container and the unit, as they run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

import pytest
from podman import IMAGE, ROOT, Podman

import world
from hookrow import testing
from postgres import Server
from wire import PATIENCE, ask, eventually, free_port, listens, request

PAGE = (ROOT / "docs" / "deploy.md").read_text()

URL = "postgresql://mail:password@{}/mail"
"""Of the page's databases."""

SPOOL = "/var/lib/hookrow/spool.db:hookrow:600\n"
"""All that the receivers write, whose it is, and who may read it."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """Build the image, on a disk. podman refuses a folder with a name as long as pytest's."""
    podman = Podman(Path(mkdtemp(prefix="hookrow-", dir="/var/tmp")))
    try:
        podman.build()
        yield podman
    finally:
        podman.remove()


def block(containing: str) -> str:
    """Return the page's block of commands with these words."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    [found] = [each for each in blocks if containing in each]
    return str(found)


def test_the_container(podman: Podman, postgres: Server, postgres_url: str) -> None:
    """It records without being root, on a root file system that is read-only, and stops well."""
    dispatch = world.fill(postgres_url)["dispatches"][0]["provider_message_id"]
    port = free_port()
    page = block("podman secret").replace(URL.format("db.example.com"), postgres_url)
    podman.shell(page.partition("podman run")[0])
    with podman.running(
        *("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=host"),
        *("--security-opt=no-new-privileges", f"--volume={postgres.folder}:{postgres.folder}"),
        *(f"--secret={each}" for each in re.findall(r"--secret (\S+)", page)),
        f"--env=HOOKROW_PORT={port}",
        IMAGE,
    ) as container:
        eventually(lambda: listens(port), seconds=2 * PATIENCE)
        body = json.dumps(
            testing.delivery("ada@example.com", dispatch, at=datetime.now(UTC))
        ).encode()
        secret = podman("exec", container, "printenv", "HOOKROW_SECRET").removesuffix("\n")
        assert ask(port, request(body, secret=secret)).status == 200
        podman("healthcheck", "run", container)
        assert podman("exec", container, "id", "-u") == "10001\n"
        assert podman("exec", container, "ls", "/data") == "spool.db\n"
        podman("stop", "--time=30", container)
        assert podman("inspect", "--format={{.State.ExitCode}}", container) == "0\n"
    assert world.rows(postgres_url)["dispatches"][0]["delivered_at"] is not None


class Machine:
    """A container in which systemd runs, with the clone as its working folder."""

    def __init__(self, podman: Podman, container: str) -> None:
        self._podman = podman
        self._container = container

    def __call__(self, commands: str) -> str:
        """Run commands in a shell; return what they print."""
        return self._podman("exec", self._container, "bash", "-ec", commands)

    def status(self, port: int) -> str:
        """Post what is no notification, with the newest secret; return the status."""
        return self(
            "curl --silent --output /dev/null --write-out '%{http_code}' --data '{}' "
            '--header "X-Provider-Secret: $(head -n 1 /etc/hookrow/secret)" '
            f"http://127.0.0.1:{port}/provider/webhooks"
        )

    def runs(self) -> bool:
        """Tell whether systemd has started what it starts."""
        return "running" in self("systemctl is-system-running || true")

    def restarts(self) -> int:
        """Return how often systemd started a receiver again that had ended."""
        return int(self("systemctl show --property=NRestarts --value hookrow@8002"))


@pytest.fixture
def machine(podman: Podman, postgres: Server, empty_postgres_url: str) -> Iterator[Machine]:
    """Run systemd, and do what the page says."""
    with podman.running(
        *("--systemd=always", "--privileged", "--network=none", "--user=0:0"),
        *(f"--volume={ROOT}:/src:ro", "--workdir=/src", "--entrypoint=/sbin/init"),
        *(f"--volume={postgres.folder}:/srv/postgres", IMAGE),
    ) as container:
        machine = Machine(podman, container)
        database = empty_postgres_url.replace(str(postgres.folder), "/srv/postgres")
        eventually(machine.runs, seconds=2 * PATIENCE)
        machine(block("useradd").replace(URL.format("localhost"), database))
        yield machine


def test_the_unit(machine: Machine) -> None:
    """As the page says it starts, restarts, and takes a new secret; it comes back by itself."""
    machine(block("systemctl restart"))
    assert machine.status(8001) == "422"
    machine(block('sed -i "1i'))
    eventually(lambda: machine.status(8001) == "422")
    machine(block("sed -i 2d"))
    machine("systemctl kill --signal=KILL hookrow@8002")
    eventually(lambda: machine.restarts() == 1)
    machine("curl --silent --fail --retry 20 --retry-all-errors 127.0.0.1:8002/healthz")
    assert machine("stat --format %n:%U:%a /var/lib/hookrow/*") == SPOOL
    assert machine("systemctl --failed --quiet") == ""
