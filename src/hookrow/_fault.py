"""A fault of a configuration, of which an exception may have several.

`hookrow.errors` has the exceptions. They are imported at the start of each command, and this module
only with the first error.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why a configuration or a table cannot be used."""

    text: str
    """A sentence about the fault, or several."""
    table: str = ""
    """The host's table or model; empty if the fault concerns no single one."""
    column: str = ""
    """The column of that table, or the field of that model; empty if it concerns no single one."""
    remedy: str = ""
    """What to do, unless the text contains it."""
