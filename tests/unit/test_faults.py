"""Unexpected exceptions are logged with frames, and without values of a row."""

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Callable, Generator
from traceback import format_exception, walk_tb
from typing import NoReturn

import pytest

from hookrow.faults import MOST_EXCEPTIONS, OMITTED, describe_fault, without_values
from wire import ADA


def fail(email: str) -> NoReturn:
    raise KeyError(email)


def fail_with_cause(email: str) -> None:
    try:
        fail(email)
    except KeyError as error:
        error.add_note(email)
        raise ValueError(email) from error


def fail_while_handling(email: str) -> None:
    try:
        fail(email)
    except KeyError:
        fail(email)


def fail_in_a_group(email: str) -> None:
    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(fail, email))

    asyncio.run(run())


class Quoting(Exception):
    """An exception whose constructor needs arguments, and whose attributes have values."""

    def __init__(self, email: str, *, more: str) -> None:
        super().__init__(email)
        self.more = more

    def __str__(self) -> str:
        return self.more


def fail_with_attributes(email: str) -> None:
    raise Quoting(email, more=email)


def raised(function: Callable[[str], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - each of them
        function(ADA)
    return caught.value


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (fail, ["KeyError"]),
        (fail_with_cause, ["KeyError", "ValueError"]),
        (fail_while_handling, ["KeyError", "KeyError"]),
        (fail_in_a_group, ["ExceptionGroup", "KeyError"]),
        (fail_with_attributes, ["test_faults.Quoting"]),
    ],
)
def test_a_copy_has_types_and_lines_but_no_values(
    function: Callable[[str], object], types: list[str]
) -> None:
    """Its causes and the members of a group are copies, too, and no frame has variables."""
    error = raised(function)
    copy = without_values(error)
    text = "".join(format_exception(copy))
    assert ADA not in text
    assert [
        line.strip(" |").partition(":")[0] for line in text.splitlines() if OMITTED in line
    ] == (types)
    assert f"in {function.__name__}\n" in text
    assert [line for _, line in walk_tb(copy.__traceback__)] == [
        line for _, line in walk_tb(error.__traceback__)
    ]
    pending, copies = [copy], []
    while pending:
        each = pending.pop()
        copies.append(each)
        pending += [other for other in (each.__cause__, each.__context__) if other is not None]
        pending += getattr(each, "exceptions", ())
    for each in copies:
        frames = [frame for frame, _ in walk_tb(each.__traceback__)]
        assert frames
        assert not any(frame.f_locals for frame in frames)
        assert ADA not in json.dumps([repr(vars(each)), repr(each.args)])


def test_an_exception_keeps_its_own_frames() -> None:
    """The host's frames are not cleared: a generator that caught the exception still runs."""
    kept: list[BaseException] = []

    def catch() -> Generator[str, None, None]:
        try:
            fail(ADA)
        except KeyError as error:
            kept.append(error)
        yield "first"
        yield "second"

    generator = catch()
    assert next(generator) == "first"
    without_values(kept[0])
    gc.collect()
    assert next(generator) == "second"
    assert ADA in [frame.f_locals.get("email") for frame, _ in walk_tb(kept[0].__traceback__)]


def test_long_and_circular_chains_are_limited() -> None:
    first = previous = KeyError(ADA)
    for _ in range(5000):
        error = KeyError(ADA)
        error.__context__, previous = previous, error
    first.__context__ = previous
    copy, count = without_values(previous), 0
    each: BaseException | None = copy
    while each is not None:
        each, count = each.__context__, count + 1
    assert count == MOST_EXCEPTIONS
    circular = KeyError(ADA)
    circular.__cause__ = ValueError(ADA)
    circular.__cause__.__context__ = circular
    assert ADA not in "".join(format_exception(without_values(circular)))
    nested: BaseException = KeyError(ADA)
    for _ in range(100):
        nested = BaseExceptionGroup(ADA, [nested])
    assert ADA not in "".join(format_exception(without_values(nested)))


def test_a_deep_recursion() -> None:
    def recurse(email: str) -> None:
        recurse(email)

    text = "".join(format_exception(without_values(raised(recurse))))
    assert ADA not in text
    assert text.rstrip().endswith(f"RecursionError: {OMITTED}")


def test_a_description_names_the_line_of_the_host() -> None:
    """Lines of libraries and of hookrow follow it in the traceback only."""
    here = f"{__file__}:{fail.__code__.co_firstlineno + 1}"
    assert describe_fault(raised(fail)) == f"KeyError at {here}"
    line = sys._getframe().f_lineno + 2
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    assert describe_fault(caught.value) == f"JSONDecodeError at {__file__}:{line}"
    assert describe_fault(KeyError(ADA)) == "KeyError"


def test_a_logger_formats_the_copy(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("hookrow").error("failed", exc_info=without_values(raised(fail)))
    [record] = caplog.records
    assert record.exc_info
    kind, _, traceback = record.exc_info
    assert (kind and kind.__qualname__, kind and kind.__module__) == ("KeyError", "builtins")
    assert traceback is not None
