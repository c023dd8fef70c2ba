"""The bounds in pyproject.toml, and the private names of libraries that upper bounds are for."""

from __future__ import annotations

from dis import get_instructions
from importlib.metadata import version
from inspect import isfunction
from pkgutil import resolve_name

import pytest

from requirements import requirements

# Undocumented names, by library: `module:name` or `module:class.attribute`, and their use here.
PRIVATE: dict[str, dict[str, str | dict[str, str]]] = {
    "uvicorn": {
        "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": {
            "connection_made": "starts the time limit for a head",
            "connection_lost": "ends the time limits",
            "data_received": "counts bytes, and responds to a complete notification",
            "on_headers_complete": "holds a notification back from ASGI",
            "on_body": "collects a body",
            "on_message_complete": "marks a notification as complete",
            "on_response_complete": "continues with the next request",
            "send_400_response": "is replaced by a 431",
            "cycle": "whether a request is in progress",
            "expect_100_continue": "such a request goes through ASGI",
            "flow": "whether writing is paused",
            "headers": "of the request",
            "loop": "runs the timers",
            "parser": "the method, the HTTP version and keep-alive",
            "server_state": "has the default headers",
            "transport": "receives the response",
            "url": "of the request",
        },
        "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": {
            "keep_alive": "is set for a notification that goes through ASGI",
            "message_event": "is awaited by ASGI, and ignored without it",
            "response_complete": "whether a request is in progress",
        },
        "uvicorn.protocols.http.httptools_impl:STATUS_LINE": "the first line of a response",
        "uvicorn.config:STARTUP_FAILURE": "the exit status",
        "uvicorn.server:ServerState": {"default_headers": "of each response"},
        "uvicorn.config:Config": {
            "loaded_app": "leads to the receiver",
            "timeout_worker_healthcheck": "until a worker is taken to hang",
        },
        "uvicorn.supervisors.multiprocess:Multiprocess": {
            "handle_hup": "is replaced: the workers read their secrets again",
            "handle_signals": "is extended by a SIGHUP that came earlier",
            "init_processes": "starts the workers",
            "join_all": "is extended: kills workers that do not stop",
            "keep_subprocess_alive": "is replaced: waits for no worker",
            "processes": "the workers",
            "run": "is replaced: checks more often",
            "should_exit": "whether the server stops",
            "signal_queue": "whether another SIGTERM or SIGINT has arrived",
            "sockets": "for another worker",
            "terminate_all": "ends the workers",
        },
        "uvicorn.supervisors.multiprocess:Process": {
            "exitcode": "whether a worker failed to start",
            "join": "waits until a worker has ended",
            "kill": "ends a worker that hangs",
            "parent_conn": "is sent pings, and answers them",
            "pid": "is sent SIGHUP",
            "process": "whether a worker runs",
            "start": "starts a worker",
        },
    },
    "prometheus-client": {
        "prometheus_client.values:ValueClass": "adds the observations of a group at once",
    },
    "sqlalchemy": {
        "sqlalchemy.exc:DBAPIError": {"instance": "wraps an error of the driver"},
    },
    "django": {
        "django.http:HttpRequest": {"_read_started": "whether a body has been read"},
        "django.db.models.sql:Query": {
            "chain": "makes an UPDATE of a query",
            "get_compiler": "makes SQL of a query",
        },
        "django.db.models.sql:UpdateQuery": {"add_update_values": "sets the values of an UPDATE"},
        "django.db.models.sql.compiler:SQLCompiler": {
            "get_converters": "converts what is selected",
            "select": "what is selected",
        },
        "django.db.backends.base.base:BaseDatabaseWrapper": {
            "close_if_unusable_or_obsolete": "replaces a lost connection",
            "errors_occurred": "whether a connection may be lost",
        },
        "django.db.backends.sqlite3.base:DatabaseWrapper": {
            "transaction_mode": "is IMMEDIATE, to lock the file at the start",
        },
        "django.db.migrations.executor:MigrationExecutor": {
            "migration_plan": "finds migrations that are not applied",
        },
    },
    "werkzeug": {
        "werkzeug.wrappers:Request": {"_cached_data": "a body that has been read"},
    },
}

UNBOUNDED = {"werkzeug"}  # comes with the host's Flask, which hookrow does not require

NAMES = [
    pytest.param(library, path, attribute, id=f"{path}.{attribute}".removesuffix("."))
    for library, paths in PRIVATE.items()
    for path, uses in paths.items()
    for attribute in (uses if isinstance(uses, dict) else [""])
]


@pytest.mark.parametrize(("library", "path", "attribute"), NAMES)
def test_private_name_exists(library: str, path: str, attribute: str) -> None:
    """The installed version has it; for one without it, lower the upper bound or adapt the code."""
    found = resolve_name(path)
    missing = f"{library} {version(library)} has no {path}.{attribute}".removesuffix(".")
    assert not attribute or hasattr(found, attribute) or _is_set(found, attribute), missing


def _is_set(class_: type, attribute: str) -> bool:
    """Tell whether a method of the class sets the attribute of an instance."""
    methods = filter(isfunction, (each for base in class_.__mro__ for each in vars(base).values()))
    return any(
        step.opname == "STORE_ATTR" and step.argval == attribute
        for method in methods
        for step in get_instructions(method)
    )


def test_upper_bounds() -> None:
    """Libraries whose private names are used have an upper bound, and only these."""
    bounded = {each.name for each in requirements() if each.below is not None}
    assert bounded == PRIVATE.keys() - UNBOUNDED


def test_same_bounds_in_all_extras() -> None:
    """A package that several extras require has the same bounds in each."""
    found = {*requirements()}
    assert len(found) == len({each.name for each in found})
