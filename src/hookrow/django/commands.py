"""The command line's own commands, with what a project's settings say in place of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, SupportsFloat
from urllib.parse import urljoin

import click
from django.core.checks import ERROR, WARNING, run_checks
from django.db import Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.urls import NoReverseMatch, reverse

from hookrow.cli import Commands
from hookrow.cli.check import report
from hookrow.cli.log import log, prune, replay
from hookrow.cli.options import JSON
from hookrow.cli.simulate import simulate
from hookrow.cli.stats import stats
from hookrow.clocks import SECONDS, compare
from hookrow.django.conf import conf
from hookrow.django.models import Notification
from hookrow.django.receiver import store
from hookrow.errors import ConfigurationError
from hookrow.finding import Finding, Level, several_rows
from hookrow.outside import look
from hookrow.retry import masked
from hookrow.stores import Store, StoreError
from hookrow.stores.sql.advice import repeated_emails

RUNSERVER = "http://127.0.0.1:8000"
"""Where Django's own server listens."""

_APPS = ("hookrow", "hookrow_tables")


class Project:
    """The store that the project's settings describe."""

    @contextmanager
    def opened(self, database_url: str) -> Iterator[Store]:
        """Open the store. Raises `ConfigurationError` where the log's table is not made yet."""
        del database_url
        opened = store()
        table = Notification._meta.db_table  # noqa: SLF001 - Django's public name
        with opened.database.reading():
            tables = connections[conf.database].introspection.table_names()
        if opened.log is not None and table not in tables:
            raise ConfigurationError(f"There is no table {table}. Run: manage.py migrate")
        yield opened


def commands() -> click.Group:
    """Return the commands, with the project's settings as they are now."""
    group = Commands(
        "hookrow",
        help="Look after the log of notifications, as the project's settings have it.",
        context_settings={"obj": Project(), "help_option_names": ["-h", "--help"]},
        commands=[
            check,
            *(_settled(each, {"database_url": ""}) for each in (log, stats, replay, prune)),
        ],
    )
    posting = {"secret": conf.secret, "mount_path": "", "host": "", "port": 0}
    group.add_command(_by_default(_settled(simulate, posting), "url", _endpoint))
    return group


@click.command()
@click.argument("url", required=False)
@JSON
@click.pass_context
def check(context: click.Context, *, url: str | None, as_json: bool) -> None:
    """Check the settings and the database, and say what to do about each fault.

    With a URL, the one that the provider is given, check the webhook from outside
    instead, with the settings' secret. What is posted there is harmless on a live
    system: a reactivation of check@hookrow.invalid, whom nobody has as a subscriber, and
    two bodies of the type HookrowCheck, which are not supported.

    The exit status is 1 where there is an error.
    """
    findings = _findings() if url is None else look(url, conf.secret)
    context.exit(report(findings, as_json=as_json))


def _findings() -> Iterator[Finding]:
    """Look at what Django's system checks look at, and then at the database."""
    found = run_checks(tags=["hookrow"], databases=[conf.database])
    for message in found:
        text = " ".join(filter(None, (message.msg, message.hint)))
        yield Finding(_level(message.level), str(message.id), text)
    if not found:
        yield Finding(Level.OK, "settings", "Every system check of hookrow passes.")
    migrations = _migrations()
    yield migrations
    if migrations.level is Level.OK and not any(each.is_serious() for each in found):
        if connections[conf.database].vendor == "postgresql":
            yield from compare(_seconds)
        yield from _emails()


def _seconds() -> SupportsFloat:
    """Return the database's time, in seconds since 1970. Raises a `StoreError`."""
    with store().database.reading() as connection:
        seconds: SupportsFloat = connection.fetch(SECONDS)[0][0]
        return seconds


def _emails() -> Iterator[Finding]:
    try:
        count, example = repeated_emails(store().database, store().queries)
    except StoreError as error:
        yield Finding(Level.WARNING, "emails", f"They could not be compared: {error}")
        return
    if count:
        yield several_rows(count, masked(example))


def _level(level: int) -> Level:
    if level >= ERROR:
        return Level.ERROR
    return Level.WARNING if level >= WARNING else Level.OK


def _migrations() -> Finding:
    try:
        executor = MigrationExecutor(connections[conf.database])
    except Error as error:
        return Finding(Level.ERROR, "database", f"It cannot be reached: {error}".strip())
    ours = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] in _APPS]
    missing = [migration for migration, _ in executor.migration_plan(ours)]
    if not missing:
        return Finding(Level.OK, "migrations", "All are applied.")
    names = ", ".join(map(str, missing))
    return Finding(Level.ERROR, "migrations", f"Not applied: {names}. Run: manage.py migrate")


def _endpoint() -> str:
    """Return the web address at which `runserver` takes notifications."""
    try:
        return urljoin(RUNSERVER, reverse("hookrow:webhooks"))
    except NoReverseMatch:
        raise ConfigurationError(
            "The project's URLs have no hookrow.django.urls: include them, or say --url."
        ) from None


def _settled(command: click.Command, values: Mapping[str, Any]) -> click.Command:
    """Return the command without the options that have these values already."""
    settled = copy(command)
    settled.params = [each for each in command.params if each.name not in values]
    of_it = {each.name: values[each.name] for each in command.params if each.name in values}
    if command.callback is not None:
        settled.callback = partial(command.callback, **of_it)
    if isinstance(settled, click.Group):
        members = settled.commands.items()
        settled.commands = {name: _settled(member, values) for name, member in members}
    return settled


def _by_default(command: click.Command, name: str, value: Any) -> click.Command:  # noqa: ANN401 - click's own
    """Return the command with another default for an option."""
    changed = copy(command)
    changed.params = [copy(each) for each in command.params]
    for each in changed.params:
        if each.name == name:
            each.default = value
    return changed
