"""The causes of responses to probes, as one table, and their remedies."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import SplitResult

from hookrow.core.notification import Refusal
from hookrow.diagnostics.client import HEADER, Reply, Sent, printable, without_login
from hookrow.diagnostics.result import CheckResult, Level


class Diagnosis(NamedTuple):
    """The cause of replies whose status and text match `pattern`, and whose header `header`.

    Both are regular expressions; the pattern begins with the status, or with the reason why there
    is no response. The diagnosis is only for probes with one of the secrets in `sent`. If the level
    is OK, the meaning is the text of the result.
    """

    subject: str
    pattern: str
    meaning: str
    remedy: str = ""
    sent: Collection[Sent] = tuple(Sent)
    header: str = ""
    level: Level = Level.ERROR


_WRONG, _NONE, _CONFIGURED = (Sent.WRONG,), (Sent.NONE,), (Sent.CONFIGURED,)

_REJECTED = rf"401 {Refusal.UNAUTHENTIC.text}\Z"
_ADMITTED = rf"\d+ ({Refusal.SUBSCRIBER_NOT_FOUND.text}|{Refusal.UNSUPPORTED.text})\Z"
_RECEIVED = rf"404 {Refusal.SUBSCRIBER_NOT_FOUND.text}\Z"

_MOUNT = "Mount hookrow there, or give the provider the URL at which it is mounted."
_STOPS = "After a 403, the provider stops sending the notification."

# The first diagnosis that applies is given.
DIAGNOSES = (
    # -- no connection -----------------------------------------------------------------
    Diagnosis(
        "dns",
        "cannot resolve",
        "The name of the host has no address, so the provider cannot reach it.",
        "Correct the name, or add an A record for it.",
    ),
    Diagnosis(
        "connection",
        "cannot connect",
        "No server accepts connections at this port, or a firewall blocks them.",
        "Start the server, and allow connections to the port.",
    ),
    Diagnosis(
        "tls",
        "TLS failed .*unable to (get|verify)",
        "The server omits an intermediate certificate, or the authority is not trusted.",
        "Configure the whole certificate chain (fullchain.pem).",
    ),
    Diagnosis(
        "tls",
        r"TLS failed \((?!\[SSL).*certificate",
        "Clients that verify the certificate close the connection.",
        "Install a certificate from a public authority, such as Let's Encrypt, that is valid now "
        "and for this name.",
    ),
    Diagnosis(
        "tls",
        "TLS failed .*(WRONG_VERSION_NUMBER|record.layer)",
        "The server at this port does not use TLS.",
        "Set up TLS there, or use the port that has it (443).",
    ),
    Diagnosis(
        "tls",
        "TLS failed",
        "The server supports no current version of TLS (RFC 8996), or it requires another name "
        "(SNI) or a client certificate.",
        "Enable TLS 1.2 and 1.3 (nginx: ssl_protocols TLSv1.2 TLSv1.3;), and see the server's log.",
    ),
    Diagnosis(
        "server",
        "no ",
        "Without a response, the provider sends the notification again, but only a few times.",
        "See the server's log, and check that a web server listens at this port.",
    ),
    # -- responses of hookrow ----------------------------------------------------------
    Diagnosis(
        "secret",
        _REJECTED,
        f"hookrow received no secret: a proxy removes the header {HEADER}, or hookrow is "
        "configured to read another header.",
        "Let the proxy pass on the header (nginx: remove a proxy_set_header that empties it).",
        _WRONG,
        header="missing",
    ),
    Diagnosis("path", _REJECTED, "hookrow responds at {url}.", sent=_WRONG, level=Level.OK),
    Diagnosis(
        "secret",
        _REJECTED,
        f"hookrow received a wrong secret: a proxy sets the header {HEADER}, perhaps also in the "
        "provider's requests.",
        "Let the proxy pass on the header of the provider, and set none itself.",
        _NONE,
        header="wrong",
    ),
    Diagnosis(
        "secret",
        _REJECTED,
        "A wrong secret and a missing one are rejected with 401.",
        sent=_NONE,
        level=Level.OK,
    ),
    Diagnosis(
        "secret",
        _REJECTED,
        "hookrow received the secret, but has a different one.",
        "Use the same secret here, in the server and at the provider; restart the server if its "
        "secret was changed.",
        _CONFIGURED,
        header="wrong",
    ),
    Diagnosis(
        "secret",
        _REJECTED,
        f"The server has a different secret, or a proxy removes the header {HEADER}.",
        "Use the same secret here, in the server and at the provider, and let the proxy pass on "
        "the header.",
        _CONFIGURED,
    ),
    Diagnosis(
        "secret",
        _RECEIVED,
        "The configured secret is accepted, and a body of 64 KiB arrives.",
        sent=_CONFIGURED,
        level=Level.OK,
    ),
    Diagnosis(
        "database",
        rf"503 {Refusal.UNAVAILABLE.text}\Z",
        "hookrow cannot use its database; the provider sends the notification again.",
        "See hookrow's log, and run `hookrow check` without a URL on the server.",
        _CONFIGURED,
    ),
    Diagnosis(
        "body",
        rf"422 {Refusal.UNSUPPORTED.text}\Z",
        "A proxy changed or removed the body.",
        "Let the proxy pass on the body unchanged.",
        _CONFIGURED,
    ),
    Diagnosis(
        "response",
        "404 ",
        "The status is hookrow's, but the text is not: a proxy replaces it.",
        "Let the proxy pass on responses unchanged (nginx: proxy_intercept_errors off;).",
        _CONFIGURED,
        level=Level.WARNING,
    ),
    Diagnosis(
        "secret",
        _ADMITTED,
        "The request was accepted: anybody can suppress or reactivate your subscribers.",
        f"Find the proxy that adds the header {HEADER} to requests, and remove the header there.",
        (Sent.WRONG, Sent.NONE),
    ),
    # -- responses of others -----------------------------------------------------------
    Diagnosis(
        "path",
        "2",
        "This is not hookrow, but it accepts requests: notifications are lost without an error at "
        "the provider.",
        _MOUNT,
    ),
    Diagnosis(
        "redirect",
        "3",
        "The URL redirects to itself.",
        "Find the rule that redirects; behind a proxy that ends TLS, the server may need the "
        "header X-Forwarded-Proto.",
        header="^itself$",
    ),
    Diagnosis(
        "login",
        "3",
        "The URL redirects to a login, {location}, but the provider cannot log in.",
        "Allow POST requests to this path without a login.",
        header="//[^/]+/.*(?<![a-z])(log-?in|sign-?in|sso|oauth)",
    ),
    Diagnosis(
        "redirect",
        "3",
        "The URL redirects to {location}. Clients may follow with a GET without the body, so "
        "nothing is recorded.",
        "Give the provider the URL of hookrow itself, or remove the redirect of POST requests.",
    ),
    Diagnosis(
        "tls",
        "400 .*https port",
        "The server at this port requires TLS.",
        "Use https:// in the URL.",
    ),
    Diagnosis(
        "server",
        "400 ",
        "The server rejects the request itself, perhaps because of its host name.",
        "Allow the host name (Django: ALLOWED_HOSTS).",
    ),
    Diagnosis(
        "login",
        "401 ",
        "A login is required, or a proxy replaces hookrow's responses with its own pages.",
        "Allow POST requests to this path without a login, and pass on responses unchanged.",
    ),
    Diagnosis(
        "forbidden",
        "403 .*csrf",
        f"The framework's CSRF protection rejects the request. {_STOPS}",
        "Exempt this path (Django: include hookrow.django.urls, or use csrf_exempt).",
    ),
    Diagnosis(
        "forbidden",
        "403 ",
        f"A firewall, a rule of a proxy or a login rejects the request. {_STOPS}",
        "Allow POST requests to this path, from every address: the secret is the check.",
    ),
    Diagnosis("path", "40[45] ", "hookrow is not at this path.", _MOUNT),
    Diagnosis(
        "body",
        "413 ",
        "A proxy rejects bodies that hookrow accepts: its limit is 1 MiB.",
        "Raise the limit of the proxy (nginx: client_max_body_size 1m;).",
    ),
    Diagnosis(
        "server",
        "429 ",
        "A proxy limits the rate of requests, but after a mailing the provider sends many.",
        "Exempt this path from the rate limit.",
    ),
    Diagnosis(
        "server",
        "50[234] ",
        "A proxy responds, but the application behind it is not available or too slow.",
        "Start the application, correct its address in the proxy, and see the logs of both.",
    ),
    Diagnosis(
        "server",
        "",
        "This is not a response of hookrow.",
        "Find out from the server's log what responded, and mount hookrow there.",
    ),
)


def diagnose(url: SplitResult, reply: Reply) -> CheckResult:
    """Return the first diagnosis that applies to the reply to a probe."""
    address = without_login(url)
    if reply.header == address:
        reply = replace(reply, header="itself")
    cause = next(each for each in DIAGNOSES if _applies(each, reply))
    location = printable(reply.header, 200) or "an invalid URL"
    meaning = cause.meaning.format(url=address, location=location)
    if cause.level is Level.OK:
        return CheckResult(cause.level, cause.subject, meaning)
    end = f"returned {reply}" if reply.status else f"failed: {reply.text}"
    text = f"POST {address} {reply.sent.value} {end}."
    return CheckResult(cause.level, cause.subject, text, meaning, cause.remedy)


def _applies(cause: Diagnosis, reply: Reply) -> bool:
    text = f"{reply.status} {reply.text}" if reply.status else reply.text
    flags = re.IGNORECASE | re.DOTALL
    return (
        reply.sent in cause.sent
        and re.match(cause.pattern, text, flags) is not None
        and re.search(cause.header, reply.header, flags) is not None
    )
