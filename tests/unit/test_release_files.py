"""The files of a release: what the sdist contains; the targets and actions that workflows call."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from requirements import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = {*re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.MULTILINE)}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"

CALL = r"(?:run|entry): make ([a-z-]+|\$\{\{ matrix\.target \}\})"


@pytest.mark.parametrize("file", [*WORKFLOWS, HOOKS], ids=lambda file: file.name)
def test_every_target_exists(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    called = {*re.findall(CALL, text)}
    if "${{ matrix.target }}" in called:
        called = called - {"${{ matrix.target }}"} | {*re.findall(r"target: ([a-z-]+)", text)}
    assert called
    assert called <= TARGETS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_every_action_is_pinned_to_a_commit(file: Path) -> None:
    """A tag or a branch may be moved to other code. Files of this repository need no commit."""
    used = re.findall(r"uses: (.+)", file.read_text(encoding="utf-8"))
    assert used
    for each in used:
        local = each.startswith("./") and (ROOT / each).is_file()
        assert local or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_windows_runs_the_commands_of_the_target() -> None:
    """Without make, which Windows lacks."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    commands = re.findall(r"^ +python -m (.+)$", workflow, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        made = command.replace("requirements/dev.txt", "$(LOCK)")
        assert made.removeprefix("pip install ") in MAKEFILE


def test_ci_runs_on_every_python_that_is_supported() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r'^ +python: (\["3.11", "3.12".*\])$', workflow, re.MULTILINE)
    assert matrix is not None
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    assert re.findall(r"3\.\d+", matrix[1]) == supported


def test_the_sdist_contains_what_the_repository_contains() -> None:
    """Except the scripts for its own CI, so that `make test` passes in an unpacked sdist."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is an unpacked sdist")
    command = ["git", "ls-files", "--cached"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = {path.partition("/")[0] for path in listed.stdout.splitlines()}
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = pyproject["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    packed = {path.name for pattern in included for path in ROOT.glob(pattern)}
    assert names - packed == {".ci", ".gitignore", "pyproject.toml"}  # hatch adds the last two
    assert packed <= names
