"""`hookrow db`: hookrow's own tables."""

from __future__ import annotations

from contextlib import closing

import click

from hookrow.cli.options import DATABASE_URL
from hookrow.cli.source import Tables


@click.group()
def db() -> None:
    """Create and upgrade hookrow's own tables."""


@db.command()
@DATABASE_URL
@click.pass_obj
def upgrade(tables: Tables, database_url: str) -> None:
    """Create hookrow's tables, or bring them up to date."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import open_database

    with closing(open_database(database_url)) as database:
        added = migrations.upgrade(database, tables.schema)
        if added:
            click.echo(f"Upgraded {database}: added revisions {', '.join(added)}.")
        else:
            revisions = ", ".join(migrations.needed(tables.schema))
            click.echo(f"{database} is up to date (revisions {revisions}).")


@db.command()
@DATABASE_URL
def current(database_url: str) -> None:
    """Print the revisions that the tables are at."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import open_database

    with closing(open_database(database_url)) as database:
        click.echo(", ".join(migrations.current(database)) or "none")


@db.command()
@DATABASE_URL
@click.pass_obj
def sql(tables: Tables, database_url: str) -> None:
    """Print the statements that create hookrow's tables, for psql or the sqlite3 shell."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import backend

    name = backend(database_url)
    # Without this, a shell goes on after an error, and sqlite3 commits.
    click.echo({"postgresql": r"\set ON_ERROR_STOP on", "sqlite": ".bail on"}[name])
    click.echo(migrations.sql(name, tables.schema), nl=False)
