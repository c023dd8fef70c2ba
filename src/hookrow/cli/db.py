"""`hookrow db`: the tables of hookrow's own."""

from __future__ import annotations

import click

from hookrow.cli.options import DATABASE_URL
from hookrow.cli.source import Tables


@click.group()
def db() -> None:
    """Make and upgrade the tables of hookrow's own."""


@db.command()
@DATABASE_URL
@click.pass_obj
def upgrade(tables: Tables, database_url: str) -> None:
    """Make our tables, or bring them up to date."""
    from hookrow import migrations
    from hookrow.stores.engines import opened, shown

    with opened(database_url) as engine:
        migrations.upgrade(engine, tables.schema)
        newest = " and ".join(migrations.heads(tables.schema))
        click.echo(f"{shown(engine.url)} is at {newest}, the newest.")


@db.command()
@DATABASE_URL
def current(database_url: str) -> None:
    """Print the revision that the tables are at."""
    from hookrow import migrations
    from hookrow.stores.engines import opened

    with opened(database_url) as engine:
        click.echo(" and ".join(migrations.current(engine)) or "none")


@db.command()
@DATABASE_URL
@click.pass_obj
def sql(tables: Tables, database_url: str) -> None:
    """Print the statements that make our tables, for the database that is set."""
    from hookrow import migrations
    from hookrow.stores.engines import opened

    with opened(database_url) as engine:
        click.echo(migrations.sql(engine.dialect.name, tables.schema), nl=False)
