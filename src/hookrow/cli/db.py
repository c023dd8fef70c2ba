"""`hookrow db`: the tables of hookrow's own."""

from __future__ import annotations

from contextlib import closing

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
    from hookrow.migrations.engines import opened
    from hookrow.stores.sql.urls import open_database

    with opened(database_url) as engine:
        migrations.upgrade(engine, tables.schema)
        newest = " and ".join(migrations.heads(tables.schema))
        click.echo(f"{open_database(database_url)} is at {newest}, the newest.")


@db.command()
@DATABASE_URL
def current(database_url: str) -> None:
    """Print the revision that the tables are at."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import open_database

    with closing(open_database(database_url)) as database:
        click.echo(" and ".join(migrations.current(database)) or "none")


@db.command()
@DATABASE_URL
@click.pass_obj
def sql(tables: Tables, database_url: str) -> None:
    """Print the statements that make our tables, for the database that is set."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import backend

    click.echo(migrations.sql(backend(database_url), tables.schema), nl=False)
