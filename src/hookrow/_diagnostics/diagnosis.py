"""A table of the possible replies to probes, with their causes and remedies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from errno import ECONNREFUSED
from typing import NamedTuple

from hookrow._core.notification import Refusal
from hookrow._describe import printable
from hookrow._diagnostics import CheckResult, Level
from hookrow.providers._built_in import BuiltIn
from hookrow.providers.postmark import Postmark


class ProbeSecret(Enum):
    """The secret that a probe contains."""

    WRONG = "with a wrong secret"
    NONE = "without a secret"
    CONFIGURED = "with the configured secret"


@dataclass(frozen=True, slots=True)
class Reply:
    """A response to a probe. If there is none, the status is 0, and `text` is the reason.

    `header` is WWW-Authenticate or, if that is missing, Location. `provider` is the one whose
    request the probe is, or None if it is not one of hookrow's.
    """

    url: str
    sent: ProbeSecret
    status: int
    text: str
    header: str = ""
    provider: type[BuiltIn] | None = Postmark


class Diagnosis(NamedTuple):
    """The cause of replies that match a pattern, and whose header contains `header`.

    The pattern is a regular expression for the status, the name of `ProbeSecret`, and the text. If
    the level is OK, the meaning is the text of the result.
    """

    subject: str
    pattern: str
    meaning: str
    remedy: str = ""
    header: str = ""
    level: Level = Level.ERROR


_UNAUTHENTIC_PATTERN = rf"{Refusal.UNAUTHENTIC.text}\Z"
_UNSUPPORTED_PATTERN = rf"{Refusal.UNSUPPORTED.text}\Z"
_UNKNOWN_PATTERN = rf"{Refusal.SUBSCRIBER_NOT_FOUND.text}\Z"

_FORWARD = (
    "Exempt this path from middlewares that read or log bodies, or let them pass the body on "
    "(Starlette: await request.body(); Flask: request.get_data(); Django: request.body). "
    "Configure the proxy to forward bodies up to 1 MiB unchanged."
)

_RUN_CHECK = "Check hookrow's log, and run `hookrow check` without a URL on the server."

# The first diagnosis that applies is used.
DIAGNOSES = (
    # -- no response -------------------------------------------------------------------
    Diagnosis(
        "dns",
        r"0 \w+ cannot resolve",
        "The host name has no address, so the provider cannot reach it.",
        "Correct the name, or add a DNS record (A or AAAA) for it.",
    ),
    Diagnosis(
        "certificate",
        r"0 \w+ TLS failed: .*certificate has expired",
        "The server's certificate has expired, so the provider does not connect.",
        "Renew the certificate, and reload the proxy or the server, which keeps the one that it "
        "has read.",
    ),
    Diagnosis(
        "tls",
        r"0 \w+ TLS failed",
        "Clients that verify certificates and require TLS 1.2 (RFC 8996) cannot connect.",
        "Use the TLS port (443), and a valid public certificate with its chain (fullchain.pem).",
    ),
    Diagnosis(
        "body",
        "0 CONFIGURED no complete response",
        "The other requests have a response, but the server still waits for the body of this one: "
        "perhaps a middleware of the application has read it.",
        _FORWARD,
    ),
    Diagnosis(
        "connection",
        rf"0 \w+ no response: \[Errno {ECONNREFUSED}\]",
        "No program listens at this address, or a firewall rejects the connection.",
        "Start `hookrow serve`, or the server of your application, or correct the URL.",
    ),
    Diagnosis(
        "connection",
        "0 ",
        "Without a response, the provider retries the notification, but only a few times.",
        "Start the web server, allow connections to the port, and check the server's log.",
    ),
    # -- responses of hookrow ----------------------------------------------------------
    Diagnosis(
        "secret",
        f"401 WRONG {_UNAUTHENTIC_PATTERN}",
        "A proxy removes the header {proof}.",
        "Configure the proxy to forward it (nginx: remove any proxy_set_header that empties it).",
        header="missing",
    ),
    Diagnosis(
        "path", f"401 WRONG {_UNAUTHENTIC_PATTERN}", "hookrow responds at {url}.", level=Level.OK
    ),
    Diagnosis(
        "secret",
        f"401 NONE {_UNAUTHENTIC_PATTERN}",
        "A proxy sets the header {proof}, perhaps also in the provider's requests.",
        "Configure the proxy to forward the provider's header, and not to set its own.",
        header="wrong",
    ),
    Diagnosis(
        "secret",
        f"401 NONE {_UNAUTHENTIC_PATTERN}",
        "A wrong secret and a missing one are rejected with 401.",
        level=Level.OK,
    ),
    Diagnosis(
        "clock",
        f"401 CONFIGURED {_UNAUTHENTIC_PATTERN}",
        "By the server's clock, the request was signed more than {tolerance}, so one of the two "
        "clocks is wrong.",
        "Set the clock of this machine and of the server, for example with NTP.",
        header="expired",
    ),
    Diagnosis(
        "secret",
        f"401 CONFIGURED {_UNAUTHENTIC_PATTERN}",
        "The signature arrives, but is wrong for the server: {wrong_signature}.",
        "Use the same {settings} here, in the server (restart it after a change) and at the "
        "provider, and configure the proxy to forward bodies unchanged.",
        header='Signature error="wrong"',
    ),
    Diagnosis(
        "secret",
        f"401 CONFIGURED {_UNAUTHENTIC_PATTERN}",
        "The secret arrives, but the server has a different one; its log states if the two differ "
        "only by quotes or spaces around them.",
        "Use the same secret here, in the server (restart it after a change) and at the provider.",
        header="wrong",
    ),
    Diagnosis(
        "secret",
        f"401 CONFIGURED {_UNAUTHENTIC_PATTERN}",
        "The server does not have the same {settings}, or a proxy removes the header {proof}.",
        "Use the same {settings} here, in the server (restart it after a change) and at the "
        "provider.",
    ),
    Diagnosis(
        "secret",
        f"404 CONFIGURED {_UNKNOWN_PATTERN}",
        "The configured secret is accepted, and a body of 64 KiB arrives.",
        level=Level.OK,
    ),
    Diagnosis(
        "body",
        "408 ",
        "The body does not arrive complete: a middleware of the application reads it before "
        "hookrow does, or a proxy drops or delays a part of it.",
        _FORWARD,
    ),
    Diagnosis(
        "body",
        f"422 CONFIGURED {_UNSUPPORTED_PATTERN}",
        "A middleware of the application, or a proxy, changes bodies or drops them. The provider "
        "drops such notifications.",
        _FORWARD,
    ),
    Diagnosis(
        "body",
        "413 ",
        "A proxy rejects bodies that hookrow accepts (up to 1 MiB).",
        "Configure the proxy to forward bodies up to 1 MiB unchanged (nginx: "
        "client_max_body_size 1m;).",
    ),
    Diagnosis(
        "secret",
        rf"404 \w+ {_UNKNOWN_PATTERN}|422 \w+ {_UNSUPPORTED_PATTERN}",
        "The request was accepted: anybody can suppress or reactivate your subscribers.",
        "Find the proxy that adds the header {proof} to requests, and remove the header there.",
    ),
    Diagnosis(
        "database",
        rf"503 \w+ {Refusal.UNAVAILABLE.text}\Z",
        "hookrow cannot use its database; the provider will retry the notification.",
        _RUN_CHECK,
    ),
    Diagnosis(
        "response",
        "404 CONFIGURED ",
        "The status is hookrow's, but the text is not: a proxy replaces it.",
        "Configure the proxy to return responses unchanged (nginx: proxy_intercept_errors off;).",
        level=Level.WARNING,
    ),
    # -- responses of others -----------------------------------------------------------
    Diagnosis(
        "path",
        "2|40[45] ",
        "hookrow is not at this path; notifications that another application accepts are lost.",
        "Mount hookrow there, or give the provider the URL at which it is mounted.",
    ),
    Diagnosis(
        "redirect",
        "3",
        "It redirects to {location}. A client that follows with a GET drops the notification.",
        "Give the provider hookrow's URL, or remove the redirect to a login or to https.",
    ),
    Diagnosis(
        "forbidden",
        "40[013] ",
        "A login, a firewall, or a check of the host name or of a CSRF token rejects the request, "
        "or a proxy replaces hookrow's response. The provider drops such notifications.",
        "Exempt POST requests to this path (Django: csrf_exempt, ALLOWED_HOSTS), and use https.",
    ),
    Diagnosis(
        "server",
        "429 |50[234] ",
        "A proxy limits the rate of requests, or the application behind it does not respond.",
        "Exempt this path from rate limits, start the application, and check the logs of both.",
    ),
    Diagnosis(
        "server",
        "",
        "This response is not from hookrow.",
        "Find the application that responded in the server's log, and mount hookrow there.",
    ),
)


def diagnose(reply: Reply) -> CheckResult:
    """Return the first diagnosis that applies to a reply, without the secret."""
    text = f"{reply.status} {reply.sent.name} {reply.text}"
    cause = next(
        each for each in DIAGNOSES if re.match(each.pattern, text) and each.header in reply.header
    )
    words, location = _start(reply.text), _start(reply.header)
    end = f'returned {reply.status} "{words}"' if reply.status else f"failed: {words}"
    if reply.sent is ProbeSecret.CONFIGURED:
        # The server may repeat the secret, in any encoding.
        end, location = f"returned {reply.status or 'no response'}", "another URL"
    facts = _facts_of(reply.provider)
    meaning = cause.meaning.format(url=reply.url, location=location, **facts)
    if cause.level is Level.OK:
        return CheckResult(cause.level, cause.subject, meaning)
    text = f"POST {reply.url} {reply.sent.value} {end}."
    remedy = cause.remedy.format(**facts)
    return CheckResult(cause.level, cause.subject, text, meaning, remedy)


def _facts_of(provider: type[BuiltIn] | None) -> Mapping[str, str]:
    """Return what a diagnosis may say about a provider; another one gets no authentic request."""
    if provider is None:
        return {"proof": "with the secret"}
    return {
        "proof": provider.proof,
        "settings": " and ".join(provider.required_settings()),
        "tolerance": provider.tolerance,
        "wrong_signature": provider.wrong_signature,
    }


READINESS: Mapping[tuple[int, str], CheckResult] = {
    (200, "ready"): CheckResult(
        Level.OK, "readiness", "The server is ready: a notification would be recorded."
    ),
    (200, "ready\nattention: "): CheckResult(
        Level.WARNING,
        "readiness",
        "/readyz returned: {text}",
        "The server would record a notification, but something else needs attention.",
        "Run `hookrow check` without a URL on the server, or see its dashboard.",
    ),
    (200, "attention: "): CheckResult(
        Level.WARNING,
        "readiness",
        "/readyz returned: {text}",
        "Notifications get a 503, and are kept in the spool until they can be recorded.",
        _RUN_CHECK,
    ),
    (503, "not ready: "): CheckResult(
        Level.ERROR,
        "readiness",
        "/readyz returned: {text}",
        "Notifications get a 503, and only the provider can send them again.",
        _RUN_CHECK,
    ),
}
"""The results by the status of /readyz and the beginning of its text; see `readiness`."""


def diagnose_readiness(reply: Reply) -> CheckResult | None:
    """Return the result for a response of /readyz, or None if the response is not hookrow's."""
    for (status, beginning), result in READINESS.items():
        is_whole = result.level is not Level.OK or reply.text.strip() == beginning
        if reply.status == status and reply.text.startswith(beginning) and is_whole:
            return replace(result, text=result.text.format(text=_start(reply.text, 500)))
    return None


def _start(text: str, length: int = 150) -> str:
    """Return the beginning of a server's text, in one line and without terminal escapes."""
    return printable(" ".join(text.split())[:length])
