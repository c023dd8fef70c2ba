"""The container and the systemd unit run, and systemd finds no fault in the unit."""

import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

import world
from nginx import installed
from postgres import Databases
from wire import AT, DELIVERY, PATIENCE, ask, eventually, free_port, listens, request

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs/how-to/deploy.md").read_text()

URL = "postgresql://mail:password@{}/mail"
"""The database URL in the page's examples."""

BASE = "docker.io/library/python:3.11-slim"
"""The Containerfile's base image; here Debian's Python under that name."""

IMAGE = "localhost/hookrow"

PACKAGES = "python3-venv,python-is-python3,systemd-sysv,dbus,curl"
"""Packages of the base: for the Containerfile, and for systemd."""

QUICK = [
    "--dpkgopt=force-unsafe-io",
    *(f"--dpkgopt=path-exclude=/usr/share/{unread}/*" for unread in ("doc", "locale", "man")),
]
"""Options of mmdebstrap for a temporary system."""

LIMITS = ("--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000")
"""Podman's own limits need capabilities that root may lack here."""

POST = """curl --silent --output /dev/null --write-out '%{{http_code}}' --data '{{}}' \
--header "X-Provider-Secret: $(head -n 1 /etc/hookrow/secret)" \
http://127.0.0.1:{}/provider/webhooks"""
"""Posts an unsupported body with the newest secret, and prints the status."""


class Podman:
    """Runs podman with one image, built from the clone. Nothing is pulled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._podman = [installed("podman", "podman"), "--runtime", installed("runc", "runc")]
        self._podman += ["--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def __call__(self, *arguments: object) -> str:
        """Run a command; return its output. Fails the test if the command fails."""
        return _output(*self._podman, *arguments)

    def shell(self, commands: str) -> None:
        """Run commands in a shell in which `podman` has these options."""
        _output("bash", "-ec", f'podman() {{ {shlex.join(self._podman)} "$@"; }}\n{commands}')

    @contextmanager
    def running(self, *arguments: object) -> Iterator[str]:
        """Run a container until the block ends; yield its name."""
        container = self("run", "--detach", *LIMITS, *arguments).strip()
        try:
            yield container
        finally:
            self("rm", "--force", "--volumes", "--time=0", container)

    def build(self) -> None:
        """Build the image from the Containerfile, with packages that are fetched beforehand."""
        with ThreadPoolExecutor() as threads:
            fetched = threads.submit(self._fetch_wheels)
            base = self._folder / "base.tar"
            release = platform.freedesktop_os_release()["VERSION_CODENAME"]
            options = ("--variant=apt", f"--include={PACKAGES}", *QUICK)
            _output(installed("mmdebstrap", "mmdebstrap"), *options, release, base)
            self("import", base, BASE)
            wheels = fetched.result()
        offline = self._folder / "pip.conf"
        offline.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        self(
            *("build", "--format=docker", "--layers=false", "--isolation=chroot"),
            *("--network=host", f"--volume={wheels}:/wheels:ro"),
            *(f"--volume={offline}:/etc/pip.conf:ro", "--build-arg=PYTHON=3.11"),
            *(f"--file={ROOT}/deploy/Containerfile", f"--tag={IMAGE}", ROOT),
        )

    def _fetch_wheels(self) -> Path:
        wheels = self._folder / "wheels"
        pip = (sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "wheel", "--quiet")
        extras = f"{ROOT}[postgres,mariadb,serve,dashboard,metrics]"
        _output(*pip, "--wheel-dir", wheels, extras, "hatchling")
        return wheels

    def remove(self) -> None:
        """Remove all containers, images and files."""
        self("rm", "--all", "--force", "--time=0")
        self("rmi", "--all", "--force")
        shutil.rmtree(self._folder)


def _output(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
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
    world.fill(postgres_url)
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
        secret = podman("exec", container, "printenv", "HOOKROW_SECRET").removesuffix("\n")
        assert ask(port, request(DELIVERY, secret=secret)).status == 200
        podman("healthcheck", "run", container)
        assert podman("exec", container, "id", "-u") == "10001\n"
        assert podman("exec", container, "ls", "/data") == "spool.db\nspool.db.lock\n"
        podman("stop", "--time=30", container)
        assert podman("inspect", "--format={{.State.ExitCode}}", container) == "0\n"
    assert world.rows(postgres_url)["dispatches"][0]["delivered_at"] == AT


def test_the_unit(podman: Podman, postgres: Databases, empty_postgres_url: str) -> None:
    """Set up as the page describes, it starts, restarts, reloads secrets, and survives a kill."""
    database = empty_postgres_url.replace(str(postgres.folder), "/srv/postgres")
    with podman.running(
        *("--systemd=always", "--privileged", "--network=none", "--user=0:0"),
        *(f"--volume={ROOT}:/src:ro", "--workdir=/src", "--entrypoint=/sbin/init"),
        *(f"--volume={postgres.folder}:/srv/postgres", IMAGE),
    ) as container:

        def run(commands: str) -> str:
            """Run commands in a shell, in the clone; return their output."""
            return podman("exec", container, "bash", "-ec", commands)

        running = "systemctl is-system-running || true"
        eventually(lambda: "running" in run(running), seconds=2 * PATIENCE)
        run(block("useradd").replace(URL.format("localhost"), database))
        run(block("systemctl restart"))
        assert run(POST.format(8001)) == "422"
        run(block('sed -i "1i'))
        eventually(lambda: run(POST.format(8001)) == "422")
        run(block("sed -i 2d"))
        run(block("systemctl enable --now hookrow.socket"))
        for _ in range(2):
            assert run(POST.format(8000)) == "422"
            run("systemctl restart hookrow.service")
        assert run(POST.format(8000)) == "422"
        run("systemctl stop hookrow.socket hookrow.service")
        run("systemctl kill --signal=KILL hookrow@8002")
        restarts = "systemctl show --property=NRestarts --value hookrow@8002"
        eventually(lambda: run(restarts) == "1\n")
        run("curl --silent --fail --retry 20 --retry-all-errors 127.0.0.1:8002/healthz")
        # The only files that they write.
        spool = "".join(f"/var/lib/hookrow/spool.db{end}:hookrow:600\n" for end in ("", ".lock"))
        assert run("stat --format %n:%U:%a /var/lib/hookrow/*") == spool
        assert run("systemctl --failed --quiet") == ""


@pytest.mark.parametrize("asked", [("verify",), ("security", "--offline=yes", "--threshold", "15")])
@pytest.mark.parametrize("name", ["hookrow@8001.service", "hookrow.service"])
def test_systemd_accepts_the_unit(name: str, asked: tuple[str, ...], tmp_path: Path) -> None:
    """The unit, and its socket, have no fault, and an exposure of at most 1.5 of 10."""
    for file in (ROOT / "deploy").glob("hookrow*.s*"):
        text = file.read_text().replace("/opt/hookrow/bin", str(Path(sys.executable).parent))
        (tmp_path / file.name).write_text(text)
    analyze = installed("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, *asked, tmp_path / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_units_differ_only_in_their_address() -> None:
    """Both units have the same limits and restrictions."""
    template, service = (
        (ROOT / "deploy" / name).read_text().splitlines()
        for name in ("hookrow@.service", "hookrow.service")
    )
    changed = [line for line in service if line not in template and not line.startswith("#")]
    assert [line.partition("=")[0] for line in changed] == [
        *("Description", "Requires", "After", "ExecStart")
    ]
    assert len(service) == len(template) + 1
