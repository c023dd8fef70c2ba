"""Who may import whom: the core has no I/O and no clock, and hookrow alone brings no extra."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hookrow

SOURCE = Path(hookrow.__file__).parent

CORE = ("notification", "decide", "entry", "postmark", "http", "schema", "errors")

# What the core may use beside itself: values and their types, and msgspec to read with.
# `Promise` is a type here: what waits for one lives in the shell.
HARMLESS = {
    "__future__",
    "collections",
    "collections.abc",
    "contextlib",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
    "hashlib",
    "hmac",
    "hookrow.promise",
    "msgspec",
    "types",
    "typing",
    "uuid",
}

CLOCK = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "sleep"}

# msgspec takes a look at the latter where something else installed it.
WITHOUT_EXTRAS = {"hookrow", "msgspec", "typing_extensions"}

EXTRAS = (
    "sqlalchemy",
    "alembic",
    "click",
    "uvicorn",
    "uvloop",
    "httptools",
    "starlette",
    "psycopg",
    "django",
    "jinja2",
)


def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / f"{module}.py").read_text())


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module


def _loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in an interpreter of its own."""
    script = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


class TestCore:
    @pytest.mark.parametrize("module", CORE)
    def test_imports(self, module: str) -> None:
        """A module of the core imports the core, msgspec and harmless things: no I/O, no log."""
        ours = {f"hookrow.{name}" for name in CORE}
        assert set(_imports(module)) <= HARMLESS | ours

    @pytest.mark.parametrize("module", CORE)
    def test_no_clock(self, module: str) -> None:
        """No module of the core asks what time it is: times arrive as arguments."""
        called = {
            node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            for node in ast.walk(_tree(module))
            if isinstance(node, ast.Call)
        }
        assert not called & CLOCK

    @pytest.mark.parametrize("module", CORE)
    def test_nothing_opened(self, module: str) -> None:
        """No module of the core reads a file or prints, for which nothing needs importing."""
        names = {node.id for node in ast.walk(_tree(module)) if isinstance(node, ast.Name)}
        assert not names & {"open", "print", "input", "exec", "eval", "__import__"}


class TestShell:
    @pytest.mark.parametrize(
        "module", ["batch", "deadline", "forks", "periodic", "promise", "quiet", "sizes"]
    )
    def test_knows_nothing_of_mail(self, module: str) -> None:
        """Group commit and its like know of forks and of logging, and of nothing else of ours."""
        ours = {name for name in _imports(module) if name.startswith("hookrow")}
        assert ours <= {"hookrow.forks", "hookrow.promise", "hookrow.quiet", "hookrow.sizes"}


class TestImportingHookrow:
    @pytest.mark.parametrize(
        ("statement", "modules"),
        [
            ("import hookrow", set()),
            (
                "from hookrow.__main__ import main",
                {"hookrow.__main__", "hookrow.errors", "hookrow.hangup"},
            ),
        ],
    )
    def test_almost_nothing(self, statement: str, modules: set[str]) -> None:
        """The package alone, and what the console script imports, load nothing that takes time."""
        loaded = _loaded_by(statement)
        others = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
        assert others == {"hookrow"} | modules
        assert not loaded & {"asyncio", "dataclasses", "logging", "typing"}

    def test_msgspec_and_the_standard_library(self) -> None:
        """All names load msgspec and the standard library, and nothing that is optional."""
        packages = {name.partition(".")[0] for name in _loaded_by("from hookrow import *")}
        assert {"hookrow", "msgspec"} <= packages - sys.stdlib_module_names <= WITHOUT_EXTRAS
        assert not packages & {"asyncio", "sqlite3", "ssl", *EXTRAS}

    def test_no_store_and_no_host(self) -> None:
        """All names load what a store is, but none of the stores and none of the hosts."""
        ours = {name for name in _loaded_by("from hookrow import *") if name.startswith("hookrow.")}
        shell = {
            *("receiver", "recording", "retry", "parked", "replay", "hooks", "periodic"),
            *("batch", "deadline", "forks", "promise", "quiet", "sizes"),
            *("stores", "stores.census", "stores.limits", "stores.log"),
            *("observing", "logs", "intake", "provider"),
        }
        assert ours == {f"hookrow.{name}" for name in (*CORE, *shell)}

    @pytest.mark.parametrize("module", ["hookrow.asgi", "hookrow.wsgi", "hookrow.stores.memory"])
    def test_no_extra_needed(self, module: str) -> None:
        """The ASGI and WSGI hosts and the store in memory need no extra, either."""
        packages = {name.partition(".")[0] for name in _loaded_by(f"import {module}")}
        assert {"hookrow"} <= packages - sys.stdlib_module_names <= WITHOUT_EXTRAS

    def test_the_command_brings_no_database_and_no_server(self) -> None:
        """A project of Django's has the commands without SQLAlchemy, and --help is quick."""
        loaded = {name.partition(".")[0] for name in _loaded_by("import hookrow.cli")}
        assert "click" in loaded
        assert not loaded & {"sqlalchemy", "alembic", "psycopg", "uvicorn"}

    def test_django_needs_its_extra(self) -> None:
        """Without Django the line that installs it is said."""
        script = "import sys; sys.modules['django'] = None; import hookrow.django"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"needs an extra: pip install 'hookrow[django]'" in done.stderr

    def test_the_dashboard_needs_its_extra(self) -> None:
        """Without Jinja2 the line that installs it is said."""
        script = "import sys; sys.modules['jinja2'] = None; import hookrow.dashboard"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"needs an extra: pip install 'hookrow[dashboard]'" in done.stderr

    def test_public_names(self) -> None:
        """Every public name is there, once and in order, and so is the version."""
        assert hookrow.__all__ == sorted(set(hookrow.__all__))
        assert all(hasattr(hookrow, name) for name in hookrow.__all__)
        assert hookrow.__version__.count(".") == 2
        assert set(hookrow.__all__) <= set(dir(hookrow))

    def test_public_names_are_typed(self) -> None:
        """Type checkers find each public name in the module from which it is imported."""
        typed = {
            name.name: node.module
            for node in ast.walk(_tree("__init__"))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hookrow.")
            for name in node.names
        }
        assert typed == hookrow._MODULES
        assert sorted(typed) == hookrow.__all__

    def test_no_other_name(self) -> None:
        """An unknown name raises AttributeError, as for any module; submodules are found."""
        with pytest.raises(AttributeError, match="module 'hookrow' has no attribute 'Reciever'"):
            hookrow.Reciever  # type: ignore[attr-defined]  # noqa: B018 - the name is what fails
        assert "hookrow.health" in _loaded_by("from hookrow import health")
