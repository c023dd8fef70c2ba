"""What `record()` costs: microseconds of CPU for each notification, with the log.

`python bench/record.py [--group N] [--django] [--against COMMIT --turns N]`. It measures the thread
that records, and PostgreSQL's own processes, over 20,000 notifications in groups; of four parts,
the cheapest counts. With --against, a commit and this tree take turns, each with its own copy of
this file, and medians are compared: only these figures are valid if the machine has other work.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

from sqlalchemy import create_engine

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
PARTS = 4


def main() -> None:
    """Print what `record()` costs, or compare it with another commit's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=32, help="notifications in a group")
    parser.add_argument("--django", action="store_true", help="through a Django project's store")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--turns", type=int, default=5, help="of each of the two")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.against:
        compare(given)
        return
    costs = dict(measure(given.group, django=given.django))
    print(
        json.dumps(costs) if given.json else "\n".join(f"{n:28} {c:6.1f}" for n, c in costs.items())
    )


def compare(given: argparse.Namespace) -> None:
    """Let the commit and this tree take turns; print medians, ratios and all ratios by turn."""
    costs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with checkout(given.against) as old:
        for turn in range(given.turns):
            before, now = _run(old, given), _run(ROOT, given)
            for name in now:
                costs[name].append((before[name], now[name]))
            print(f"turn {turn + 1} of {given.turns}", file=sys.stderr)
    print(f"{'':28} {'before':>7} {'now':>7} {'ratio':>6}  by turn")
    for name, pairs in costs.items():
        before, now = (median(each) for each in zip(*pairs, strict=True))
        ratios = " ".join(
            f"{b / a:.2f}" for a, b in sorted(pairs, key=lambda pair: pair[1] / pair[0])
        )
        print(f"{name:28} {before:7.1f} {now:7.1f} {now / before:6.2f}  {ratios}")


def measure(group: int, *, django: bool) -> Iterator[tuple[str, float]]:
    """Yield the costs on each database."""
    from data import SECRET, payloads
    from hookrow.providers.postmark import Postmark
    from hookrow.receiver.receiver import read

    provider = Postmark(SECRET)
    arrivals = [read(provider, body, datetime.now(UTC)) for body in payloads()]
    groups = [arrivals[n : n + group] for n in range(0, len(arrivals) - group + 1, group)]
    gc.freeze()
    with _databases() as found:
        for name, (url, pid) in found.items():
            with _store(url, django=django) as store:
                thread, server = _cost(store, groups, pid)
            yield name, thread
            if pid:
                yield f"{name}'s own processes", server


def _cost(store: Any, groups: Sequence[Sequence[Any]], pid: int | None) -> tuple[float, float]:  # noqa: ANN401 - of any commit
    """Return what the thread spends, at least, and what the server spends."""
    from hookrow.receiver.recorder import record
    from processes import cores

    began, spent, part = cores(pid) if pid else 0.0, [], len(groups) // PARTS
    for n in range(PARTS):
        some, before = groups[n * part : (n + 1) * part], thread_time()
        for each in some:
            record(store, each)
        spent.append((thread_time() - before) / sum(map(len, some)))
    server = (cores(pid) - began) / sum(map(len, groups)) if pid else 0.0
    return min(spent) * 1e6, server * 1e6


@contextmanager
def _databases() -> Iterator[Mapping[str, tuple[str, int | None]]]:
    """Create and fill a database of each kind; yield URLs and PostgreSQL's process id."""
    from data import fill
    from postgres import Server, find_binaries

    binaries = find_binaries(os.environ)
    assert binaries is not None, "the extra dev brings PostgreSQL's programs"
    server = Server(binaries, fsync=True)
    try:
        with TemporaryDirectory(dir=ROOT / "bench") as folder:
            found = {
                "PostgreSQL": (server.create(), server.pid),
                "SQLite": (f"sqlite:///{folder}/bench.db", None),
            }
            for url, _ in found.values():
                engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
                fill(engine)
                if url.startswith("sqlite"):
                    with engine.connect() as connection:
                        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                engine.dispose()
            yield found
    finally:
        server.remove()


@contextmanager
def _store(url: str, *, django: bool) -> Iterator[Any]:
    from hookrow.stores.sql import SQLStore

    if not django:
        with closing(SQLStore(url)) as store:
            yield store
        return
    import django as package
    from django.conf import settings
    from django.db import connections

    from django_project.manage import database

    if not settings.configured:
        apps = ["hookrow.django", "hookrow.django.tables"]
        settings.configure(INSTALLED_APPS=apps, DATABASES={"default": database(url)})
        package.setup()
    from hookrow.django.store import DjangoStore

    connections["default"].close()
    del connections["default"]
    configured = connections.configure_settings({"default": database(url)})
    connections.settings["default"] = configured["default"]
    yield DjangoStore()
    connections["default"].close()


def _run(tree: Path, given: argparse.Namespace) -> Mapping[str, float]:
    """Measure the package of a tree with the tree's own file, in a process of its own.

    Modules and functions may have other names in another commit.
    """
    file = os.fspath(tree / "bench" / "record.py")
    command = [sys.executable, file, "--json", "--group", str(given.group)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        command + ["--django"] * given.django,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    costs: Mapping[str, float] = json.loads(done.stdout)
    return costs


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check out a commit in a folder, which is yielded."""
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    main()
