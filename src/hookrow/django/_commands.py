"""The commands of `manage.py hookrow`, with the project's settings in place of options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import Any
from urllib.parse import urljoin

import click
from django.core.checks import ERROR, WARNING, run_checks
from django.db import Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.urls import NoReverseMatch, reverse

from hookrow._cli import Commands
from hookrow._cli.check import Webhooks, ask_provider, report
from hookrow._cli.entries import ConfiguredEntries
from hookrow._cli.log import log
from hookrow._cli.options import JSON, webhook_url
from hookrow._cli.replay import prune, replay
from hookrow._cli.simulate import simulate
from hookrow._cli.stats import stats
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.advice import WEAKNESSES
from hookrow._diagnostics.check import check_working
from hookrow._diagnostics.probe import Sender, check_url
from hookrow._diagnostics.status import (
    StatusSource,
    check_store,
    read_status,
    status_result,
)
from hookrow._receiver.entries import Parsers, read_entries
from hookrow.django._conf import conf
from hookrow.django._mapping import map_models
from hookrow.django._receiver import parsers, store
from hookrow.django._status import command_source
from hookrow.django.models import Notification
from hookrow.errors import ConfigurationError
from hookrow.providers.postmark import Postmark
from hookrow.stores.sql import SQLStore

RUNSERVER = "http://127.0.0.1:8000"
"""The address of `manage.py runserver`."""

_APPS = ("hookrow", "hookrow_tables")

_SUBJECTS = [each for each in WEAKNESSES if each != "log"]
"""The weaknesses to look for in the database.

The other one cannot occur, because a migration creates the table of the log.
"""


class Project:
    """The store that the project's settings describe."""

    configured = ConfiguredEntries()

    @property
    def parsers(self) -> Parsers:
        """The entries that read the log. Raises `ConfigurationError`."""
        return parsers()

    @property
    def spool(self) -> str | PathLike[str] | None:
        """The file of the spool. Raises `ConfigurationError`."""
        return conf.spool

    def status_source(self, store: SQLStore) -> StatusSource:
        """Return where this process finds the facts of the status: the database, and the spool."""
        return command_source(store, parsers())

    @property
    def senders(self) -> Sequence[Sender]:
        """The entries as far as their requests can be sent. Raises `ConfigurationError`."""
        return _senders()

    @contextmanager
    def open_store(self, database_url: str, *, verified: bool = True) -> Iterator[SQLStore]:
        """Open the store. Raises `ConfigurationError` if the log's table does not exist.

        The table is not looked for if the store is not to be `verified`.
        """
        del database_url
        opened = store()
        parsers()  # which the store knows from now on
        if verified and opened.log is not None:
            table = Notification._meta.db_table
            with opened.database.reading():
                tables = connections[conf.database].introspection.table_names()
            if table not in tables:
                text = f"The table {table} does not exist. Run: manage.py migrate"
                raise ConfigurationError(text)
        yield opened


def commands() -> click.Group:
    """Return the commands, with the project's current settings."""
    posting = {
        "secret": lambda: conf.secret,
        "secret_file": None,
        "provider": None,
        "signed_url": None,
        "mount_path": "",
        "host": "",
        "port": 0,
    }
    return Commands(
        "hookrow",
        help="Manage the log of notifications, with the project's settings.",
        context_settings={"obj": Project(), "help_option_names": ["-h", "--help"]},
        commands=[
            check,
            *(_adapted(each, {"database_url": ""}) for each in (log, stats, replay, prune)),
            _adapted(simulate, posting, url=_endpoint),
        ],
    )


@click.command(short_help="Check the settings, the database or the webhook.")
@click.argument("url", required=False, type=webhook_url)
@JSON
@click.pass_context
def check(context: click.Context, *, url: str | None, as_json: bool) -> None:
    """Check the settings and the database, and explain how to fix each fault.

    With the URL configured at the provider, check the webhook over the network instead.
    The requests are harmless on a live system: they are for check@hookrow.invalid, change
    nothing and are not logged. The secret is sent only after hookrow has
    rejected a wrong one, and never unencrypted to a public address.

    The exit status is 1 if there is an error.
    """
    results = _check(context) if url is None else check_url(url, _senders())
    context.exit(report(results, as_json=as_json))


def _senders() -> Sequence[Sender]:
    """Return the entries of the settings as far as their requests can be sent.

    Raises `ConfigurationError`.
    """
    if conf.providers or conf.secret:
        return [*map(Sender.of, read_entries(conf.build_providers()))]
    return [Sender(None, Postmark)]


def _check(context: click.Context) -> Iterator[CheckResult]:
    """Yield the status of the project, and then what it is derived from.

    There is no status if a setting is invalid, which a system check reports.
    """
    results: Sequence[CheckResult] | None = None
    asked = Webhooks()
    with suppress(ConfigurationError):
        opened = store()
        source = command_source(opened, parsers())
        asked = ask_provider(
            context, opened, parsers(), lambda: read_entries(conf.build_providers())
        )
        results = check_store(source, rehearse=True)
        status = read_status(replace(source, webhooks=lambda: asked.states), results=results)
        yield status_result(status)
    yield from _check_project(results)
    yield from asked.results


def _check_project(results: Sequence[CheckResult] | None) -> Iterator[CheckResult]:
    """Run Django's system checks, and then check the database.

    `results` are those of its tables, or None if the settings do not allow to check them.
    """
    found = run_checks(tags=["hookrow"], include_deployment_checks=True)
    messages = [each for each in found if not each.is_silenced()]
    for message in messages:
        level, id_ = _level(message.level), str(message.id)
        yield CheckResult(level, id_, message.msg, remedy=message.hint or "")
    if not messages:
        yield CheckResult(Level.OK, "settings", "Every system check of hookrow passes.")
    if any(message.id == "hookrow.E004" for message in messages):
        return
    migrations = _check_migrations()
    yield migrations
    if (
        results is not None
        and migrations.level is Level.OK
        and not any(each.is_serious() for each in messages)
    ):
        yield from _check_database(results)


def _check_database(results: Sequence[CheckResult]) -> Iterator[CheckResult]:
    """Yield whether the tables match the models; if they do, check them for weaknesses."""
    for each in results:
        is_behind = each.level is Level.ERROR and each.subject == "tables"
        yield replace(each, remedy=_BEHIND) if is_behind else each
    if all(each.level is Level.OK for each in results):
        opened = store()
        yield from check_working(opened.database, opened.mapping.schema, _SUBJECTS, parsers())


_BEHIND = (
    "The system checks find no fault in the models, so the tables may differ from them: run "
    "manage.py makemigrations and manage.py migrate."
)


def _level(level: int) -> Level:
    if level >= ERROR:
        return Level.ERROR
    return Level.WARNING if level >= WARNING else Level.OK


def _check_migrations() -> CheckResult:
    try:
        executor = MigrationExecutor(connections[conf.database])
    except Error as error:
        return CheckResult(Level.ERROR, "database", f"It cannot be reached: {error}".strip())
    needed = {*_APPS, *_mapped_apps()}
    leaves = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] in needed]
    missing = [migration for migration, _ in executor.migration_plan(leaves)]
    if not missing:
        return CheckResult(Level.OK, "migrations", "All are applied.")
    names = ", ".join(map(str, missing))
    return CheckResult(Level.ERROR, "migrations", f"Not applied: {names}. Run: manage.py migrate")


def _mapped_apps() -> Collection[str]:
    """Return the labels of the apps with the mapped models; none if the mapping has a fault."""
    try:
        models = map_models(conf.tables, conf.database).models
    except ConfigurationError:  # which the system checks report
        return ()
    return {model._meta.app_label for model in models.values()}


def _endpoint() -> str:
    """Return the endpoint's URL at `manage.py runserver`."""
    try:
        return urljoin(RUNSERVER, reverse("hookrow:webhooks"))
    except NoReverseMatch:
        raise ConfigurationError(
            "The project's URLs do not include hookrow.django.urls: include it, or pass --url."
        ) from None


def _adapted(
    command: click.Command, values: Mapping[str, object], **defaults: object
) -> click.Command:
    """Return the command with values in place of some options, and with other defaults.

    Values and defaults may be functions, which are called when the command runs.
    """
    adapted = copy(command)
    adapted.params = [copy(each) for each in command.params if each.name not in values]
    for each in adapted.params:
        each.default = defaults.get(str(each.name), each.default)
    if command.callback is not None:
        names = {str(each.name) for each in command.params}
        replaced = {name: value for name, value in values.items() if name in names}
        adapted.callback = _with_values(command.callback, replaced)
    if isinstance(adapted, click.Group):
        members = adapted.commands.items()
        adapted.commands = {name: _adapted(member, values) for name, member in members}
    return adapted


def _with_values(callback: Callable[..., Any], values: Mapping[str, object]) -> Callable[..., Any]:
    """Return a function that calls a command's callback with these values of options."""

    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the command's own
        for name, value in values.items():
            options[name] = value() if callable(value) else value
        return callback(*args, **options)

    return call
