"""The requirements in pyproject.toml. Run as a script, it prints the lowest versions for pip."""

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
LOCK = ROOT / "requirements" / "dev.txt"

_FORM = re.compile(r"([\w-]+)(?:\[[\w,]+\])?[>=]=([\d.]+)(?:,<([\d.]+))?(?:; sys_platform .+)?")


class Requirement(NamedTuple):
    """A package, the lowest supported version, and the first unsupported one, if there is any."""

    name: str
    lowest: str
    below: str | None


def requirements(*, of_build: bool = True) -> Iterator[Requirement]:
    """Yield the requirements of hookrow, its extras, the dependency groups, and the build.

    Raises `ValueError` for one whose form is not `name[extra]>=x,<y` or `name==x`, of any system.
    """
    pyproject = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = pyproject["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    groups = chain.from_iterable(pyproject["dependency-groups"].values())
    build = pyproject["build-system"]["requires"] if of_build else []
    for line in chain(build, project["dependencies"], extras, groups):
        if not isinstance(line, str) or line.startswith(f"{project['name']}["):
            continue  # the names of groups and extras that it includes
        match = _FORM.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r} does not have the form name>=x, name>=x,<y or name==x.")
        yield Requirement(*match.groups())


if __name__ == "__main__":
    sys.stdout.writelines(f"{each.name}=={each.lowest}\n" for each in requirements())
