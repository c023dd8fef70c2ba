"""Amazon SNS: verifies signed messages, fetches certificates, and confirms subscriptions.

The rules are those of
https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html. What a message is
about does not belong here.
"""

from __future__ import annotations

import binascii
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from secrets import randbelow, token_hex
from threading import Lock, Thread
from time import monotonic, sleep, time
from typing import Self, TypeVar
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, build_opener
from uuid import uuid4

import msgspec

from hookrow._arguments import check_function, reject
from hookrow._concurrency import reset_after_fork
from hookrow._faults import describe_fault
from hookrow._http import Request, RequestHead
from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.providers._base import Event, NotReady
from hookrow.providers._built_in import ProviderRequest
from hookrow.providers._events import (
    EventProvider,
    Fields,
    challenge_of,
    decode_object,
    rfc3339,
)
from hookrow.providers._json import encode

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import (
        RSAPrivateKey,
        RSAPublicKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256
    from cryptography.x509 import load_pem_x509_certificate
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "cryptography":
        raise
    raise MissingExtra("hookrow.providers.amazon_ses", "signatures") from error

logger = logging.getLogger("hookrow")

FETCH_TIMEOUT = 10.0
"""Seconds within which a response of Amazon's must end."""

LARGEST_RESPONSE = 64 * 1024
"""The largest response of Amazon's, in bytes; a certificate has about 2 KB."""

RETRY_AFTER = 10.0
"""Seconds after a failure before a message causes its certificate to be fetched again; SNS repeats
a message after 20 seconds."""

MOST_FETCHES = 4
"""The largest number of threads of a provider, because anyone who knows the topic can name URLs."""

MOST_CERTIFICATES = 64
"""The number of certificates, and of failures, that a provider remembers."""

CONFIRMATION_PAUSES = (0.0, 2.0, 10.0)
"""Seconds before each attempt to confirm a subscription, because SNS asks only once."""

_TYPE_HEADER = "x-amz-sns-message-type"
_TOPIC_HEADER = "x-amz-sns-topic-arn"
_RAW_HEADER = "x-amz-sns-rawdelivery"

_CONFIRMATION_FIELDS = (
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
_SIGNED_FIELDS = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": _CONFIRMATION_FIELDS,
    "UnsubscribeConfirmation": _CONFIRMATION_FIELDS,
}
"""The signed fields of each type of message, in their order. Only `Subject` may be missing."""

_HASHES = {"1": SHA1, "2": SHA256}
"""The hash algorithm of each version of the signature."""

_AMAZON_HOST = (
    r"sns\.(?:"
    r"cn-[a-z]+-[0-9]{1,2}\.amazonaws\.com\.cn"
    r"|eusc-[a-z]+-[a-z]+-[0-9]{1,2}\.amazonaws\.eu"
    r"|(?!cn-|eusc-)[a-z]{2}(?:-[a-z]+){1,2}-[0-9]{1,2}\.amazonaws\.com"
    r")"
)
"""The hosts of SNS in China, in the European Sovereign Cloud and elsewhere, including GovCloud
(https://docs.aws.amazon.com/general/latest/gr/sns.html)."""

_is_certificate_url = re.compile(rf"https://{_AMAZON_HOST}/[A-Za-z0-9._-]{{1,100}}\.pem").fullmatch
_is_subscribe_url = re.compile(rf"https://{_AMAZON_HOST}/\?[!-\"$-~]{{1,2000}}").fullmatch
_is_topic = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}").fullmatch

_REASONS = {
    "missing": f"it has no {_TYPE_HEADER} of a known type: SNS did not send it",
    "raw": "it is not signed, because raw message delivery is on: turn it off for the "
    "subscription at Amazon SNS",
    "topic": "its topic is not one of this provider's",
    "unsigned": "its body is not a message of Amazon SNS with a signature of version 1 or 2",
    "certificate": "its SigningCertURL is not that of an RSA certificate of Amazon SNS",
    "expired": "its certificate is not valid yet or has expired, by this machine's clock",
    "wrong": "its signature is wrong: the key differs, or the body was changed on its way",
}
"""The reasons for a 401, by the error in the challenge."""

_LINE = 'AmazonSES("arn:aws:sns:eu-west-1:123456789012:mail-events")'

T = TypeVar("T")


class SNS(EventProvider):
    """Verifies messages of these topics, and confirms the subscriptions to them.

    `fetch` returns the body of a URL of Amazon's in bytes, and `clock` the time in seconds since
    1970. Raises `ConfigurationError` if a topic is missing or is not the ARN of one.
    """

    credential = "topic"
    proof = _TYPE_HEADER
    setup = (
        "Create an HTTPS subscription of the topic for the URL; hookrow confirms it if the ARN of "
        "the topic is in its settings."
    )
    _key: RSAPrivateKey | None = None
    """The key of a provider that `generate` has returned."""

    def __init__(
        self,
        *topics: str,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        if fetch is not None:
            check_function("fetch", fetch, "url")
        check_function("clock", clock)
        self.accept(*topics)
        self._fetch = fetch or fetch_url
        self._clock = clock
        self._tasks = Tasks()
        self._certificates: dict[str, _Certificate] = {}

    def accept(self, *topics: str) -> None:
        """Accept messages of these topics from now on, and no others.

        Raises `ConfigurationError`.
        """
        if not topics or "" in topics:
            raise ConfigurationError(f"The topic is missing or empty: write {_LINE}.")
        self._topics = [_topic(each) for each in topics]

    @classmethod
    def parser(cls, **_: object) -> Self:
        """Return a provider that reads the log; see `BuiltIn`. It makes no key, which is slow."""
        return cls(_random_topic())

    @classmethod
    def generate(cls, **_: object) -> tuple[str, Self]:
        """Return a random topic, and a provider with a new certificate; see `BuiltIn`."""
        topic = _random_topic()
        key = generate_private_key(65537, 2048)
        provider = cls(topic, fetch=_fetch_nothing)
        provider._key = key
        always = _Certificate(key.public_key(), -inf, inf, monotonic())
        provider._certificates = {_own_certificate_url(topic): always}
        return topic, provider

    def sign(self, body: bytes) -> ProviderRequest | None:
        """Return the message with an event, if `generate` returned the provider; see `BuiltIn`."""
        if self._key is None:
            return None
        topic, now = self._topics[0], datetime.fromtimestamp(self._clock(), UTC)
        envelope = {
            "Type": "Notification",
            "MessageId": str(uuid4()),
            "TopicArn": topic,
            "Subject": "Amazon SES Email Event Notification",
            "Message": body.decode("utf-8", "surrogatepass"),
            "Timestamp": rfc3339(now),
            "SignatureVersion": "2",
            "SigningCertURL": _own_certificate_url(topic),
            "UnsubscribeURL": f"https://{_host_of(topic)}/?Action=Unsubscribe",
        }
        content = _content(envelope)
        assert content is not None  # noqa: S101 - for mypy: no field is missing
        signature = self._key.sign(content, PKCS1v15(), SHA256())
        signed = {**envelope, "Signature": b64encode(signature).decode()}
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "User-Agent": "Amazon Simple Notification Service Agent",
            self.proof: envelope["Type"],
            "x-amz-sns-message-id": envelope["MessageId"],
            _TOPIC_HEADER: topic,
        }
        return ProviderRequest(headers, encode(signed))

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head is that of a signed message of a topic, otherwise a challenge."""
        error = self._error(head)
        return None if error is None else challenge_of(error)

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return the fault of the message, its topic, its certificate or its signature."""
        return _REASONS[head.context.get(self) or self._error(head) or "wrong"]

    def read(self, request: Request) -> Sequence[Event]:
        """Return the events in a message, which have its id as their trace id.

        Raises `Unauthentic` and `NotReady`.
        """
        id_ = self.verify(request)
        events = self.read_body(request.body)
        return [msgspec.structs.replace(each, trace_id=id_) for each in events]

    def verify(self, request: Request) -> str:
        """Return the id of a message, which is the same in all attempts to send it.

        Confirms the subscription if SNS asks for it. Raises `Unauthentic`, and `NotReady` if the
        certificate must be fetched first. The age of a message is not limited: one that is posted
        again is the same event.
        """
        head, envelope = request.head, decode_object(request.body) or {}
        content, signature = _content(envelope), _signature(envelope)
        hash_ = _HASHES.get(str(envelope.get("SignatureVersion")))
        url = envelope.get("SigningCertURL")
        if content is None or signature is None or hash_ is None:
            raise self.refusal(head, "unsigned")
        if envelope["TopicArn"] not in self._topics:
            raise self.refusal(head, "topic")
        if not isinstance(url, str) or not _is_certificate_url(url):
            raise self.refusal(head, "certificate")
        certificate = self._certificate(url)
        if certificate.key is None:
            raise self.refusal(head, "certificate")
        if not certificate.is_valid(self._clock()):
            raise self.refusal(head, "expired")
        try:
            certificate.key.verify(signature, content, PKCS1v15(), hash_())
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            raise self.refusal(head, "wrong") from None
        self._note_subscription(envelope)
        return str(envelope["MessageId"])

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in a notification; none for another type of message."""
        envelope = decode_object(body) or {}
        if envelope.get("Type") != "Notification":
            return ()
        return self.split_message(str(envelope.get("Message")).encode("utf-8", "surrogatepass"))

    def split_message(self, message: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in the message of a notification. Never raises."""
        return [message]

    def _error(self, head: RequestHead) -> str | None:
        """Return the fault of a head as a key of `_REASONS`, or None if it has none."""
        if (head.header(_RAW_HEADER) or b"false").lower() != b"false":
            return "raw"
        if (head.header(_TYPE_HEADER) or b"").decode("latin-1") not in _SIGNED_FIELDS:
            return "missing"
        topic = head.header(_TOPIC_HEADER)
        if topic is not None and topic.decode("latin-1") not in self._topics:
            return "topic"
        return None

    def _certificate(self, url: str) -> _Certificate:
        """Return a certificate. Raises `NotReady` while it is fetched.

        One that has expired is fetched again after some time, because it may have been renewed.
        """
        found = self._certificates.get(url)
        if found is not None:
            is_new = monotonic() - found.fetched < RETRY_AFTER
            if is_new or found.is_valid(self._clock()):
                return found
        self._tasks.start(url, self._load)
        raise NotReady("The certificate of Amazon SNS is being fetched.")

    def _load(self, url: str) -> None:
        """Fetch a certificate now. Raises whatever `fetch` raises, and `ValueError` for no PEM."""
        loaded = load_pem_x509_certificate(self._fetch(url))
        key = loaded.public_key()
        certificate = _Certificate(
            key if isinstance(key, RSAPublicKey) else None,
            loaded.not_valid_before_utc.timestamp(),
            loaded.not_valid_after_utc.timestamp(),
            monotonic(),
        )
        self._certificates = remember(self._certificates, url, certificate)

    def _note_subscription(self, envelope: Fields) -> None:
        """Confirm a subscription in a thread; log that one has ended."""
        topic, url = envelope["TopicArn"], envelope.get("SubscribeURL")
        match envelope["Type"]:
            case "SubscriptionConfirmation" if _is_subscribe_url(str(url)):
                self._tasks.start(str(url), self._confirm)
            case "SubscriptionConfirmation":
                logger.warning("The SubscribeURL of %s is not one of Amazon SNS", topic)
            case "UnsubscribeConfirmation":
                logger.warning("The subscription to %s has ended: nothing more arrives", topic)
            case _:
                pass

    def _confirm(self, url: str) -> None:
        """Confirm a subscription, in several attempts. Raises the error of the last one."""
        for attempt, pause in enumerate(CONFIRMATION_PAUSES, start=1):
            sleep(pause)
            try:
                self._fetch(url)
            except Exception:
                if attempt == len(CONFIRMATION_PAUSES):
                    raise
            else:
                logger.info("Confirmed the subscription to a topic of Amazon SNS")
                return


@dataclass(frozen=True)
class _Certificate:
    """A certificate's key, None unless it is of RSA, and its validity, in seconds since 1970.

    `fetched` is the time at which it was fetched, by `monotonic`.
    """

    key: RSAPublicKey | None
    begins: float
    ends: float
    fetched: float

    def is_valid(self, now: float) -> bool:
        return self.begins <= now <= self.ends


class Tasks:
    """Runs functions of URLs in threads: one thread a URL, and none soon after it has failed."""

    def __init__(self) -> None:
        self._failures: dict[str, float] = {}
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget the threads, which remain in the parent process; see `reset_after_fork`."""
        self._lock = Lock()
        self._running: set[str] = set()

    def start(self, url: str, function: Callable[[str], None]) -> None:
        """Start a thread that calls the function, unless there are too many, or it failed."""
        with self._lock:
            failed = self._failures.get(url)
            if failed is not None and monotonic() - failed < RETRY_AFTER:
                return
            if url in self._running or len(self._running) >= MOST_FETCHES:
                return
            self._running.add(url)
        thread = Thread(target=self._run, args=(url, function), name="hookrow-sns", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process has too many threads, or ends
            self._running.discard(url)

    def _run(self, url: str, function: Callable[[str], None]) -> None:
        try:
            function(url)
        except Exception as error:  # noqa: BLE001 - of any library of the host
            self._failures = remember(self._failures, url, monotonic())
            # The rest of the URL may be a token that confirms the subscription.
            address = url.partition("?")[0]
            logger.warning("Could not fetch %s: %s", address, describe_fault(error))
        finally:
            self._running.discard(url)


def remember(found: Mapping[str, T], url: str, value: T) -> dict[str, T]:
    """Return a mapping with another item, the newest, and without the oldest beyond the limit.

    It is a new one, so that other threads can read the mapping meanwhile.
    """
    items = [*((key, each) for key, each in found.items() if key != url), (url, value)]
    return dict(items[-MOST_CERTIFICATES:])


def fetch_url(url: str) -> bytes:
    """Return the body of a response, without following redirects.

    Raises `OSError` if it is not a success or takes too long, and `ValueError` if it is too large.
    """
    until = monotonic() + FETCH_TIMEOUT
    body = b""
    try:
        opened = build_opener(_OnlyAmazon).open(url, timeout=FETCH_TIMEOUT)
    except HTTPError as error:
        error.close()  # it is a response, too
        raise
    with opened as response:
        while chunk := response.read1(LARGEST_RESPONSE):
            body += chunk
            if len(body) > LARGEST_RESPONSE:
                raise ValueError("The response is too large.")
            if monotonic() > until:
                raise TimeoutError("The response took too long.")
    return body


class _OnlyAmazon(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect, because only the host of the first URL was checked."""


def _topic(topic: object) -> str:
    """Return the ARN of a topic. Raises `ConfigurationError` if it is not one."""
    if not isinstance(topic, str):
        reject("A topic", "a string", topic, _LINE)
    if not _is_topic(topic):
        raise ConfigurationError(
            f"The topic {topic!r} is not the ARN of a standard topic: copy it from the topic, and "
            f"not from a subscription, at Amazon SNS, and write {_LINE}."
        )
    return topic


def _random_topic() -> str:
    account = f"{randbelow(10**12):012}"
    return f"arn:aws:sns:eu-west-1:{account}:{token_hex(8)}"


def _host_of(topic: str) -> str:
    return f"sns.{topic.split(':')[3]}.amazonaws.com"


def _own_certificate_url(topic: str) -> str:
    """Return the URL that the certificate of `SNS.generate` would have; nothing fetches it."""
    return f"https://{_host_of(topic)}/SimpleNotificationService-{'0' * 32}.pem"


def _fetch_nothing(url: str) -> bytes:
    """Raise `OSError`, because a provider of `SNS.generate` must not call Amazon."""
    raise OSError(f"This provider fetches nothing: {url.partition('?')[0]}")


def _content(envelope: Fields) -> bytes | None:
    """Return the signed names and values, each on its own line, or None if one is missing."""
    names = _SIGNED_FIELDS.get(str(envelope.get("Type")))
    if names is None:
        return None
    values = {each: envelope.get(each) for each in names}
    if values.get("Subject", "") is None:
        del values["Subject"]
    if not all(isinstance(each, str) for each in values.values()):
        return None
    lines = (f"{name}\n{value}\n" for name, value in values.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def _signature(envelope: Fields) -> bytes | None:
    try:
        return b64decode(str(envelope.get("Signature")), validate=True) or None
    except (binascii.Error, ValueError):
        return None
