"""Processes that are measured: they are started, they become ready, and they cost something."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGKILL
from socket import create_server
from time import monotonic, sleep

HERE = Path(__file__).parent
PATIENCE = 30.0
"""In seconds; how long a server may take to become ready, or to end."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of a request."""

    status: int
    body: bytes


@contextmanager
def running(command: Sequence[object], port: int, variables: Mapping[str, str]) -> Iterator[int]:
    """Run a server on the port until the block ends; yield its process id once it answers."""
    process = subprocess.Popen(list(map(str, command)), cwd=HERE, env=os.environ | dict(variables))
    try:
        _wait(process, port)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            _kill(process.pid)  # or it would take its part of what is measured next
            raise


def _kill(pid: int) -> None:
    for each in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(each, SIGKILL)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with create_server(("127.0.0.1", 0)) as trial:
        port: int = trial.getsockname()[1]
    return port


def ask(
    port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send a request on a connection of its own: a POST where there is a body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.read())
    finally:
        connection.close()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = monotonic() + PATIENCE
    while process.poll() is None and monotonic() < until:
        with suppress(OSError):
            ask(port, "/")
            return
        sleep(0.02)
    raise RuntimeError(f"{process.args!r} does not answer.")


def tree(pid: int) -> list[int]:
    """Return the process and all that descend from it."""
    children = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            children[int(_stat(int(folder.name))[1])].append(int(folder.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def cores(pid: int) -> float:
    """Return for how long the process and its descendants kept cores busy, in seconds.

    Those that have ended count too, once their parent has asked for them (proc(5)).
    """
    ticks = 0
    for each in tree(pid):
        with suppress(OSError):
            ticks += sum(map(int, _stat(each)[11:15]))
    return ticks / _TICKS


def memory(pid: int) -> dict[str, float]:
    """Return a process's resident memory now and at its highest, in MB (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":", 1) for line in status.splitlines())
    return {name: int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


def largest(pid: int) -> float:
    """Return the most that any process of a tree ever had resident, in MB."""
    return max(memory(each)["VmHWM"] for each in tree(pid))


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/pid/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
