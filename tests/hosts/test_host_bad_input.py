"""Every provider on the hosts: requests that are not authentic, and bodies that are not events.

What each provider reads is in its unit tests. Here, every request gets the right response, without
an error in a log line, and no event is lost.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from time import perf_counter
from urllib.parse import quote_plus, urlencode

import pytest
from django.core.handlers.wsgi import WSGIHandler
from drivers import MOUNT, mounted
from homes import OURS
from locations import open_home

import wire
from engines import MEMORY
from hookrow import Receiver, Request
from hookrow.django._receiver import SyncReceiver
from hookrow.django._store import DjangoStore
from hookrow.providers._json import DEEPEST
from hookrow.providers._registry import built_in
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from loopback import loopback
from senders import SENDERS, amazon_ses, mailgun, resend, sendgrid
from senders.sender import ADA
from times import DAY, HOUR
from wire import ENDPOINT, PATIENCE, Answer

pytestmark = pytest.mark.unmeasured

HOSTS = ["asgi", "wsgi", "django"]
BATCHED = [name for name, sender in SENDERS.items() if sender.is_batched]
MANY = 5000


@dataclass(frozen=True)
class Mounted:
    """A receiver with all providers, the names of which are those of its entries."""

    port: int
    store: SQLStore

    def post(self, name: str, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Answer:
        extra = [b"%b: %b" % each for each in headers]
        path = f"{MOUNT}{ENDPOINT}/{name}"
        return wire.ask(self.port, wire.request(body, path, secret=None, extra=extra))

    def sign(self, name: str, body: bytes) -> tuple[int, bytes]:
        """Post an authentic request with a body; return the status and the body of the response."""
        request = SENDERS[name].sign(body)
        answer = self.post(name, request.body, request.head.headers)
        return answer.status, answer.body

    def outcomes(self, name: str) -> Mapping[str, int]:
        """Return how many entries of the log a provider has, by their outcome."""
        assert self.store.log is not None
        logged = self.store.log.newest(Query(), limit=3 * MANY)
        return Counter(each.outcome.value for each in logged if each.entry == name)


@pytest.fixture(params=HOSTS)
def mount(
    request: pytest.FixtureRequest,
    new_database: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Mounted]:
    providers = {name: sender.construct() for name, sender in SENDERS.items()}
    with ExitStack() as stack:
        receiver: Receiver
        server: AbstractContextManager[int]
        if request.param == "django":
            home = stack.enter_context(closing(open_home("django-sqlite", OURS, new_database)))
            assert isinstance(home.store, DjangoStore)
            store: SQLStore = home.store
            receiver = SyncReceiver(providers, home.store, deadline=PATIENCE)
            monkeypatch.setattr("hookrow.django._views.receiver", lambda: receiver)
            server = loopback(WSGIHandler())
        else:
            store = stack.enter_context(closing(SQLStore(MEMORY)))
            receiver = Receiver(providers, store, deadline=PATIENCE)
            server = mounted(request.param, receiver)
        stack.enter_context(closing(receiver))
        tables = Tables(store)
        ada = tables.add_subscriber(ADA)
        for sender in SENDERS.values():
            tables.add_dispatch(sender.message_id, ada)
        yield Mounted(stack.enter_context(server), store)


@pytest.fixture(autouse=True)
def _without_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    lines = [*caplog.get_records("call")]
    assert not [each for each in lines if each.exc_info or each.levelno > logging.WARNING]


def test_requests_that_are_not_authentic(mount: Mounted) -> None:
    """No header, each of them twice, and those of another provider.

    Mailgun's signature is in the body; see `test_mailgun_does_not_sign_the_event`.
    """
    requests = {
        name: sender.request(sender.opened(0))
        for name, sender in SENDERS.items()
        if name != "mailgun"
    }
    for name, request in requests.items():
        headers = request.head.headers
        others = [requests[other].head.headers for other in requests if other != name]
        for given in ([], [*headers, *headers], *others):
            answer = mount.post(name, request.body, given)
            assert (answer.status, answer.body) == (401, b"Cannot verify webhook"), (name, given)
            assert answer.header("www-authenticate")
        assert mount.outcomes(name) == {}


def test_signatures_and_credentials_of_others(mount: Mounted) -> None:
    """They are of the right form, but another key or password made them."""
    for name in SENDERS:
        forged = built_in(name).forge(built_in(name).compose_probe())
        given = [(key.encode(), value.encode()) for key, value in forged.headers.items()]
        if name == "amazon_ses":  # the random topic is refused before the certificate is fetched
            given += [*given, (b"x-amz-sns-topic-arn", amazon_ses.TOPIC.encode())]
        answer = mount.post(name, forged.body, given)
        assert (answer.status, answer.body) == (401, b"Cannot verify webhook"), name
        assert mount.outcomes(name) == {}


@pytest.mark.parametrize("name", [each for each in SENDERS if each != "mailgun"])
def test_a_signature_over_another_body(mount: Mounted, name: str) -> None:
    """Postmark, Mailjet and Brevo have credentials, which cover no body."""
    sender = SENDERS[name]
    first, second = sender.request(sender.opened(0)), sender.request(sender.opened(1))
    status = mount.post(name, second.body, first.head.headers).status
    signs_bodies = name in {"resend", "amazon_ses", "sendgrid", "mandrill"}
    # The signature of a message of SNS is in its body, beside the event.
    is_mixed = signs_bodies and name != "amazon_ses"
    assert status == (401 if is_mixed else 200)
    assert mount.outcomes(name) == ({} if is_mixed else {"recorded": 1})
    changed = second.body.replace(b"ada", b"eve")
    assert changed != second.body
    status = mount.post(name, changed, second.head.headers).status
    assert status == (401 if signs_bodies else 404 if name == "postmark" else 200)


def test_mailgun_does_not_sign_the_event(mount: Mounted) -> None:
    """The last of several signatures in the body counts, as of all equal names."""
    own, others = mailgun.block(at=datetime.now(UTC)), mailgun.block(key="the key of another")
    for signatures, status in (([others], 401), ([own, others], 401), ([others, own], 200)):
        members = [f'"signature": {json.dumps(each)}' for each in signatures]
        event = json.dumps(mailgun.event("opened"))
        body = f'{{{", ".join(members)}, "event-data": {event}}}'.encode()
        answer = mount.post("mailgun", body, mailgun.post(body).head.headers)
        assert answer.status == status
    assert mount.outcomes("mailgun") == {"recorded": 1}


@pytest.mark.parametrize(
    ("name", "oldest"),
    [("resend", timedelta(minutes=5)), ("sendgrid", DAY + HOUR), ("mailgun", 12 * HOUR)],
)
def test_the_time_of_a_signature(mount: Mounted, name: str, oldest: timedelta) -> None:
    """It is too old, too far ahead, or not a time; the providers have different limits."""
    margin, now = timedelta(minutes=1), datetime.now(UTC).replace(microsecond=0)
    for at, status in (
        (now - oldest + margin, 200),
        (now - oldest - margin, 401),
        (now + timedelta(minutes=4), 200),
        (now + timedelta(minutes=6), 401),
        (datetime(1970, 1, 1, tzinfo=UTC), 401),
        (datetime(9999, 12, 31, tzinfo=UTC), 401),
    ):
        request = SIGNED_AT[name](at)
        assert mount.post(name, request.body, request.head.headers).status == status, at


SIGNED_AT: Mapping[str, Callable[[datetime], Request]] = {
    "resend": lambda at: resend.signed(b"{}", resend.SECRET, at=at),
    "sendgrid": lambda at: sendgrid.signed(b"[]", at=int(at.timestamp())),
    "mailgun": lambda at: mailgun.signed(mailgun.event("opened"), at=at),
}
"""Returns an authentic request, except for its time, by the name of the provider."""


@pytest.mark.parametrize("content_type", [b"application/x-www-form-urlencoded", b"text/plain", b""])
def test_the_type_of_the_content(mount: Mounted, content_type: bytes) -> None:
    """It decides only for Mailgun, which sends JSON and forms."""
    for name, sender in SENDERS.items():
        sent = sender.request(sender.opened(0))
        headers = [each for each in sent.head.headers if each[0].lower() != b"content-type"]
        status = mount.post(name, sent.body, [*headers, (b"Content-Type", content_type)]).status
        assert status == (401 if name == "mailgun" else 200), name


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("sendgrid", {"sg_event_id": "another"}),
        ("mailgun", {"id": "another"}),
        ("brevo", {"id": 4712}),
        ("mailjet", {"Message_GUID": "another"}),
        ("amazon_ses", {}),
    ],
)
def test_the_same_event_with_another_id(
    mount: Mounted, name: str, ids: Mapping[str, object]
) -> None:
    """It is one entry of the log. Each message of SNS has another id, too."""
    sender = SENDERS[name]
    for number, event in enumerate((sender.opened(0), sender.opened(0) | ids)):
        sent = sender.request(event)
        if name == "amazon_ses":
            text = sender.pack([event]).decode()
            sent = amazon_ses.signed(amazon_ses.message(text, MessageId=f"id-{number}"))
        assert mount.post(name, sent.body, sent.head.headers).status == 200
    assert mount.store.log is not None
    [entry] = mount.store.log.newest(Query(), limit=2)
    assert entry.attempts == 2


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("sendgrid", "timestamp"),
        ("mandrill", "ts"),
        ("mailjet", "time"),
        ("mailgun", "timestamp"),
        ("brevo", "ts_epoch"),
    ],
)
def test_times_that_are_none(mount: Mounted, name: str, field: str) -> None:
    """An event without a time is logged, and changes nothing. One before 1970 has a time."""
    sender, before_1970 = SENDERS[name], -1
    times = [2**53 + 1, 2**63, 10**30, -(10**30), 1e308, "soon", "1" * 400, None, True, [], {}]
    for time in (before_1970, *times):
        sent = sender.request(sender.opened(0) | {field: time})
        assert mount.post(name, sent.body, sent.head.headers).status == 200
    assert mount.outcomes(name) == {"recorded": 1, "unsupported": len(times)}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"[[[{}]]]",
        b"[" * 100_000,
        urlencode({"event": "opened", "email": ADA}).encode(),
        b'{"event": "open", "email": "ada@example.com"}',
    ],
    ids=lambda body: body[:20],
)
def test_authentic_bodies_without_an_event(mount: Mounted, body: bytes) -> None:
    """The log has one entry, which is not supported; only Postmark's response says so."""
    for name in SENDERS:
        found = mount.sign(name, body)
        if name == "mailgun" and not body.startswith(b"{"):  # it has no signature
            assert found == (401, b"Cannot verify webhook")
            continue
        unsupported = (422, b"Webhook payload not supported")
        assert found == (unsupported if name == "postmark" else (200, b"")), name
        assert mount.outcomes(name) == {"unsupported": 1}, name


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_of_nothing(mount: Mounted, name: str) -> None:
    assert mount.sign(name, SENDERS[name].pack([])) == (200, b"")
    assert mount.outcomes(name) == {}


@pytest.mark.parametrize("name", SENDERS)
def test_unknown_types_and_recipients_without_an_address(mount: Mounted, name: str) -> None:
    sender = SENDERS[name]
    statuses = [
        mount.sign(name, sender.pack([each]))[0] for each in (sender.unknown, sender.nobody)
    ]
    assert statuses == ([422, 404] if name == "postmark" else [200, 200])
    assert mount.outcomes(name) == {"unsupported": 1, "subscriber_not_found": 1}


@pytest.mark.parametrize("name", BATCHED)
def test_broken_events_among_good_ones(mount: Mounted, name: str) -> None:
    """The good ones are recorded, and the log has all of them."""
    sender = SENDERS[name]
    broken = [5, None, "open", [[sender.opened(1)]], {}, {"event": []}, sender.unknown]
    events = [sender.opened(0), *broken, sender.nobody, sender.opened(2)]
    assert mount.sign(name, sender.pack(events)) == (200, b"")
    assert mount.outcomes(name) == {
        "recorded": 2,
        "unsupported": len(broken),
        "subscriber_not_found": 1,
    }


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("levels", [400, 600, 995, 100_000])
def test_a_deeply_nested_event_among_good_ones(mount: Mounted, name: str, levels: int) -> None:
    """It is too deep from 501 levels on, and the good ones are recorded."""
    packed = pack_with(name, b"[" * levels + b"]" * levels)
    assert mount.sign(name, packed) == (200, b"")
    is_read = levels < DEEPEST
    assert mount.outcomes(name) == {"recorded": 3} | (
        {} if is_read else {"recorded": 2, "unsupported": 1}
    )


@pytest.mark.parametrize("name", BATCHED)
def test_events_among_good_ones_that_are_not_json(mount: Mounted, name: str) -> None:
    """The good ones are recorded, and the log has each of the others alone."""
    values = [b"NaN", b"nope", b"01", b"", b'"\xff"', b'"\n"']
    for value in values:
        assert mount.sign(name, pack_with(name, value)) == (200, b"")
    assert mount.outcomes(name) == {"recorded": 2, "unsupported": len(values)}


def pack_with(name: str, value: bytes) -> bytes:
    """Return the body of a request with three events, whose second one contains a value."""
    sender, mark = SENDERS[name], "the value"
    events = [sender.opened(0), sender.opened(1) | {"more": mark}, sender.opened(2)]
    old = json.dumps(mark).encode()
    if name == "mandrill":
        old, value = quote_plus(old).encode(), quote_plus(value).encode()
    start, _, end = sender.pack(events).rpartition(old)
    return start + value + end


@pytest.mark.parametrize(
    ("mount", "name"), [*zip(cycle(HOSTS), BATCHED, strict=False)], indirect=["mount"]
)
def test_many_events(mount: Mounted, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are more than the backlog has, and many groups; the second batch changes nothing."""
    sender = SENDERS[name]
    body = sender.pack([sender.opened(second) for second in range(MANY)])
    for _ in range(2):
        begun = perf_counter()
        assert mount.sign(name, body) == (200, b"")
        with capsys.disabled():
            print(f"\n{name}: {MANY} events in {perf_counter() - begun:.1f} s", end="")  # noqa: T201 - the measurement
    assert mount.outcomes(name) == {"recorded": MANY}
