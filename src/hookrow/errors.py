"""The exceptions of hookrow: mostly configuration mistakes, raised by constructors.

Each message contains the remedy. The result of a notification is not an exception but a value:
`hookrow.Outcome`.
"""

from __future__ import annotations

from hookrow import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hookrow._fault import Fault


class HookrowError(Exception):
    """The base class of all exceptions that hookrow raises intentionally."""


class ConfigurationError(HookrowError):
    """An argument or a setting is invalid. The message contains the remedy.

    If there are several faults, the message lists all of them, one in each line.
    """

    faults: Sequence[Fault]
    """All faults that were found, at least one."""
    correction: str
    """The lines to write instead of the present ones, which correct several faults of a mapping;
    empty if there are none."""

    def __init__(self, *faults: Fault | str, place: str = "", correction: str = "") -> None:
        from hookrow._fault import Fault  # noqa: PLC0415 - a command starts without dataclasses

        self.faults = tuple(Fault(each) if isinstance(each, str) else each for each in faults)
        self.correction = correction
        lines = [*_texts(self.faults)]
        text = lines[0] if len(lines) == 1 else "\n- ".join([f"{len(lines)} faults:", *lines])
        text = f"{place}: {text}" if place else text
        super().__init__(f"{text}\n{correction}" if correction else text)


class SchemaMismatch(ConfigurationError):
    """The tables in the database do not fit the schema."""


def _texts(faults: Sequence[Fault]) -> Iterator[str]:
    """Yield the text of each fault; a remedy of several in a row follows the last of them."""
    for fault, following in zip(faults, [*faults[1:], None], strict=True):
        is_last = following is None or following.remedy != fault.remedy
        yield f"{fault.text} {fault.remedy}" if fault.remedy and is_last else fault.text


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed. The message contains the command to install it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} needs an extra: pip install 'hookrow[{extra}]'")
