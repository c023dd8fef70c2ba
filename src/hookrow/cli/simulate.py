"""`hookrow simulate`: posts notifications as the provider would."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import shuffle as shuffled
from time import perf_counter
from typing import TYPE_CHECKING

import click

from hookrow.cli.options import HOST, MOUNT_PATH, PORT, SECRET, option
from hookrow.server import settings

if TYPE_CHECKING:  # loaded when the command runs, so that --help is quick
    from hookrow import testing

MOST = 200_000
"""Posts at a time, which are all made before the first is posted."""


@click.command()
@click.argument("kind", type=click.Choice(["delivery", "open", "suppression", "reactivation"]))
@click.argument("email")
@click.argument("message_id", required=False)
@SECRET
@option("--reason", default="HardBounce", show_default=True, help="Why, for a suppression.")
@option("--url", help="The endpoint, where it is not that of these settings.")
@MOUNT_PATH
@HOST
@PORT
@click.option(
    "--count", type=click.IntRange(1, 100_000), default=1, help="How many different ones."
)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, help="How often each is posted.")
@click.option("--shuffle", is_flag=True, help="Post them in random order.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    help="How many are on the way at once.",
)
@click.pass_context
def simulate(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    kind: str,
    email: str,
    message_id: str | None,
    secret: str | None,
    reason: str,
    url: str | None,
    mount_path: str,
    host: str,
    port: int,
    count: int,
    repeat: int,
    shuffle: bool,
    concurrency: int,
) -> None:
    """Post notifications as the provider would, and print the answers.

    They are of KIND, for EMAIL and the provider's MESSAGE_ID, and of this moment. With
    --count each is of a millisecond of its own, and {} in EMAIL and MESSAGE_ID is its
    number. The exit status is 0 where every answer is 200.
    """
    from hookrow import testing

    if count * repeat > MOST:
        raise click.UsageError(f"That is {count * repeat:,} posts: at most {MOST:,} at a time.")
    made = _payloads(kind, email, message_id, reason=reason, count=count)
    payloads = [payload for payload in made for _ in range(repeat)]
    if shuffle:
        shuffled(payloads)
    target = url or settings.endpoint(host, port, mount_path)
    if len(payloads) == 1:
        answer = _text(*testing.post(target, payloads[0], secret=secret))
        click.echo(answer)
        answers = {answer}
    else:
        answers = _post_all(target, payloads, secret, concurrency)
    context.exit(0 if all(answer.startswith("200") for answer in answers) else 1)


def _payloads(
    kind: str, email: str, message_id: str | None, *, reason: str, count: int
) -> Iterator[testing.Payload]:
    """Make so many, a millisecond apart, the last of them of this moment."""
    from hookrow import testing

    make = {
        "delivery": testing.delivery,
        "open": testing.opening,
        "suppression": lambda *named, at: testing.suppression(*named, at=at, reason=reason),
        "reactivation": testing.reactivation,
    }[kind]
    begin = datetime.now(UTC) - timedelta(milliseconds=count - 1)
    for number in range(1, count + 1):
        yield make(
            email.replace("{}", str(number)),
            message_id and message_id.replace("{}", str(number)),
            at=begin + timedelta(milliseconds=number - 1),
        )


def _post_all(
    target: str, payloads: Sequence[testing.Payload], secret: str | None, concurrency: int
) -> set[str]:
    """Post them, and print how often each answer came; return the answers."""
    from hookrow import testing

    def post(payload: testing.Payload) -> str:
        try:
            return _text(*testing.post(target, payload, secret=secret))
        except testing.NotPosted:
            return "without an answer"

    started = perf_counter()
    with (
        ThreadPoolExecutor(concurrency) as pool,
        click.progressbar(
            pool.map(post, payloads), length=len(payloads), label="Posting", file=sys.stderr
        ) as answers,
    ):
        counts = Counter(answers)
    seconds = perf_counter() - started
    click.echo(
        f"{len(payloads)} posted in {seconds:.1f} s, {len(payloads) / seconds:,.0f} a second:"
    )
    for answer, number in counts.most_common():
        click.echo(f"{number:8}  {answer}")
    return set(counts)


def _text(status: int, body: str) -> str:
    return f"{status} {body}".rstrip()
