"""The base class of the built-in providers, which settings can name and the command simulate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

from hookrow._core.notification import Notification
from hookrow.providers._base import Provider


class ProviderRequest(NamedTuple):
    """The headers and the body of a request, as a provider sends it."""

    headers: Mapping[str, str]
    body: bytes


class BuiltIn(Provider):
    """A provider that hookrow.toml and Django's settings can name, and the command can simulate.

    The class itself is a `BodyParser`, so that the log can be read without a credential.
    """

    credential: ClassVar[str] = "secret"
    """The setting whose values authenticate requests; see `credential_settings`."""

    options: ClassVar[Sequence[str]] = ()
    """The other settings, which are required."""

    proof: ClassVar[str]
    """The header with the proof of a request's origin, which a proxy may remove."""

    @abstractmethod
    def __init__(self, *credentials: str, **options: str) -> None:
        """Accept requests with one of the credentials, the newest of which is the first."""

    @abstractmethod
    def accept(self, *credentials: str) -> None:
        """Accept these credentials from now on, and no others. Raises `ConfigurationError`."""

    @staticmethod
    @abstractmethod
    def compose(notification: Notification) -> bytes:
        """Return the body of an event that `parse` reads as the notification.

        What the provider's events do not have, such as the message id of a suppression, is omitted.
        """

    @abstractmethod
    def sign(self, body: bytes) -> ProviderRequest | None:
        """Return the request with a body, with the newest credential.

        Returns None if only the provider can sign, because the credential is its public key.
        """

    @classmethod
    @abstractmethod
    def forge(cls, body: bytes) -> ProviderRequest:
        """Return a request with a body that is refused because its proof is wrong."""

    @classmethod
    def setting_names(cls) -> Collection[str]:
        """Return the names of all settings."""
        return [*credential_settings(cls.credential), *cls.options]


def credential_settings(credential: str) -> tuple[str, str, str]:
    """Return the names of the settings that have a credential, such as `secret`.

    They are the newest one, the previous one, which is also accepted, and a file with both.
    """
    return credential, f"previous_{credential}", f"{credential}_file"
