"""`hookrow db`: creates and upgrades hookrow's own tables."""

from __future__ import annotations

from contextlib import closing

import click

from hookrow.cli.app import StandaloneApp
from hookrow.cli.options import DATABASE_URL


@click.group()
def db() -> None:
    """Create and upgrade hookrow's own tables."""


@db.command()
@DATABASE_URL
@click.pass_obj
def upgrade(app: StandaloneApp, database_url: str) -> None:
    """Create hookrow's tables, or upgrade them."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import open_database

    with closing(open_database(database_url)) as database:
        added = migrations.upgrade(database, app.schema)
        if added:
            click.echo(f"Upgraded {database}: added revisions {', '.join(added)}.")
        else:
            revisions = ", ".join(migrations.needed(app.schema))
            click.echo(f"{database} is up to date (revisions {revisions}).")


@db.command()
@DATABASE_URL
def current(database_url: str) -> None:
    """Print the revisions of hookrow's tables."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import open_database

    with closing(open_database(database_url)) as database:
        click.echo(", ".join(migrations.current(database)) or "none")


@db.command()
@DATABASE_URL
@click.pass_obj
def sql(app: StandaloneApp, database_url: str) -> None:
    """Print the statements that create hookrow's tables, for psql or the sqlite3 shell."""
    from hookrow import migrations
    from hookrow.stores.sql.urls import backend

    name = backend(database_url)
    # By default, both shells continue after an error, and sqlite3 then commits.
    click.echo({"postgresql": r"\set ON_ERROR_STOP on", "sqlite": ".bail on"}[name])
    click.echo(migrations.sql(name, app.schema), nl=False)
