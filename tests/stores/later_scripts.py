"""Scripts as later versions of hookrow may add them, to test how they run on existing tables."""

import pytest

from hookrow.stores.sql import _scripts
from hookrow.stores.sql._scripts import Script, scripts

LATER = ["9001", "9002", "9003"]
"""The revisions: one of the tables, and two of the log."""

INDEX = "hookrow_later"
"""The name of the index that revision 9002 builds, on PostgreSQL beside writers."""

_COLUMN = """
ALTER TABLE hookrow_dispatches ADD COLUMN later_at TIMESTAMP;

ALTER TABLE hookrow_dispatches ADD COLUMN later_reason TEXT;
"""

_PARTIAL_INDEX = f"""
-- Built outside of a transaction on PostgreSQL.

CREATE INDEX CONCURRENTLY {INDEX}
    ON hookrow_notifications (recipient) WHERE record_type = 'Open';
"""

_INDEXES = {
    "postgresql": _PARTIAL_INDEX,
    "sqlite": _PARTIAL_INDEX.replace(" CONCURRENTLY", ""),
    "mariadb": f"CREATE INDEX {INDEX}\n    ON hookrow_notifications (recipient, record_type);",
}

_TABLE = """
ALTER TABLE hookrow_notifications ADD COLUMN later BIGINT DEFAULT 0 NOT NULL;

CREATE TABLE hookrow_later_table (
    name VARCHAR(64) NOT NULL PRIMARY KEY
);
"""


def add_later_scripts(patch: pytest.MonkeyPatch) -> None:
    """Let hookrow know the scripts of `LATER`."""
    earlier = {backend: scripts(backend) for backend in _INDEXES}
    later = dict(zip(LATER, ("tables", "log", "log"), strict=True))

    def with_later(backend: str) -> list[Script]:
        texts = (_COLUMN, _INDEXES[backend], _TABLE)
        added = zip(later.items(), texts, strict=True)
        return [*earlier[backend], *(Script(*revision, text) for revision, text in added)]

    patch.setattr(_scripts, "scripts", with_later)
    patch.setattr(_scripts, "REVISIONS", {**_scripts.REVISIONS, **later})
