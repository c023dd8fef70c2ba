"""`hookrow provider`: manages the webhooks at the provider, and records what they missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookrow._arguments import refuse_windows
from hookrow._cli import options
from hookrow._cli.app import App
from hookrow._cli.entries import entries_of, read_tokens
from hookrow._cli.options import JSON, public_url, webhook_url
from hookrow._cli.output import COMMITTED, echo, echo_json, progress
from hookrow._cli.settings import PROVIDER_TOKEN
from hookrow._core.notification import Arrival
from hookrow._describe import pluralize, printable, visible
from hookrow._receiver.entries import Entry, Parsers, no_such_entry
from hookrow._server.settings import EntrySettings, variable_of
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark

if TYPE_CHECKING:
    from hookrow._postmark_api.client import PostmarkAPI
    from hookrow._postmark_api.errors import VerificationFailed
    from hookrow._postmark_api.reconcile import Reconciled
    from hookrow._postmark_api.register import ExpectedWebhook, Registered
    from hookrow._postmark_api.status import ProviderStatus
    from hookrow._postmark_api.webhooks import PostmarkServer, Stream
    from hookrow.stores.sql import SQLStore

STREAM = click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="ID",
    help="Only this message stream; may be repeated. By default, all streams that send mail.",
)
ENTRY = click.option(
    "--entry",
    type=options.entry_name,
    metavar="NAME",
    help="The entry of the receiver whose token and secrets are used; by default, the only one "
    "that is Postmark's.",
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show what would change, and change nothing."
)


@dataclass(frozen=True, slots=True)
class ProviderSession:
    """The API, and the secrets and the store that hookrow uses.

    `secret_file` is None if the secrets are not from a file. `entry` is that of Postmark, which
    `is_first` if its URL needs no name.
    """

    api: PostmarkAPI
    secrets: Sequence[str]
    secret_file: str | None
    app: App
    database_url: str
    entry: Entry[BodyParser]
    is_first: bool

    def require_secret(self) -> None:
        """Raise `ConfigurationError` if no secret is set, because none could be compared."""
        if not self.secrets:
            places = "HOOKROW_SECRET, --secret or --secret-file"
            if self.entry.name is not None:
                places = variable_of(self.entry.name, Postmark.credential)
            raise ConfigurationError(
                f"The webhook secret is missing: set {places} to the secret that hookrow accepts."
            )

    def expected(self, url: str | None = None) -> ExpectedWebhook:
        """Return the settings of a correct webhook. Raises `ConfigurationError` for a wrong URL."""
        from hookrow._postmark_api.register import ExpectedWebhook, triggers_of

        triggers = triggers_of(self.app.recorded)
        return ExpectedWebhook(
            url=url,
            secrets=self.secrets,
            triggers=triggers,
            entry=self.entry.name,
            is_first=self.is_first,
        )

    def connect(
        self, store: SQLStore | None, streams: Sequence[str], url: str | None = None
    ) -> tuple[PostmarkServer, Sequence[Stream]]:
        """Return the token's server, and the streams with these names, or all of its streams.

        Raises `APIError`, and `ConfigurationError` if the URL is not valid, if there is no such
        stream, or if the notifications in the store's log are from another server.
        """
        from hookrow._postmark_api import webhooks
        from hookrow._postmark_api.status import check_server

        expected = self.expected(url)
        server = webhooks.read_server(self.api)
        chosen = webhooks.read_streams(self.api, streams)
        if store is not None:
            found = (each for one in chosen for each in webhooks.read_webhooks(self.api, one))
            check_server(server, store, found, expected)
        return server, chosen

    @contextmanager
    def open_log(self) -> Iterator[SQLStore | None]:
        """Yield the store, or warn and yield None if it cannot be opened."""
        with ExitStack() as stack:
            store = None
            try:
                store = stack.enter_context(self.app.open_store(self.database_url))
            except HookrowError as error:
                echo(f"Warning: The log is not available for comparison. {error}", err=True)
            yield store


def with_session(command: Callable[..., object]) -> Callable[..., object]:
    """Add the common options to a command, whose first argument becomes a `ProviderSession`."""

    @options.SECRET_OPTION
    @options.PREVIOUS_SECRET
    @options.SECRET_FILE
    @options.DATABASE_URL
    @options.PROVIDER_API
    @options.PROVIDER_TOKEN_FILE
    @ENTRY
    @STREAM
    @JSON
    @click.pass_context
    @wraps(command)
    def wrapped(  # noqa: PLR0913 - one for each option
        context: click.Context,
        /,
        *,
        database_url: str,
        provider_api: str,
        provider_token_file: str | None,
        secret: str | None,
        previous_secret: str | None,
        secret_file: str | None,
        entry: str | None,
        **rest: Any,  # noqa: ANN401 - the command's own
    ) -> None:
        from hookrow._postmark_api.client import PostmarkAPI

        app = context.obj
        chosen = choose_postmark(app.parsers, entry)
        own = [each.provider for each in app.senders if each.name == chosen.name]
        secrets = next((each.secrets for each in own if isinstance(each, Postmark)), ())
        file = None
        if not secrets:
            settings = entries_of(
                context, secret=secret, previous_secret=previous_secret, secret_file=secret_file
            )
            entry_settings = next(each for each in settings if each.name == chosen.name)
            secrets, file = entry_settings.given(), entry_settings.file
        if secrets:
            Postmark(*secrets)  # raises ConfigurationError for a secret that no header can contain
        token = read_tokens(context, [chosen.name], provider_token_file).get(chosen.name)
        if token is None:
            raise _missing_token(chosen.name)
        api = PostmarkAPI(token, provider_api, hidden=secrets)
        is_first = chosen.name == app.parsers.default.name
        session = ProviderSession(api, secrets, file, app, database_url, chosen, is_first)
        command(session, **rest)

    return wrapped


def _missing_token(entry: str | None) -> ConfigurationError:
    variable = PROVIDER_TOKEN if entry is None else variable_of(entry, "token")
    return ConfigurationError(
        f"The token of the provider's API is missing: set {variable}, or --provider-token-file to "
        "a file that contains it. It is the API token of the server, on its page API Tokens at "
        "the provider."
    )


def choose_postmark(parsers: Parsers, name: str | None) -> Entry[BodyParser]:
    """Return the entry of Postmark's with a name, or the only one. Raises `ConfigurationError`."""
    if name is not None:
        entry = parsers.named(name)
        if entry is None:
            raise ConfigurationError(no_such_entry(name, parsers.names))
        found = [entry]
    else:
        found = [*parsers]
    postmark = [each for each in found if each.provider.name == Postmark.name]
    if not postmark:
        names = ", ".join(sorted({each.provider.name for each in found}))
        raise ConfigurationError(
            f"The provider is {names}: `hookrow provider` manages only webhooks at Postmark."
        )
    if len(postmark) > 1:
        names = ", ".join(str(each.name) for each in postmark)
        raise ConfigurationError(
            f"Several entries are Postmark's: {names}. Name one of them with --entry, because each "
            "has its own server and token."
        )
    return postmark[0]


def describe_failure(error: VerificationFailed, url: str) -> HookrowError:
    """Return the error with the result of each trigger, and the remedy."""
    from hookrow._postmark_api.register import advice

    results = [
        f"    {each.trigger}: {each.status or 'no response'}. {each.message}".rstrip()
        for each in error.results
    ]
    remedies = dict.fromkeys(advice(each, url) for each in error.results if not each.success)
    lines = [str(error), *results, "The webhook was not changed.", *remedies]
    return HookrowError("\n".join(map(printable, lines)))


@click.group()
def provider() -> None:
    """Manage the webhooks at the provider.

    The provider must be Postmark. The token of its API is read from HOOKROW_PROVIDER_TOKEN or from
    a file, and never printed. An entry of the receiver may have its own, in the variable
    HOOKROW_PROVIDERS_NAME_TOKEN, or as token in [providers.NAME].
    """


@provider.command(short_help="Create or correct the webhooks.")
@click.option(
    "--url",
    required=True,
    type=public_url,
    metavar="URL",
    help="The public URL, ending in /provider/webhooks, or in that and the name of the entry.",
)
@DRY_RUN
@with_session
def register(
    session: ProviderSession, *, url: str, dry_run: bool, streams: Sequence[str], as_json: bool
) -> None:
    """Create a webhook for each message stream, or correct the existing one.

    Its URL, its header with the newest secret, and its triggers are set, and the provider tests
    them: hookrow must be running at the URL, with acknowledge_tests. If nothing is wrong, nothing
    is changed.
    """
    from hookrow._postmark_api import register
    from hookrow._postmark_api.errors import VerificationFailed

    session.require_secret()
    with session.open_log() as store:
        server, chosen = session.connect(store, streams, url)
    if not chosen:
        raise ConfigurationError(f"The server {server.name} has no message stream that sends mail.")
    if not as_json:
        echo(f"Server {server.name} ({server.id})")
    try:
        for each in register.register(session.api, session.expected(url), chosen, dry_run=dry_run):
            _print_registered(each, dry_run=dry_run, as_json=as_json)
    except VerificationFailed as error:
        raise describe_failure(error, url) from error


def _print_registered(found: Registered, *, dry_run: bool, as_json: bool) -> None:
    actions = [
        "create" if each.id is None else "change" if each.body else "verify"
        for each in found.changes
    ]
    reasons = [text for each in found.changes for text in each.reasons]
    if as_json:
        fields = {
            "stream": found.stream.id,
            "webhook": found.id,
            "actions": actions,
            "reasons": reasons,
            "dry_run": dry_run,
        }
        echo_json(fields)
        return
    name = "a webhook" if found.id is None else f"webhook {found.id}"
    done = {"create": "created", "change": "changed", "verify": "verified"}
    verbs = [f"would {each}" if dry_run else done[each] for each in actions]
    what = f"{' and '.join(verbs)} {name}." if verbs else f"{name} needs no change."
    echo(f"{found.stream.id}: {what}", *(f"    {each}" for each in reasons))


@provider.command(short_help="Compare the webhooks with hookrow.")
@with_session
def status(session: ProviderSession, *, streams: Sequence[str], as_json: bool) -> None:
    """Compare the webhooks at the provider with hookrow's settings and its log.

    A webhook is hookrow's if its URL ends in /provider/webhooks. The exit status is 1 if there is
    none, or if one differs: in its triggers, in its header, because the provider has paused a
    trigger, or because its stream has another. If one stream has a webhook, another without one is
    only reported, and so are different counts.
    """
    from hookrow._postmark_api.status import read_status

    session.require_secret()
    with session.open_log() as store:
        found = read_status(session.api, session.expected(), streams, store=store)
    if as_json:
        echo_json(_status_as_json(found))
    else:
        echo(*_describe_status(found))
    click.get_current_context().exit(0 if found.is_correct else 1)


def _describe_status(found: ProviderStatus) -> Iterator[str]:
    """Yield the lines of a status; the last one is the summary."""
    yield f"Server {found.server.name} ({found.server.id})"
    if not found.server.track_opens:
        yield "    Open tracking is off: only messages that request it have opens."
    for each in found.webhooks:
        secret = {None: "no accepted secret", 0: "the newest secret"}.get(
            each.secret, "an old secret"
        )
        yield f"{each.stream}: webhook {each.id}, {each.url}, with {secret}"
        for trigger, state in each.triggers.items():
            posts = pluralize(each.requests.get(trigger, 0), "post")
            failed = each.failures.get(trigger, 0)
            yield f"    {trigger:20}{state:12}{posts} in 24 hours, {failed:,} failed"
    for stream in found.without_webhook:
        yield f"{stream}: no hookrow webhook."
    for name, logged in found.logged.items():
        if found.complete:
            posted = found.posted[name]
            yield f"{name}: the provider posted {posted:,} in 24 hours, and the log has {logged:,}."
        else:
            yield f"{name}: the log has {logged:,} of 24 hours, from all streams."
    yield from found.drift
    yield found.summary


def _status_as_json(found: ProviderStatus) -> Mapping[str, Any]:
    return {
        "server": found.server.id,
        "name": found.server.name,
        "track_opens": found.server.track_opens,
        "webhooks": found.webhooks,
        "without_webhook": found.without_webhook,
        "logged": found.logged,
        "summary": found.summary,
    }


@provider.command(short_help="Record what the webhooks missed.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    required=True,
    metavar="YYYY-MM-DD",
    help="The day, in UTC, from which events are recorded.",
)
@click.option(
    "--lift",
    is_flag=True,
    help="Also lift each suppression that is in none of the provider's message streams.",
)
@DRY_RUN
@with_session
def reconcile(
    session: ProviderSession,
    *,
    since: datetime,
    lift: bool,
    dry_run: bool,
    streams: Sequence[str],
    as_json: bool,
) -> None:
    """Record suppressions, opens and deliveries that the provider has and hookrow lacks.

    They are recorded as late notifications, which never override newer changes, and are logged
    with the source "reconcile". The deliveries require one request for each dispatch that has
    none, at most 10 per second. The command can be interrupted and run again: recorded events are
    skipped.
    """
    from hookrow._postmark_api import reconcile, webhooks

    api, since = session.api, since.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    if since > now:
        raise click.BadParameter("the day is in the future.", param_hint="--since")
    if since < now - reconcile.RETENTION:
        days = reconcile.RETENTION.days
        echo(
            f"Warning: By default, the provider keeps messages for {days} days: it may not know "
            "older deliveries and opens.",
            err=True,
        )
    with session.app.open_store(session.database_url) as store:
        server, chosen = session.connect(store, streams)
        every = webhooks.read_streams(api, archived=True) if lift else ()
        run = reconcile.Reconciliation(
            api,
            store,
            session.entry.provider,
            chosen,
            since=since,
            chosen=bool(streams),
            server=server.id,
            entry=session.entry.name,
            tenant=session.entry.tenant,
            dry_run=dry_run,
            report=_report_event if dry_run and not as_json else lambda _: None,
        )
        undelivered, limited = run.count_undelivered()
        if undelivered and not limited:
            echo(
                "The time of sending is not mapped, so the provider is asked about all dispatches "
                f"without delivered_at: {undelivered:,}.",
                err=True,
            )
        interrupted = None if dry_run else COMMITTED
        with progress("Reconciling", undelivered, interrupted=interrupted) as update:
            try:
                for asked in run.steps(every):
                    update(asked)
            except HookrowError as error:
                done = _describe_result(run.result, dry_run=dry_run)
                raise HookrowError(f"Stopped. {done} {error}") from error
    if as_json:
        echo_json({"dry_run": dry_run, **msgspec.to_builtins(run.result)})
    else:
        echo(_describe_result(run.result, dry_run=dry_run))


def _report_event(arrival: Arrival) -> None:
    """Print an event that would be recorded."""
    for each in arrival.notifications:
        name = type(each).__name__.lower()
        recipient, message = visible(each.recipient or "-"), visible(each.message_id or "-")
        echo(f"{each.at:%Y-%m-%d %H:%M:%S}  {name:12}{recipient}  {message}")


def _describe_result(result: Reconciled, *, dry_run: bool) -> str:
    """Return the totals as sentences."""
    suppressions = pluralize(result.suppressions, "suppression")
    opens = pluralize(result.opens, "open")
    deliveries = pluralize(result.deliveries, "delivery", "deliveries")
    verb = "Would record" if dry_run else "Recorded"
    sentences = [f"{verb} {suppressions}, {opens} and {deliveries}."]
    if result.lifted:
        verb = "Would lift" if dry_run else "Lifted"
        sentences.append(f"{verb} {pluralize(result.lifted, 'suppression')}.")
    others = {
        "Events that match no row here": result.unknown,
        "Messages that the provider has not delivered": result.undelivered,
        "Messages that the provider does not know": result.unknown_there,
        "Events that are in the log as failed": result.failed,
    }
    sentences += [f"{text}: {count:,}." for text, count in others.items() if count]
    if result.incomplete:
        lists = ", ".join(result.incomplete)
        sentences.append(f"The provider returned only the newest 10,000 of these lists: {lists}.")
    return " ".join(sentences)


@provider.command(short_help="Replace the secret of the webhooks.")
@click.option("--finish", is_flag=True, help="Remove the old secret once nothing uses it any more.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    type=webhook_url,
    metavar="URL",
    help="The URL of an instance of hookrow that must accept both secrets; may be repeated. "
    "By default, the URLs of the webhooks.",
)
@DRY_RUN
@with_session
def rotate(
    session: ProviderSession,
    *,
    finish: bool,
    instances: Sequence[str],
    dry_run: bool,
    streams: Sequence[str],
    as_json: bool,
) -> None:
    """Replace the secret of the webhooks, without losing a notification.

    A new secret is written before the old one in the secret file. When every instance accepts both,
    the webhooks get the new one, and the provider tests them. After 72 minutes, in which the
    provider may repeat notifications with the old secret, run the command again with --finish,
    which removes the old one. If the command is interrupted, run it again: it continues.
    """
    refuse_windows("`hookrow provider rotate`", "run it on Linux or macOS")
    from hookrow._postmark_api.errors import VerificationFailed
    from hookrow._postmark_api.rotate import Rotation, SecretFile

    if session.secret_file is None:
        name = session.entry.name
        place = "--secret-file" if name is None else f"secret_file in [providers.{name}]"
        raise ConfigurationError(
            f"Only secrets in a file can be rotated: set {place}. To rotate other secrets, set "
            "the secret to a new one and the previous one (`previous_secret`) to the old one, "
            "restart every instance, run `hookrow provider register`, and remove the old one after "
            "72 minutes."
        )
    if finish and streams:
        raise click.UsageError(
            "--finish removes the old secret for all message streams: omit --stream."
        )
    file = SecretFile(
        Path(session.secret_file),
        EntrySettings(name=session.entry.name, file=session.secret_file).given,
    )
    with session.open_log() as store:
        server, chosen = session.connect(store, streams)
        if not as_json:
            echo(f"Server {server.name} ({server.id})")
        rotation = Rotation(
            api=session.api, file=file, streams=chosen, instances=instances, dry_run=dry_run
        )
        try:
            for step in rotation.finish(store) if finish else rotation.begin():
                if as_json:
                    echo_json({"step": step})
                else:
                    echo(step)
        except VerificationFailed as error:
            raise describe_failure(error, error.url) from error
