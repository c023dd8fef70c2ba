"""The contract of a provider: tests of what `Provider` promises to a receiver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import msgspec

from hookrow._core.log_entry import LONGEST_PROVIDER, StoredEntry
from hookrow._core.notification import (
    DispatchEvent,
    Notification,
    Suppressed,
    Unsupported,
)
from hookrow._core.result import Result
from hookrow._core.rules import UNSTORABLE, fold, is_message_id
from hookrow._core.schema import Schema
from hookrow._http import ENDPOINT, Request, RequestHead, Response
from hookrow._receiver.receiver import PROBE_METHODS, Receiver
from hookrow.providers._base import Event, NotReady, Provider, Unauthentic
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing._contract import assert_equal
from hookrow.testing._hostile import changed_bodies, hostile_bodies
from hookrow.testing._tables import Tables

LONGEST_CALL = 2.0
"""Seconds after which a call of a method that never blocks is considered blocked."""

LARGEST_BODY = 32 * 1024 * 1024
"""The largest `max_body`, in bytes, because a host keeps each body in memory."""

RETRIED_WITHIN = 30.0
"""Seconds after which `retry_now` has failed."""

_STATUSES = {200, 400, 401, 404, 422}
"""The statuses of responses to bodies that a provider may read in any way."""

_HOSTILE_HEADERS = (b"", b" ", b"\xff\xfe", b"\0", b",", b"=" * 9, b"9" * 5000, b"x" * 50_000)
"""Values of headers that no provider sends."""

_SHORTEST_VALUE = 6
"""The number of characters below which a value of a header may occur in a text by chance."""

_DESCRIPTIVE = {b"content-type", b"user-agent"}
"""Headers that authenticate nobody."""

_is_header_text = re.compile(r"[!-~]([ -~]*[!-~])?").fullmatch

T = TypeVar("T")


class ProviderContract:
    """Tests of your own provider: subclass it, and define the requests that it reads.

    A subclass sets `provider` and `samples`, and defines `sign`. It runs under pytest and, together
    with `unittest.TestCase`, under unittest and Django. It needs no network and no database server.
    """

    provider: Provider
    """The provider. It must be ready: nothing needs to be fetched."""

    samples: Sequence[tuple[bytes, Sequence[Sequence[Notification]]]]
    """The bodies of requests, each with the notifications of each of its events, in order.

    Use real bodies, with all types of event. An event that is not supported has no notification:
    `(body, [[]])`.
    """

    signs_body: bool = True
    """Whether the signature includes the body; False for a secret or a password in a header."""

    def sign(self, body: bytes, /) -> Request:
        """Return an authentic request with a body, which may be any bytes.

        All of its headers authenticate it; Content-Type and User-Agent may be there, too. If the
        signature is a part of the body, the body of the request has it.
        """
        raise NotImplementedError(
            "Define sign(body): return Request(RequestHead('POST', '/', headers), body), with the "
            "headers that authenticate this body."
        )

    def forgeries(self, request: Request, /) -> Iterator[tuple[str, Request]]:
        """Yield requests that are not authentic, each with a description of its change.

        By default, one header of this authentic request is missing, wrong or repeated. Override
        this method if the signature, or the secret, is in the body or in the URL.
        """
        headers = request.head.headers
        for place, (name, value) in enumerate(headers):
            if name.lower() in _DESCRIPTIVE:
                continue
            for change, values in _forged(value):
                changed = [*headers[:place], *((name, each) for each in values)]
                head = msgspec.structs.replace(
                    request.head, headers=[*changed, *headers[place + 1 :]], context={}
                )
                description = f"a request whose header {name.decode()} {change}"
                yield description, Request(head, request.body)

    def test_name(self) -> None:
        """The name fits the log, and the secrets are strings."""
        name = self.provider.name
        _check_type(name, str, "The name")
        _check(
            0 < len(name) <= LONGEST_PROVIDER and name.isprintable(),
            f"The name must be a text of 1 to {LONGEST_PROVIDER} characters, not {name!r}.",
        )
        _check_type(self.provider.secrets, Sequence, "`secrets`")
        for each in self.provider.secrets:
            _check_type(each, str, "A secret")

    def test_max_body(self) -> None:
        """The limit of a body is a number of bytes, and the samples are below it."""
        limit = self.provider.max_body
        _check_type(limit, int, "`max_body`")
        longest = max(len(self.sign(body).body) for body in self._bodies())
        _check(
            longest <= limit <= LARGEST_BODY,
            f"`max_body` must be from {longest} bytes, the size of a sample, to "
            f"{LARGEST_BODY} bytes, not {limit!r}.",
        )

    def test_samples(self) -> None:
        """A signed sample is admitted, and read as the expected notifications."""
        for body, expected in self._samples():
            events = self._read_sample(body)
            read = [[*event.notifications] for event in events]
            assert_equal(f"What read() returns for {body!r:.200}", read, [*map(list, expected)])
            for event in events:
                self._check_event(event, f"the sample {body!r:.200}")
                self._check_message_ids(event)

    def test_stored_bodies(self) -> None:
        """`parse` reads the body of an event again, and raises for none; nor does `explain`."""
        for sample in self._bodies():
            for event in self._read_sample(sample):
                for description, body in hostile_bodies(event.body):
                    self._check_event(self._parse(body, description), description)

    def test_forgeries(self) -> None:
        """A missing, a wrong and a repeated signature or secret result in 401.

        The challenge is a value of a header, and the reason in the log line quotes no header.
        """
        forged = 0
        with self._receiver() as (receiver, _):
            for body in self._bodies():
                for description, request in self.forgeries(self.sign(body)):
                    forged += 1
                    challenge = self._challenge(request, description)
                    _check_challenge(challenge, description)
                    self._check_reason(request.head, description)
                    status = _post(receiver, request).status
                    assert_equal(f"The status of the response to {description}", status, 401)
        _check(
            forged > 0,
            "sign() returns no header that authenticates: define forgeries(request), which yields "
            "a description and a request whose signature is missing or wrong.",
        )

    def test_changed_bodies(self) -> None:
        """A changed body is refused, unless its changed part is not signed and has no effect."""
        for sample in self._bodies() if self.signs_body else ():
            request = self.sign(sample)
            original = [*map(_content, self._read(request, "the sample"))]
            for description, body in changed_bodies(request.body):
                changed = msgspec.structs.replace(request, body=body)
                if self._challenge(changed, description) is None:
                    read = [*map(_content, self._read(changed, description))]
                    hint = " The signature does not cover it: raise Unauthentic."
                    subject = f"What read() returns for {description}, signed before the change,"
                    assert_equal(subject, read, original, hint)

    def test_hostile_bodies(self) -> None:
        """No authentic body makes `read` raise or block, and each gets a response."""
        with self._receiver() as (receiver, _):
            for sample in self._bodies():
                for description, body in hostile_bodies(sample):
                    request = self.sign(body)
                    if len(request.body) > self.provider.max_body:
                        continue
                    if self._challenge(request, description) is None:
                        for event in self._read(request, description):
                            self._check_event(event, description)
                    status = _post(receiver, request).status
                    _check(
                        status in _STATUSES,
                        f"The response to {description} is {status}. The logger `hookrow` reports "
                        "the reason.",
                    )

    def test_event_ids(self) -> None:
        """An event has the same identity whenever it is posted, and no other has it."""
        found: dict[object, Event] = {}
        for body in self._bodies():
            events, again = self._read_sample(body), self._read_sample(body)
            for event, repeated in zip(events, again, strict=True):
                subject = f"The event_id, or the body, of an event in {body!r:.200}, posted again,"
                assert_equal(subject, _identity(repeated), _identity(event))
                other = found.setdefault(_identity(event), event)
                _check(
                    [*other.notifications] == [*event.notifications],
                    f"Two events have the same event_id, or the same body, {_identity(event)!r}: "
                    f"{other.notifications!r} and {event.notifications!r}. Only the first one "
                    "would be in the log.",
                )

    def test_probe(self) -> None:
        """`probe` responds to GET and HEAD at once, without secrets, and to each query."""
        for method in PROBE_METHODS:
            for query in ("", "a=b", "challenge=%FF%00", "=&&", "x" * 5000):
                head = RequestHead(method, ENDPOINT, (), query=query)
                call = f"probe() of {method} with the query {query!r:.40}"
                response = _call(call, partial(self.provider.probe, head))
                if response is not None:
                    self._check_probe(response, call)

    def test_parked_events(self) -> None:
        """An event that arrives before its rows is recorded when they exist."""
        with self._receiver() as (receiver, store):
            for body in self._bodies():
                _post(receiver, self.sign(body))
            notifications = [each for body in self._bodies() for each in self._notifications(body)]
            _add_rows(Tables(store), notifications)
            ids = {each.message_id for each in notifications} - {None}
            receiver.retry_now(*map(str, ids)).result(RETRIED_WITHIN)
            for entry in _logged(store):
                if entry.outcome is Result.UNSUPPORTED or entry.message_id not in ids:
                    continue
                subject = f"The outcome of a {entry.record_type} that was retried"
                hint = f" Does parse() read the body that the log has, {entry.body!r:.200}?"
                assert_equal(subject, entry.outcome.value, Result.RECORDED.value, hint)

    def test_repeated_events(self) -> None:
        """An event that is posted twice is one entry of the log."""
        with self._receiver() as (receiver, store):
            for body in self._bodies():
                before = {each.id for each in _logged(store)}
                for _ in range(2):
                    _post(receiver, self.sign(body))
                new = [each for each in _logged(store) if each.id not in before]
                number = len({_identity(event) for event in self._read_sample(body)})
                subject = f"The number of entries of the log for {body!r:.200}, posted twice,"
                assert_equal(subject, len(new), number)
                for entry in new:
                    posts = f"The number of posts of a {entry.record_type} that is posted twice"
                    _check(entry.attempts > 1, f"{posts} is {entry.attempts}.")

    def _samples(self) -> Sequence[tuple[bytes, Sequence[Sequence[Notification]]]]:
        _check(len(self.samples) > 0, "`samples` is empty: add a body and its notifications.")
        return self.samples

    def _bodies(self) -> Sequence[bytes]:
        return [body for body, _ in self._samples()]

    def _notifications(self, sample: bytes) -> Iterator[Notification]:
        for event in self._read_sample(sample):
            yield from event.notifications

    @contextmanager
    def _receiver(self) -> Iterator[tuple[Receiver, SQLStore]]:
        """Open a receiver with a store in memory that records all kinds of notification."""
        schema = Schema(record=("click", "bounce", "complaint"))
        with (
            closing(SQLStore("sqlite://", schema)) as store,
            closing(Receiver(self.provider, store)) as receiver,
        ):
            yield receiver, store

    def _read_sample(self, body: bytes) -> Sequence[Event]:
        request = self.sign(body)
        subject = f"the sample {body!r:.200}"
        challenge = self._challenge(request, subject)
        hint = " Does sign() sign it as the provider does?"
        assert_equal(f"The challenge to {subject}", challenge, None, hint)
        return self._read(request, subject)

    def _challenge(self, request: Request, subject: str) -> str | None:
        """Return the challenge to a request that is not authentic, or None to an authentic one."""
        admit = partial(self.provider.admit, request.head)
        if (challenge := _call(f"admit() of {subject}", admit)) is not None:
            return challenge
        try:
            self._read(request, subject)
        except Unauthentic as error:
            return error.challenge
        return None

    def _read(self, request: Request, subject: str) -> Sequence[Event]:
        """Read a request. Raises `Unauthentic`."""
        read = partial(self.provider.read, request)
        try:
            return _call(f"read() of {subject}", read, Unauthentic, NotReady)
        except NotReady:
            raise AssertionError(
                f"read() raised NotReady for {subject}: pass the contract a provider that can "
                "verify its requests."
            ) from None

    def _parse(self, body: bytes, subject: str) -> Event:
        return _call(f"parse() of {subject}", partial(self.provider.parse, body))

    def _check_message_ids(self, event: Event) -> None:
        """Check that a message id of an event has the form in which a host stores it."""
        for each in event.notifications:
            if is_message_id(id_ := each.message_id):
                correct = self.provider.correct_message_id(id_)
                assert_equal(
                    "What correct_message_id() returns for an id of an event", correct, id_
                )

    def _check_event(self, event: Event, subject: str) -> None:
        """Check an event, and that `parse` returns the same notifications again."""
        _check_fields(event, subject)
        for each in event.notifications:
            _check_notification(each, subject)
            for name in self.provider.field_names(each):
                _check_type(name, str, f"A name that field_names() returns for {subject}")
        parsed = self._parse(event.body, subject)
        hint = " The log keeps only the body of an event, so it must contain all of them."
        same = f"What parse() reads in the body of an event of {subject}"
        assert_equal(same, [*parsed.notifications], [*event.notifications], hint)
        reason = _call(f"explain() of {subject}", partial(self.provider.explain, event.body))
        if event.notifications:
            assert_equal(f"What explain() returns for {subject}, which is read,", reason, None)
        elif reason is not None:
            _check_clause(reason, f"What explain() returns for {subject}")
        is_test = _call(f"is_test() of {subject}", partial(self.provider.is_test, event))
        _check_type(is_test, bool, f"What is_test() returns for {subject}")

    def _check_reason(self, head: RequestHead, subject: str) -> None:
        """Check what the log line says about a request that was refused."""
        describe = partial(self.provider.describe_unauthentic, head)
        reason = _call(f"describe_unauthentic() of {subject}", describe)
        _check_clause(reason, f"What describe_unauthentic() returns for {subject}")
        _check(not reason.endswith("."), f"The clause must not end with a full stop: {reason!r}.")
        values = [value.decode("latin-1").strip() for _, value in head.headers]
        quoted = [each for each in values if len(each) >= _SHORTEST_VALUE and each in reason]
        _check(not quoted, f"describe_unauthentic() quotes a header of {subject}: {reason!r}.")

    def _check_probe(self, response: Response, call: str) -> None:
        _check_type(response, Response, f"What {call} returns")
        _check(
            200 <= response.status < 500,  # noqa: PLR2004 - success, or the client's fault
            f"{call} must return a status from 200 to 499, not {response.status}.",
        )
        _check(response.stream is None, f"{call} must return a whole body, not a stream.")
        sent = [*response.headers, *response.headers.values()]
        _check(
            all(map(_is_header_text, sent)),
            f"{call} returns headers that HTTP does not allow: {response.headers!r:.200}.",
        )
        text = " ".join([*sent, response.body.decode(errors="replace")])
        is_harmless = not any(secret and secret in text for secret in self.provider.secrets)
        _check(is_harmless, f"{call} returns a secret, but everybody may send this request.")


def _forged(value: bytes) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Yield other values of a header that authenticates, each with a description."""
    middle = len(value) // 2
    letter = b"B" if value[middle : middle + 1] == b"A" else b"A"
    wrong = value[:middle] + letter + value[middle + 1 :]
    yield "is missing", []
    yield "has another character in the middle", [wrong]
    yield "is cut in the middle", [value[:middle]]
    yield "is repeated", [value, value]
    yield "is repeated, and joined by a server,", [value + b"," + value]
    yield "has a wrong value, too", [wrong, value]
    for each in _HOSTILE_HEADERS:
        yield f"is {each!r:.40}", [each]


def _call(subject: str, function: Callable[[], T], *allowed: type[Exception]) -> T:
    """Return the result of a method that must not block, and raise no other exceptions."""
    began = monotonic()
    try:
        result = function()
    except allowed:
        raise
    except Exception as error:
        raise AssertionError(f"{subject} raised {error!r:.200}; it must never do so.") from error
    seconds = monotonic() - began
    _check(seconds < LONGEST_CALL, f"{subject} took {seconds:.1f} seconds; it must not block.")
    return result


def _check_fields(event: Event, subject: str) -> None:
    """Check the types of an event's fields, except those of its notifications."""
    _check_type(event, Event, f"An event of {subject}")
    _check_type(event.body, bytes, f"The body of an event of {subject}")
    _check_type(event.notifications, Sequence, f"`notifications` of an event of {subject}")
    _check_type(event.unsupported, Unsupported, f"`unsupported` of an event of {subject}")
    texts = {"event_id": event.event_id, "trace_id": event.trace_id}
    for name, value in {**texts, **msgspec.structs.asdict(event.unsupported)}.items():
        _check_type(value, str | None, f"`{name}` of an event of {subject}")


def _check_notification(each: Notification, subject: str) -> None:
    _check_type(each, Notification, f"A notification of {subject}")
    _check_type(each.recipient, str | None, f"The recipient of {subject}")
    _check_type(each.message_id, str | None, f"The message id of {subject}")
    is_dated = isinstance(each, DispatchEvent)
    _check_type(each.at, datetime if is_dated else datetime | None, f"The time of {subject}")
    if each.at is not None:
        is_utc = each.at.utcoffset() == timedelta(0)
        _check(is_utc, f"The time of {subject} must be in UTC, not {each.at!r}.")
    if isinstance(each, Suppressed):
        _check_type(each.reason, str, f"The reason of {subject}")
        _check(
            bool(each.reason.strip()) and not UNSTORABLE.search(each.reason),
            f"The reason of {subject} must be one that a row can store (not blank, without NUL and "
            f"unpaired surrogates), not {each.reason!r:.80}.",
        )


def _check_challenge(challenge: str | None, subject: str) -> None:
    refuse = "let admit() return a challenge, or let read() raise Unauthentic"
    _check(challenge is not None, f"The provider accepts {subject}: {refuse}.")
    _check_type(challenge, str, f"The challenge to {subject}")
    is_header = _is_header_text(str(challenge)) is not None
    _check(is_header, f"The challenge to {subject} must be a header's value, not {challenge!r}.")


def _check_clause(text: object, subject: str) -> None:
    is_clause = isinstance(text, str) and bool(text.strip(". "))
    _check(is_clause, f"{subject} must be a text, not {text!r:.80}.")


def _check_type(value: object, kind: Any, subject: str) -> None:  # noqa: ANN401 - a union, too
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    is_bool = isinstance(value, bool) and kind is int
    _check(
        isinstance(value, kind) and not is_bool, f"{subject} must be a {name}, not {value!r:.80}."
    )


def _check(condition: bool, message: str) -> None:  # noqa: FBT001 - as `assert` does
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(message)


def _identity(event: Event) -> str | bytes:
    """Return that by which the log recognizes an event."""
    return event.body if event.event_id is None else event.event_id


def _content(event: Event) -> tuple[Sequence[Notification], str | None]:
    return [*event.notifications], event.event_id


def _post(receiver: Receiver, request: Request) -> Response:
    """Post a request to a receiver, in this thread."""
    head = msgspec.structs.replace(request.head, path=receiver.endpoint, root="", context={})
    return receiver.admit(head) or receiver.record_directly(Request(head, request.body))


def _add_rows(tables: Tables, notifications: Sequence[Notification]) -> None:
    """Add the subscribers and the dispatches of notifications."""
    emails = {fold(each.recipient) for each in notifications if each.recipient}
    subscribers = {email: tables.add_subscriber(email) for email in emails}
    sent = {
        (each.message_id, subscribers[fold(each.recipient)])
        for each in notifications
        if each.message_id and each.recipient
    }
    for message_id, subscriber in sent:
        tables.add_dispatch(message_id, subscriber)


def _logged(store: SQLStore) -> Sequence[StoredEntry]:
    if store.log is None:
        raise AssertionError("A store in memory has a log.")
    return store.log.oldest(Query(), limit=10_000)
