"""Every provider on the hosts: requests that are not authentic, and bodies that are not events.

What each provider reads is in its unit tests. Here, every request gets the right response, without
an error in a log line, and no event is lost.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from urllib.parse import urlencode

import pytest
from drivers import MOUNT, mounted

import wire
from engines import MEMORY
from hookrow import Receiver
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from senders import SENDERS
from senders.sender import ADA
from wire import ENDPOINT, PATIENCE, Answer

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


@pytest.fixture(params=["asgi", "wsgi"])
def mount(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    providers = {name: sender.construct() for name, sender in SENDERS.items()}
    with closing(SQLStore(MEMORY)) as store:
        tables = Tables(store)
        ada = tables.add_subscriber(ADA)
        for sender in SENDERS.values():
            tables.add_dispatch(sender.message_id, ada)
        with (
            closing(Receiver(providers, store, deadline=PATIENCE)) as receiver,
            mounted(request.param, receiver) as port,
        ):
            yield Mounted(port, store)


@pytest.fixture(autouse=True)
def _without_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    lines = [*caplog.get_records("call")]
    assert not [each for each in lines if each.exc_info or each.levelno > logging.WARNING]


def test_requests_that_are_not_authentic(mount: Mounted) -> None:
    """No header, each of them twice, and those of another provider.

    The signature of Mailgun is in the body.
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
