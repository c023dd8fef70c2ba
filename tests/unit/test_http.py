"""HTTP for all hosts: the endpoint, headers, lengths, and every response."""

import pytest

from hookrow import ConfigurationError
from hookrow._core.notification import Recorded, Refusal
from hookrow._http import (
    BODY_TIMEOUT,
    MAX_BODY,
    BodyReader,
    Handler,
    Request,
    RequestHead,
    Response,
    declared_length,
    endpoint_path,
    refuse,
    respond,
)

ENDPOINT = "/provider/webhooks"


@pytest.mark.parametrize(
    ("path", "root", "found"),
    [
        *((ENDPOINT, "", True), (f"{ENDPOINT}/", "", True), (ENDPOINT, "/", True)),
        *((f"/mail{ENDPOINT}/", "/mail", True), (f"/mail{ENDPOINT}", "/mail/", True)),
        *((f"/größe{ENDPOINT}", "/größe", True), (ENDPOINT * 2, ENDPOINT, True)),
        (f"/mail{ENDPOINT}", "/api/mail", True),  # FastAPI behind a proxy
        (ENDPOINT, "/api", True),  # a proxy removed the root
        (ENDPOINT, "/pro", True),  # the root is not a segment of the path
        *(("", "", False), ("/", "/", False), ("/mail", "/mail", False)),
        *((f"/mail{ENDPOINT}", "", False), (f"/mail/x{ENDPOINT}", "/mail", False)),
        *((f"{ENDPOINT}/x", "", False), (f"{ENDPOINT}//", "", False), (f"/{ENDPOINT}", "", False)),
        *(("/Provider/Webhooks", "", False), ("provider/webhooks", "", False)),
        *(("/xprovider/webhooks", "/api", False), (ENDPOINT, ENDPOINT, False)),
    ],
)
def test_the_endpoint_below_any_mount(path: str, root: str, *, found: bool) -> None:
    assert RequestHead("POST", path, (), root).is_at(ENDPOINT) is found


@pytest.mark.parametrize("text", ["/a?b", "/a%20b", "a\n", " "])
def test_an_impossible_mount_path_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="use a path such as /mail"):
        endpoint_path(text)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        *(([(b"host", b"x")], None), ([(b"x-secret", b"")], b"")),
        ([(b"X-SECRET", b"\nAbc\xff\x0b")], b"\nAbc\xff\x0b"),
        # Repeated headers are joined, and spaces and tabs around a value are removed.
        ([(b"x-secret", b"1"), (b"b", b"2"), (b"X-Secret", b"\tA b\tc ")], b"1, A b\tc"),
    ],
)
@pytest.mark.parametrize("name", ["x-secret", "X-Secret"])
def test_header(headers: list[tuple[bytes, bytes]], value: bytes | None, name: str) -> None:
    assert RequestHead("POST", "/", headers).header(name) == value


@pytest.mark.parametrize(
    ("value", "length"),
    [
        *((b"0", 0), (b" 12 ", 12), (b"0" * 5000 + b"7", 7), (b"9" * 5000, 10**20 - 1)),
        *((b"1048576", MAX_BODY), (b"1048577", MAX_BODY + 1)),
        *((each, None) for each in (b"", b"x", b"-1", b"1, 1", b"1_0", b"0x1", b"\xd9\xa1")),
    ],
    ids=lambda value: str(value)[:9],
)
def test_a_length_is_ascii_digits_and_may_be_1_mib(value: bytes, length: int | None) -> None:
    head = RequestHead("POST", "/", [(b"content-length", value)])
    assert declared_length(head) == length
    is_too_large = length is not None and length > 1024 * 1024
    assert BodyReader(head, MAX_BODY).refusal is (Refusal.TOO_LARGE if is_too_large else None)
    assert declared_length(RequestHead("POST", "/", ())) is None
    assert BODY_TIMEOUT == 15.0


LENGTH_5, CHUNKED = (b"content-length", b"5"), (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize(
    ("headers", "body", "result"),
    [
        ([LENGTH_5], b"12345", None),
        ([LENGTH_5], b"123456", None),  # a middleware has decompressed it
        ([LENGTH_5], b"1234", Refusal.TIMED_OUT),
        ([LENGTH_5], b"", Refusal.TIMED_OUT),
        ([(b"content-length", b"0")], b"", None),
        ([(b"content-length", b"0"), CHUNKED], b"", None),
        ([LENGTH_5, CHUNKED], b"1234", Refusal.TIMED_OUT),
        ([CHUNKED], b"1", None),
        ([CHUNKED], b"", Refusal.TIMED_OUT),
        ([], b"", None),
        ([], b"1", None),
        ([], b"1" * MAX_BODY, None),
        ([], b"1" * (MAX_BODY + 1), Refusal.TOO_LARGE),
        ([LENGTH_5], b"1" * (MAX_BODY + 1), Refusal.TOO_LARGE),
        ([(b"content-length", b"%d" % (MAX_BODY + 1))], b"", Refusal.TOO_LARGE),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_body_is_complete_unless_it_is_shorter_than_its_head_declares(
    headers: list[tuple[bytes, bytes]], body: bytes, result: Refusal | None
) -> None:
    """A size over 1 MiB is refused first. A chunked body declares at least one byte."""
    head = RequestHead("POST", ENDPOINT, headers)
    reader = BodyReader(head, MAX_BODY)
    reader.add(body)
    assert reader.end() == (result or body)


@pytest.mark.parametrize(
    ("headers", "left"), [([LENGTH_5], 5), ([CHUNKED], MAX_BODY + 1), ([], MAX_BODY + 1)]
)
def test_a_host_reads_chunks_until_the_body_ends_or_is_too_large(
    headers: list[tuple[bytes, bytes]], left: int
) -> None:
    """The declared length, if any, is all that is left to read."""
    reader = BodyReader(RequestHead("POST", ENDPOINT, headers), MAX_BODY)
    assert reader.left == left
    reader.add(b"123")
    assert (reader.left, reader.refusal) == (left - 3, None)
    reader.add(b"45")
    assert reader.end() == b"12345"
    reader.add(b"0" * MAX_BODY)
    assert reader.refusal is Refusal.TOO_LARGE


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
    Refusal.UNMAPPED: _plain(404, "Engine::Dispatch not found"),
    Refusal.RECIPIENT_MISMATCH: _plain(400, MISMATCH),
    Refusal.NOT_READY: _plain(503, "Try again later", Retry_After="10"),
    Refusal.UNAVAILABLE: _plain(503, "Try again later", Retry_After="30"),
    Refusal.FAILED: _plain(503, "Try again later", Retry_After="60"),
    Refusal.TEST: _plain(200, ""),
    Refusal.SPOOLED: _plain(200, ""),
}


def test_every_outcome_has_the_contracts_status_text_and_headers() -> None:
    assert respond(Recorded(())) == _plain(200, "")
    assert [*Refusal.__members__.values()] == [*RESPONSES]  # no refusal is an alias of another
    for refusal, expected in RESPONSES.items():
        assert respond(refusal.refused(owner="zoë@x", recipient="{x}@b")) == expected


class Admitting(Handler):
    def admit(self, head: RequestHead) -> None:
        del head

    def __call__(self, request: Request) -> Response:
        return _plain(200, request.head.path)


def test_a_handler_refuses_a_body_with_the_usual_response() -> None:
    head, expected = RequestHead("POST", ENDPOINT, ()), RESPONSES[Refusal.TOO_LARGE]
    assert Admitting().refuse(head, Refusal.TOO_LARGE) == expected == refuse(Refusal.TOO_LARGE)
