"""A receiver with several entries on each host: paths, probes, limits, and requests of many events.

Those of Django are in `django/test_django_views.py`.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from drivers import HOSTS, MOUNT, mounted

import wire
from courier import Courier, event, signed
from engines import MEMORY
from hookrow import Postmark, Receiver, Refusal, RequestHead, testing
from hookrow._http import MAX_BODY
from hookrow._observability.observer import Observer
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from wire import ADA, ENDPOINT, PATIENCE, SECRET, TEXT

PATH = MOUNT + ENDPOINT
PARCELS = f"{PATH}/parcels"
LIMIT = 2 * MAX_BODY
MANY = 1000


class Watch(Observer):
    """Keeps the refusals, and the entries that refused."""

    def __init__(self) -> None:
        self.refusals: list[tuple[Refusal, str | None]] = []

    def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
        del head
        self.refusals.append((refusal, entry))


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        tables = Tables(store)
        ada = tables.add_subscriber(ADA)
        for number in range(MANY):
            tables.add_dispatch(f"m-{number}", ada)
        yield store


@pytest.fixture(scope="module", params=HOSTS)
def port(request: pytest.FixtureRequest, store: SQLStore, watch: Watch) -> Iterator[int]:
    entries = {
        "mail": Postmark(SECRET),
        "parcels": Courier(limit=LIMIT),
        "letters": Courier(limit=150),
    }
    mount_path = MOUNT if request.param == "direct" else ""
    receiver = Receiver(entries, store, mount_path=mount_path, deadline=PATIENCE, observer=watch)
    with mounted(request.param, receiver) as port:
        yield port
    receiver.close()


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the rest of a body that is too large."""
    monkeypatch.setattr("hookrow.asgi._DISCARD_TIMEOUT", 0.05)


def delivered_to(number: int) -> bytes:
    return signed(event(str(number), to=ADA))


@pytest.mark.parametrize("end", ["", "/", "/?a=b"])
def test_each_entry_has_a_path(port: int, store: SQLStore, end: str) -> None:
    """The first one also has that of the endpoint. A trailing slash causes no redirect."""
    at = datetime.now(UTC)  # so that these events are not those of another test
    delivery = json.dumps(testing.delivery(ADA, "m-1", at=at)).encode()
    delivered = signed(event("1", to=ADA, id=str(at)))
    for name, body in (
        *(("", delivery), ("/mail", delivery)),
        *(("/parcels", delivered), ("/letters", delivered)),
    ):
        answer = wire.ask(port, wire.request(body, PATH + name + end))
        assert (answer.status, answer.header("location")) == (200, None)
    assert store.log is not None
    attempts = {each.entry: each.attempts for each in store.log.newest(Query(), limit=3)}
    assert attempts == {"mail": 2, "parcels": 1, "letters": 1}


@pytest.mark.parametrize("name", ["other", "Mail", "mail/x", "x/mail", "%6dailx"])
@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
def test_a_name_that_is_not_known(port: int, name: str, method: str) -> None:
    """It gets a 404 without a redirect, before any other check."""
    sent = wire.request(b"{}", f"{PATH}/{name}", method=method, secret=None)
    answer = wire.ask(port, sent, of_head=method == "HEAD")
    assert (answer.status, answer.header("location")) == (404, None)
    if "/" not in name and method == "POST":
        assert (answer.body, answer.header("content-type")) == (b"Not Found", TEXT)


def test_the_secret_of_another_entry(port: int) -> None:
    assert wire.ask(port, wire.request(b"{}", PARCELS)).status == 401


def test_refusals_by_entry(port: int, watch: Watch) -> None:
    """Observers receive the name of the entry, and None for an unknown name."""
    watch.refusals.clear()
    for path, body, status in (
        (f"{PATH}/mail", b"{}", 401),
        (PARCELS, b"{}", 401),
        (f"{PATH}/letters", delivered_to(1).rjust(151), 413),
        (f"{PATH}/other", b"{}", 404),
    ):
        assert wire.ask(port, wire.request(body, path, secret="wrong")).status == status
    assert watch.refusals == [
        (Refusal.UNAUTHENTIC, "mail"),
        (Refusal.UNAUTHENTIC, "parcels"),
        (Refusal.TOO_LARGE, "letters"),
        (Refusal.NO_SUCH_PATH, None),
    ]


def test_a_probe(port: int) -> None:
    """The provider checks the URL without a secret. The response to HEAD has no body."""
    got = wire.ask(port, wire.request(b"", PARCELS, method="GET", secret=None))
    assert (got.status, got.body, got.header("content-type")) == (200, b"Welcome", TEXT)
    with wire.Connection(port) as connection:
        last = [b"Connection: close"]
        connection.send(wire.head(PARCELS, method="HEAD", secret=None, extra=last))
        answer = connection.answer(of_head=True)
        assert (answer.status, answer.header("content-length")) == (200, "7")
        assert connection.is_over()


@pytest.mark.parametrize(("name", "allow"), [("parcels", "GET, HEAD, POST"), ("mail", "POST")])
def test_a_method_that_is_not_allowed(port: int, name: str, allow: str) -> None:
    for method in ("PUT", "OPTIONS", "DELETE"):
        answer = wire.ask(port, wire.request(b"", f"{PATH}/{name}", method=method, secret=None))
        assert (answer.status, answer.header("allow")) == (405, allow)


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        *((PARCELS, LIMIT, 200), (PARCELS, LIMIT + 1, 413), (PATH, MAX_BODY + 1, 413)),
        *((f"{PATH}/letters", 150, 200), (f"{PATH}/letters", 151, 413)),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.usefixtures("_hasty")
def test_each_entry_limits_its_bodies(
    port: int, path: str, size: int, status: int, *, is_chunked: bool
) -> None:
    """A body may have so many bytes and not one more, with or without a declared length."""
    body = delivered_to(1).rjust(size)
    sent = wire.request(body, path)
    if is_chunked:
        pieces = [wire.chunk(body[at : at + 65536]) for at in range(0, size, 65536)]
        head = wire.head(path, extra=[b"Transfer-Encoding: chunked"])
        sent = head + b"".join([*pieces, wire.chunk(b"")])
    assert wire.ask(port, sent).status == status


def test_a_request_with_many_events(port: int, store: SQLStore) -> None:
    """Each of them is recorded, also in a request with more than a group has."""
    for type_ in ("delivered", "bounced"):
        events = (event(str(n), type_, to=ADA, id=f"{type_} {n} at {port}") for n in range(MANY))
        assert wire.ask(port, wire.request(signed(*events), PARCELS)).status == 200
    assert store.log is not None
    found = store.log.newest(Query(), limit=2 * MANY)
    assert {each.outcome.value for each in found} == {"recorded"}
    assert sum(f"at {port}" in str(each.body) for each in found) == 2 * MANY
