"""Runs nginx in front of a server, with the configuration of a test, and similar programs."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from wire import PATIENCE, eventually, listens

STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
"""nginx's module for protocols other than HTTP, in Debian and its derivatives."""


def installed(program: str, package: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        _skip(f"no {program}: apt-get install {package}")
    return found


def _skip(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


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


@contextmanager
def forwarding(folder: Path, port: int, settings: str) -> Iterator[Callable[[str], None]]:
    """Run nginx with settings of its module `stream`, in which it listens at the port.

    Yield a function that replaces the settings.
    """
    nginx = installed("nginx", "nginx-light")
    if not STREAM.is_file():
        _skip("no ngx_stream_module: apt-get install libnginx-mod-stream")
    file = folder / "nginx.conf"
    command = [nginx, *map(str, ("-p", folder, "-c", file, "-e", folder / "error.log"))]
    top = f"load_module {STREAM}; daemon off; pid {folder}/nginx.pid; events {{ }}"

    def reload(changed: str) -> None:
        file.write_text(f"{top}\n{changed}")
        subprocess.run([*command, "-s", "reload"], timeout=PATIENCE, check=True)

    file.write_text(f"{top}\n{settings}")
    with listening(command, port, folder / "nginx.out"):
        yield reload
