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


def provide() -> None:
    """Install the programs that are missing; end the process where there is no wrk to be had."""
    missing = [name for name, has in PACKAGES.items() if not has()]
    if missing:
        _install(missing)
    if not _has_wrk():
        sys.exit("There is no wrk to make the load with: as root, apt-get install wrk")


def provided(wanted: Iterable[Subject]) -> list[Subject]:
    """Return those that can run, once what is missing is installed; say why others cannot."""
    provide()
    if not has_pgbench():
        print("Skipped: pgbench, for there is none: as root, apt-get install postgresql")
    wanted = list(wanted)
    lacking = {
        family: missing
        for family in dict.fromkeys(each.family for each in wanted)
        if (missing := _lacking(MODULES.get(family, ())))
    }
    for family, modules in lacking.items():
        print(f"Skipped: {family.name}, for there is no {', '.join(modules)}: make bench")
    return [subject for subject in wanted if subject.family not in lacking]


def has_pgbench() -> bool:
    """Tell whether there is a pgbench beside the PostgreSQL that runs."""
    return (binaries() / "pgbench").is_file()


def _has_wrk() -> bool:
    return shutil.which("wrk") is not None


def _install(packages: Sequence[str]) -> None:
    """Install Debian's packages, or say why that cannot be done."""
    named = " and ".join(packages)
    if not shutil.which("apt-get"):
        print(f"There is no apt-get to install {named} with.")
    elif os.geteuid() != 0:
        print(f"Only root can install {named}.")
    else:
        print(f"Installing {named} with apt-get ...", flush=True)
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            done = subprocess.run(
                ["apt-get", "-qq", *arguments],
                check=False,
                capture_output=True,
                text=True,
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            )
            if done.returncode:
                print(f"apt-get {arguments[0]} failed: {done.stderr.strip()}")


PACKAGES: Mapping[str, Callable[[], bool]] = {"wrk": _has_wrk, "postgresql": has_pgbench}
"""Debian's packages, and what tells that they are not needed."""


def _lacking(modules: Iterable[str]) -> list[str]:
    return [module for module in modules if find_spec(module) is None]
