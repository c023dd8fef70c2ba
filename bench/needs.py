"""What the comparison needs besides hookrow's own dependencies, and how it is had.

Python's packages come by the extra `bench`; programs by Debian's packages, which only root
can install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec

from places import binaries
from subjects import ANYMAIL, FASTAPI, MOUNTED, Family, Subject

MODULES: dict[Family, Sequence[str]] = {
    ANYMAIL: ["anymail"],
    MOUNTED: ["anymail"],
    FASTAPI: ["asyncpg", "aiosqlite", "greenlet"],
}
"""What each family needs that the extra `dev` does not bring."""


def provided(wanted: Iterable[Subject]) -> list[Subject]:
    """Return those that can run, once what is missing is installed; say why others cannot.

    Without wrk nothing can be measured: the process then ends, and says what to install.
    """
    _install([name for name, has in PACKAGES.items() if not has()])
    if not _has_wrk():
        sys.exit("There is no wrk to make the load with: apt-get install wrk")
    if not has_pgbench():
        print("Skipped: the limit, for there is no pgbench: apt-get install postgresql")
    lacking = {family: _lacking(modules) for family, modules in MODULES.items()}
    for family, modules in lacking.items():
        if modules:
            print(f"Skipped: {family.name}, for there is no {', '.join(modules)}: make bench")
    return [subject for subject in wanted if not lacking.get(subject.family)]


def has_pgbench() -> bool:
    """Tell whether there is a pgbench beside the PostgreSQL that runs."""
    return (binaries() / "pgbench").is_file()


def _has_wrk() -> bool:
    return shutil.which("wrk") is not None


def _install(packages: Sequence[str]) -> None:
    """Install Debian's packages, where that can be done."""
    if not packages or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"Installing {' and '.join(packages)} with apt-get ...", flush=True)
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-qq", *arguments], check=False, stdout=subprocess.DEVNULL)


PACKAGES: Mapping[str, Callable[[], bool]] = {"wrk": _has_wrk, "postgresql": has_pgbench}
"""Debian's packages, and what tells that they are not needed."""


def _lacking(modules: Iterable[str]) -> list[str]:
    return [module for module in modules if find_spec(module) is None]
