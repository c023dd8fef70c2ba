"""Unexpected exceptions are logged with frames, and without values of a row."""

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Callable, Generator
from sysconfig import get_path
from traceback import format_exception, walk_tb
from typing import Any, NoReturn

import pytest

from hookrow._faults import MOST_EXCEPTIONS, OMITTED, describe_fault, without_values
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


class _HiddenNames(type):
    def __getattribute__(cls, name: str) -> object:
        if name in {"__name__", "__qualname__", "__module__"}:
            raise RuntimeError(ADA)
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=_HiddenNames):
    """An exception whose type has no names that can be read as usual."""


class Misplaced(Exception):
    """An exception of a module that is no text."""


Misplaced.__module__ = 5  # type: ignore[assignment] # the wrong type


class Raising(Exception):
    """An exception each of whose attributes raises another one."""

    @property
    def _raising(self) -> NoReturn:
        raise ValueError(ADA)

    __cause__ = __context__ = __suppress_context__ = __traceback__ = _raising
    __class__ = __dict__ = _raising


class Texts(Exception):
    """An exception whose attributes are texts."""

    __cause__ = __context__ = __traceback__ = ADA  # type: ignore[assignment] # the wrong type


class Group(ExceptionGroup[KeyError]):
    """A group whose members cannot be read as usual."""

    @property
    def exceptions(self) -> NoReturn:
        raise ValueError(ADA)


class _Globals(dict[str, object]):
    """The globals of a module, which can be made unreadable."""

    readable = True

    def get(self, *given: Any) -> Any:  # noqa: ANN401 - as `dict` types them
        if not self.readable:
            raise ValueError(ADA)
        return super().get(*given)


def fail_with_overridden_attributes(kind: type[Exception], *arguments: object) -> BaseException:
    try:
        raise kind(ADA, *arguments)  # noqa: TRY301 - it needs a frame
    except Exception as error:  # noqa: BLE001 - each of them
        return error


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


@pytest.mark.parametrize(
    "kind",
    [Nameless, Misplaced, Raising, Texts, Group],
    ids=["names", "module", "raising", "texts", "members"],
)
def test_overridden_attributes_are_not_used(kind: type[Exception]) -> None:
    """The type and the lines are described and copied as those of any other exception."""
    members = [[KeyError(ADA)]] if issubclass(kind, Group) else []
    error = fail_with_overridden_attributes(kind, *members)
    name = type.__dict__["__name__"].__get__(kind)
    line = fail_with_overridden_attributes.__code__.co_firstlineno + 2
    assert describe_fault(error) == f"{name} at {__file__}:{line}"
    text = "".join(format_exception(without_values(error)))
    assert f"{name}: {OMITTED}" in text
    assert f'"{__file__}", line {line}, in fail_with_overridden_attributes' in text
    assert ADA not in text
    assert text.count(OMITTED) == 1 + len(members)


def test_an_exception_that_cannot_be_read_has_a_plain_description() -> None:
    code = compile("def fail(text): raise KeyError(text)", "shop.py", "exec")
    names = _Globals()
    exec(code, names)
    error = raised(names["fail"])  # type: ignore[arg-type] # a function
    names.readable = False  # before, a tool that measures coverage reads them
    assert describe_fault(error) == "KeyError at shop.py:1"
    assert "".join(format_exception(without_values(error))) == f"Exception: {OMITTED}\n"


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


def test_a_description_names_no_generated_line() -> None:
    """Libraries such as SQLAlchemy generate functions, whose file names are no paths."""
    module: dict[str, Any] = {"__name__": "orm.engine"}
    exec(compile("def call(email):\n    return int(email)", "<generated by orm>", "exec"), module)
    line = sys._getframe().f_lineno + 2
    with pytest.raises(ValueError, match=ADA) as caught:
        module["call"](ADA)
    assert describe_fault(caught.value) == f"ValueError at {__file__}:{line}"


def installed(name: str, source: str, **names: object) -> Callable[[str], object]:
    """Return the function `call` of a module that is installed beside the standard library."""
    file = f"{get_path('stdlib')}/site-packages/{name.replace('.', '/')}.py"
    module: dict[str, Any] = {"__name__": name, **names}
    exec(compile(source, file, "exec"), module)
    function: Callable[[str], object] = module["call"]
    return function


def test_a_description_names_the_line_of_an_installed_host() -> None:
    """The host is the package that hookrow called, directly or through a signal of Django."""
    library = installed("redis.client", "import json\ndef call(_):\n    json.loads('{')")
    jobs = installed("shop.jobs", "def call(text):\n\n    run(text)", run=library)
    hook = installed("shop.mail", "def call(text):\n    run(text)", run=jobs)
    signal = installed("django.dispatch.dispatcher", "def call(text):\n    run(text)", run=hook)
    for function in (hook, signal):
        calls = installed("hookrow._receiver.hooks", "def call(text):\n    run(text)", run=function)
        with pytest.raises(json.JSONDecodeError) as caught:
            calls(ADA)
        error = caught.value
        assert error.__traceback__ is not None
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of this test
        assert describe_fault(error) == (
            f"JSONDecodeError at {get_path('stdlib')}/site-packages/shop/jobs.py:3"
        )


def test_a_logger_formats_the_copy(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("hookrow").error("failed", exc_info=without_values(raised(fail)))
    [record] = caplog.records
    assert record.exc_info
    kind, _, traceback = record.exc_info
    assert (kind and kind.__qualname__, kind and kind.__module__) == ("KeyError", "builtins")
    assert traceback is not None
