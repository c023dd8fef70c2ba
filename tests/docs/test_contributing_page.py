"""The map of the code in CONTRIBUTING.md is correct and complete."""

import re
from pathlib import Path

from session import ROOT

SOURCE = ROOT / "src" / "hookrow"
MAP = (ROOT / "CONTRIBUTING.md").read_text().partition("\nsrc/hookrow/\n")[2].partition("```")[0]


def read_map() -> dict[Path, str]:
    """Return the files and folders that the map names, each with its description."""
    named: dict[Path, str] = {}
    folders = [SOURCE]
    for line in filter(None, MAP.splitlines()):
        names, _, text = line.strip().partition("  ")
        del folders[(len(line) - len(line.lstrip())) // 2 :]
        paths = [folders[-1] / name for name in names.split()]
        named |= dict.fromkeys(paths, text)
        folders.append(paths[0])
    return named


def test_all_names_exist() -> None:
    """Descriptions name modules of their own package only."""
    named = read_map()
    described = {
        folder / name for folder, text in named.items() for name in re.findall(r"\w+\.py", text)
    }
    assert [path for path in {*named, *described} if not path.exists()] == []


def test_all_packages_and_top_modules_are_named() -> None:
    """Except those that Django prescribes by name."""
    packages = {path.parent for path in SOURCE.rglob("__init__.py")} - {SOURCE}
    own = {path for path in packages if not {"management", "migrations"} & {*path.parts[-2:]}}
    modules = {path for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    assert modules | own <= {*read_map()}
