"""TLS as the provider meets it: the version, the certificate, its name and its time."""

from __future__ import annotations

import socket
import ssl
import warnings
from dataclasses import dataclass
from time import time

from hookrow.finding import Explained, Finding, Level
from hookrow.outside.address import Address
from hookrow.outside.asking import said

SOON = 14 * 86_400
"""In seconds; a certificate that ends sooner should have been renewed by itself."""

_WAIT = 10.0
"""In seconds; how long a handshake may take."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """What was found. `context` is for the requests that follow, None where none can.

    Where the certificate proves nothing (`trusted` is false) it checks none.
    """

    finding: Finding
    context: ssl.SSLContext | None
    trusted: bool = False


def shake_hands(address: Address) -> Handshake:
    """Open a connection over TLS, and say what it is like."""
    context = ssl.create_default_context()
    # What Python 3.13 finds fault with besides, other clients let pass.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        version, ends = _open(address, context)
    except ssl.SSLCertVerificationError as error:
        return Handshake(_untrusted(address, error), unverified())
    except (OSError, ValueError) as error:
        return Handshake(_failed(address, error), None)
    return Handshake(_trusted(version, ends), context, trusted=True)


def unverified() -> ssl.SSLContext:
    """Return a context that takes any certificate: no secret may be sent with it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _open(address: Address, context: ssl.SSLContext) -> tuple[str, float]:
    """Return the version of TLS and when the certificate ends, in seconds since 1970."""
    with (
        socket.create_connection((address.host, address.port), _WAIT) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        certificate = secured.getpeercert() or {}
        ends = certificate.get("notAfter")
        return secured.version() or "?", (
            float(ssl.cert_time_to_seconds(ends)) if isinstance(ends, str) else 0.0
        )


def _trusted(version: str, ends: float) -> Finding:
    left = ends - time()
    seen = f"{version}; the certificate is trusted and ends in {left / 86_400:.0f} days."
    if left < SOON:
        return Explained(
            Level.WARNING,
            "tls",
            seen,
            "Once it has ended the provider's calls can fail.",
            "Renew it now, and see why that was not done by itself.",
        )
    return Explained(Level.OK, "tls", seen)


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


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> Finding:
    how = f"is not trusted: {said(Exception(error.verify_message))}"
    seen, (means, change) = _UNTRUSTED.get(error.verify_code, (how, _CHAIN))
    return Explained(
        Level.ERROR, "tls", f"The certificate {seen.format(host=address.host)}.", means, change
    )


def _failed(address: Address, error: Exception) -> Finding:
    if "WRONG_VERSION_NUMBER" in str(error):
        return Explained(
            Level.ERROR,
            "tls",
            f"Port {address.port} does not speak TLS.",
            "It is a plain http server, or no web server.",
            "Set up TLS there, or give the port that has it (443).",
        )
    if old := _old_version(address):
        return Explained(
            Level.ERROR,
            "tls",
            f"The server speaks {old} and nothing newer.",
            "Clients of today, the provider's among them, hang up (RFC 8996).",
            "Allow TLS 1.2 and 1.3 (nginx: ssl_protocols TLSv1.2 TLSv1.3;).",
        )
    return Explained(
        Level.ERROR,
        "tls",
        f"The handshake failed: {said(error)}.",
        "No request can be made.",
        "See the server's log; it may want another name (SNI) or a client's certificate.",
    )


def _old_version(address: Address) -> str | None:
    """Return the old version that the server speaks; None where it does not even that."""
    context = unverified()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is old: that is the question
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    try:
        return _open(address, context)[0]
    except (OSError, ValueError):
        return None
