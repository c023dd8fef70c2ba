"""`hookrow simulate`: posts notifications as the provider would."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from time import perf_counter
from typing import Any

import click

from hookrow.cli.options import HOST, MOUNT_PATH, PORT, SECRET, option
from hookrow.server.settings import endpoint

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
    secret: str | None,
    url: str | None,
    mount_path: str,
    host: str,
    port: int,
    repeat: int,
    shuffle: bool,
    concurrency: int,
    **notification: Any,  # noqa: ANN401 - the arguments of `_payloads`
) -> None:
    """Post notifications as the provider would, and print the responses.

    They are of the type KIND, for EMAIL and the provider's MESSAGE_ID, and occurred now. With
    --count, their times are a millisecond apart, and {} in EMAIL and MESSAGE_ID is replaced by
    their number. The exit status is 0 if every response is 200.
    """
    total = notification["count"] * repeat
    if total > MOST:
        raise click.UsageError(f"That would be {total:,} posts: the maximum is {MOST:,} at a time.")
    posts = [payload for payload in _payloads(**notification) for _ in range(repeat)]
    if shuffle:
        random.shuffle(posts)
    post = partial(_post, url or endpoint(host, port, mount_path), secret)
    if total == 1:
        response = post(posts[0])
        click.echo(response)
        responses: Collection[str] = [response]
    else:
        responses = _post_all(post, posts, concurrency)
    context.exit(0 if all(each.startswith("200") for each in responses) else 1)


def _payloads(
    kind: str, email: str, message_id: str | None, *, reason: str, count: int
) -> Iterator[object]:
    """Yield `count` payloads whose times are a millisecond apart; that of the last one is now."""
    from hookrow import testing

    creators: dict[str, Callable[..., object]] = {
        "delivery": testing.delivery,
        "open": testing.opening,
        "suppression": partial(testing.suppression, reason=reason),
        "reactivation": testing.reactivation,
    }
    now = datetime.now(UTC)
    for number in range(1, count + 1):
        yield creators[kind](
            email.replace("{}", str(number)),
            message_id and message_id.replace("{}", str(number)),
            at=now - timedelta(milliseconds=count - number),
        )


def _post(url: str, secret: str | None, payload: object) -> str:
    from hookrow import testing

    status, body = testing.post(url, payload, secret=secret)
    return f"{status} {body}".rstrip()


def _post_all(
    post: Callable[[object], str], payloads: Sequence[object], concurrency: int
) -> Collection[str]:
    """Post all payloads; print and return the different responses."""
    from hookrow.testing import NoResponse

    def respond(payload: object) -> str:
        try:
            return post(payload)
        except NoResponse:
            return "no response"

    started = perf_counter()
    with (
        ThreadPoolExecutor(concurrency) as pool,
        click.progressbar(
            pool.map(respond, payloads), length=len(payloads), label="Posting", file=sys.stderr
        ) as responses,
    ):
        counts = Counter(responses)
    seconds = perf_counter() - started
    rate = len(payloads) / seconds
    click.echo(f"{len(payloads)} posted in {seconds:.1f} s, {rate:,.0f} per second:")
    for response, number in counts.most_common():
        click.echo(f"{number:8}  {response}")
    return counts
