"""The requirements in pyproject.toml. Run as a script, it prints the lowest versions for pip."""

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"

_FORM = re.compile(r"([\w-]+)(?:\[[\w,]+\])?[>=]=([\d.]+)(?:,<([\d.]+))?")


class Requirement(NamedTuple):
    """A package, the lowest supported version, and the first unsupported one, if there is any."""

    name: str
    lowest: str
    below: str | None


def requirements() -> Iterator[Requirement]:
    """Yield the requirements of the build, of hookrow and of its extras.

    Raises `ValueError` for one whose form is not `name[extra]>=x,<y` or `name==x`.
    """
    pyproject = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = pyproject["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    for line in chain(pyproject["build-system"]["requires"], project["dependencies"], extras):
        if line.startswith(f"{project['name']}["):
            continue
        match = _FORM.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r} does not have the form name>=x, name>=x,<y or name==x.")
        yield Requirement(*match.groups())


if __name__ == "__main__":
    sys.stdout.writelines(f"{each.name}=={each.lowest}\n" for each in requirements())
