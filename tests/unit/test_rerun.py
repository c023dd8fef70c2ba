"""`tests/rerun.py`: a test that fails once and then passes is flaky; other failures are final."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from rerun import MARK
from session import ROOT

PASSING = """
    def test_it():
        pass
"""

FAILING = """
    def test_it():
        assert False
"""

FLAKY = """
    def test_it():
        assert not is_first()
"""

FLAKY_FIXTURE = """
    @pytest.fixture
    def fixture():
        assert not is_first()

    def test_it(fixture):
        pass
"""

NEVER_FLAKY = f"""
    pytestmark = pytest.mark.{MARK}

    def test_it():
        assert not is_first()
"""

BROKEN = """
    import a_module_that_does_not_exist
"""

CRASHING = """
    def test_it():
        if is_first():
            os._exit(1)
"""

SKIPPED_LATER = """
    def test_it():
        if not is_first():
            pytest.skip("no longer")
        assert False
"""

RENAMED_LATER = """
    @pytest.mark.parametrize("is_first", [is_first()])
    def test_it(is_first):
        assert not is_first
"""

TOP = """\
import os, pathlib, pytest

def is_first():
    file = pathlib.Path(__file__ + ".ran")
    if file.exists():
        return False
    file.touch()
    return True
"""

RERUN, FINAL, FLAKY_LIST = (
    "Running once more, by themselves:",
    "Not run again, because these failures are final:",
    "Flaky: failed once, then passed:",
)


@pytest.mark.parametrize(
    ("files", "options", "status", "printed"),
    [
        ([PASSING], [], 0, []),
        ([], [], 5, []),
        ([PASSING, FLAKY, FLAKY_FIXTURE], [], 0, [RERUN, 1, 2, FLAKY_LIST, 1, 2]),
        ([PASSING, FLAKY], ["--numprocesses=2"], 0, [RERUN, 1, FLAKY_LIST, 1]),
        ([FLAKY, FAILING], [], 1, [RERUN, 0, 1]),
        ([FLAKY, NEVER_FLAKY], [], 1, [FINAL, 1]),
        ([FLAKY, NEVER_FLAKY], ["--numprocesses=2"], 1, [FINAL, 1]),
        ([FLAKY, CRASHING], ["--numprocesses=2"], 1, [FINAL, 1]),
        ([FLAKY, BROKEN], [], 2, []),
        ([FLAKY, BROKEN], ["--continue-on-collection-errors"], 1, [FINAL, "test_1.py"]),
        ([FLAKY, PASSING], ["--exitfirst"], 1, [FINAL, "stopping after 1 failures"]),
        ([SKIPPED_LATER], [], 1, [RERUN, 0, "Did not pass when run once more:", 0]),
        ([RENAMED_LATER], [], 1, [RERUN, "test_0.py::test_it[True]"]),
        ([FLAKY], ["--an-unknown-option"], 4, []),
    ],
    ids=[
        *("passes", "no tests", "flaky", "flaky in a worker", "failing"),
        *("never flaky", "never flaky in a worker", "crash of a worker"),
        *("broken file", "broken file, continued", "stopped early"),
        *("skipped later", "renamed later", "usage"),
    ],
)
def test_runs(
    tmp_path: Path, files: list[str], options: list[str], status: int, printed: list[str | int]
) -> None:
    """The exit status, and the lists that are printed; a number is that of a file's test."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n  {MARK}\nstrict_markers = true\n")
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(TOP + dedent(text))
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "rerun.py", *options],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **plugins},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stdout
    expected = [f"test_{each}.py::test_it" if isinstance(each, int) else each for each in printed]
    assert list(listed(done.stdout)) == expected


def listed(text: str) -> Iterator[str]:
    """Yield the titles and the lines of the lists that `rerun.py` prints."""
    is_listed = False
    for line in text.splitlines():
        is_title = line.endswith(":") and line.split()[0] in {"Running", "Not", "Flaky:", "Did"}
        is_listed = is_title or (is_listed and line.startswith("  "))
        if is_listed:
            yield line.strip()
