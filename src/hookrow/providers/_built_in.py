"""The base class of hookrow's own providers: what settings need to know about each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

from hookrow.providers._base import Provider


class BuiltIn(Provider):
    """A provider that hookrow.toml and Django's settings can name.

    The class itself is a `BodyParser`, so that the log can be read without a credential.
    """

    credential: ClassVar[str] = "secret"
    """The setting whose values authenticate requests; see `credential_settings`."""

    options: ClassVar[Sequence[str]] = ()
    """The other settings, which are required."""

    @abstractmethod
    def __init__(self, *credentials: str, **options: str) -> None:
        """Accept requests with one of the credentials, the newest of which is the first."""

    @abstractmethod
    def accept(self, *credentials: str) -> None:
        """Accept these credentials from now on, and no others. Raises `ConfigurationError`."""

    @classmethod
    def setting_names(cls) -> Collection[str]:
        """Return the names of all settings."""
        return [*credential_settings(cls.credential), *cls.options]


def credential_settings(credential: str) -> tuple[str, str, str]:
    """Return the names of the settings that have a credential, such as `secret`.

    They are the newest one, the previous one, which is also accepted, and a file with both.
    """
    return credential, f"previous_{credential}", f"{credential}_file"
