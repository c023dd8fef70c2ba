"""Containers of the tests' own: podman with a storage that is gone at the end."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nginx import installed

ROOT = Path(__file__).parents[2]

BASE = "docker.io/library/python:3.11-slim"
"""What the Containerfile is built on here: Debian's Python, under the name that it asks for."""

IMAGE = "localhost/hookrow"

_PACKAGES = "python3-venv,python-is-python3,systemd-sysv,dbus,curl"
"""Of the base: what the Containerfile needs, and besides what the unit is tried with."""

_LIMITS = ("--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000")
"""podman's own are more than a root without all its capabilities may have."""


class Podman:
    """Runs podman. Nothing is pulled: there is one image, made of the clone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._podman = [installed("podman", "podman"), "--runtime", installed("runc", "runc")]
        self._podman += ["--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def __call__(self, *arguments: object) -> str:
        """Run a command; return what it prints. Raises `CalledProcessError` where it fails."""
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
        """Build the image as the Containerfile says, of packages that are fetched beforehand."""
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
        """Leave nothing."""
        self("rm", "--all", "--force", "--time=0")
        self("rmi", "--all", "--force")
        shutil.rmtree(self._folder)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
