"""Postmark's message streams and webhooks, as far as hookrow uses them.

See https://postmarkapp.com/developer/api/webhooks-api and
https://postmarkapp.com/developer/api/message-streams-api.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookrow._core.log_entry import is_entry_name
from hookrow._core.schema import nearest
from hookrow._http import ENDPOINT, SECRET_HEADER
from hookrow._postmark_api.client import PostmarkAPI
from hookrow.errors import ConfigurationError

VERIFIED = "verified"

NO_BROADCASTS = frozenset({"Bounce", "SpamComplaint"})
"""The triggers that streams for broadcasts do not have."""

DUPLICATE_WEBHOOK = "the stream has another hookrow webhook, so each event arrives twice"
"""A difference of each webhook of hookrow, if a stream has several."""


class PostmarkServer(msgspec.Struct, frozen=True):
    """A server at the provider."""

    id: int = msgspec.field(name="ID")
    name: str = msgspec.field(name="Name")
    _track_opens: object = msgspec.field(name="TrackOpens", default=True)

    @property
    def track_opens(self) -> bool:
        """The default for messages."""
        return self._track_opens is not False


class Stream(msgspec.Struct, frozen=True):
    """A message stream; `kind` is "Transactional", "Broadcasts" or "Inbound"."""

    id: str = msgspec.field(name="ID")
    kind: str = msgspec.field(name="MessageStreamType", default="")
    archived_at: object = msgspec.field(name="ArchivedAt", default=None)

    def available(self, triggers: Collection[str]) -> AbstractSet[str]:
        """Return the triggers that the stream has, among these."""
        return set(triggers) - (NO_BROADCASTS if self.kind == "Broadcasts" else set())


class Webhook(msgspec.Struct, frozen=True):
    """A webhook at the provider. `status` is None if the API does not report one."""

    id: int = msgspec.field(name="ID")
    url: str = msgspec.field(name="Url")
    stream: str = msgspec.field(name="MessageStream", default="")
    status: object = msgspec.field(name="Status", default=None)
    headers: Sequence[Mapping[str, Any]] = msgspec.field(name="HttpHeaders", default=())
    triggers: Mapping[str, Mapping[str, Any]] = msgspec.field(name="Triggers", default_factory=dict)

    def __post_init__(self) -> None:
        if not self.url.isprintable():
            raise ValueError("the URL cannot be printed")

    @property
    def entry(self) -> str | None:
        """The name at the end of the URL, if it is that of a hookrow; see `entry_at`."""
        with suppress(ValueError):
            return entry_at(urlsplit(self.url).path)
        return None

    @property
    def is_hookrow(self) -> bool:
        """Whether the URL is that of a hookrow, whoever runs it."""
        return self.entry is not None

    @property
    def address(self) -> str:
        """The URL for messages; see `without_secrets`."""
        return without_secrets(self.url)

    @property
    def enabled(self) -> AbstractSet[str]:
        """The enabled triggers."""
        return {name for name, each in self.triggers.items() if each.get("Enabled") is True}

    @property
    def secrets(self) -> Sequence[str]:
        """The values of the header for the secret."""
        return [str(each.get("Value")) for each in self.headers if _is_secret(each)]

    def with_secret(self, secret: str) -> Sequence[Mapping[str, Any]]:
        """Return the headers with this secret in place of all others."""
        others = [each for each in self.headers if not _is_secret(each)]
        return [*others, {"Name": SECRET_HEADER, "Value": secret}]

    def differences(
        self, triggers: AbstractSet[str], paused: Collection[str] = ()
    ) -> Sequence[str]:
        """Return a clause for each trigger that differs from these, and for each paused one."""
        return [
            *(f"the trigger {each} is disabled" for each in sorted(triggers - self.enabled)),
            *(
                f"the trigger {each} is enabled, but is not recorded"
                for each in sorted(self.enabled - triggers)
            ),
            *(f"the trigger {each} is not verified, so it is paused" for each in sorted(paused)),
        ]


class TriggerMetrics(msgspec.Struct, frozen=True):
    """The numbers of notifications of a trigger."""

    requests: int = msgspec.field(name="TotalRequests", default=0)
    failures: int = msgspec.field(name="FailureCount", default=0)


class WebhookStatistics(msgspec.Struct, frozen=True):
    """The statistics of a webhook's last 24 hours, and the present statuses, by trigger."""

    metrics: Mapping[str, TriggerMetrics] = msgspec.field(
        name="MetricsByTrigger", default_factory=dict
    )
    statuses: Mapping[str, object] = msgspec.field(name="Statuses", default_factory=dict)

    def unverified(self, webhook: Webhook) -> Collection[str]:
        """Return the enabled triggers that receive no events, because they are not verified."""
        usual = webhook.status or VERIFIED
        return {
            each
            for each in webhook.enabled
            if str(self.statuses.get(each, usual)).lower() != VERIFIED
        }


class _Streams(msgspec.Struct):
    streams: Sequence[Stream] = msgspec.field(name="MessageStreams")


class _Webhooks(msgspec.Struct):
    webhooks: Sequence[Webhook] = msgspec.field(name="Webhooks")


def read_server(api: PostmarkAPI) -> PostmarkServer:
    """Return the server of the token. Raises `APIError`."""
    return api.read("/server", PostmarkServer)


def read_streams(
    api: PostmarkAPI, chosen: Sequence[str] = (), *, archived: bool = False
) -> Sequence[Stream]:
    """Return the chosen streams; if none are chosen, all that send mail.

    Unless `archived`, archived streams are omitted.

    Raises `APIError`, and `ConfigurationError` if a chosen stream does not exist, is archived, or
    is for inbound mail.
    """
    query = {"MessageStreamType": "All", "IncludeArchivedStreams": "true"}
    found = api.read("/message-streams", _Streams, **query).streams
    streams = {each.id: each for each in found}
    usable = {
        name: each
        for name, each in streams.items()
        if (archived or not each.archived_at) and each.kind != "Inbound"
    }
    for name in chosen:
        if name not in streams:
            hint = nearest(name, usable) or f" There are {', '.join(usable) or 'none'}."
            raise ConfigurationError(f"The provider has no message stream {name!r}.{hint}")
        if name not in usable:
            why = "is archived" if streams[name].archived_at else "is for inbound mail"
            raise ConfigurationError(f"The message stream {name!r} {why}: omit it.")
    return [usable[name] for name in dict.fromkeys(chosen)] if chosen else list(usable.values())


def read_webhooks(api: PostmarkAPI, stream: Stream) -> Sequence[Webhook]:
    """Return all webhooks of a stream. Raises `APIError`."""
    found = api.read("/webhooks", _Webhooks, MessageStream=stream.id).webhooks
    # A provider, or a version of its API, that ignores the filter returns those of all streams.
    return [each for each in found if each.stream in {"", stream.id}]


def read_statistics(api: PostmarkAPI, webhook: Webhook) -> WebhookStatistics:
    """Return the statistics of a webhook. Raises `APIError`."""
    return api.read(f"/webhooks/{webhook.id}/statistics", WebhookStatistics)


def entry_at(path: str) -> str | None:
    """Return the name of an entry at the end of a path; "" for the endpoint itself.

    Returns None if the path is not that of a hookrow.
    """
    path = path.rstrip("/")
    if path.endswith(ENDPOINT):
        return ""
    head, _, name = path.rpartition("/")
    return name if head.endswith(ENDPOINT) and is_entry_name(name) else None


def without_secrets(url: str) -> str:
    """Return a URL for messages, which may not contain its user name, password or query."""
    with suppress(ValueError):
        parts = urlsplit(url)
        user, _, host = parts.netloc.rpartition("@")
        netloc = f"***@{host}" if user else host
        return parts._replace(netloc=netloc, query=parts.query and "***").geturl()
    return "not valid"


def _is_secret(header: Mapping[str, Any]) -> bool:
    return str(header.get("Name")).lower() == SECRET_HEADER.lower()
