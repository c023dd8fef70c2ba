"""Make the four tables.

A migration says what the tables were when it was written; it takes nothing from
`stores/tables.py`, which says what they are now. A test compares the two.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = ("tables",)


def _on_postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True)


def _time(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), **options)


def _suppression() -> tuple[sa.Column[Any], ...]:
    return (
        _time("suppressed_at"),
        sa.Column("suppression_reason", sa.Text()),
        _time("suppression_changed_at"),
    )


def _created_at() -> sa.Column[Any]:
    now = "now()" if _on_postgres() else "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
    return _time("created_at", nullable=False, server_default=sa.text(now))


def _reference(name: str, table: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), sa.ForeignKey(f"{table}.id"), nullable=nullable)


def upgrade() -> None:
    """Make subscribers, lists, subscriptions and dispatches."""
    op.create_table(
        "hookrow_subscribers",
        _id(),
        sa.Column("email", sa.String(320), nullable=False),
        *_suppression(),
        _created_at(),
    )
    op.create_index(
        "hookrow_subscribers_email",
        "hookrow_subscribers",
        [sa.text('lower(email COLLATE "C")' if _on_postgres() else "lower(email)")],
        unique=True,
    )
    op.create_table(
        "hookrow_lists",
        _id(),
        sa.Column("name", sa.String(255), nullable=False),
        _created_at(),
    )
    op.create_table(
        "hookrow_subscriptions",
        _id(),
        _reference("list_id", "hookrow_lists"),
        _reference("subscriber_id", "hookrow_subscribers"),
        *_suppression(),
        _created_at(),
        sa.UniqueConstraint("list_id", "subscriber_id", name="hookrow_subscriptions_unique"),
    )
    op.create_index(
        "hookrow_subscriptions_subscriber_id", "hookrow_subscriptions", ["subscriber_id"]
    )
    op.create_table(
        "hookrow_dispatches",
        _id(),
        sa.Column("provider_message_id", sa.String(255)),
        _reference("subscriber_id", "hookrow_subscribers"),
        _reference("list_id", "hookrow_lists", nullable=True),
        _time("delivered_at"),
        _time("opened_at"),
        *_suppression(),
        _created_at(),
        sa.UniqueConstraint("provider_message_id", name="hookrow_dispatches_message_id"),
    )
    if _on_postgres():
        # Free space for updates of its two times, so that they change no index. A statement,
        # because SQLAlchemy 2.0 has no option for it.
        op.execute("ALTER TABLE hookrow_dispatches SET (fillfactor = 85)")
    op.create_index("hookrow_dispatches_subscriber_id", "hookrow_dispatches", ["subscriber_id"])
    op.create_index("hookrow_dispatches_list_id", "hookrow_dispatches", ["list_id"])
