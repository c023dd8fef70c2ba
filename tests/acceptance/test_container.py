"""The container runs, alone, with Compose and as a pod, and so does the systemd unit.

systemd finds no fault in the unit.
"""

import json
import os
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
import yaml

import world
from deploy_files import ANNOTATIONS, CONTAINER, DEPLOY, POD, RESOURCES
from nginx import installed
from postgres import Databases
from session import read_blocks
from wire import AT, DELIVERY, PATIENCE, SECRET, ask, eventually, free_port, get, listens, request

ROOT = Path(__file__).parents[2]

PAGE = "docs/how-to/deploy.md"

CONTAINERS = "docs/how-to/containers.md"

URL = "postgresql://mail:password@{}/mail"
"""The database URL in the page's examples."""

BASE = "docker.io/library/python:3.11-slim"
"""The Containerfile's base image; here Debian's Python under that name."""

IMAGE = str(CONTAINER["image"])

PACKAGES = "python3-venv,python-is-python3,systemd-sysv,dbus,curl"
"""Packages of the base: for the Containerfile, and for systemd."""

QUICK = [
    "--dpkgopt=force-unsafe-io",
    *(f"--dpkgopt=path-exclude=/usr/share/{unread}/*" for unread in ("doc", "locale", "man")),
]
"""Options of mmdebstrap for a temporary system."""

LIMITS = ("--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000")
"""Podman's own limits need capabilities that root may lack here."""

ULIMITS = {"nofile": {"soft": 1024, "hard": 4096}, "nproc": 1000}
"""The same limits in a compose file."""

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

    def shell(self, commands: str, folder: Path = ROOT) -> str:
        """Run commands in a shell in which `podman` has these options; return their output.

        `docker compose` is podman-compose, with an override file in the folder.
        """
        podman, *options = self._podman
        compose = [Path(sys.executable).with_name("podman-compose"), "--in-pod=false"]
        compose += ["--podman-path", podman, f"--podman-args={shlex.join(options)}"]
        compose += ["--file=compose.yaml", "--file=override.yaml"]
        functions = (
            f'podman() {{ {shlex.join(self._podman)} "$@"; }}\n'
            f'docker() {{ shift; {shlex.join(map(str, compose))} "$@"; }}\n'
        )
        return _output("bash", "-ec", f"{functions}cd {folder}\n{commands}")

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
        extras = f"{ROOT}[postgres,mariadb,serve,dashboard,metrics,signatures]"
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


def block(containing: str, page: str = PAGE) -> str:
    """Return the block of commands on a page that contains a text."""
    [found] = [each for each in read_blocks(page, "sh") if containing in each]
    return found


def test_the_container(podman: Podman, postgres: Databases, postgres_url: str) -> None:
    """The container records without root on a read-only file system, and stops cleanly."""
    world.fill(postgres_url)
    port = free_port()
    page = block("podman secret", CONTAINERS).replace(URL.format("db.example.com"), postgres_url)
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


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder on a disk for files that containers mount."""
    folder = Path(mkdtemp(prefix="hookrow-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def test_compose(
    podman: Podman, postgres: Databases, empty_postgres_url: str, folder: Path
) -> None:
    """Set up as the page describes, hookrow creates its tables, records, and reloads secrets.

    It uses the network of this machine, and the database of the test. `depends_on` is not followed,
    because podman runs health checks only with systemd.
    """
    port = free_port()
    for name in ("compose.yaml", "Caddyfile"):
        shutil.copy(DEPLOY / name, folder)
    here = {
        "network_mode": "host",
        "networks": None,
        "ulimits": ULIMITS,
        "environment": {"HOOKROW_PORT": str(port)},
        "volumes": [f"{postgres.folder}:{postgres.folder}"],
    }
    override = yaml.safe_dump({"services": {"upgrade": here, "hookrow": here}})
    (folder / "override.yaml").write_text(
        override.replace("networks: null", "networks: !reset null")
    )
    setup = block("install -d", CONTAINERS)
    [line] = re.findall(r"^database_url = .*$", setup, re.MULTILINE)
    podman.shell(setup.replace(line, f'database_url = "{empty_postgres_url}"'), folder)
    secrets = folder / "secrets/webhook_secret"
    try:
        podman.shell("docker compose run --rm --no-deps upgrade", folder)
        world.fill(empty_postgres_url)
        podman.shell("docker compose up --detach --no-deps hookrow", folder)
        eventually(lambda: listens(port), seconds=2 * PATIENCE)
        old = secrets.read_text().strip()
        assert ask(port, request(DELIVERY, secret=old)).status == 200
        podman.shell(block("--signal HUP", CONTAINERS), folder)
        new, *others = secrets.read_text().split()
        assert others == [old]
        eventually(lambda: ask(port, request(DELIVERY, secret=new)).status == 200)
        printed = podman.shell(block("hookrow stats", CONTAINERS), folder)
        assert printed.startswith("ok       status      OK: ")
    finally:
        podman.shell("docker compose down --volumes", folder)
    assert world.rows(empty_postgres_url)["dispatches"][0]["delivered_at"] == AT


def test_a_pod(podman: Podman, postgres: Databases, postgres_url: str, folder: Path) -> None:
    """With the mounts and restrictions of a pod, it records, and logs no warning."""
    world.fill(postgres_url)
    port = free_port()
    mounts = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    (folder / "hookrow.toml").write_text(RESOURCES["ConfigMap"]["data"]["hookrow.toml"])
    secret, user = folder / "webhook-secret", POD["securityContext"]["runAsUser"]
    secret.write_text(SECRET)
    # Kubernetes mounts it in this way because of `fsGroup`.
    os.chown(secret, 0, POD["securityContext"]["fsGroup"])
    [mode] = [each["secret"]["defaultMode"] for each in POD["volumes"] if "secret" in each]
    secret.chmod(mode)
    variables = {each["name"]: each.get("value", postgres_url) for each in CONTAINER["env"]}
    variables["HOOKROW_PORT"] = str(port)
    with podman.running(
        *("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=host"),
        *("--security-opt=no-new-privileges", f"--volume={postgres.folder}:{postgres.folder}"),
        *(f"--env={name}={value}" for name, value in variables.items()),
        f"--volume={folder}/hookrow.toml:{mounts['config']}/hookrow.toml:ro",
        f"--volume={secret}:{mounts['secret']}/{secret.name}:ro",
        *(f"--user={user}:{user}", IMAGE, *CONTAINER["args"]),
    ) as container:
        eventually(lambda: listens(port), seconds=2 * PATIENCE)
        for probe in ("startup", "liveness", "readiness"):
            assert get(port, CONTAINER[f"{probe}Probe"]["httpGet"]["path"]).status == 200
        assert ask(port, request(DELIVERY)).status == 200
        assert b"hookrow_status" in get(port, ANNOTATIONS["prometheus.io/path"]).body
        podman("stop", "--time=30", container)
        assert podman("inspect", "--format={{.State.ExitCode}}", container) == "0\n"
        log = podman.shell(f"podman logs {container} 2>&1").splitlines()
        assert {json.loads(line)["level"] for line in log} == {"info"}
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
