"""Runs nginx in front of a server, with the configuration of a test, and similar programs."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from wire import PATIENCE, eventually, listens


def installed(program: str, package: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        reason = f"no {program}: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def listening(command: Sequence[object], port: int, log: Path) -> Iterator[None]:
    """Run a program that listens at a port until the block ends."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        eventually(lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def running(folder: Path, port: int, sites: str) -> Iterator[None]:
    """Run nginx with these sites until the block ends; one of them listens at the port."""
    file = folder / "nginx.conf"
    file.write_text(
        f"""
        daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        {"user root;" if os.geteuid() == 0 else ""}
        events {{ }}
        http {{
          access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
          fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
          {sites}
        }}
        """
    )
    nginx = installed("nginx", "nginx-light")
    command = [nginx, "-p", folder, "-c", file, "-e", folder / "error.log"]
    with listening(command, port, folder / "nginx.out"):
        yield
