"""The bounds in pyproject.toml, and the private names of libraries that require upper bounds."""

import ast
import re
from collections.abc import Collection, Iterator
from dis import get_instructions
from functools import cache
from inspect import isfunction
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import pytest

import hookrow
from hookrow._server.protocol import UVICORN
from requirements import LOCK, requirements

pytestmark = pytest.mark.unmeasured


class Use(NamedTuple):
    """The attributes of a class that the code uses.

    `objects` are the names of variables and attributes that contain objects of the class; besides
    them, its subclasses use their own attributes. `private` names are those that the library's
    documentation does not mention, and `documented` the others.
    """

    objects: str
    private: str
    documented: str = ""


PRIVATE: dict[str, dict[str, Use]] = {
    "uvicorn": {
        "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": Use(
            "protocol",
            "connection_made connection_lost cycle data_received eof_received flow loop "
            "on_body on_header on_headers_complete on_message_begin on_message_complete "
            "on_response_complete parser pipeline resume_writing scope send_400_response "
            "server_state shutdown timeout_keep_alive timeout_keep_alive_handler transport",
        ),
        "uvicorn.protocols.http.flow_control:FlowControl": Use(
            "flow", "read_paused resume_reading"
        ),
        "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": Use(
            "cycle _running", "body response_complete response_started"
        ),
        "uvicorn.server:ServerState": Use("server_state", "default_headers"),
        "uvicorn:Server": Use(
            "server",
            "capture_signals config lifespan server_state servers should_exit shutdown",
            "run",
        ),
        "uvicorn:Config": Use(
            "config", "http_protocol_class timeout_worker_healthcheck", "workers"
        ),
        "uvicorn.config:STARTUP_FAILURE": Use("", ""),
        "uvicorn.supervisors.multiprocess:Multiprocess": Use(
            "workers",
            "config handle_hup handle_signals init_processes join_all keep_subprocess_alive "
            "processes run should_exit signal_queue sockets terminate_all",
        ),
        "uvicorn.supervisors.multiprocess:Process": Use(
            "process processes each running",
            "config exitcode is_alive join kill parent_conn pid process server start",
        ),
    },
    "django": {
        "django.http:HttpRequest": Use("", "_read_started"),
        "django.dispatch:Signal": Use("", "_log_robust_failure", "send_robust"),
        "django.db.backends.base.base:BaseDatabaseWrapper": Use(
            "connection _connection",
            "close_at close_if_health_check_failed close_if_unusable_or_obsolete connection "
            "ensure_connection errors_occurred features get_autocommit get_rollback "
            "in_atomic_block introspection ops "
            "timezone timezone_name wrap_database_errors",
            "alias close cursor execute_wrapper settings_dict vendor",
        ),
        "django.db.migrations.executor:MigrationExecutor": Use("executor", "loader migration_plan"),
    },
    # `_secure` is private, too, but also a name of hookrow's own.
    "pymysql": {"pymysql:Connect": Use("", "_sock", "_secure")},
    "werkzeug": {"werkzeug.wrappers:Request": Use("", "_cached_data")},
}
"""By library, and by `module:name`: classes, and other names of undocumented modules."""

UNDOCUMENTED = (
    *("uvicorn.config", "uvicorn.protocols", "uvicorn.server", "uvicorn.supervisors"),
    *("django.db.backends.base.base", "django.db.migrations.executor"),
)
"""Modules of which every name that the code imports is private."""

PUBLIC = {"_asdict", "_exit", "_fields", "_value_"}
"""Documented names that begin with an underscore: of named tuples, of `os` and of enums."""

UNBOUNDED = {"werkzeug"}  # comes with the host's Flask, which hookrow does not require

FILES = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for path in Path(hookrow.__file__).parent.rglob("*.py")
}
CLASSES = {
    node.name: node
    for tree in FILES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}

USES = [(path, use) for uses in PRIVATE.values() for path, use in uses.items()]


def _exists(path: str, attribute: str) -> bool:
    """Return whether the class has the attribute, or one of its methods sets it."""
    found = resolve_name(path)
    if hasattr(found, attribute):
        return True
    methods = filter(isfunction, (each for base in found.__mro__ for each in vars(base).values()))
    return any(
        step.opname == "STORE_ATTR" and step.argval == attribute
        for method in methods
        for step in get_instructions(method)
    )


@cache
def _importing(library: str) -> list[ast.Module]:
    """Return the files of the code that import a library, anywhere in the file."""
    return [
        tree
        for tree in FILES.values()
        if library in {each.partition(".")[0] for each in _imports(tree)}
    ]


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=[ast.alias(str(module))]) | ast.ImportFrom(module=str(module)):
                yield module


def _derives(node: ast.ClassDef, name: str) -> bool:
    """Return whether a class of the code is a subclass of the class with a name."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    own = [CLASSES[base] for base in bases & CLASSES.keys() - {node.name}]
    return name in bases or any(_derives(each, name) for each in own)


def _receiver(node: ast.Attribute) -> str:
    """Return the last name in the expression whose attribute is used: of `a.b[0].c`, it is `b`."""
    value = node.value
    if isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Call) and ast.unparse(value) == "super()":
        return "self"
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


def _attributes(tree: ast.AST, objects: Collection[str]) -> set[str]:
    """Return the attributes of objects with these names that a tree uses."""
    used = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in used if _receiver(node) in objects}


def _used(path: str, use: Use) -> set[str]:
    """Return the attributes of a class that the code uses, on its objects and in subclasses."""
    module, _, name = path.partition(":")
    names: set[str] = set()
    for tree in _importing(module.partition(".")[0]):
        names |= _attributes(tree, use.objects.split())
    for node in CLASSES.values():
        if _derives(node, name):
            names |= _attributes(node, ["self"])
            names |= _methods(node)
    return {each for each in names if not each.startswith("__") and _exists(path, each)}


@pytest.mark.parametrize(("path", "use"), USES, ids=[path for path, _ in USES])
def test_private_attributes_are_listed(path: str, use: Use) -> None:
    """If the installed version lacks one, lower the library's bound or adapt the code."""
    resolve_name(path)
    names = {*use.private.split(), *use.documented.split()}
    assert [name for name in names if not _exists(path, name)] == []
    found_by_name = {name for name in names if name.startswith("_")}
    assert _used(path, use) - found_by_name == names - found_by_name


def _underscored() -> Iterator[str]:
    """Yield the names with an underscore that the code uses, but does not define itself."""
    defined, used = {*PUBLIC}, set()
    for tree in FILES.values():
        for node in ast.walk(tree):
            match node:
                case (
                    ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.ClassDef(name=name)
                ):
                    defined.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    defined.add(name)
                case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                    defined.add(name)
                case ast.Attribute(attr=name):
                    used.add(name)
                case ast.Call(ast.Name("getattr"), [_, ast.Constant(str(name)), *_]):
                    used.add(name)
    modules = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    for name in used - defined - modules:
        if re.match("_(?!_)", name):
            yield name


def test_names_with_an_underscore_are_listed() -> None:
    """Those of overridden methods are among the names that the code defines."""
    names = {name for _, use in USES for name in use.private.split() if name.startswith("_")}
    defined = set().union(*map(_methods, CLASSES.values()))
    assert {*_underscored()} == names - defined


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


def test_undocumented_imports_are_listed() -> None:
    """Imports for type checkers only, too."""
    imported = {
        f"{node.module}:{name.name}"
        for tree in FILES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and f"{node.module}.".startswith(tuple(f"{module}." for module in UNDOCUMENTED))
        for name in node.names
    }
    listed = {path for path, _ in USES if path.startswith(UNDOCUMENTED)}
    assert imported == listed


def test_names_that_the_protocol_checks() -> None:
    """They are listed here, too."""
    listed = {name for use in PRIVATE["uvicorn"].values() for name in use.private.split()}
    assert {part for name in UVICORN for part in name.split(".")} <= listed


def test_bounds() -> None:
    """Only libraries whose private names are used have an upper bound, the same in all extras."""
    found = {*requirements()}
    assert {each.name for each in found if each.below is not None} == PRIVATE.keys() - UNBOUNDED
    assert len(found) == len({each.name for each in found})


def test_the_lock_has_the_version_of_each_package() -> None:
    """Of every extra and group, but not of the build, whose environment is pip's own.

    The lines name no server: the user's settings of pip choose it.
    """
    comment, *lines = LOCK.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# [^/@]+ see CONTRIBUTING\.md\.", comment)
    locked: dict[str, list[tuple[int, ...]]] = {}
    for line in lines:
        match = re.fullmatch(r"([a-z0-9-]+)==([\w.]+)(?: ; [\w ().<>=!'-]+)?", line)
        assert match is not None, line
        locked.setdefault(match[1], []).append(_numbers(match[2]))
    for each in requirements(of_build=False):
        versions = locked[each.name]
        assert min(versions) >= _numbers(each.lowest), each
        assert each.below is None or max(versions) < _numbers(each.below), each


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
