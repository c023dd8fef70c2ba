"""`hookrow check`: checks the configuration and the database, or a webhook over the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hookrow._cli.app import App, HostApp
from hookrow._cli.entries import entries_of, read_tokens, senders_of
from hookrow._cli.options import (
    DATABASE_URL,
    JSON,
    PREVIOUS_SECRET,
    SECRET_FILE,
    SECRET_OPTION,
    webhook_url,
)
from hookrow._cli.output import echo, echo_json
from hookrow._cli.serve import serve
from hookrow._cli.settings import settings_of, settings_sources
from hookrow._core.schema import Schema
from hookrow._diagnostics import CheckResult, Level
from hookrow._receiver.entries import Entries, Parsers
from hookrow._receiver.entries import read_entries as as_entries
from hookrow._server.settings import Settings, check_tenants, providers_of
from hookrow.errors import ConfigurationError
from hookrow.providers import Provider
from hookrow.providers.postmark import Postmark

if TYPE_CHECKING:
    from hookrow._diagnostics.status import WebhookState
    from hookrow._postmark_api.status import ProviderWatch
    from hookrow.stores.sql import SQLStore


@click.command(short_help="Check the configuration, the database or the webhook.")
@click.argument("url", required=False, type=webhook_url)
@SECRET_OPTION
@PREVIOUS_SECRET
@SECRET_FILE
@DATABASE_URL
@JSON
@click.pass_context
def check(
    context: click.Context,
    *,
    url: str | None,
    secret: str | None,
    previous_secret: str | None,
    secret_file: str | None,
    database_url: str,
    as_json: bool,
) -> None:
    """Check the configuration and the database, and explain how to fix each fault.

    The first result is the status: OK, attention or broken, with the reasons and the
    remedies. For it, an entry is written to the log and undone. The source of each
    setting that is not at its default is printed, but no secret. The exit status is 1 if
    there is an error.

    With the URL configured at the provider, check the webhook over the network instead.
    The requests are harmless on a live system: they are for check@hookrow.invalid, change
    nothing and are not logged. The secret is sent only after hookrow has
    rejected a wrong one, and never unencrypted to a public address.
    """
    from hookrow._diagnostics import probe

    if isinstance(context.obj, HostApp):
        context.exit(report(_check_app(context, context.obj, url), as_json=as_json))
    entries = entries_of(
        context, secret=secret, previous_secret=previous_secret, secret_file=secret_file
    )
    of_server = settings_of(context, serve)
    settings = Settings(
        entries=entries,
        database_url=database_url,
        schema=context.obj.schema,
        # None if `serve` would reject the value, which the list of settings reports
        sweep=of_server["sweep"] is not False,
        acknowledge_parked=of_server["acknowledge_parked"],
        keep_bodies=of_server["keep_bodies"],
    )
    configured = context.obj.configured.sources
    sources = chain(settings_sources(context, serve, settings.schema), configured)
    if url is None:
        results = chain(
            _check_database(context, settings),
            _check_tenants(settings),
            _check_sweep(settings),
            (each for each in sources if as_json or each.source != "default"),
        )
    else:
        used = (
            each
            for each in sources
            if each.setting.startswith(("secret", "providers.")) and each.value
        )
        results = chain(used, probe.check_url(url, senders_of(entries)))
    context.exit(report(results, as_json=as_json))


def _check_database(context: click.Context, settings: Settings) -> Iterator[CheckResult]:
    """Yield the status, and then what it is derived from: the secrets, and the database.

    There is no status if the database cannot be opened, which another result reports.
    """
    from hookrow._diagnostics import check
    from hookrow._diagnostics.status import check_store, read_status, status_result
    from hookrow.stores.sql import SQLStore

    app: App = context.obj
    secrets = (
        check.check_secrets(each.secrets, each.file, entry=each.name) for each in settings.entries
    )
    with ExitStack() as stack:
        try:
            database = stack.enter_context(app.open_database(settings.database_url))
            store = SQLStore(database, settings.schema)
            store.use_entries(app.parsers.known)
        except ConfigurationError as error:
            yield from secrets
            yield CheckResult(Level.ERROR, "database", str(error))
            return
        asked = ask_provider(context, store, app.parsers, partial(_build_entries, settings))
        source = replace(
            app.status_source(store),
            sweep=lambda: _check_sweep(settings),
            webhooks=lambda: asked.states,
        )
        results = check_store(source, rehearse=True)
        yield status_result(read_status(source, results=results))
        yield from secrets
        yield from check.check_rows(results, database, settings.schema, app.parsers)
        yield from asked.results


def _build_entries(settings: Settings) -> Entries[Provider]:
    """Return the entries of the receiver. Raises `ConfigurationError`."""
    built = [each.build() for each in settings.entries]
    return as_entries(providers_of(settings.entries, built))


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The known states of the webhooks at Postmark, and a result for each that has a token."""

    states: Sequence[WebhookState] = ()
    results: Sequence[CheckResult] = ()


def ask_provider(
    context: click.Context,
    store: SQLStore,
    parsers: Parsers,
    entries: Callable[[], Entries[Provider]],
) -> Webhooks:
    """Ask Postmark about the webhooks of the entries for which `hookrow serve` has tokens, too.

    `parsers` are the entries, and `entries` returns them with their secrets. An error of a token or
    of the API is a result.
    """
    of_server = settings_of(context, serve)
    names = [each.name for each in parsers if each.provider.name == Postmark.name]
    try:
        tokens = read_tokens(context, names, of_server["provider_token_file"])
        if not tokens:
            return Webhooks()
        from hookrow._diagnostics.status import webhook_states
        from hookrow._postmark_api.status import watch_provider

        watches = watch_provider(tokens, of_server["provider_api"], store, entries())
    except ConfigurationError as error:
        return Webhooks(results=[CheckResult(Level.ERROR, "provider", str(error))])
    for each in watches.values():
        each.ask()
    return Webhooks(
        webhook_states({name: each.state for name, each in watches.items()}),
        [
            _provider_result(name if len(watches) > 1 else None, each)
            for name, each in watches.items()
        ],
    )


def _provider_result(name: str | None, watch: ProviderWatch) -> CheckResult:
    """Return the result for the webhooks of an entry, whose name is None if it is the only one."""
    from hookrow._diagnostics.status import WEBHOOK_REMEDY

    text = str(watch.line) if name is None else f"{name}: {watch.line}"
    if watch.state is None:
        return CheckResult(Level.WARNING, "provider", text)
    if (obstacle := watch.state.obstacle) is not None:
        return replace(obstacle, subject="provider")
    if watch.state.are_correct:
        return CheckResult(Level.OK, "provider", text)
    level = Level.WARNING if watch.state.are_accepted else Level.ERROR
    return CheckResult(level, "provider", text, remedy=WEBHOOK_REMEDY)


def _check_tenants(settings: Settings) -> Iterator[CheckResult]:
    """Check that both the entries and the mapping have tenants, or neither."""
    try:
        check_tenants(settings.entries, settings.schema)
    except ConfigurationError as error:
        yield CheckResult(Level.ERROR, "tenants", str(error))


def _check_sweep(settings: Settings) -> Iterator[CheckResult]:
    """Check that notifications that arrive before their rows are retried."""
    from hookrow._diagnostics import check

    try:
        sweeps = settings.sweeps
    except ConfigurationError as error:
        yield CheckResult(Level.ERROR, "sweep", str(error))
        return
    if any(each.provider == Postmark.name for each in settings.entries):
        yield from check.check_sweep(
            log=settings.schema.log is not None, bodies=settings.bodies, sweep=sweeps
        )


def _check_app(context: click.Context, app: HostApp, url: str | None) -> Iterator[CheckResult]:
    """Check the application, or the webhook at a URL with the secret of the application."""
    from hookrow._diagnostics import check, probe
    from hookrow._diagnostics.status import check_store, read_status, status_result

    for name in ("secret", "previous_secret", "secret_file"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{app} already has secrets: omit {option}.")
    sources = settings_sources(context, serve, Schema())
    of_app = (each for each in sources if each.setting in {"app", "config"} and each.value)
    try:
        if url is not None:
            yield from of_app
            yield from probe.check_url(url, app.senders)
            return
        receiver, store = app.receiver, app.store
        asked = Webhooks()
        if receiver is not None:
            asked = ask_provider(context, store, receiver.entries, lambda: receiver.entries)
        source = replace(app.status_source(store), webhooks=lambda: asked.states)
        results = check_store(source, rehearse=True)
        yield status_result(read_status(source, results=results))
        yield from of_app
        if receiver is not None:
            text = f"Its endpoint is {receiver.endpoint}, below the path at which it is mounted."
            yield CheckResult(Level.OK, "app", text)
        for each in receiver.entries if receiver else ():
            if secrets := each.provider.secrets:
                yield check.check_secrets(partial(tuple, secrets), entry=each.name)
        parsers = None if receiver is None else receiver.entries
        yield from check.check_rows(results, store.database, app.schema, parsers)
        yield from asked.results
        yield from source.sweep()
    except ConfigurationError as error:
        yield from of_app  # unless they have been
        yield CheckResult(Level.ERROR, "app", str(error))


def report(results: Iterable[CheckResult], *, as_json: bool) -> int:
    """Print the results; return the exit status, which is 1 if there is an error."""
    status = 0
    for result in results:
        if as_json:
            echo_json(result)
        else:
            text, *lines = result.text.split("\n")  # several faults, and the lines to write
            details = [f"{'':20} {each}" for each in (result.meaning, result.remedy) if each]
            echo(f"{result.level.value:8} {result.subject:11} {text}", *lines, *details)
        status = max(status, result.level is Level.ERROR)
    return status
