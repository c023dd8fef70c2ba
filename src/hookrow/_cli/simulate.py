"""`hookrow simulate`: posts notifications as the provider would, including unsupported ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Any

import click
from click.core import ParameterSource

from hookrow._cli.app import HostApp
from hookrow._cli.entries import entries_of
from hookrow._cli.options import (
    HOST,
    MOUNT_PATH,
    PORT,
    SECRET_FILE,
    SECRET_OPTION,
    option,
    webhook_url,
)
from hookrow._cli.output import echo, progress
from hookrow._http import SECRET_HEADER, endpoint_path
from hookrow._server.settings import origin

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
@SECRET_OPTION
@SECRET_FILE
@option("--reason", default="HardBounce", show_default=True, help="The reason for a suppression.")
@option(
    "--url",
    type=webhook_url,
    metavar="URL",
    help="The URL of the endpoint, instead of the one in the settings.",
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
    url: str | None,
    mount_path: str,
    host: str,
    port: int,
    count: int,
    **notification: Any,  # noqa: ANN401 - the arguments of `_payloads`
) -> None:
    """Post notifications as the provider would, and print the responses.

    Each notification is a KIND for EMAIL and the provider's MESSAGE_ID, and occurred now. With
    --count, their times are a millisecond apart, and {} in EMAIL and MESSAGE_ID is replaced with
    the number of the notification. inbound gets a 422, and so do bounce, complaint and click unless
    the mapping records them; test is what the provider's button "Send test" posts, and takes no
    EMAIL. A connection that is refused is retried for 3 seconds. The exit status is 0 if every
    response is 200, and 130 after Ctrl-C.
    """
    if (notification["email"] is None) != (notification["kind"] == "test"):
        raise click.UsageError("EMAIL is required, except for test, which has a fixed address.")
    payloads = _payloads(**notification, count=count)
    secrets: Sequence[str] = ()
    if isinstance(app := context.obj, HostApp):
        sources = {context.get_parameter_source(name) for name in ("secret", "secret_file")}
        if ParameterSource.COMMANDLINE not in sources:
            secrets = app.secrets
        if context.get_parameter_source("mount_path") is ParameterSource.DEFAULT:
            mount_path = app.mount_path
    if not secrets:
        [entry, *_] = entries_of(context, secret=secret, secret_file=secret_file)
        secrets = entry.given()
    newest = next(iter(secrets), None)
    if not newest:
        warning = (
            f"Warning: No secret is set, so the requests have no {SECRET_HEADER}: set "
            "HOOKROW_SECRET, --secret or --secret-file."
        )
        echo(warning, err=True)
    address = url or f"{origin(host, port)}{endpoint_path(mount_path)}"
    post = partial(_post, address, newest, monotonic() + START_TIMEOUT)
    if count == 1:
        response = post(next(payloads))
        echo(*response.splitlines())
        responses: Collection[str] = [response]
    else:
        responses = _post_all(post, payloads, count)
    context.exit(0 if all(each.startswith("200") for each in responses) else 1)


def _payloads(
    kind: str, email: str | None, message_id: str | None, *, reason: str, count: int
) -> Iterator[object]:
    """Yield `count` payloads whose times are a millisecond apart; that of the last one is now."""
    from hookrow import testing

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
    now = datetime.now(UTC)
    for number in range(1, count + 1):
        at = now - timedelta(milliseconds=count - number)
        if email is None:
            yield testing.send_test(at=at)
            continue
        numbered = message_id and message_id.replace("{}", str(number))
        yield creators[kind](email.replace("{}", str(number)), numbered, at=at)


def _post(url: str, secret: str | None, until: float, payload: object) -> str:
    """Post a payload; retry a refused connection until a time of the monotonic clock.

    Raises `NoResponse`.
    """
    from hookrow import testing

    while True:
        try:
            status, body = testing.post(url, payload, secret=secret)
        except testing.NoResponse as error:
            if not isinstance(error.__cause__, ConnectionRefusedError):
                raise
            if monotonic() > until:
                raise testing.NoResponse(f"{error}. {NOT_RUNNING}") from error
            sleep(RETRY_EVERY)
        else:
            return f"{status} {body}".rstrip()


def _post_all(
    post: Callable[[object], str], payloads: Iterable[object], count: int
) -> Collection[str]:
    """Post all payloads; print and return the distinct responses, and why one has none."""
    from hookrow.testing import NoResponse

    counts: Counter[str] = Counter()
    failures: list[NoResponse] = []
    started = perf_counter()
    with progress("Posting", count) as update:
        for payload in payloads:
            try:
                counts[post(payload)] += 1
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
