"""The container and the systemd unit, running, and what systemd says of the unit."""

from __future__ import annotations

import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

import pytest

import world
from hookrow import testing
from nginx import installed
from postgres import Databases
from wire import PATIENCE, ask, eventually, free_port, listens, request

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs" / "deploy.md").read_text()

URL = "postgresql://mail:password@{}/mail"
"""The database URL in the page's examples."""

SPOOL = "/var/lib/hookrow/spool.db:hookrow:600\n"
"""The only file that the receivers write, with its owner and mode."""

BASE = "docker.io/library/python:3.11-slim"
"""The Containerfile's base image; here Debian's Python under that name."""

IMAGE = "localhost/hookrow"

_PACKAGES = "python3-venv,python-is-python3,systemd-sysv,dbus,curl"
"""Packages of the base: for the Containerfile, and for systemd."""

_LIMITS = ("--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000")
"""podman's own limits need capabilities that root may lack here."""


class Podman:
    """Runs podman with one image, built from the clone. Nothing is pulled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._podman = [installed("podman", "podman"), "--runtime", installed("runc", "runc")]
        self._podman += ["--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def __call__(self, *arguments: object) -> str:
        """Run a command; return its output. Fails the test if the command fails."""
        command = [*self._podman, *map(str, arguments)]
        return _output(*command)

    def shell(self, commands: str) -> None:
        """Run commands in a shell, in which `podman` is this one."""
        _output("bash", "-ec", f'podman() {{ {shlex.join(self._podman)} "$@"; }}\n{commands}')

    @contextmanager
    def running(self, *arguments: object) -> Iterator[str]:
        """Run a container until the block ends; yield its name."""
        container = self("run", "--detach", *_LIMITS, *arguments).strip()
        try:
            yield container
        finally:
            self("rm", "--force", "--volumes", "--time=0", container)

    def build(self) -> None:
        """Build the image from the Containerfile, with packages that are fetched beforehand."""
        base, wheels = self._folder / "base.tar", self._folder / "wheels"
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        include = ("--variant=apt", f"--include={_PACKAGES}")
        _output(installed("mmdebstrap", "mmdebstrap"), *include, release, str(base))
        self("import", base, BASE)
        pip = (sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "wheel", "--quiet")
        extras = f"{ROOT}[postgres,serve,dashboard,metrics]"
        _output(*pip, "--wheel-dir", str(wheels), extras, "hatchling")
        offline = self._folder / "pip.conf"
        offline.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        self(
            *("build", "--format=docker", "--isolation=chroot", "--network=host"),
            *(f"--volume={wheels}:/wheels:ro", f"--volume={offline}:/etc/pip.conf:ro"),
            *("--build-arg=PYTHON=3.11", f"--file={ROOT}/deploy/Containerfile"),
            *(f"--tag={IMAGE}", ROOT),
        )

    def remove(self) -> None:
        """Remove all containers, images and files."""
        self("rm", "--all", "--force", "--time=0")
        self("rmi", "--all", "--force")
        shutil.rmtree(self._folder)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


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
    """Return the page's block of commands that contains a text."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    [found] = [each for each in blocks if containing in each]
    return str(found)


def test_the_container(podman: Podman, postgres: Databases, postgres_url: str) -> None:
    """The container records without root on a read-only file system, and stops cleanly."""
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
        """Run commands in a shell; return their output."""
        return self._podman("exec", self._container, "bash", "-ec", commands)

    def status(self, port: int) -> str:
        """Post an unsupported body with the newest secret; return the status."""
        return self(
            "curl --silent --output /dev/null --write-out '%{http_code}' --data '{}' "
            '--header "X-Provider-Secret: $(head -n 1 /etc/hookrow/secret)" '
            f"http://127.0.0.1:{port}/provider/webhooks"
        )

    def runs(self) -> bool:
        """Return whether systemd has started all units."""
        return "running" in self("systemctl is-system-running || true")

    def restarts(self) -> int:
        """Return how often systemd restarted a receiver."""
        return int(self("systemctl show --property=NRestarts --value hookrow@8002"))


@pytest.fixture
def machine(podman: Podman, postgres: Databases, empty_postgres_url: str) -> Iterator[Machine]:
    """Run systemd and set the service up as the page says."""
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
    """The unit starts, restarts, reloads its secrets, and recovers from a kill."""
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


@pytest.mark.parametrize("asked", [("verify",), ("security", "--offline=yes", "--threshold", "15")])
def test_systemd_accepts_the_unit(asked: tuple[str, ...], tmp_path: Path) -> None:
    """The unit has no fault, and an exposure of at most 1.5 of 10."""
    unit = tmp_path / "hookrow@.service"
    text = (ROOT / "deploy" / unit.name).read_text()
    unit.write_text(text.replace("/opt/hookrow/bin", str(Path(sys.executable).parent)))
    analyze = installed("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, *asked, str(unit).replace("@", "@8001")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
