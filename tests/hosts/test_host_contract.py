"""The contract of all hosts, in this process: ASGI, WSGI and the protocol of `hookrow serve`.

`acceptance/test_servers.py` runs the core of it under common servers.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from drivers import HOSTS, MOUNT, GatedStore, mounted

import wire
import world
from case_model import ALL, body_of, expect
from hookrow import Postmark, Receiver, testing
from hookrow._http import MAX_BODY
from wire import ADA, ADAS, AT, DELIVERY, ENDPOINT, SECRET, TEXT

PATH = MOUNT + ENDPOINT
PREVIOUS = "the-secret-of-last-year"
ZOE = "zoë.müller@example.net"
LARGEST = DELIVERY.ljust(MAX_BODY)


@pytest.fixture(scope="module")
def store() -> Iterator[GatedStore]:
    with closing(GatedStore()) as store:
        yield store


@pytest.fixture(scope="module", params=HOSTS)
def running(request: pytest.FixtureRequest, store: GatedStore) -> Iterator[int]:
    mount_path = MOUNT if request.param == "direct" else ""
    receiver = Receiver(Postmark(SECRET, PREVIOUS), store, mount_path=mount_path, deadline=60)
    with mounted(request.param, receiver) as port:
        yield port
    receiver.close()


@pytest.fixture
def port(running: int, store: GatedStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the port, with a fresh world, and without a wait for the rest of a large body."""
    store.reset()
    monkeypatch.setattr("hookrow.asgi._DISCARD_TIMEOUT", 0.05)
    return running


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("asgi", "_environ"):
        monkeypatch.setattr(f"hookrow.{module}.BODY_TIMEOUT", 0.05)


@pytest.mark.parametrize(
    ("payload", "status", "text"),
    [
        (testing.delivery(ADA, ADAS, at=AT), 200, ""),
        (
            testing.delivery(ZOE, ADAS, at=AT),
            400,
            f"Dispatch subscriber {ADA} does not match payload recipient {ZOE}",
        ),
        (testing.opening(ADA, "m-unknown", at=AT), 404, "Engine::Dispatch not found"),
        ([], 422, "Webhook payload not supported"),
    ],
)
def test_answer(port: int, payload: object, status: int, text: str) -> None:
    """Each outcome has its status and its text, as plain text in UTF-8 with its length."""
    answer = wire.ask(port, wire.request(json.dumps(payload).encode(), PATH))
    assert (answer.status, answer.body) == (status, text.encode())
    assert answer.header("content-type") == TEXT
    assert answer.header("content-length") == str(len(text.encode()))


@pytest.mark.parametrize("running", ["asgi", "wsgi", "direct"], indirect=True, scope="module")
def test_cases(port: int, store: GatedStore) -> None:
    """Each of the 150 cases has the status and the text of the model over each protocol."""
    start = world.start()
    for case in ALL:
        store.reset()
        status, text, _ = expect(start, body_of(case))
        answer = wire.ask(port, wire.request(body_of(case), PATH))
        assert (answer.status, answer.body.decode()) == (status, text), case["name"]


@pytest.mark.parametrize("end", ["", "?", "/?a=b"])
def test_path(port: int, end: str) -> None:
    """A trailing slash causes no redirect; query and content type are ignored."""
    answer = wire.ask(port, wire.request(DELIVERY, PATH + end, extra=[b"Content-Type: \xff"]))
    assert (answer.status, answer.header("location")) == (200, None)


@pytest.mark.parametrize("path", ["/", f"{ENDPOINT}/x", f"/x{ENDPOINT}"])
@pytest.mark.parametrize(("method", "secret"), [("POST", SECRET), ("GET", None)])
def test_another_path(port: int, path: str, method: str, secret: str | None) -> None:
    """Another path gets a 404 without a redirect, whatever the method and the secret."""
    answer = wire.ask(port, wire.request(DELIVERY, MOUNT + path, method=method, secret=secret))
    assert (answer.status, answer.header("location")) == (404, None)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("secret", [SECRET, None])
def test_another_method(port: int, method: str, secret: str | None) -> None:
    """Another method gets a 405 with the allowed one, whatever the secret."""
    sent = wire.request(DELIVERY, PATH, method=method, secret=secret)
    answer = wire.ask(port, sent, of_head=method == "HEAD")
    assert (answer.status, answer.header("allow")) == (405, "POST")
    assert answer.header("content-type") == TEXT
    assert method == "HEAD" or answer.body == b"Method Not Allowed"


@pytest.mark.parametrize(
    ("secret", "challenge"),
    [(None, "missing"), (b"", "missing"), (SECRET.upper(), "wrong"), (b"\xff\xfe", "wrong")],
)
def test_wrong_secret(
    port: int, store: GatedStore, secret: str | bytes | None, challenge: str
) -> None:
    """A 401 distinguishes a missing secret from a wrong one, and nothing is changed."""
    answer = wire.ask(port, wire.request(DELIVERY, PATH, secret=secret))
    assert (answer.status, answer.body) == (401, b"Cannot verify webhook")
    assert answer.header("www-authenticate") == f'Secret error="{challenge}"'
    assert not store.entered.is_set()


def test_previous_secret_but_not_two_at_once(port: int) -> None:
    assert wire.ask(port, wire.request(DELIVERY, PATH, secret=PREVIOUS)).status == 200
    for two in (SECRET, PREVIOUS, ""):
        extra = [b"X-Provider-Secret: " + two.encode()]
        assert wire.ask(port, wire.request(DELIVERY, PATH, extra=extra)).status == 401


@pytest.mark.parametrize(
    ("path", "method", "secret", "status"),
    [
        ("/nowhere", "GET", "wrong", 404),
        (ENDPOINT, "GET", "wrong", 405),
        (ENDPOINT, "POST", "wrong", 401),
        (ENDPOINT, "POST", SECRET, 413),
    ],
)
@pytest.mark.parametrize("begin", [b"", b"{"])
@pytest.mark.usefixtures("_impatient")
def test_order(port: int, path: str, method: str, secret: str, status: int, begin: bytes) -> None:
    """Path, method, secret and declared size are checked in this order, before the body is read."""
    declared = wire.head(MOUNT + path, method=method, secret=secret, length=MAX_BODY + 1)
    assert wire.ask(port, declared + begin).status == status


@pytest.mark.parametrize(("size", "status"), [(2, 422), (MAX_BODY + 1, 413)])
def test_request_id(port: int, size: int, status: int) -> None:
    """The response has the id of its request if that is harmless, or else a new one."""
    for given, expected in ((b"r-1", "r-1"), (b"ada@example.com", "[0-9a-f]{16}")):
        answer = wire.ask(port, wire.request(b"x" * size, PATH, extra=[b"X-Request-Id: " + given]))
        assert answer.status == status
        assert re.fullmatch(expected, answer.header("x-request-id") or "")


def chunked(*pieces: bytes) -> bytes:
    chunks = b"".join(map(wire.chunk, pieces))
    return wire.head(PATH, extra=[b"Transfer-Encoding: chunked"]) + chunks + wire.chunk(b"")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (wire.request(LARGEST, PATH), 200),
        (wire.request(LARGEST + b" ", PATH), 413),
        (chunked(*(LARGEST[at : at + 65536] for at in range(0, MAX_BODY, 65536))), 200),
        (chunked(LARGEST, b" "), 413),
        (wire.request(b"", PATH), 422),
        (wire.head(PATH), 422),
        (chunked(), 408),
    ],
    ids=[
        *("1 MiB", "too large", "in pieces", "pieces too large"),
        *("declared empty", "no body", "no pieces"),
    ],
)
def test_size(port: int, store: GatedStore, sent: bytes, status: int) -> None:
    """A body may have 1 MiB and not a byte more, with or without a declared length.

    A chunked body without a byte was probably read by a middleware, so the provider repeats it.
    """
    answer = wire.ask(port, sent)
    assert answer.status == status
    assert (store.delivered_at == AT) == (status == 200)
    if status == 413:
        assert answer.body == b"Webhook payload too large"
        assert answer.header("content-type") == TEXT


@pytest.mark.parametrize("begin", [b"", DELIVERY[:-1]])
@pytest.mark.usefixtures("_impatient")
def test_an_incomplete_body_changes_nothing(port: int, store: GatedStore, begin: bytes) -> None:
    """Neither if it is late, nor if its client disconnects."""
    declared = wire.head(PATH, length=len(DELIVERY)) + begin
    answer = wire.ask(port, declared)
    assert (answer.status, answer.body) == (408, b"Request Timeout")
    assert answer.header("content-type") == TEXT
    with wire.Connection(port) as connection:
        connection.send(declared)
    assert wire.ask(port, wire.request(b"{", PATH)).status == 422
    assert store.delivered_at is None
