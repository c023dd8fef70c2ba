"""Describes unexpected exceptions, of the host's code and of hookrow's, without values of a row.

The text of an exception, its attributes and the variables of its frames may quote a notification.
Log lines and error trackers receive only its type, and the function, file and line of each frame.
No function raises an exception, whatever attributes the class of the given one overrides, because
the callers are the last to handle it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from inspect import currentframe
from os import sep
from pathlib import PurePath
from traceback import walk_tb
from types import FrameType, FunctionType, TracebackType
from typing import Any

from hookrow.errors import HookrowError

logger = logging.getLogger("hookrow")

OMITTED = "(text omitted, because it may quote a notification)"
"""The text of each copied exception."""

EXPECTED = (HookrowError, OSError)
"""Exceptions that hookrow's code may raise, and whose text quotes no notification."""

CALLERS = ("hookrow.", "django.dispatch.")
"""Prefixes of the names of modules that call the host's code: hookrow's, and Django's signals."""

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""The directories of installed packages. They may be within that of the standard library."""

MOST_EXCEPTIONS = 20
"""The largest number of causes and members of an exception that are copied with it."""

MOST_FRAMES = 50
"""The largest number of frames that are copied; the first ones are omitted."""


def log_fault(
    error: BaseException, template: str, *values: object, extra: Mapping[str, object] | None = None
) -> None:
    """Log an exception at the level error, with a copy of it that has no values.

    If the host's logging raises an exception, such as in a filter, this one is ignored.
    """
    with suppress(Exception):
        logger.error(template, *values, exc_info=without_values(error), extra=extra, stacklevel=2)


def describe_fault(error: BaseException) -> str:
    """Return the type of an exception, and the last line of the host's code that ran.

    If it did not come from the host's code, the line is that which raised it: `KeyError at
    /srv/shop/mail.py:12`.
    """
    name = type_name(error)
    line = host_line(error)
    with suppress(Exception):
        line = line or _last_line(error)
    return f"{name} at {line}" if line else name


def describe_bug(error: BaseException) -> str:
    """Return `a bug raised ...`, for an exception that hookrow should have handled."""
    return f"a bug raised {describe_fault(error)}"


def type_name(error: BaseException) -> str:
    """Return the name of the type of an exception."""
    name: str = _of_type(error, "__name__")
    return name


def host_line(error: BaseException) -> str:
    """Return the host's line that was reached last as `file:line`; empty if there is none.

    Lines of libraries and of hookrow are not the host's. But the host may itself be installed as a
    package, as in most containers: if there is no other line, it is the package that hookrow
    called.
    """
    with suppress(Exception):
        return _host_line(error)
    return ""


def _host_line(error: BaseException) -> str:
    frames = [(frame, line) for frame, line in _frames(error) if not _calls_hosts(frame)]
    of_host = [each for each in frames if not _is_installed(each[0]) and not _is_generated(each[0])]
    if frames and not of_host:
        host = _package(frames[0][0])
        of_host = [each for each in frames if _package(each[0]) == host]
    return _place(*of_host[-1]) if of_host else ""


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line}"


def _is_installed(frame: FrameType) -> bool:
    return not INSTALLED.isdisjoint(PurePath(frame.f_code.co_filename).parts)


def _is_generated(frame: FrameType) -> bool:
    """Return whether a frame has no file, such as that of a function that a library generates."""
    return frame.f_code.co_filename.startswith("<")


def _calls_hosts(frame: FrameType) -> bool:
    """Return whether a frame is hookrow's or that of a library through which it calls the host."""
    name = str(frame.f_globals.get("__name__"))
    is_standard = frame.f_code.co_filename.startswith(_standard()) and not _is_installed(frame)
    return is_standard or f"{name}.".startswith(CALLERS)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def without_values(error: BaseException) -> BaseException:
    """Return a copy of an exception for a logger's `exc_info`, from which no value can be read.

    The copy has the name of the type, and a traceback whose frames have no variables. Its causes,
    and the members of a group, are copied as well. The exception itself is not changed: clearing
    its frames would end a suspended coroutine of the host that caught the exception. If it cannot
    be copied, the result is a plain `Exception`.
    """
    with suppress(Exception):
        return _copy(error, {}) or Exception(OMITTED)
    return Exception(OMITTED)


def _copy(error: BaseException | None, copies: dict[int, BaseException]) -> BaseException | None:
    """Copy an exception, unless it is in `copies`, by id, or there are too many of them."""
    if error is None or id(error) in copies:
        return copies.get(id(error))
    if len(copies) >= MOST_EXCEPTIONS:
        return None
    copy = copies[id(error)] = _plain_copy(error)
    if issubclass(type(error), BaseExceptionGroup):
        exceptions = vars(BaseExceptionGroup)["exceptions"].__get__(error)
        members = [member for each in exceptions if (member := _copy(each, copies))]
        if members:
            copy = copies[id(error)] = _group_copy(error, members)
    copy.__cause__ = _copy(_attribute(error, "__cause__"), copies)
    copy.__context__ = _copy(_attribute(error, "__context__"), copies)
    copy.__suppress_context__ = _attribute(error, "__suppress_context__")
    return copy.with_traceback(_copy_traceback(error))


def _attribute(error: BaseException, name: str) -> Any:  # noqa: ANN401 - of any type
    """Return an attribute of the base class, although a subclass may override it."""
    return vars(BaseException)[name].__get__(error)


def _of_type(error: BaseException, name: str) -> Any:  # noqa: ANN401 - of any type
    """Return an attribute of the type of an exception, although a metaclass may override it."""
    return vars(type)[name].__get__(type(error))


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    # Generated code may have instructions without a line.
    return [(frame, line or 1) for frame, line in walk_tb(_attribute(error, "__traceback__"))]


def _plain_copy(error: BaseException) -> BaseException:
    copy: BaseException = type(type_name(error), (Exception,), _names(error))(OMITTED)
    return copy


def _group_copy(error: BaseException, members: Sequence[BaseException]) -> BaseException:
    kind = type(type_name(error), (BaseExceptionGroup,), _names(error))
    copy: BaseException = kind(OMITTED, members)
    return copy


def _names(error: BaseException) -> dict[str, object]:
    module = _of_type(error, "__module__")
    return {
        "__module__": module if isinstance(module, str) else "<unknown>",  # as in tracebacks
        "__qualname__": _of_type(error, "__qualname__"),
    }


def _copy_traceback(error: BaseException) -> TracebackType | None:
    copy: TracebackType | None = None
    for frame, line in reversed(_frames(error)[-MOST_FRAMES:]):
        # Without an instruction (-1), formatters mark no part of the line.
        copy = TracebackType(copy, _empty_frame(frame, line), -1, line)
    return copy


def _return_frame() -> FrameType | None:
    return currentframe()


def _empty_frame(frame: FrameType, line: int) -> FrameType:
    """Return a frame of a function with the same name, file and line, which has no variables."""
    code = _return_frame.__code__.replace(
        co_name=frame.f_code.co_name,
        co_qualname=frame.f_code.co_qualname,
        co_filename=frame.f_code.co_filename,
        co_firstlineno=line - 1,  # the function returns on its second line
    )
    names = {name: frame.f_globals.get(name) for name in ("__name__", "__loader__")}
    empty = FunctionType(code, {**names, "currentframe": currentframe})()
    assert isinstance(empty, FrameType)  # noqa: S101 - for mypy
    return empty


def _last_line(error: BaseException) -> str:
    frames = _frames(error)
    return _place(*frames[-1]) if frames else ""


@cache
def _standard() -> tuple[str, ...]:
    """Return the path prefixes of the standard library's files."""
    from sysconfig import get_path  # noqa: PLC0415 - only for an exception

    return "<frozen", f"{get_path('stdlib')}{sep}"
