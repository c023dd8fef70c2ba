"""The pages of figures: they are what the benchmark's results give, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("performance.md", "scale.md")
PARTS = ("growth", "workers", "groups", "settings", "soak")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of what the pages are written by, and into."""
    for each in ("bench", "docs"):
        shutil.copytree(ROOT / each, tmp_path / each)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    return tmp_path


def write(clone: Path, *scripts: str) -> None:
    """Write pages of the results that there are."""
    for each in scripts:
        subprocess.run([sys.executable, clone / "bench" / each], check=True)


def written(clone: Path) -> dict[str, str]:
    """Return the pages and their plots."""
    docs = clone / "docs"
    files = [docs / name for name in PAGES]
    files += [*docs.glob("performance/*.svg"), *docs.glob("scale/*.svg")]
    return {str(each.relative_to(docs)): each.read_text() for each in files}


def test_pages_say_what_was_measured(clone: Path) -> None:
    """Every figure and every plot is of the results that stand beside them."""
    for each in (clone / "docs").glob("*/*.svg"):
        each.unlink()
    write(clone, "page.py", "scale_page.py")
    assert written(clone) == written(ROOT)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_not_measured_is_said_to_be_missing(clone: Path, part: str) -> None:
    """The page of scale is written without it, and says how it is measured."""
    results = clone / "docs" / "scale" / "results.json"
    measured = json.loads(results.read_text())
    del measured[part]
    results.write_text(json.dumps(measured))
    write(clone, "scale_page.py")
    assert f"bench/scale.py --only {part}`" in written(clone)["scale.md"]


@pytest.mark.parametrize(
    "trial", [("--rows", "5000"), ("--turns", "0"), ("--minutes", "0.3"), ("--only", "vacuum")]
)
def test_what_cannot_be_measured_is_refused(trial: tuple[str, str]) -> None:
    """A measurement of nothing ends before it begins, in a sentence."""
    command = [sys.executable, str(ROOT / "bench" / "scale.py"), *trial]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
