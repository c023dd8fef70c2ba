"""Runs nginx in front of a server, with the configuration of a test, and similar programs."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
def running(folder: Path, port: int, sites: str) -> Iterator[Callable[[str], None]]:
    """Run nginx with these sites until the block ends; one of them listens at the port.

    Yield a function that replaces the sites.
    """
    user = "user root;" if os.geteuid() == 0 else ""

    def configured(sites: str) -> str:
        return f"""
        daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        {user}
        events {{ }}
        http {{
          access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
          fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
          {sites}
        }}
        """

    with _serving(folder, port, configured(sites)) as reload:
        yield lambda changed: reload(configured(changed))


@contextmanager
def forwarding(folder: Path, port: int, settings: str) -> Iterator[Callable[[str], None]]:
    """Run nginx with settings of its module `stream`, in which it listens at the port.

    Yield a function that replaces the settings.
    """
    if not STREAM.is_file():
        _skip("no ngx_stream_module: apt-get install libnginx-mod-stream")
    top = f"load_module {STREAM}; daemon off; pid {folder}/nginx.pid; events {{ }}"
    with _serving(folder, port, f"{top}\n{settings}") as reload:
        yield lambda changed: reload(f"{top}\n{changed}")


@contextmanager
def _serving(folder: Path, port: int, configuration: str) -> Iterator[Callable[[str], None]]:
    """Run nginx with a configuration; yield a function that replaces it."""
    nginx = installed("nginx", "nginx-light")
    file = folder / "nginx.conf"
    command = [nginx, *map(str, ("-p", folder, "-c", file, "-e", folder / "error.log"))]

    def reload(changed: str) -> None:
        former = _workers(folder)
        file.write_text(changed)
        subprocess.run([*command, "-s", "reload"], timeout=PATIENCE, check=True)
        # Until then, they accept connections.
        eventually(lambda: not former & _workers(folder))

    file.write_text(configuration)
    with listening(command, port, folder / "nginx.out"):
        yield reload


def _workers(folder: Path) -> set[str]:
    """Return the ids of the processes that accept connections."""
    pid = (folder / "nginx.pid").read_text().strip()
    workers = set()
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            title = Path(f"/proc/{each}/cmdline").read_bytes()
            if b"shutting down" not in title:
                workers.add(each)
    return workers
