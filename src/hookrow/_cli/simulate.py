"""`hookrow simulate`: posts notifications as the provider would, including unsupported ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import click
import msgspec
from click.core import ParameterSource

from hookrow._cli.app import HostApp
from hookrow._cli.entries import choose_entry, entries_of, senders_of
from hookrow._cli.options import (
    HOST,
    MOUNT_PATH,
    PORT,
    SECRET_FILE,
    entry_name,
    option,
    webhook_url,
)
from hookrow._cli.output import echo, progress
from hookrow._cli.settings import choose_secrets
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
)
from hookrow._http import ENDPOINT, endpoint_path
from hookrow._server.settings import EntrySettings, origin, variable_of
from hookrow.errors import ConfigurationError
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.providers.postmark import Postmark

if TYPE_CHECKING:
    from hookrow._diagnostics.probe import Sender

START_TIMEOUT = 3.0
"""Seconds for which a refused connection is retried, because the server may be starting."""

NOT_RUNNING = "Is `hookrow serve`, or the server of your application, running there?"

RETRY_EVERY = 0.1
"""Seconds between two attempts to connect."""

SIMULATED = (
    *("delivery", "open", "suppression", "reactivation"),
    *("bounce", "complaint", "click", "inbound", "test"),
)


@click.command(short_help="Post notifications as the provider would.")
@click.argument("kind", type=click.Choice(SIMULATED))
@click.argument("email", required=False)
@click.argument("message_id", required=False)
@option(
    "--secret",
    metavar="SECRET",
    help="The newest secret of the receiver; with --provider, its key or its credentials.",
)
@SECRET_FILE
@option("--reason", default="HardBounce", show_default=True, help="The reason for a suppression.")
@click.option(
    "--entry",
    type=entry_name,
    metavar="NAME",
    help="Post as the provider of this entry of the receiver, to its URL; by default, of the first "
    "one.",
)
@click.option(
    "--provider",
    type=click.Choice([*PROVIDER_NAMES]),
    metavar="NAME",
    help=f"Post as this provider, whatever the settings are: {', '.join(PROVIDER_NAMES)}.",
)
@click.option(
    "--signed-url",
    metavar="URL",
    help="The url in the settings of the receiver, if the --provider signs it (mandrill); by "
    "default, the URL of the endpoint.",
)
@option(
    "--url",
    type=webhook_url,
    metavar="URL",
    help="The URL of the endpoint, instead of the one in the settings. If it ends with the name of "
    "an entry, it needs no --entry.",
)
@MOUNT_PATH
@HOST
@PORT
@click.option(
    "--count", type=click.IntRange(1, 100_000), default=1, help="The number of notifications."
)
@click.pass_context
def simulate(  # noqa: PLR0913 - one for each option
    context: click.Context,
    /,
    *,
    secret: str | None,
    secret_file: str | None,
    entry: str | None,
    provider: str | None,
    signed_url: str | None,
    url: str | None,
    mount_path: str,
    host: str,
    port: int,
    count: int,
    **event: Any,  # noqa: ANN401 - the arguments of `_bodies`
) -> None:
    """Post notifications as the provider would, and print the responses.

    Each notification is a KIND for EMAIL and the provider's MESSAGE_ID, and occurred now. With
    --count, their times are a millisecond apart, or a second if the provider's have no fractions,
    and {} in EMAIL and MESSAGE_ID is replaced with the number of the notification. inbound gets a
    422, and so do bounce, complaint and click unless the mapping records them; test is what the
    provider's button "Send test" posts, and takes no EMAIL. Only Postmark has inbound and test. A
    provider's event may have several effects: a complaint often suppresses, too.

    With --provider, no settings file is needed: the command has the settings of the provider. Only
    Amazon SES and SendGrid can sign their own requests. A connection that is refused is retried for
    3 seconds. The exit status is 0 if every response is 200, and 130 after Ctrl-C.
    """
    if (event["email"] is None) != (event["kind"] == "test"):
        raise click.UsageError("EMAIL is required, except for test, which has a fixed address.")
    if isinstance(app := context.obj, HostApp) and (
        context.get_parameter_source("mount_path") is ParameterSource.DEFAULT
    ):
        mount_path = app.mount_path
    address = url or f"{origin(host, port)}{endpoint_path(mount_path)}"
    if provider is None:
        _refuse_signed_url(signed_url)
        address, sender = _choose(address, entry, _senders(context, secret, secret_file))
    else:
        if entry is not None:
            raise click.UsageError("An entry has a provider in the settings: omit --provider.")
        credentials = choose_secrets(context, secret=secret, secret_file=secret_file)
        sender = _sender_of(provider, *credentials, address, signed_url)
    _check_sender(sender)
    bodies = _bodies(sender, **event, count=count)
    post = partial(_post, address, sender.provider, monotonic() + START_TIMEOUT)
    if count == 1:
        response = post(next(bodies))
        echo(*response.splitlines())
        responses: Collection[str] = [response]
    else:
        responses = _post_all(post, bodies, count)
    context.exit(0 if all(each.startswith("200") for each in responses) else 1)


def _senders(
    context: click.Context, secret: str | None, secret_file: str | None
) -> Sequence[Sender]:
    """Return the entries of the application, or those of the settings.

    Raises `ConfigurationError`.
    """
    sources = {context.get_parameter_source(name) for name in ("secret", "secret_file")}
    senders = () if ParameterSource.COMMANDLINE in sources else context.obj.senders
    if not any(each.provider or each.kind is None for each in senders):
        return senders_of(entries_of(context, secret=secret, secret_file=secret_file))
    return senders


def _sender_of(
    name: str, credentials: tuple[str, ...], file: str | None, url: str, signed_url: str | None
) -> Sender:
    """Return the sender of a provider's requests to a URL, without the settings of any entry.

    Raises `UsageError` if the provider does not sign the URL, and `ConfigurationError`.
    """
    options = {}
    if "url" in built_in(name).options:
        options["url"] = signed_url or url
    else:
        _refuse_signed_url(signed_url)
    settings = EntrySettings(provider=name, credentials=credentials, file=file, options=options)
    [sender] = senders_of([settings])
    return sender


def _refuse_signed_url(url: str | None) -> None:
    if url is not None:
        raise click.UsageError("Only a --provider that signs the URL has --signed-url: mandrill.")


def _choose(url: str, entry: str | None, senders: Sequence[Sender]) -> tuple[str, Sender]:
    """Return the URL to which the provider of an entry posts, and the sender of its requests.

    The name at the end of the URL chooses the entry, or else `entry` does. Raises `UsageError` if
    both do, and if no entry has the name.
    """
    from hookrow._diagnostics.probe import name_at_end, url_of_entry

    named = name_at_end(url, senders)
    if named is None:
        sender = choose_entry(senders, entry)
        # A proxy may have other paths, at which no name can follow.
        follows = entry is not None and urlsplit(url).path.rstrip("/").endswith(ENDPOINT)
        return url_of_entry(url, str(entry)) if follows else url, sender
    if entry not in {None, named}:
        raise click.UsageError(f"The URL is that of the entry {named!r}: omit --entry.")
    return url, choose_entry(senders, named)


def _check_sender(sender: Sender) -> None:
    """Warn if no credential is set.

    Raises `ConfigurationError` if the events are not known, or only the provider can sign them.
    """
    if sender.kind is None:
        raise ConfigurationError(
            "The provider is not one of hookrow's own, so its events are not known: name an entry "
            "of another provider with --entry."
        )
    if sender.provider is None:
        if sender.kind.own_test:
            _refuse_to_sign(sender.kind)
        credential, settings = sender.kind.credential, "HOOKROW_SECRET, --secret or --secret-file"
        if sender.name is not None:
            settings = variable_of(sender.name, credential)
        elif credential != "secret":
            settings = f"{settings} to the {credential} of {sender.kind.name}"
        warning = f"No secret is set, so the receiver refuses the requests: set {settings}."
        echo(f"Warning: {warning}", err=True)


def _bodies(
    sender: Sender,
    kind: str,
    email: str | None,
    message_id: str | None,
    *,
    reason: str,
    count: int,
) -> Iterator[bytes]:
    """Yield `count` bodies whose times differ; that of the last one is now."""
    provider = sender.kind
    assert provider is not None  # noqa: S101 - for mypy: `_sender` has checked it
    create = _postmark_event
    if not issubclass(provider, Postmark):
        create = _event_of(sender.provider or provider.parser(), kind)
    now = datetime.now(UTC)
    for number in range(1, count + 1):
        at = now - provider.precision * (count - number)
        recipient, numbered = (
            each and each.replace("{}", str(number)) for each in (email, message_id)
        )
        try:
            yield create(kind, recipient, numbered, at, reason)
        except UnicodeEncodeError as error:
            text = f"The payload cannot be encoded as JSON: {error}."
            raise ConfigurationError(text) from error


def _postmark_event(
    kind: str, email: str | None, message_id: str | None, at: datetime, reason: str
) -> bytes:
    """Return a complete payload, as Postmark posts it."""
    from hookrow import testing

    if email is None:
        return msgspec.json.encode(testing.send_test(at=at))
    creators: dict[str, Callable[..., object]] = {
        "delivery": testing.delivery,
        "open": testing.opening,
        "suppression": partial(testing.suppression, reason=reason),
        "reactivation": testing.reactivation,
        "bounce": testing.bounce,
        "complaint": testing.complaint,
        "click": testing.click,
        "inbound": testing.inbound,
    }
    return msgspec.json.encode(creators[kind](email, message_id, at=at))


def _event_of(provider: BuiltIn, kind: str) -> Callable[..., bytes]:
    """Return the function that returns an event of a provider. Raises `ConfigurationError`."""
    kinds: dict[str, Callable[..., Notification]] = {
        "delivery": Delivered,
        "open": Opened,
        "suppression": Suppressed,
        "reactivation": Reactivated,
        "bounce": partial(Bounced, type=provider.hard_bounce),
        "complaint": Complained,
        "click": Clicked,
    }
    if kind not in kinds:
        raise ConfigurationError(f"Only Postmark has {kind}: choose another kind, or --entry.")

    def create(
        kind: str, email: str | None, message_id: str | None, at: datetime, reason: str
    ) -> bytes:
        more = (reason,) if kind == "suppression" else ()
        body = provider.compose(kinds[kind](email, message_id, at, *more))
        if body is None:
            of = f" with the reason {reason}" if more else ""
            raise ConfigurationError(f"{provider.name} sends no {kind}{of}.")
        return body

    return create


def _post(url: str, provider: BuiltIn | None, until: float, body: bytes) -> str:
    """Post a body; retry a refused connection until a time of the monotonic clock.

    Raises `NoResponse`, and `ConfigurationError` if only the provider can sign a request.
    """
    from hookrow.testing import NoResponse
    from hookrow.testing._client import TIMEOUT, send

    unsigned = ProviderRequest({"Content-Type": "application/json"}, body)
    while True:
        request = unsigned
        if provider is not None:
            request = provider.sign(body) or _refuse_to_sign(type(provider))
        try:
            status, text = send(url, request.body, request.headers, TIMEOUT)
        except NoResponse as error:
            if not isinstance(error.__cause__, ConnectionRefusedError):
                raise
            if monotonic() > until:
                raise NoResponse(f"{error}. {NOT_RUNNING}") from error
            sleep(RETRY_EVERY)
        else:
            return f"{status} {text}".rstrip()


def _refuse_to_sign(provider: type[BuiltIn]) -> NoReturn:
    raise ConfigurationError(
        f"Only {provider.name} can sign its requests: {provider.own_test}. The tests of an "
        "application can use hookrow.testing.WebhookSender, which generates a key."
    )


def _post_all(post: Callable[[bytes], str], bodies: Iterable[bytes], count: int) -> Collection[str]:
    """Post all bodies; print and return the distinct responses, and why one has none."""
    from hookrow.testing import NoResponse

    counts: Counter[str] = Counter()
    failures: list[NoResponse] = []
    started = perf_counter()
    with progress("Posting", count) as update:
        for body in bodies:
            try:
                counts[post(body)] += 1
            except NoResponse as error:
                failures.append(error)
                counts["no response"] += 1
            update(1)
    seconds = perf_counter() - started
    echo(f"{count:,} posted in {seconds:.1f} s, {count / seconds:,.0f} per second:")
    for response, number in counts.most_common():
        echo(f"{number:8,}  {response}")
    if failures:
        echo(str(failures[0]), err=True)
    return counts
