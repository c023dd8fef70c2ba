"""Variants that are measured in turns, because the machine may become faster or slower."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

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
