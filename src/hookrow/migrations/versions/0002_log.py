"""Make the log, on a branch of its own: a host with four tables of its own wants it too."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None
branch_labels = ("log",)

TABLE = "hookrow_notifications"


def _time(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), **options)


def upgrade() -> None:
    """Make the table of notifications."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("fingerprint", sa.LargeBinary(16), nullable=False),
        sa.Column("record_type", sa.String(64)),
        sa.Column("message_id", sa.String(255)),
        sa.Column("recipient", sa.String(320)),
        _time("occurred_at"),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("first_outcome", sa.String(32), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        _time("received_at", nullable=False),
        _time("last_received_at", nullable=False),
        _time("ended_at", nullable=False),
        _time("retry_at"),
        sa.Column("body", sa.Text()),
        sa.UniqueConstraint("fingerprint", name=f"{TABLE}_fingerprint"),
    )
    parked = sa.text("retry_at IS NOT NULL")
    for column in ("retry_at", "message_id"):
        op.create_index(
            f"{TABLE}_parked_{column}",
            TABLE,
            [column],
            postgresql_where=parked,
            sqlite_where=parked,
        )
