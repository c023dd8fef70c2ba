"""What all hosts share of HTTP: the endpoint, headers, lengths, and every response."""

from __future__ import annotations

import pytest

from hookrow.http import (
    LARGEST_BODY,
    SLOWEST_BODY,
    Head,
    Request,
    Response,
    declared_length,
    oversized,
    refuse,
    refuse_body,
    respond,
)
from hookrow.notification import Recorded, Refusal

ENDPOINT = "/provider/webhooks"


@pytest.mark.parametrize(
    ("path", "root"),
    [
        *(("/provider/webhooks", ""), ("/provider/webhooks/", ""), ("/provider/webhooks", "/")),
        *(
            (f"/mail{ENDPOINT}", "/mail"),
            (f"/mail{ENDPOINT}/", "/mail"),
            (f"/mail{ENDPOINT}", "/mail/"),
        ),
        *((f"/a/b{ENDPOINT}", "/a/b"), (f"/größe{ENDPOINT}", "/größe"), (ENDPOINT * 2, ENDPOINT)),
        (f"/mail{ENDPOINT}", "/api/mail"),  # FastAPI behind a proxy
        (ENDPOINT, "/api"),  # a proxy removed the root
        (ENDPOINT, "/pro"),  # the root is no segment of the path
    ],
)
def test_at_the_endpoint(path: str, root: str) -> None:
    """The endpoint is found below any mount, with or without a trailing slash."""
    assert Head("POST", path, (), root).is_at(ENDPOINT)


@pytest.mark.parametrize(
    ("path", "root"),
    [
        *(("", ""), ("/", ""), ("/", "/"), ("/mail", "/mail"), ("/provider", "")),
        *((f"/mail{ENDPOINT}", ""), (f"/mail/x{ENDPOINT}", "/mail"), (f"{ENDPOINT}/x", "")),
        *((f"{ENDPOINT}//", ""), (f"/{ENDPOINT}", ""), ("/provider//webhooks", "")),
        *(("/Provider/Webhooks", ""), ("provider/webhooks", "")),
        *(("/xprovider/webhooks", "/api"), (ENDPOINT, ENDPOINT)),
    ],
)
def test_elsewhere(path: str, root: str) -> None:
    """Any other path is not the endpoint."""
    assert not Head("POST", path, (), root).is_at(ENDPOINT)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([(b"host", b"x")], None),
        ([(b"x-secret", b"")], b""),
        ([(b"X-SECRET", b"Abc")], b"Abc"),
        ([(b"x-secret", b"1"), (b"b", b"2"), (b"X-Secret", b"\t3 ")], b"1, 3"),
        ([(b"x-secret", b" \t A b\tc \t")], b"A b\tc"),
        *(([(b"x-secret", value)], value) for value in (b"\xff\x00", b"\nAbc\x0b")),
    ],
)
@pytest.mark.parametrize("name", ["x-secret", "X-Secret"])
def test_header(headers: list[tuple[bytes, bytes]], value: bytes | None, name: str) -> None:
    """Names ignore case, repeated headers are joined, and spaces and tabs around are removed."""
    assert Head("POST", "/", headers).header(name) == value


@pytest.mark.parametrize(
    ("value", "length"),
    [
        *((b"0", 0), (b" 12 ", 12), (b"0012", 12), (b"0" * 5000 + b"7", 7)),
        *((b"1048576", LARGEST_BODY), (b"1048577", LARGEST_BODY + 1), (b"1" + b"0" * 20, 10**19)),
        *((b"9" * 5000, 10**20 - 1), (b"", None), (b"x", None), (b"-1", None), (b"+1", None)),
        *((b"1, 1", None), (b"1_0", None), (b"1 0", None), (b"0x1", None), (b"\xd9\xa1", None)),
    ],
    ids=lambda value: str(value)[:9],
)
def test_declared_length(value: bytes, length: int | None) -> None:
    """A length is ASCII digits, however many, and may be 1 MiB; a body has 15 seconds."""
    head = Head("POST", "/", [(b"content-length", value)])
    assert declared_length(head) == length
    assert oversized(head) is (length is not None and length > 1024 * 1024)
    assert declared_length(Head("POST", "/", ())) is None
    assert SLOWEST_BODY == 15.0


def _plain(status: int, text: str, **headers: str) -> Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"} | sent)


MISMATCH = "Dispatch subscriber zoë@x does not match payload recipient {x}@b"
RESPONSES = {
    Refusal.NO_SUCH_PATH: _plain(404, "Not Found"),
    Refusal.METHOD_NOT_ALLOWED: _plain(405, "Method Not Allowed", Allow="POST"),
    Refusal.UNAUTHENTIC: _plain(401, "Cannot verify webhook"),
    Refusal.TIMED_OUT: _plain(408, "Request Timeout"),
    Refusal.LENGTH_REQUIRED: _plain(411, "Length Required"),
    Refusal.TOO_LARGE: _plain(413, "Webhook payload too large"),
    Refusal.UNSUPPORTED: _plain(422, "Webhook payload not supported"),
    Refusal.SUBSCRIBER_NOT_FOUND: _plain(404, "Engine::Subscriber not found"),
    Refusal.DISPATCH_NOT_FOUND: _plain(404, "Engine::Dispatch not found"),
    Refusal.RECIPIENT_MISMATCH: _plain(400, MISMATCH),
    Refusal.UNAVAILABLE: _plain(503, "Try again later", Retry_After="30"),
    Refusal.FAILED: _plain(503, "Try again later", Retry_After="60"),
}


def test_responses() -> None:
    """Every outcome has the contract's status, text and headers, and no two are one."""
    assert respond(Recorded(())) == _plain(200, "")
    assert [*Refusal.__members__.values()] == [*RESPONSES]
    for refusal, expected in RESPONSES.items():
        assert respond(refusal.refused(owner="zoë@x", recipient="{x}@b")) == expected


def test_refuse_body() -> None:
    """A handler that has a method `refuse` makes the response to a refused body."""

    class Handler:
        blocking = False

        def admit(self, head: Head) -> None:
            """Admit every request."""

        def __call__(self, request: Request) -> Response:
            return _plain(200, request.head.path)

    class Refusing(Handler):
        def refuse(self, head: Head, refusal: Refusal) -> Response:
            return _plain(refusal.status, head.path)

    head, expected = Head("POST", ENDPOINT, ()), RESPONSES[Refusal.TOO_LARGE]
    assert refuse_body(Handler(), head, Refusal.TOO_LARGE) == expected == refuse(Refusal.TOO_LARGE)
    assert refuse_body(Refusing(), head, Refusal.TOO_LARGE) == _plain(413, ENDPOINT)
