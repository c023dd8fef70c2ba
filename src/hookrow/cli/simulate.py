"""`hookrow simulate`: posts notifications as the provider would."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from hookrow.cli.options import HOST, MOUNT_PATH, PORT, SECRET, option
from hookrow.server import settings

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from hookrow import testing

MOST = 200_000
"""The maximum number of posts, because all payloads are created before the first post."""


@click.command()
@click.argument("kind", type=click.Choice(["delivery", "open", "suppression", "reactivation"]))
@click.argument("email")
@click.argument("message_id", required=False)
@SECRET
@option("--reason", default="HardBounce", show_default=True, help="The reason of a suppression.")
@option("--url", help="The URL of the endpoint, instead of the one in the settings.")
@MOUNT_PATH
@HOST
@PORT
@click.option(
    "--count", type=click.IntRange(1, 100_000), default=1, help="The number of notifications."
)
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, help="How often each one is posted."
)
@click.option("--shuffle", is_flag=True, help="Post in random order.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), default=1, help="The number of open requests."
)
@click.pass_context
def simulate(  # noqa: PLR0913 - one for each option
    context: click.Context,
    /,
    *,
    kind: str,
    email: str,
    message_id: str | None,
    secret: str | None,
    reason: str,
    url: str | None,
    count: int,
    repeat: int,
    shuffle: bool,
    concurrency: int,
    **address: Any,  # noqa: ANN401 - the arguments of `endpoint`
) -> None:
    """Post notifications as the provider would, and print the responses.

    They are of the type KIND, for EMAIL and the provider's MESSAGE_ID, and occurred now. With
    --count, their times are a millisecond apart, and {} in EMAIL and MESSAGE_ID is replaced by
    their number. The exit status is 0 if every response is 200.
    """
    from hookrow import testing

    if count * repeat > MOST:
        raise click.UsageError(
            f"That would be {count * repeat:,} posts: the maximum is {MOST:,} at a time."
        )
    payloads = list(_payloads(kind, email, message_id, reason=reason, count=count))
    posts = [payload for payload in payloads for _ in range(repeat)]
    if shuffle:
        random.shuffle(posts)
    target = url or settings.endpoint(**address)
    if len(posts) == 1:
        response = _format(*testing.post(target, posts[0], secret=secret))
        click.echo(response)
        responses = {response}
    else:
        responses = _post_all(target, posts, secret, concurrency)
    context.exit(0 if all(each.startswith("200") for each in responses) else 1)


def _payloads(
    kind: str, email: str, message_id: str | None, *, reason: str, count: int
) -> Iterator[testing.Payload]:
    """Yield `count` payloads whose times are a millisecond apart; that of the last one is now."""
    from hookrow import testing

    create = {
        "delivery": testing.delivery,
        "open": testing.opening,
        "suppression": lambda *named, at: testing.suppression(*named, at=at, reason=reason),
        "reactivation": testing.reactivation,
    }[kind]
    now = datetime.now(UTC)
    for number in range(1, count + 1):
        yield create(
            email.replace("{}", str(number)),
            message_id and message_id.replace("{}", str(number)),
            at=now - timedelta(milliseconds=count - number),
        )


def _post_all(
    target: str, payloads: Sequence[testing.Payload], secret: str | None, concurrency: int
) -> set[str]:
    """Post all payloads; print and return the different responses."""
    from hookrow import testing

    def post(payload: testing.Payload) -> str:
        try:
            return _format(*testing.post(target, payload, secret=secret))
        except testing.NoResponse:
            return "no response"

    started = perf_counter()
    with (
        ThreadPoolExecutor(concurrency) as pool,
        click.progressbar(
            pool.map(post, payloads), length=len(payloads), label="Posting", file=sys.stderr
        ) as responses,
    ):
        counts = Counter(responses)
    seconds = perf_counter() - started
    rate = len(payloads) / seconds
    click.echo(f"{len(payloads)} posted in {seconds:.1f} s, {rate:,.0f} per second:")
    for response, number in counts.most_common():
        click.echo(f"{number:8}  {response}")
    return set(counts)


def _format(status: int, body: str) -> str:
    return f"{status} {body}".rstrip()
