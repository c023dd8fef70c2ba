"""The errors of stores, by what to do next, and the texts that several messages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookrow.errors import HookrowError

if TYPE_CHECKING:
    from hookrow._core.schema import Schema

UPGRADE = "`hookrow db upgrade`, with --config, --app or --database-url if you use them"
"""The remedy if hookrow's own tables are missing or too old, for the middle of a sentence."""

CREATE_OWN_TABLES = (
    "If your application has its own tables, use its mapping: with --app, or [tables] in "
    "hookrow.toml (in Python, SQLStore(url, schema)). Otherwise, run `hookrow db upgrade`, with "
    "--config or --database-url if you use them."
)
"""The remedies for missing tables, if no mapping is given.

The mapping comes first, because the upgrade creates tables that an application with a mapping does
not use.
"""


def create_tables(schema: Schema) -> str:
    """Return the remedy, in sentences, if hookrow's own tables in a schema are missing."""
    if schema.is_own:
        return CREATE_OWN_TABLES
    if schema.declares_log:
        return (
            "The metadata of your models contains hookrow's tables, so run your migrations. If "
            f"these leave them out, run {UPGRADE}."
        )
    return f"Run {UPGRADE}. If your own migrations create them, run those."


UNCHANGED_HINT = "Row-level security, a trigger or a rule may prevent it."
"""The possible causes of `Unchanged`, if another attempt has the same result."""


class StoreError(HookrowError):
    """A transaction failed and changed nothing, unless the connection was lost during the commit.

    Recording again is safe: guards and the log's fingerprints make a repetition harmless. The
    subclass determines what to do next.
    """


class Conflict(StoreError):
    """Another transaction interfered; a retry may succeed."""


class Locked(StoreError):
    """A row stayed locked for too long; the others may be saved without it."""


class WrongMapping(StoreError):
    """The log was written under another mapping, which may find other rows. Nothing is replayed."""


class Unchanged(StoreError):
    """The database did not lock or change a row that was found and whose guard holds.

    Or it did not accept an entry of the log. The row may have been deleted meanwhile. Another
    attempt, in a transaction that is `checked`, shows whether the database ignores the change:
    because of row-level security, or a trigger.
    """


class Rejected(StoreError):
    """The database rejects the data; a retry cannot succeed."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot work at present."""


class ReadOnly(Unavailable):
    """The server accepts no changes now: a standby, for example."""


class Detached(Unavailable):
    """The server is a node of a cluster, and lacks what the other nodes have committed."""


class AccessDenied(Unavailable):
    """The server responds but refuses the login: a wrong password, role or database."""


class SchemaChanged(Unavailable):
    """A statement does not fit the tables, which may have changed since they were verified.

    The statement may also be a trigger's; verifying the tables again shows whether it is.
    """


class MissingChanges(HookrowError):
    """Changes after a cursor were deleted, or the cursor is not one of this log.

    What they changed is in the rows: compare all of them once, and continue after the cursor
    `continue_after`, before which all deleted changes are.
    """

    continue_after: int
    """The cursor after which to continue once the rows have been compared."""

    def __init__(self, text: str, continue_after: int = 0) -> None:
        super().__init__(text)
        self.continue_after = continue_after
