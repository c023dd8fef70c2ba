"""Imports go one way; the core has no I/O and no clock; hookrow alone needs no extra."""

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import hookrow

pytestmark = pytest.mark.unmeasured

SOURCE = Path(hookrow.__file__).parent

CORE = (
    *(f"_core.{path.stem}" for path in sorted((SOURCE / "_core").glob("[!_]*.py"))),
    *("providers", "providers._base", "providers._built_in", "providers._json"),
    *("providers._message_ids", "providers._postmark_payloads"),
    *("providers._secrets", "providers._unreadable", "providers.postmark"),
    *("_http", "_fault", "errors", "_arguments", "_models"),
)

assert "_core.rules" in CORE

# The modules that the core may import: values and their types, and msgspec for parsing.
# `asyncio` is imported only for a type, `threading` only for the longest timeout, `random` creates
# the ids of requests, `secrets` those of simulated ones, and `sys` has the limits of numbers.
HARMLESS = {
    *("__future__", "abc", "asyncio", "collections", "collections.abc", "contextlib"),
    *("dataclasses", "datetime", "difflib", "enum", "functools", "hashlib", "hmac"),
    *("html", "inspect", "ipaddress", "itertools", "json", "math", "msgspec", "msgspec.structs"),
    *(
        "operator",
        "random",
        "re",
        "secrets",
        "sys",
        "threading",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "uuid",
    ),
}
FORBIDDEN = {
    *("now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "sleep"),
    *("open", "print", "input", "exec", "eval", "__import__"),
}


ORDER = (
    *("_fault", "errors", "_arguments", "_models", "_core", "_http", "http"),
    *("_environ", "_faults", "_concurrency"),
    *("stores", "_observability", "providers"),
    *("metrics", "tracing", "_receiver"),
    *("_describe", "_near_misses", "_statistics", "_migrations", "migrations"),
    *("_diagnostics", "_postmark_api", "readiness", "asgi", "wsgi", "fastapi", "flask"),
    *("testing", "pytest_plugin", "dashboard", "django"),
    *("_server", "_demo", "_cli", "__main__"),
    *("django._commands", "django.management"),
)
"""The parts of hookrow: each imports only from itself and from those before it."""


def _part(module: str) -> str:
    """Return the part that contains a module, whose name does not begin with `hookrow.`."""
    return max((each for each in ORDER if f"{module}.".startswith(f"{each}.")), key=len)


def _tree(module: str) -> ast.Module:
    path = SOURCE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (_loaded(node.module, name.name) for name in node.names)


def _loaded(module: str, name: str) -> str:
    """Return the module in which `from module import name` finds the name."""
    folder = SOURCE.parent / module.replace(".", "/")
    if (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists():
        return f"{module}.{name}"
    return hookrow._MODULES.get(name, module) if module == "hookrow" else module


@pytest.mark.parametrize("module", CORE)
def test_the_core_imports_only_itself_reads_no_clock_and_opens_nothing(module: str) -> None:
    ours = {"hookrow", *(f"hookrow.{name}" for name in CORE)}
    assert {*_imports(module)} <= HARMLESS | ours
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Call)
    }
    assert not called & FORBIDDEN


def test_the_harmless_modules_are_those_that_the_core_imports() -> None:
    assert HARMLESS - {name for module in CORE for name in _imports(module)} == set()


def test_imports_go_one_way() -> None:
    """In Django, only `manage.py hookrow` needs the server and the command."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    modules = {".".join(path.parts) for path in paths} - {"__init__"}
    assert {_part(module) for module in modules} == {*ORDER}
    wrong = {
        f"{module} imports {name}"
        for module in modules
        for name in _imports(module)
        if name.startswith("hookrow.")
        and _part(name.removeprefix("hookrow.")) not in ORDER[: ORDER.index(_part(module)) + 1]
    }
    assert not wrong


def test_no_module_imports_itself_through_others() -> None:
    """Imports in functions and for type checkers only do not run when a module is loaded."""
    files = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path
        for path in SOURCE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph = {
        name: {*_imported_on_load(ast.parse(path.read_text()).body)} & modules.keys() - {name}
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > len(graph), "imports are found"
    TopologicalSorter(graph).prepare()  # raises `CycleError`


def test_each_public_module_can_be_imported_first() -> None:
    """An import inside of a function may be in a cycle; one that runs at import time must not be.

    Those of Django need a project.
    """
    found = {
        f"hookrow.{'.'.join(path.relative_to(SOURCE).with_suffix('').parts)}"
        for path in SOURCE.rglob("*.py")
        if path.stem != "__main__"
    }
    public = {name.removesuffix(".__init__") for name in found if "._" not in name[:-9]}
    lazy = {f"hookrow.{name.removeprefix('hookrow.')}" for name in hookrow._MODULES.values()}
    modules = sorted(each for each in public | lazy if not each.startswith("hookrow.django"))
    assert {"hookrow.stores.sql", "hookrow.asgi", "hookrow.testing"} <= {*modules}
    script = f"""
import importlib, sys
for name in {modules}:
    for loaded in [each for each in sys.modules if each.partition('.')[0] == 'hookrow']:
        del sys.modules[loaded]
    importlib.import_module(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_no_class_has_the_name_of_another() -> None:
    """A reader who searches for a name finds one class; Django chooses `Meta` and `Migration`."""
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == {"Meta", "Migration"}


def test_no_constant_has_the_name_of_another() -> None:
    """Nor the name with an underscore. Django chooses one, and one letter is a type variable.

    The modules of providers are parallel, so the same part of each may have the same name.
    """
    names = Counter(
        name
        for _, name in {
            (path.parent if path.parent.name == "providers" else path, name.id.strip("_"))
            for path in SOURCE.rglob("*.py")
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
    )
    repeated = {name for name, count in names.items() if count > 1 and len(name) > 1}
    assert repeated == {"all", "logger", "app_name"}


def _imported_on_load(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what statements import when they run: modules, and names that may be modules."""
    for each in statements:
        if isinstance(each, ast.Import):
            yield from (name.name for name in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module is not None:
            yield from (_loaded(each.module, name.name) for name in each.names)
        elif isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            yield from _imported_on_load(each.orelse)
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imported_on_load(ast.iter_child_nodes(each))


STEPS = (
    "import hookrow",
    "from hookrow.__main__ import main",
    "from hookrow import *",
    "import hookrow.asgi, hookrow.wsgi, hookrow.testing",
    "import hookrow._cli",
)


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Run the steps one after the other; return the modules that are loaded after each."""
    script = f"""
import json, sys
before, loaded = {{*sys.modules}}, {{}}
for step in {STEPS}:
    exec(step, {{}})
    loaded[step] = [*{{*sys.modules}} - before]
print(json.dumps(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-Wignore", "-c", script], capture_output=True, text=True, check=True
    )
    return {step: {*modules} for step, modules in json.loads(done.stdout).items()}


def _foreign(modules: Collection[str]) -> set[str]:
    """Return the modules that are not the standard library's."""
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


def _packages(modules: Collection[str]) -> set[str]:
    return {name.partition(".")[0] for name in _foreign(modules)}


def test_little_is_loaded_and_public_names_need_no_extra(loaded: dict[str, set[str]]) -> None:
    """The command line starts without SQLAlchemy and uvicorn, which Django projects lack."""
    package, script, names, hosts, cli = loaded.values()
    assert _foreign(package) == {"hookrow"}
    ours = ("__main__", "errors", "_server")
    assert _foreign(script) == {"hookrow", *(f"hookrow.{name}" for name in ours)}
    assert not script & {"asyncio", "dataclasses", "logging", "typing"}
    # msgspec imports `typing_extensions` if it is installed.
    for modules in (names, hosts):
        assert _packages(modules) <= {"hookrow", "msgspec", "typing_extensions"}
    assert _packages({*_imports("pytest_plugin")}) == {"hookrow", "pytest"}
    assert not names & {"asyncio", "sqlite3", "ssl"}
    parts = {name.split(".")[1] for name in names if name.startswith("hookrow.")}
    assert not parts & {"asgi", "wsgi", "fastapi", "flask", "dashboard", "django", "_cli"}
    assert not names & {"hookrow.stores.sql", "hookrow._server.app"}
    assert "click" in _packages(cli)
    assert not _packages(cli) & {"sqlalchemy", "alembic", "psycopg", "uvicorn", "jinja2", "django"}


def test_every_public_name_is_listed_and_typed() -> None:
    typed = {
        name.name: node.module
        for node in ast.walk(_tree("__init__"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hookrow.")
        for name in node.names
    }
    assert typed == hookrow._MODULES
    assert sorted(typed) == hookrow.__all__
    assert all(hasattr(hookrow, name) for name in hookrow.__all__)
    assert {*hookrow.__all__} <= {*dir(hookrow)}
    assert hookrow.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="module 'hookrow' has no attribute 'Reciever'"):
        hookrow.Reciever  # type: ignore[attr-defined]  # noqa: B018 - the name is what fails
