"""The base class of the built-in providers, which settings can name and the command simulate."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from hookrow._core.notification import Notification, Reactivated
from hookrow._core.rules import PROBE
from hookrow._http import PROBE_AGENT, RequestHead
from hookrow.providers._base import Provider


class ProviderRequest(NamedTuple):
    """The headers and the body of a request, as a provider sends it."""

    headers: Mapping[str, str]
    body: bytes


OptionValue: TypeAlias = str | bool
"""The value of one of a provider's options in settings."""


class Option(NamedTuple):
    """What a setting of a provider may be, besides its credentials."""

    type: type[OptionValue] = str
    is_required: bool = False

    def fault(self, value: object) -> str | None:
        """Return why a value is not of the type, as a predicate without the value, or None."""
        if isinstance(value, self.type):
            return None
        expected = "text" if self.type is str else "true or false"
        return f"must be {expected}, not {type(value).__name__}"


class BuiltIn(Provider):
    """A provider that hookrow.toml and Django's settings can name, and the command can simulate."""

    credential: ClassVar[str] = "secret"
    """The setting whose values authenticate requests; see `credential_settings`."""

    options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    """The other settings. What only code can state, such as a function, is not among them."""

    proof: ClassVar[str]
    """The header with the proof of a request's origin, which a proxy may remove."""

    setup: ClassVar[str]
    """The steps at the provider, besides entering the URL, by which requests are authenticated: in
    imperative sentences, with code in backticks."""

    wrong_signature: ClassVar[str] = "the secret differs, or the body was changed on its way"
    """Why a signature may be wrong, as a clause, if requests have one."""

    tolerance: ClassVar[str] = ""
    """The limits of a signature's time, as in "12 hours ago, or 5 minutes ahead", if it has one."""

    hard_bounce: ClassVar[str] = "Permanent"
    """The type of a bounce after which the provider suppresses the address."""

    precision: ClassVar[timedelta] = timedelta(milliseconds=1)
    """The smallest difference between the times of two events."""

    probe_change: ClassVar[Notification] = Reactivated(PROBE, None, None)
    """What `hookrow check` sends: it changes nothing, and the log does not keep it; see
    `rules.is_probe`."""

    own_test: ClassVar[str] = ""
    """How to have the provider send a request, as an imperative clause, if only it can sign."""

    matched: Counter[int]
    old_matches: int

    @abstractmethod
    def __init__(self, *credentials: str, **options: Any) -> None:  # noqa: ANN401 - of `options`
        """Accept requests with one of the credentials, the newest of which is the first."""

    @abstractmethod
    def accept(self, *credentials: str) -> None:
        """Accept these credentials from now on, and no others. Raises `ConfigurationError`."""

    @classmethod
    @abstractmethod
    def generate(cls, **options: Any) -> tuple[str, Self]:  # noqa: ANN401 - of `options`
        """Return a new random credential, and a provider that accepts it and can sign by it.

        A required option that is missing has an arbitrary value.
        """

    @classmethod
    def parser(cls, **options: Any) -> Self:  # noqa: ANN401 - of `options`
        """Return a provider that reads the log, but accepts no request. It needs no credential."""
        return cls.generate(**options)[1]

    @abstractmethod
    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event that `parse` reads as the notification.

        Other notifications may follow or precede it, if the provider's event has several effects.
        What the event does not have, such as the message id of a suppression, is omitted, and its
        time has the provider's `precision`. Returns None if the provider sends no such event.
        """

    @classmethod
    def compose_probe(cls) -> bytes:
        """Return the body of `probe_change`."""
        body = cls.parser().compose(cls.probe_change)
        assert body is not None  # noqa: S101 - each provider sends such an event
        return body

    @abstractmethod
    def sign(self, body: bytes) -> ProviderRequest | None:
        """Return the request with one event, authenticated by the newest credential.

        Returns None if only the provider can sign, because the credential is its public key.
        """

    @classmethod
    def forge(cls, body: bytes) -> ProviderRequest:
        """Return a request with an event that is refused, because its credential is random."""
        _, stranger = cls.generate()
        request = stranger.sign(body)
        assert request is not None  # noqa: S101 - for mypy: `generate` returns one that can sign
        return request

    def doubt_about_url(self, url: str) -> str | None:
        """Return why the provider's requests to a URL may be refused, in a sentence, or None.

        By default, None, because the signature does not cover the URL.
        """
        del url
        return None

    def reset_matches(self, number: int) -> None:
        """Begin to count the requests with each of so many credentials."""
        self.matched = Counter(dict.fromkeys(range(number), 0))

    def count_match(self, position: int, head: RequestHead) -> None:
        """Count a request with the credential at this position; 0 is the newest.

        `old_matches` excludes the probes of `hookrow check`: a person sends them, so they do not
        show that the provider still uses the credential.
        """
        self.matched[position] += 1
        if position and head.header("user-agent") != PROBE_AGENT:
            self.old_matches += 1

    @classmethod
    def setting_names(cls) -> Collection[str]:
        """Return the names of all settings."""
        return [*credential_settings(cls.credential), *cls.options]

    @classmethod
    def required_settings(cls) -> Collection[str]:
        """Return the names of the settings without which no request is accepted."""
        required = [name for name, option in cls.options.items() if option.is_required]
        return [cls.credential, *required]


def credential_settings(credential: str) -> tuple[str, str, str]:
    """Return the names of the settings that have a credential, such as `secret`.

    They are the newest one, the previous one, which is also accepted, and a file with both.
    """
    return credential, f"previous_{credential}", f"{credential}_file"
