"""The bounds in pyproject.toml, and the private names that require upper bounds."""

from dis import get_instructions
from importlib.metadata import version
from inspect import isfunction
from pkgutil import resolve_name

from hookrow._server.protocol import UVICORN
from requirements import requirements

# The undocumented attributes that are used, by library and by `module:name` of their class.
PRIVATE = {
    "uvicorn": {
        "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": (
            "connection_made connection_lost data_received on_headers_complete on_body "
            "on_message_complete on_response_complete cycle "
            "expect_100_continue flow headers loop parser pipeline resume_writing scope "
            "send_400_response server_state shutdown "
            "timeout_keep_alive timeout_keep_alive_handler transport url"
        ),
        "uvicorn.protocols.http.flow_control:FlowControl": "read_paused resume_reading",
        "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": (
            "body keep_alive message_event response_complete response_started"
        ),
        "uvicorn.protocols.http.httptools_impl:STATUS_LINE": "",
        "uvicorn.server:ServerState": "default_headers",
        "uvicorn.config:Config": "loaded_app timeout_worker_healthcheck",
        "uvicorn.supervisors.multiprocess:Multiprocess": (
            "config handle_hup handle_signals join_all keep_subprocess_alive "
            "processes run should_exit signal_queue sockets"
        ),
        "uvicorn.supervisors.multiprocess:Process": (
            "exitcode join kill parent_conn pid process start"
        ),
    },
    "sqlalchemy": {
        "sqlalchemy.exc:DBAPIError": "instance",
    },
    "django": {
        "django.http:HttpRequest": "_read_started",
        "django.dispatch:Signal": "_log_robust_failure",
        "django.db.models.sql:Query": "chain get_compiler",
        "django.db.models.sql:UpdateQuery": "add_update_values",
        "django.db.models.sql.compiler:SQLCompiler": "get_converters select",
        "django.db.backends.base.base:BaseDatabaseWrapper": (
            "close_at close_if_health_check_failed close_if_unusable_or_obsolete errors_occurred "
            "wrap_database_errors"
        ),
        "django.db.migrations.executor:MigrationExecutor": "migration_plan",
    },
    "werkzeug": {
        "werkzeug.wrappers:Request": "_cached_data",
    },
}

UNBOUNDED = {"werkzeug"}  # comes with the host's Flask, which hookrow does not require


def _exists(path: str, attribute: str) -> bool:
    """Return whether the class has the attribute, or one of its methods sets it."""
    found = resolve_name(path)
    if not attribute or hasattr(found, attribute):
        return True
    methods = filter(isfunction, (each for base in found.__mro__ for each in vars(base).values()))
    return any(
        step.opname == "STORE_ATTR" and step.argval == attribute
        for method in methods
        for step in get_instructions(method)
    )


def test_private_names_exist() -> None:
    """The installed versions have them; if one lacks a name, lower the bound or adapt the code."""
    missing = [
        f"{library} {version(library)} has no {path}.{attribute}"
        for library, paths in PRIVATE.items()
        for path, attributes in paths.items()
        for attribute in attributes.split() or [""]
        if not _exists(path, attribute)
    ]
    assert missing == []


def test_names_that_the_protocol_checks() -> None:
    """They are listed here, too."""
    listed = {
        name
        for path, names in PRIVATE["uvicorn"].items()
        if path.startswith(("uvicorn.protocols", "uvicorn.server"))
        for name in names.split()
    }
    assert {part for name in UVICORN for part in name.split(".")} <= listed


def test_bounds() -> None:
    """Only libraries whose private names are used have an upper bound, the same in all extras."""
    found = {*requirements()}
    assert {each.name for each in found if each.below is not None} == PRIVATE.keys() - UNBOUNDED
    assert len(found) == len({each.name for each in found})
