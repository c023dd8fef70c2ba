"""TLS as the provider meets it: the version, the certificate, its name and its time."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from time import time

from hookrow.diagnostics.result import CheckResult, Explained, Level
from hookrow.outside.address import Address
from hookrow.outside.asking import said

SOON = 14 * 86_400
"""In seconds; a certificate that ends sooner should have been renewed by itself."""

_WAIT = 10.0
"""In seconds; how long a handshake may take."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What was found of the way to a server.

    `context` is for the requests that follow, None for plain http; where no request can
    be made it is not `usable`. A secret may be sent where it is `safe` only: elsewhere
    others may read it, and the context checks no certificate.
    """

    finding: CheckResult
    context: ssl.SSLContext | None = None
    usable: bool = True
    safe: bool = False


def open_channel(address: Address, *, public: bool) -> Channel:
    """Try the way to a server, which is `public` where it leads through the internet."""
    if not address.secure:
        return _PUBLIC if public else _PRIVATE
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # What Python 3.13 finds fault with besides, other clients let pass.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        version, ends = _shake_hands(address, context)
    except ssl.SSLCertVerificationError as error:
        return Channel(_untrusted(address, error), _unverified())
    except (OSError, ValueError) as error:
        return Channel(_failed(address, error), usable=False)
    return Channel(_trusted(version, ends), context, safe=True)


_PRIVATE = Channel(
    Explained(Level.OK, "tls", "Plain http, which does within a machine or a network."), safe=True
)

_PUBLIC = Channel(
    Explained(
        Level.ERROR,
        "tls",
        "Plain http, through the internet.",
        "Whoever is on the way reads the secret and your subscribers' addresses.",
        "Set up https, and give the provider that address.",
    )
)


def _unverified() -> ssl.SSLContext:
    """Return a context that takes any certificate: no secret may be sent with it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _shake_hands(address: Address, context: ssl.SSLContext) -> tuple[str, float]:
    """Return the version of TLS and when the certificate ends, in seconds since 1970."""
    with (
        socket.create_connection((address.host, address.port), _WAIT) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        ends = (secured.getpeercert() or {}).get("notAfter")
        seconds = ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else 0
        return secured.version() or "?", float(seconds)


def _trusted(version: str, ends: float) -> CheckResult:
    left = ends - time()
    seen = f"{version}; the certificate is trusted and ends in {left / 86_400:.0f} days."
    if left >= SOON:
        return Explained(Level.OK, "tls", seen)
    means = "Once it has ended the provider's calls can fail."
    change = "Renew it now, and see why that was not done by itself."
    return Explained(Level.WARNING, "tls", seen, means, change)


_EXPIRED = ("A client that checks it hangs up.", "Renew it, and reload the server.")
_SELF_MADE = (
    "Nobody but its maker trusts it; a client that checks it hangs up.",
    "Take one of an authority, for example Let's Encrypt.",
)
_OTHER_NAME = (
    "It was made for another name; a client that checks it hangs up.",
    "Take a certificate with this name in it, or give the provider the name that is.",
)
_CHAIN = (
    "The server leaves out a certificate in between, or an authority is not known.",
    "Have it send the whole chain (fullchain.pem).",
)
_UNTRUSTED = {
    9: ("is not valid yet", _EXPIRED),
    10: ("has expired", _EXPIRED),
    18: ("is self-signed", _SELF_MADE),
    19: ("is of an authority made by oneself", _SELF_MADE),
    20: ("is of an unknown authority", _CHAIN),
    21: ("is of an unknown authority", _CHAIN),
    62: ("is not for the name {host}", _OTHER_NAME),
    64: ("is not for the address {host}", _OTHER_NAME),
}
"""By OpenSSL's codes: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/"""


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> CheckResult:
    how = f"is not trusted: {said(Exception(error.verify_message))}"
    seen, (means, change) = _UNTRUSTED.get(error.verify_code, (how, _CHAIN))
    seen = f"The certificate {seen.format(host=address.host)}."
    return Explained(Level.ERROR, "tls", seen, means, change)


def _failed(address: Address, error: Exception) -> CheckResult:
    if "WRONG_VERSION_NUMBER" in str(error):
        seen = f"Port {address.port} does not speak TLS."
        means = "It is a plain http server, or no web server."
        change = "Set up TLS there, or give the port that has it (443)."
    elif "PROTOCOL" in str(error):
        seen = "The server speaks no version of TLS that is in use."
        means = "Clients of today, the provider's among them, hang up (RFC 8996)."
        change = "Allow TLS 1.2 and 1.3 (nginx: ssl_protocols TLSv1.2 TLSv1.3;)."
    else:
        seen = f"The handshake failed: {said(error)}."
        means = "No request can be made."
        change = "See the server's log; it may want another name (SNI) or a client's certificate."
    return Explained(Level.ERROR, "tls", seen, means, change)
