"""Creates or changes webhooks at Postmark until they are as hookrow needs them.

The state at the provider is read before each change, so a run that was interrupted, or whose
change received no response, can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

from hookrow._core.log_entry import RECORD_TYPES
from hookrow._core.optional import Kinds
from hookrow._http import ENDPOINT, SECRET_HEADER, is_loopback
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.errors import (
    APIError,
    TriggerResult,
    Unconfirmed,
    VerificationFailed,
    verification_of,
)
from hookrow._postmark_api.webhooks import (
    DUPLICATE_WEBHOOK,
    Stream,
    Webhook,
    entry_at,
    read_statistics,
    read_webhooks,
)
from hookrow.errors import ConfigurationError


def triggers_of(recorded: Kinds) -> Collection[str]:
    """Return the triggers of the kinds of notification that a store records."""
    return sorted({RECORD_TYPES[kind] for kind in recorded})


MAX_CHANGES = 3
"""The largest number of changes of one webhook in a run."""

REREAD_DELAY = 5.0
"""Seconds between a change without a response and the next reading of the webhooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWebhook:
    """The settings of a correct webhook: one of the secrets, and these triggers.

    The newest secret is the first. Without a `url`, that of any hookrow is correct. If the receiver
    has several entries, the webhook is that of the one with the name `entry`, which also has the
    URL without a name if it `is_first`. Raises `ConfigurationError` for a wrong URL.
    """

    secrets: Sequence[str] = field(repr=False)
    triggers: Collection[str]
    url: str | None = None
    entry: str | None = None
    is_first: bool = True

    def __post_init__(self) -> None:
        if self.url is None:
            return
        check_webhook_url(self.url)
        if (name := entry_at(urlsplit(self.url).path)) not in self._names:
            at = f"{ENDPOINT}/{name}" if name else ENDPOINT
            other = f"{ENDPOINT}/{self.entry}" if self.entry else ENDPOINT
            raise ConfigurationError(f"The URL ends in {at}, but must end in {other}.")

    @property
    def _names(self) -> Collection[str]:
        """The names at the end of our URLs."""
        if self.entry is None:
            return {""}
        return {self.entry, ""} if self.is_first else {self.entry}

    def is_ours(self, webhook: Webhook) -> bool:
        """Return whether the URL of a webhook may be ours: another entry may have one, too."""
        return webhook.entry in self._names

    def is_proven_by(self, webhook: Webhook) -> bool:
        """Return whether a webhook has this URL or one of the secrets, so its server is ours."""
        return webhook.url == self.url or any(each in self.secrets for each in webhook.secrets)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the webhook of a stream; `id` is None if it is to be created.

    `reasons` has a sentence for each difference. Without `body`, the webhook is as expected, but
    its triggers must be verified.
    """

    stream: str
    id: int | None
    reasons: Sequence[str]
    body: Mapping[str, object] = field(repr=False)


Plan: TypeAlias = tuple[Webhook | None, Change | None]
"""A webhook, if it exists, and the change that it needs, if any."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A stream's webhook after a run, and the changes made; `id` is None after a dry run."""

    stream: Stream
    id: int | None
    changes: Sequence[Change]


def register(
    api: PostmarkAPI,
    expected: ExpectedWebhook,
    streams: Sequence[Stream],
    *,
    dry_run: bool = False,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Registered]:
    """Create or change the webhook of each stream, and yield the results.

    Before the first change, all streams are read, so that a conflict in one of them changes
    nothing. With `dry_run`, nothing is changed, and the results have the necessary changes.

    Raises `ConfigurationError` if it is unclear which webhook is ours, and `APIError`; see
    `VerificationFailed`.
    """
    planned = {stream.id: plan(api, expected, stream) for stream in streams}
    for stream in streams:
        webhook, change = planned[stream.id]
        changes: Sequence[Change] = [change] if change else []
        if change and not dry_run:
            webhook, changes = apply_changes(api, partial(plan, api, expected, stream), sleep)
        yield Registered(stream, webhook.id if webhook else None, changes)


def apply_changes(
    api: PostmarkAPI, find: Callable[[], Plan], sleep: Callable[[float], object]
) -> tuple[Webhook | None, Sequence[Change]]:
    """Change a webhook until it needs no change; return it, and the changes made.

    `find` reads the present state. Raises `APIError`; see `VerificationFailed`.
    """
    made: list[Change] = []
    tried: Change | None = None
    attempts = 0
    while True:
        webhook, change = find()
        if tried and change != tried:
            made.append(tried)
        if change is None:
            return webhook, made
        if attempts == MAX_CHANGES:
            raise APIError(
                f"The webhook of the stream {change.stream} still differs after {MAX_CHANGES} "
                f"changes: {' '.join(change.reasons)} Does something else change it?"
            )
        attempts += 1
        try:
            _apply(api, change)
        except Unconfirmed:
            if attempts == MAX_CHANGES:
                raise
            sleep(REREAD_DELAY)
        tried = change


def plan(api: PostmarkAPI, expected: ExpectedWebhook, stream: Stream) -> Plan:
    """Return our webhook of a stream, and the necessary change. Raises as `register` does."""
    webhook = _find(read_webhooks(api, stream), stream, expected)
    triggers = stream.available(expected.triggers)
    secret = expected.secrets[0]
    if webhook is None:
        body: dict[str, object] = {
            "Url": expected.url,
            "MessageStream": stream.id,
            "Verify": True,
            "HttpHeaders": [{"Name": SECRET_HEADER, "Value": secret}],
            "Triggers": {each: _enabled(each) for each in sorted(triggers)},
        }
        return None, Change(stream.id, None, ["The stream has no webhook."], body)
    reasons: list[str] = []
    body = {}
    if webhook.url != expected.url:
        reasons.append(f"Its URL is {api.clean(webhook.address)}.")
        body["Url"] = expected.url
    if webhook.secrets != [secret]:
        reasons.append(
            f"Its header {SECRET_HEADER} does not have the newest secret as its only value."
        )
        body["HttpHeaders"] = webhook.with_secret(secret)
    reasons += _sentences(webhook.differences(triggers))
    if differing := triggers ^ webhook.enabled:
        body["Triggers"] = {
            each: {**webhook.triggers.get(each, _enabled(each)), "Enabled": each in triggers}
            for each in sorted(differing)
        }
    if body:
        return webhook, Change(stream.id, webhook.id, reasons, {**body, "Verify": True})
    paused = read_statistics(api, webhook).unverified(webhook)
    if paused:
        reasons = _sentences(webhook.differences(triggers, paused))
        return webhook, Change(stream.id, webhook.id, reasons, {})
    return webhook, None


def _sentences(differences: Sequence[str]) -> list[str]:
    return [f"{each[0].upper()}{each[1:]}." for each in differences]


def _apply(api: PostmarkAPI, change: Change) -> None:
    """Create, change or verify a webhook. Raises `APIError`."""
    if change.id is None:
        api.post("/webhooks", change.body)
    elif change.body:
        api.put(f"/webhooks/{change.id}", change.body)
    else:
        found = verification_of(api.clean(api.post(f"/webhooks/{change.id}/verify", {})))
        if not found.success:
            raise VerificationFailed(f"The verification failed ({found.message}).", found.results)


def advice(result: TriggerResult, url: str) -> str:
    """Return the remedy for a failed test of a trigger."""
    match result.status:
        case 200:
            return ""
        case 401:
            return "Let every instance accept the newest secret: restart it, or send it SIGHUP."
        case 404:
            return (
                "Turn on acknowledge_tests, so that hookrow responds with 200 to the provider's "
                "tests, and run the command again."
            )
        case 422:
            return (
                "The instance at that URL does not record this type: restart hookrow with the "
                "mapping of this command, and run the command again."
            )
        case _:
            return f"Find the cause with: hookrow check {url}"


def _find(webhooks: Sequence[Webhook], stream: Stream, expected: ExpectedWebhook) -> Webhook | None:
    """Return the webhook of hookrow, or None. Raises `ConfigurationError` if there are several."""
    found = [each for each in webhooks if expected.is_ours(each)]
    if len(found) > 1:
        ids = ", ".join(str(each.id) for each in found)
        raise ConfigurationError(
            f"Webhook {found[0].id} of the stream {stream.id}: {DUPLICATE_WEBHOOK}. Delete all but "
            f"one of the webhooks {ids} at the provider. Nothing was changed."
        )
    return found[0] if found else None


def _enabled(trigger: str) -> Mapping[str, object]:
    """Return the settings of a trigger that is enabled for the first time."""
    return {"Enabled": True, **({"PostFirstOpenOnly": True} if trigger == "Open" else {})}


def check_webhook_url(url: str) -> None:
    """Raise `ConfigurationError` if a webhook cannot have this URL; the text has no password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"} or {*" @"} & {*url} or not url.isascii():
        raise ConfigurationError(
            "This is not the URL of a webhook: it must look like "
            f"https://example.com/mail{ENDPOINT}, without a user name or password."
        )
    path = parts.path
    if path.endswith("/") or entry_at(path) is None or parts.query or parts.fragment:
        raise ConfigurationError(
            f"The URL must end in {ENDPOINT}, where hookrow receives notifications, or in that and "
            "the name of an entry, without a query."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(
            "The URL uses plain http, which would expose the secret: set up https."
        )
