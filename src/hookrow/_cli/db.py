"""`hookrow db`: creates and upgrades hookrow's own tables."""

from __future__ import annotations

from functools import partial

import click

from hookrow._cli.app import App
from hookrow._cli.options import DATABASE_URL, JSON
from hookrow._cli.output import COMMITTED, echo, echo_json, progress


@click.group()
def db() -> None:
    """Create and upgrade hookrow's own tables."""


@db.command()
@JSON
@DATABASE_URL
@click.pass_obj
def upgrade(app: App, *, as_json: bool, database_url: str) -> None:
    """Create hookrow's tables, or upgrade them.

    If your application has its own tables, use its mapping: with --app, or [tables]
    in hookrow.toml. Only the log and the tables that accompany it are created then.
    """
    from hookrow import _migrations

    with app.open_database(database_url) as database:
        needed = _migrations.needed(app.schema)
        with progress("Upgrading", len(needed), interrupted=COMMITTED) as update:
            added = _migrations.upgrade(database, app.schema, step=partial(update, 1))
        if as_json:
            echo_json({"database": str(database), "revisions": needed, "added": added})
        elif added:
            echo(f"Upgraded {database}: added {_migrations.listed(added)}.")
        else:
            echo(f"{database} is up to date ({_migrations.listed(needed)}).")


@db.command()
@JSON
@DATABASE_URL
@click.pass_obj
def current(app: App, *, as_json: bool, database_url: str) -> None:
    """Print the revisions of hookrow's tables."""
    from hookrow import _migrations

    with app.open_database(database_url) as database:
        revisions = _migrations.current(database)
    if as_json:
        echo_json({"revisions": revisions})
    else:
        echo(", ".join(revisions) or "none")


@db.command(short_help="Print the statements that create hookrow's tables.")
@DATABASE_URL
@click.pass_obj
def sql(app: App, database_url: str) -> None:
    """Print the statements that create hookrow's tables, for psql, mariadb or the sqlite3 shell."""
    from hookrow import _migrations

    with app.open_database(database_url) as database:
        dialect = database.dialect
    # By default, psql and sqlite3 continue after an error, and sqlite3 then commits.
    if dialect.stop_at_errors:
        click.echo(dialect.stop_at_errors)
    click.echo(_migrations.sql(dialect.name, app.schema), nl=False)
