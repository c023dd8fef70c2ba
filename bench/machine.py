"""What it is measured on, and with which versions of everything."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sqlalchemy import text

from places import opened

PACKAGES = (
    "hookrow",
    "SQLAlchemy",
    "psycopg",
    "uvicorn",
    "uvloop",
    "httptools",
    "gunicorn",
    "Django",
    "django-anymail",
    "FastAPI",
    "pydantic",
    "asyncpg",
    "aiosqlite",
)


def facts(postgres: str) -> dict[str, str]:
    """Say what it is measured on, given the URL of a PostgreSQL database."""
    with opened(postgres) as engine, engine.connect() as connection:
        postgres_version = connection.execute(text("SHOW server_version")).scalar_one()
        folder = connection.execute(text("SHOW data_directory")).scalar_one()
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{_memory():.0f} GB",
        "file systems": f"{_file_system(folder)} for PostgreSQL, {_file_system('.')} for SQLite",
        "system": f"Linux {platform.release()}",
        "Python": platform.python_version(),
        "PostgreSQL": str(postgres_version),
        "SQLite": sqlite3.sqlite_version,
        "wrk": _wrk(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(),
    }


def told(facts: dict[str, str]) -> str:
    """Return the facts as a line."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3


def _file_system(folder: str) -> str:
    """Return its kind; one in memory would make every commit too quick."""
    command = ["stat", "--file-system", "--format=%T", folder]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _wrk() -> str:
    said = subprocess.run(["wrk", "-v"], stdout=subprocess.PIPE, text=True, check=False)
    return said.stdout.split()[1]


def _commit() -> str:
    """Return the clone's commit; a `+` says that what is measured was changed since."""
    root = Path(__file__).parents[1]

    def asked(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=False
        )
        return done.stdout.strip()

    changed = asked("status", "--porcelain", "src", "bench")
    return f"{asked('rev-parse', '--short', 'HEAD')}{'+' if changed else ''}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
