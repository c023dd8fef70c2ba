"""Variants measured in turns, because the machine may become faster or slower; a load's figures."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from environment import Database, cpu_seconds
from load import post

ROOT = Path(__file__).parents[1]

FIRST_VERSION = "b33a120"
"""The first commit with `record.py`; its version also measures the package of earlier commits."""


def alternate(turns: int, variants: Sequence[Callable[[], Mapping[str, float]]]) -> None:
    """Measure every variant in each turn; print each figure's medians and ratios."""
    figures: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for turn in range(turns):
        measured = [each() for each in variants]
        for name in measured[-1]:
            figures[name].append(tuple(each[name] for each in measured))
        print(f"turn {turn + 1} of {turns}", file=sys.stderr)
    for name, values in figures.items():
        print(f"{name:40} {format_turns(values)}")


def format_turns(turns: Sequence[tuple[float, ...]]) -> str:
    """Return the median of each column and, if there are two, their ratio and that of each turn."""
    medians = [median(column) for column in zip(*turns, strict=True)]
    text = " ".join(f"{each:9.2f}" for each in medians)
    if len(medians) == 1:
        return text
    ratios = " ".join(f"{each:.2f}" for each in sorted(turn[1] / turn[0] for turn in turns))
    return f"{text} {medians[1] / medians[0]:6.2f}  {ratios}"


def measure_load(
    port: int, pid: int, database: Database, connections: int, seconds: int, pause: int = 0
) -> dict[str, float]:
    """Put a server under load; return its figures by name. Every response must be 200."""
    before = cpu_seconds(pid), cpu_seconds(database.pid)
    load = post(port, connections, seconds, pause=pause)
    after = cpu_seconds(pid), cpu_seconds(database.pid)
    assert not load.errors, "not every response was 200"
    server, postgres = ((b - a) / load.answered * 1e6 for a, b in zip(before, after, strict=True))
    return {
        "server, us of CPU": server,
        **({"own processes, us of CPU": postgres} if database.pid else {}),
        "rate, per second": load.answered / load.seconds,
        "p50, ms": load.p50,
        "p99, ms": load.p99,
    }


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check out a commit beside this file, so that both trees use the same file system."""
    with TemporaryDirectory(dir=Path(__file__).parent) as folder:
        tree = Path(folder) / "tree"
        worktree = ("git", "-C", ROOT, "worktree")
        subprocess.run([*worktree, "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            if not (tree / "bench" / "record.py").is_file():
                files = ("git", "-C", tree, "checkout", "--quiet", FIRST_VERSION, "--")
                subprocess.run([*files, "bench", "tests"], check=True)
            yield tree
        finally:
            subprocess.run([*worktree, "remove", "--force", tree], check=True)
