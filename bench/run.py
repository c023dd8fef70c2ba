"""Measures hookrow on this machine: `python bench/run.py [--json FILE]`, in about 80 seconds.

The server, the load and PostgreSQL share the machine's cores. The databases have
their defaults: every commit is on the disk before its notifications are answered.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from socket import create_server
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from timeit import Timer
from typing import Any, TypeAlias

from sqlalchemy import text

from data import SECRET, arrivals, fill, memory, payloads
from hookrow import Postmark
from hookrow.decide import decide, mentioned
from hookrow.receiver import record
from hookrow.stores import Store
from hookrow.stores.engines import open_engine
from hookrow.stores.sql import SQLStore

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))
from postgres import Server, find_binaries  # noqa: E402 - found by the line above

LOAD, SERVER = str(HERE / "load.py"), str(HERE / "server.py")
GROUPS = (1, 64, 256)
CONNECTIONS = (1, 64, 256)
SECONDS = 4.0

Row: TypeAlias = dict[str, Any]


def parsing() -> Iterator[Row]:
    """Time the pure steps, in microseconds for one notification."""
    bodies, parse = payloads()[:1000], Postmark(SECRET).parse
    yield _row("parse", _best(lambda: [parse(body) for body in bodies]) / 1000 * 1e6, "us", "< 2")
    group = arrivals()[:64]
    with memory(64).transaction() as transaction:
        rows = transaction.find(mentioned(group))
    each = _best(lambda: [decide(arrival, rows) for arrival in group]) / 64
    yield _row("decide, group of 64", each * 1e6, "us", "< 3")


def importing() -> Iterator[Row]:
    """Time `import hookrow` in a fresh interpreter, in milliseconds."""

    def run(code: str) -> float:
        begin = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return perf_counter() - begin

    differences = [run("import hookrow") - run("pass") for _ in range(9)]
    yield _row("import hookrow", median(differences) * 1000, "ms", "< 60")


def recording(name: str, store: Store) -> Iterator[Row]:
    """Record groups for a second each, in one thread, in notifications per second."""
    everything = arrivals()
    for size in GROUPS:
        # The memory store looks at all its rows, so it holds no more than these.
        limit = 256 if name == "memory" else len(everything) - size
        done, begin = 0, perf_counter()
        while (seconds := perf_counter() - begin) < 1.0:
            start = done % limit // size * size
            record(store, everything[start : start + size])
            done += size
        yield _row(f"record, {name}, group of {size}", done / seconds, "1/s")


def serving(target: str) -> Iterator[Row]:
    """Put a server under load; `target` is a database's URL or "floor"."""
    with _server(target) as (port, pid):
        for connections in CONNECTIONS:
            command = [sys.executable, LOAD, str(port), str(connections), str(SECONDS)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            yield {
                "target": target.partition(":")[0].partition("+")[0],
                "connections": connections,
                **json.loads(output),
                **_memory(pid),
            }


@contextmanager
def _server(target: str) -> Iterator[tuple[int, int]]:
    """Run a server until the block ends; yield its port and its process id."""
    with create_server(("127.0.0.1", 0), backlog=1024) as listener:
        port, descriptor = listener.getsockname()[1], listener.fileno()
        command = [sys.executable, SERVER, str(descriptor), target]
        with subprocess.Popen(command, pass_fds=[descriptor]) as process:
            try:
                # It listens before it is ready; this waits for its first answer.
                connection = HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request("GET", "/")
                connection.getresponse()
                connection.close()
                yield port, process.pid
            finally:
                process.terminate()


def _memory(pid: int) -> dict[str, float]:
    """Return a process's resident memory now and at its highest, in MB (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":", 1) for line in status.splitlines())
    return {name: int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


@contextmanager
def _databases() -> Iterator[dict[str, str]]:
    """Make and fill a database of each kind; return their URLs by name."""
    with TemporaryDirectory(dir=HERE) as folder, _postgres() as postgres:
        urls = {"sqlite": f"sqlite:///{folder}/bench.db", "postgresql": postgres}
        for url in urls.values():
            fill(open_engine(url))
        yield urls


@contextmanager
def _postgres() -> Iterator[str]:
    """Run the tests' own PostgreSQL, though with its defaults: fsync is on."""
    binaries = find_binaries(os.environ)
    assert binaries is not None, "no PostgreSQL to be had"
    server = Server(binaries, fsync=True)
    try:
        yield server.create()
    finally:
        server.remove()


def _facts(postgres: str) -> str:
    engine = open_engine(postgres)
    with engine.connect() as connection:
        version = connection.execute(text("SHOW server_version")).scalar()
    return (
        f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, PostgreSQL {version}"
    )


def _best(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of many runs: the others met a disturbance."""
    return min(Timer(run).repeat(repeat=200, number=2)) / 2


def _row(name: str, value: float, unit: str, target: str = "") -> Row:
    return {"name": name, "value": value, "unit": unit, "target": target}


def _print(row: Row, floors: dict[int, float]) -> None:
    if "name" in row:
        print("{name:38}{value:>12,.1f} {unit:4}{target}".format_map(row))
        return
    row["ratio"] = row["rate"] / floors.setdefault(row["connections"], row["rate"])
    print(
        "{target:12}{connections:>11}{rate:>10,.0f}{p50:>9.2f}{p99:>9.2f}{ratio:>9.2f}"
        "{errors:>8}{VmRSS:>8.0f}{VmHWM:>8.0f}".format_map(row)
    )


def main() -> None:
    """Run every part, print each result as it comes, write them all to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    file = parser.parse_args().json
    with _databases() as urls:
        print(facts := _facts(urls["postgresql"]), end="\n\n", flush=True)
        results = []
        floors: dict[int, float] = {}

        def note(rows: Iterator[Row]) -> None:
            for row in rows:
                _print(row, floors)
                results.append(row)

        note(parsing())
        note(importing())
        note(recording("memory", memory(256)))
        for name, url in urls.items():
            note(recording(name, SQLStore(url)))
        print(
            "\ntarget      connections      rate   p50 ms   p99 ms to floor  errors     RSS    peak"
        )
        for target in ("floor", *urls.values()):
            note(serving(target))
    if file:
        file.write_text(json.dumps({"machine": facts, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
