"""The web address that is looked at, taken apart, and where else hookrow may be."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import quote, unquote, urljoin, urlsplit

from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT

_PORTS = {"http": 80, "https": 443}

_MOUNTS = ("", "/mail", "/email", "/hookrow", "/webhooks", "/api")
"""Where people mount it."""

_NONE = "That is no web address: write for example https://example.com/mail/provider/webhooks."


@dataclass(frozen=True, slots=True)
class Address:
    """Where to post: `target` is the path and the query as they are sent.

    `login` is the value of the header Authorization, empty where the address had no
    user and password.
    """

    scheme: str
    host: str
    port: int
    target: str
    login: str = ""

    @property
    def secure(self) -> bool:
        """Whether it is asked over TLS."""
        return self.scheme == "https"

    @property
    def path(self) -> str:
        """The path alone, as it is sent."""
        return self.target.partition("?")[0]

    def elsewhere(self) -> list[Address]:
        """Return where else on the server hookrow may be, the likeliest first."""
        paths = dict.fromkeys(_paths(self.path))
        return [replace(self, target=path) for path in paths if path != self.path]

    def led_to(self, location: str) -> Address | None:
        """Return where a redirect leads, None where that is no web address."""
        if not location:
            return None
        try:
            return replace(read(urljoin(str(self), location)), login="")
        except (ConfigurationError, ValueError):
            return None

    def __str__(self) -> str:
        """Write the address as it may be shown: without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def read(url: str) -> Address:
    """Take a web address apart. Raises `ConfigurationError`, without a password, for another."""
    try:
        parts = urlsplit(url)
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
    except (KeyError, ValueError):
        raise ConfigurationError(_NONE) from None
    if not parts.hostname or not url.isprintable():
        raise ConfigurationError(_NONE)
    bare = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    target = quote(bare if bare.startswith("/") else f"/{bare}", safe="/%?&=+:;,@!$'()*~")
    return Address(
        parts.scheme, parts.hostname, port, target, _login(parts.username, parts.password)
    )


def _paths(path: str) -> Iterator[str]:
    bare = path.rstrip("/")
    if bare:
        yield f"{path}/" if path == bare else bare
    parts = [part for part in bare.removesuffix(ENDPOINT).split("/") if part]
    for length in range(len(parts), 0, -1):
        yield f"/{'/'.join(parts[:length])}{ENDPOINT}"
    for start in range(1, len(parts)):
        yield f"/{'/'.join(parts[start:])}{ENDPOINT}"
    for mount in _MOUNTS:
        yield f"{mount}{ENDPOINT}"


def is_public(ip: str) -> bool:
    """Tell whether an IP address can be reached from everywhere."""
    return ip_address(ip.partition("%")[0]).is_global


def _login(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    words = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {b64encode(words.encode()).decode()}"
