"""Postmark's message streams and webhooks, as far as hookrow uses them.

See https://postmarkapp.com/developer/api/webhooks-api and
https://postmarkapp.com/developer/api/message-streams-api.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hookrow.core.schema import nearest
from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.errors import APIError

VERIFIED = "verified"

NO_BROADCASTS = frozenset({"Bounce", "SpamComplaint"})
"""The triggers that streams for broadcasts do not have."""

ANOTHER = "the stream has another hookrow webhook, so each event arrives twice"
"""A difference of each webhook of hookrow, if a stream has several."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server at the provider; `track_opens` is its default for messages."""

    id: int
    name: str
    track_opens: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """A message stream; `kind` is "Transactional", "Broadcasts" or "Inbound"."""

    id: str
    kind: str
    archived: bool

    def available(self, triggers: Collection[str]) -> AbstractSet[str]:
        """Return those of the triggers that the stream has."""
        return set(triggers) - (NO_BROADCASTS if self.kind == "Broadcasts" else set())


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook at the provider. `status` is None if the API does not report one."""

    id: int
    url: str
    stream: str
    status: str | None
    headers: Sequence[Mapping[str, Any]]
    triggers: Mapping[str, Mapping[str, Any]]

    @property
    def is_ours(self) -> bool:
        """Whether the URL is that of a hookrow, whoever runs it."""
        with suppress(ValueError):
            return urlsplit(self.url).path.rstrip("/").endswith(ENDPOINT)
        return False

    @property
    def address(self) -> str:
        """The URL for messages; see `without_secrets`."""
        return without_secrets(self.url)

    @property
    def enabled(self) -> AbstractSet[str]:
        """The enabled triggers."""
        return {name for name, each in self.triggers.items() if each.get("Enabled") is True}

    def values(self, header: str) -> Sequence[str]:
        """Return the values of a header, whose name has any case."""
        return [
            str(each.get("Value"))
            for each in self.headers
            if str(each.get("Name")).lower() == header.lower()
        ]

    def with_header(self, name: str, value: str) -> Sequence[Mapping[str, Any]]:
        """Return the headers with this value in place of every other value of the name."""
        others = [each for each in self.headers if str(each.get("Name")).lower() != name.lower()]
        return [*others, {"Name": name, "Value": value}]

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


def read_server(api: PostmarkAPI) -> Server:
    """Return the server of the token. Raises `APIError`."""
    found = api.get("/server")
    id_, name = found.get("ID"), api.clean(found.get("Name"))
    if not isinstance(id_, int) or not isinstance(name, str):
        raise APIError(unexpected("/server"))
    return Server(id_, name, track_opens=found.get("TrackOpens") is not False)


def read_streams(api: PostmarkAPI, chosen: Sequence[str] = ()) -> Sequence[Stream]:
    """Return the chosen streams; if none are chosen, all that send mail and are not archived.

    Raises `APIError`, and `ConfigurationError` if a chosen stream does not exist, is archived, or
    is for inbound mail.
    """
    path = "/message-streams"
    found = api.get(path, MessageStreamType="All", IncludeArchivedStreams="true")
    streams = {
        each["ID"]: Stream(each["ID"], str(each.get("MessageStreamType")), bool(archived))
        for each in _objects(path, found, "MessageStreams", ("ID", str))
        for archived in [each.get("ArchivedAt")]
    }
    usable = {
        name: each for name, each in streams.items() if not each.archived and each.kind != "Inbound"
    }
    for name in chosen:
        if name not in streams:
            hint = nearest(name, usable) or f" There are {', '.join(usable) or 'none'}."
            raise ConfigurationError(f"The provider has no message stream {name!r}.{hint}")
        if name not in usable:
            why = "is archived" if streams[name].archived else "is for inbound mail"
            raise ConfigurationError(f"The message stream {name!r} {why}: omit it.")
    return [usable[name] for name in dict.fromkeys(chosen)] if chosen else list(usable.values())


def read_webhooks(api: PostmarkAPI, stream: Stream) -> Sequence[Webhook]:
    """Return all webhooks of a stream. Raises `APIError`."""
    path = "/webhooks"
    found = api.get(path, MessageStream=stream.id)
    webhooks = map(parse_webhook, _objects(path, found, "Webhooks", ("ID", int), ("Url", str)))
    # A provider, or a version of its API, that ignores the filter returns those of all streams.
    return [each for each in webhooks if each.stream in {"", stream.id}]


def parse_webhook(found: Mapping[str, Any]) -> Webhook:
    """Return the webhook in an object of the API. Raises `APIError`."""
    headers, triggers = found.get("HttpHeaders") or [], found.get("Triggers") or {}
    if (
        not isinstance(headers, list)
        or not isinstance(triggers, dict)
        or not "".join(triggers).isprintable()
    ):
        raise APIError(unexpected("/webhooks"))
    status = found.get("Status")
    return Webhook(
        found["ID"],
        found["Url"],
        str(found.get("MessageStream") or ""),
        status.lower() if isinstance(status, str) else None,
        [each for each in headers if isinstance(each, dict)],
        {name: each for name, each in triggers.items() if isinstance(each, dict)},
    )


def read_statistics(api: PostmarkAPI, webhook: Webhook) -> Mapping[str, Any]:
    """Return the statistics of a webhook's last 24 hours. Raises `APIError`."""
    return api.get(f"/webhooks/{webhook.id}/statistics")


def unverified(statistics: Mapping[str, Any], webhook: Webhook) -> Collection[str]:
    """Return the enabled triggers that receive no events, because they are not verified."""
    statuses = statistics.get("Statuses")
    known = statuses if isinstance(statuses, dict) else {}
    usual = webhook.status or VERIFIED
    return {each for each in webhook.enabled if str(known.get(each, usual)).lower() != VERIFIED}


def without_secrets(url: str) -> str:
    """Return a URL for messages, which may not contain its user name, password or query."""
    with suppress(ValueError):
        parts = urlsplit(url)
        user, _, host = parts.netloc.rpartition("@")
        netloc = f"***@{host}" if user else host
        return parts._replace(netloc=netloc, query=parts.query and "***").geturl()
    return "not valid"


def unexpected(path: str) -> str:
    """Return the message for a response whose fields are not those of the API."""
    return (
        f"The response to {path} is not one of Postmark's API: is HOOKROW_PROVIDER_API right? If "
        "so, update hookrow."
    )


def _objects(
    path: str, found: Mapping[str, Any], name: str, *fields: tuple[str, type]
) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, which must have these fields. Raises `APIError`.

    The fields are printed, so they may not contain control characters or lone surrogates.
    """
    listed = found.get(name)
    if not isinstance(listed, list):
        raise APIError(unexpected(path))
    for each in listed:
        if not isinstance(each, dict) or any(
            not isinstance(value := each.get(field), type_) or not str(value).isprintable()
            for field, type_ in fields
        ):
            raise APIError(unexpected(path))
        yield each
