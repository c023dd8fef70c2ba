"""Compares the webhooks at Postmark with the settings that hookrow needs, and with its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain

import msgspec

from hookrow._concurrency import PeriodicTask
from hookrow._core.result import Result
from hookrow._describe import pluralize
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.probe import Sender, check_url
from hookrow._diagnostics.status import WebhookState
from hookrow._http import SECRET_HEADER
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.register import ExpectedWebhook, triggers_of
from hookrow._postmark_api.webhooks import (
    DUPLICATE_WEBHOOK,
    VERIFIED,
    PostmarkServer,
    Stream,
    Webhook,
    read_server,
    read_statistics,
    read_streams,
    read_webhooks,
)
from hookrow._receiver.entries import Entries, Entry
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.providers._base import Provider
from hookrow.providers._json import decode
from hookrow.providers.postmark import Postmark
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore

STATISTICS_PERIOD = timedelta(days=1)
"""The period of the provider's statistics."""

MAX_COMPARED = 100_000
"""The number of entries of a type at which counting the log stops, and nothing is compared."""

ASK_EVERY = 30.0
"""Seconds between two statuses of a `ProviderWatch`. Each needs a request for the server, one for
its streams, one for each stream and one for each webhook."""

OBSTACLE_TIMEOUT = 5.0
"""Seconds to wait for each response to a probe of a webhook's URL."""

_INCONCLUSIVE = {"dns", "tls", "connection", "database", "readiness"}
"""The subjects of errors that are no obstacle for the provider: a server may be unable to reach its
own public address, and the status has the faults of the server itself. A certificate that has
expired is an obstacle, at whichever address it is found."""

MAX_SAMPLED_ENTRIES = 100
"""The number of the newest entries that are searched for the id of their server."""

_TEST_SERVERS = {23, 1234}
"""The servers in the provider's tests, and in `hookrow simulate`."""


class _Origin(msgspec.Struct):
    """The field of a payload that names the server; before 2019, it was spelled differently."""

    new: object = msgspec.field(name="ServerID", default=None)
    old: object = msgspec.field(name="ServerId", default=None)


_origin_decoder = msgspec.json.Decoder(_Origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookStatus:
    """A webhook of hookrow: its triggers' statuses, its differences, and its last 24 hours.

    `drift` has a sentence for each difference. `secret` is the index, among hookrow's secrets, of
    the one in the header: 0 for the newest, None if it is not accepted. `requests` and `failures`
    are by trigger.
    """

    id: int
    stream: str
    url: str
    triggers: Mapping[str, str]
    secret: int | None
    drift: Sequence[str]
    requests: Mapping[str, int]
    failures: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """The chosen streams, and hookrow's webhooks on them.

    `logged` counts the notifications of 24 hours by type, from all streams; it is empty if the log
    is disabled. `complete` is whether all streams are chosen.
    """

    server: PostmarkServer
    streams: Sequence[Stream]
    webhooks: Sequence[WebhookStatus]
    logged: Mapping[str, int]
    complete: bool = True

    @property
    def drift(self) -> Sequence[str]:
        """A sentence for each difference."""
        return [text for each in self.webhooks for text in each.drift]

    @property
    def is_correct(self) -> bool:
        """Whether a webhook posts to hookrow, and none differs."""
        return bool(self.webhooks) and not self.drift

    @property
    def lost(self) -> int:
        """The number of notifications of 24 hours that the log lacks; without one, that failed."""
        if not self.logged:
            return sum(sum(each.failures.values()) for each in self.webhooks)
        return sum(max(number - self.logged[name], 0) for name, number in self.posted.items())

    @property
    def without_webhook(self) -> Sequence[str]:
        """The streams without a webhook of hookrow, which may be intended."""
        covered = {each.stream for each in self.webhooks}
        return [each.id for each in self.streams if each.id not in covered]

    @property
    def posted(self) -> Mapping[str, int]:
        """The provider's numbers of notifications, by type, for comparison with `logged`."""
        return {
            name: sum(each.requests.get(name, 0) for each in self.webhooks) for name in self.logged
        }

    @property
    def summary(self) -> str:
        """The status in one line."""
        if not self.webhooks:
            return f"{self.server.name}: no webhook posts to hookrow."
        streams = pluralize(len({each.stream for each in self.webhooks}), "stream")
        webhooks = pluralize(len(self.webhooks), "webhook")
        found = self.drift
        rest = found[0] if found else "verified, as registered."
        more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        return f"{self.server.name}: {webhooks} on {streams}: {rest}{more}"


def watch_provider(
    tokens: Mapping[str | None, str], address: str, store: SQLStore, entries: Entries[Provider]
) -> Mapping[str | None, ProviderWatch]:
    """Return the watches of the webhooks of a receiver's entries at Postmark, by entry.

    `tokens` has those of some entries, by name. Raises `ConfigurationError` as `PostmarkAPI` does.
    """
    return {
        each.name: ProviderWatch(
            tokens[each.name],
            address,
            store,
            partial(_secrets_of, each),
            entry=each.name,
            is_first=each is entries.default,
        )
        for each in entries
        if each.name in tokens
    }


def _secrets_of(entry: Entry[Provider]) -> Sequence[str]:
    return entry.provider.secrets


class ProviderWatch(PeriodicTask):
    """Reads the status twice a minute; `line` is the last one, or the reason why it is unknown.

    `state` is None while it is unknown. If the number of lost notifications has grown, the URLs of
    the webhooks are tested, until they are sound.

    `secrets` returns the secrets that hookrow accepts, the newest first. A status compares counts
    with the log of the `store`. `entry` and `is_first` are as in `ExpectedWebhook`. Raises
    `ConfigurationError` as `PostmarkAPI` does.
    """

    line: str | None = None
    state: WebhookState | None = None

    def __init__(
        self,
        token: str,
        address: str,
        store: SQLStore,
        secrets: Callable[[], Sequence[str]],
        *,
        entry: str | None = None,
        is_first: bool = True,
    ) -> None:
        self._api = PostmarkAPI(token, address)
        self._store, self._secrets = store, secrets
        self._entry, self._is_first = entry, is_first
        self._lost = 0  # when the URLs were sound
        super().__init__(self.ask, seconds=ASK_EVERY, name="status of the provider")

    def ask(self) -> None:
        """Read the status now. Raises no `HookrowError`."""
        expected = ExpectedWebhook(
            secrets=self._secrets(),
            triggers=triggers_of(self._store.recorded),
            entry=self._entry,
            is_first=self._is_first,
        )
        self._api.hide(*expected.secrets)
        try:
            status = read_status(self._api, expected, store=self._store)
        except HookrowError as error:
            self.line, self.state = f"Unknown. {error}", None
            return
        obstacle = None
        if status.lost > self._lost:
            obstacle = find_obstacle(status, expected)
        if obstacle is None:
            self._lost = status.lost
        self.line = status.summary
        self.state = WebhookState(
            status.summary,
            are_correct=status.is_correct,
            are_accepted=any(each.secret is not None for each in status.webhooks),
            obstacle=obstacle,
        )


def read_status(
    api: PostmarkAPI,
    expected: ExpectedWebhook,
    chosen: Sequence[str] = (),
    *,
    store: SQLStore | None = None,
    now: datetime | None = None,
) -> ProviderStatus:
    """Read the status of our webhooks on the chosen streams, or on all.

    Without a `store`, nothing is compared with the log. Raises `APIError`, and
    `ConfigurationError` for a wrong stream or the token of another server.
    """
    server = read_server(api)
    streams = read_streams(api, chosen)
    found = {each: read_webhooks(api, each) for each in streams}
    if store is not None:
        check_server(server, store, chain.from_iterable(found.values()), expected)
    statuses: list[WebhookStatus] = []
    for stream, webhooks in found.items():
        of_stream = [each for each in webhooks if expected.is_ours(each)]
        statuses += [_compare(api, each, expected, stream, of_stream) for each in of_stream]
    logged: Mapping[str, int] = {}
    if store is not None:  # after the provider has counted, so that none is missing
        logged = _count(store, expected, now or datetime.now(UTC))
    return ProviderStatus(server, streams, statuses, logged, complete=not chosen)


def find_obstacle(status: ProviderStatus, expected: ExpectedWebhook) -> CheckResult | None:
    """Return what keeps the provider's requests from hookrow, such as a proxy, or None.

    The probes of `hookrow check` are sent to the URLs of the webhooks, except to those with a
    password or a query, which may be secret. An obstacle is a response that is not hookrow's.
    """
    provider = Postmark(*expected.secrets[:1]) if expected.secrets else None
    sender = Sender(None, Postmark, provider)
    for url in dict.fromkeys(each.url for each in status.webhooks if "***" not in each.url):
        with suppress(ConfigurationError):
            for result in check_url(url, [sender], timeout=OBSTACLE_TIMEOUT):
                if result.level is Level.ERROR and result.subject not in _INCONCLUSIVE:
                    return result
    return None


def check_server(
    server: PostmarkServer, store: SQLStore, webhooks: Iterable[Webhook], expected: ExpectedWebhook
) -> None:
    """Raise `ConfigurationError` if the newest notifications in the log are from other servers.

    A server is accepted nevertheless if one of its webhooks has the expected URL or a secret: the
    log may have those of an earlier server. Any other webhook may be that of another hookrow.
    """
    if store.log is None or any(map(expected.is_proven_by, webhooks)):
        return
    newest = store.log.newest(Query(entry=expected.entry), limit=MAX_SAMPLED_ENTRIES)
    origins = {_server(each.body.encode()) for each in newest if each.body}
    servers = {each for each in origins if each is not None} - _TEST_SERVERS
    if servers and server.id not in servers:
        known = ", ".join(map(str, sorted(servers)))
        raise ConfigurationError(
            f"The token is that of the server {server.name} ({server.id}), but the newest "
            f"notifications in the log are from the server {known}: use the token of that server. "
            f"If hookrow has moved to {server.name}, create a webhook with its secret there by "
            "hand, and run the command again."
        )


def _server(body: bytes) -> int | None:
    try:
        origin = decode(body, _origin_decoder)
    except (ValueError, RecursionError):
        return None
    found = origin.new or origin.old
    return found if isinstance(found, int) else None


def _compare(
    api: PostmarkAPI,
    webhook: Webhook,
    expected: ExpectedWebhook,
    stream: Stream,
    of_stream: Sequence[Webhook],
) -> WebhookStatus:
    """Return the status of one of our webhooks on a stream."""
    statistics = read_statistics(api, webhook)
    triggers, paused = stream.available(expected.triggers), statistics.unverified(webhook)
    position = None
    if len(webhook.secrets) == 1 and webhook.secrets[0] in expected.secrets:
        position = list(expected.secrets).index(webhook.secrets[0])
    drift = [*webhook.differences(triggers, paused)]
    if position is None:
        wrong = "is not one of hookrow's secrets" if webhook.secrets else "is missing"
        drift.append(f"the header {SECRET_HEADER} {wrong}")
    if len(of_stream) > 1:
        drift.append(DUPLICATE_WEBHOOK)
    enabled = sorted(webhook.enabled)
    return WebhookStatus(
        id=webhook.id,
        stream=stream.id,
        url=api.clean(webhook.address),
        triggers={each: "paused" if each in paused else VERIFIED for each in enabled},
        secret=position,
        drift=[f"Webhook {webhook.id} of the stream {stream.id}: {each}." for each in drift],
        requests={name: each.requests for name, each in statistics.metrics.items()},
        failures={name: each.failures for name, each in statistics.metrics.items()},
    )


def _count(store: SQLStore, expected: ExpectedWebhook, now: datetime) -> Mapping[str, int]:
    """Count the posted notifications of the period by type, except types with very many.

    The provider's tests are not in its statistics either.
    """
    if store.log is None:
        return {}
    count = partial(store.log.count, limit=MAX_COMPARED)
    logged = {}
    of_entry = Query(entry=expected.entry, since=now - STATISTICS_PERIOD, posted=True)
    for name in sorted(expected.triggers):
        query = replace(of_entry, record_type=name)
        if (total := count(query)) < MAX_COMPARED:
            logged[name] = total - count(replace(query, outcome=Result.TEST))
    return logged
