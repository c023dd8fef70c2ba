"""The workflows and hooks of the public repository call targets that exist, and pinned actions."""

import re
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
