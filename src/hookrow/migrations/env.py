"""What Alembic runs: on a connection that `upgrade` began, or to print SQL."""

from __future__ import annotations

from alembic import context

from hookrow.migrations import VERSION_TABLE

_attributes = context.config.attributes

if context.is_offline_mode():
    context.configure(
        dialect_name=_attributes["backend"], version_table=VERSION_TABLE, literal_binds=True
    )
else:
    context.configure(connection=_attributes["connection"], version_table=VERSION_TABLE)

with context.begin_transaction():
    context.run_migrations()
