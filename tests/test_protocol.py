"""HTTP as `hookrow serve` speaks it: its limits, and what they leave alone."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hookrow import Postmark, Receiver
from hookrow.asgi import ASGI
from hookrow.direct import DirectProtocol
from hookrow.http import LARGEST_BODY
from hookrow.protocol import LARGEST_HEAD, LARGEST_REST, LimitedProtocol
from hookrow.stores.memory import MemoryStore
from nginx import fronting
from wire import (
    SECRET,
    Connection,
    ask,
    chunk,
    eventually,
    get,
    head,
    request,
    uvicorn_serving,
)

BUFFERED = 48 * 1024 * 1024
"""In bytes; more than two sockets hold of what nobody has read yet."""

BOUNCE = json.dumps({"RecordType": "Bounce"}).encode()

CHUNKED = b"Transfer-Encoding: chunked"


class Webhook(ASGI):
    """An application that has nothing besides."""

    @property
    def webhook(self) -> ASGI:
        """Return itself."""
        return self


@pytest.fixture(params=[LimitedProtocol, DirectProtocol])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Serve a receiver to which nobody is known, in both ways; return the port."""
    receiver = Receiver(Postmark(SECRET), MemoryStore())
    with uvicorn_serving(Webhook(receiver), http=request.param) as port:
        yield port
    receiver.close()


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no head take long."""
    monkeypatch.setattr("hookrow.protocol.SLOWEST", 0.3)


def flood(connection: Connection, piece: bytes) -> int:
    """Send a piece again and again until the other side ends it; return how many bytes went out."""
    sent = 0
    with suppress(ConnectionError):
        while sent < 4 * BUFFERED:
            connection.send(piece)
            sent += len(piece)
    return sent


class TestHead:
    def test_long(self, port: int) -> None:
        """A head of as many bytes as any client needs is taken."""
        extra = [b"X-%d: %s" % (number, b"x" * 1000) for number in range(60)]
        assert ask(port, request(BOUNCE, extra=extra)).status == 422

    @pytest.mark.parametrize(
        "begin",
        [b"GET / HTTP/1.1\r\nX: ", b"GET /", head(length=2)[:-2] + b"X: "],
        ids=["header", "path", "with the secret"],
    )
    def test_too_long(self, port: int, begin: bytes) -> None:
        """A line of the head that does not end is answered 431, and no more of it is read."""
        with Connection(port) as connection:
            connection.send(begin + b"x" * (LARGEST_HEAD + 1))
            answer = connection.answer()
            assert (answer.status, answer.header("connection")) == (431, "close")
            assert connection.is_over()

    def test_too_long_at_once(self, port: int) -> None:
        """A head that is whole and too long is answered 431, and nothing else."""
        with Connection(port) as connection:
            connection.send(b"GET / HTTP/1.1\r\nX: " + b"x" * (LARGEST_HEAD + 1) + b"\r\n\r\n")
            assert connection.answer().status == 431
            assert connection.is_over()

    @pytest.mark.parametrize("piece", [b"x" * 65536, b"X: x\r\n" * 10000], ids=["line", "lines"])
    def test_endless(self, port: int, piece: bytes) -> None:
        """A head that does not end is cut off, in one line or in many."""
        with Connection(port) as connection:
            connection.send(b"GET / HTTP/1.1\r\nX: ")
            assert flood(connection, piece) < BUFFERED
        assert get(port, "/").status == 404

    def test_endless_trailers(self, port: int) -> None:
        """Trailers that do not end are cut off as well, whoever sends them."""
        with Connection(port) as connection:
            connection.send(head(extra=[CHUNKED]) + chunk(BOUNCE) + b"0\r\n")
            with suppress(ConnectionError):
                connection.send(b"X: %s\r\n" % (b"x" * 1000) * 400)
            assert connection.answer().status == 431
            assert connection.is_over()

    @pytest.mark.parametrize("piece", [b"x" * 65536, b"X:\r\n" * 10000], ids=["line", "lines"])
    def test_endless_trailer(self, port: int, piece: bytes) -> None:
        """However a trailer is written, a body that never ends is cut off."""
        with Connection(port) as connection:
            connection.send(head(extra=[CHUNKED]) + chunk(BOUNCE) + b"0\r\nX: ")
            assert flood(connection, piece) < BUFFERED
        assert get(port, "/").status == 404

    def test_trailers(self, port: int) -> None:
        """Trailers that end are no harm, and the connection goes on."""
        whole = head(extra=[CHUNKED]) + chunk(BOUNCE) + b"0\r\nX: x\r\n\r\n"
        with Connection(port) as connection:
            for _ in range(2):
                connection.send(whole)
                assert connection.answer().status == 422

    def test_trailer_is_no_header(self, port: int) -> None:
        """Whoever knows the secret says so in the head: a trailer is thrown away."""
        trailer = b"0\r\nX-Provider-Secret: %s\r\n\r\n" % SECRET.encode()
        assert ask(port, head(secret=None, extra=[CHUNKED]) + trailer).status == 401

    @pytest.mark.parametrize(
        "bad",
        [
            b"nonsense\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET http://a:b:c HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ],
    )
    def test_bad(self, port: int, bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
        """What is no HTTP is answered 400, and is no error of ours."""
        with Connection(port) as connection:
            connection.send(bad)
            assert connection.answer().status == 400
            assert connection.is_over()
        assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.usefixtures("_impatient")
class TestTime:
    @pytest.mark.parametrize("begin", [b"", b"\r\n", b"POST", head(length=2)[:-2]])
    def test_no_head(self, port: int, begin: bytes) -> None:
        """A connection on which no head is complete in time is closed; others are served."""
        with Connection(port) as connection:
            connection.send(begin)
            assert ask(port, request(BOUNCE)).status == 422
            assert connection.is_over()

    @pytest.mark.parametrize("first", [b"", request(BOUNCE)], ids=["first", "second"])
    def test_byte_by_byte(self, port: int, first: bytes) -> None:
        """A head does not gain time by coming slowly, be it a connection's first or not."""
        with Connection(port) as connection:
            if first:
                connection.send(first)
                assert connection.answer().status == 422
            connection.send(b"GET / HTTP/1.1\r\nX: ")

            def dripped() -> bool:
                try:
                    connection.send(b"x")
                except ConnectionError:
                    return True
                return False

            eventually(dripped)

    def test_empty_lines(self, port: int) -> None:
        """Empty lines between requests are no way to keep a connection for ever."""
        with Connection(port) as connection:
            connection.send(request(BOUNCE))
            assert connection.answer().status == 422
            connection.send(b"\r\n")
            assert connection.is_over()

    def test_idle(self, port: int) -> None:
        """A connection may idle between two requests for longer than a head may take."""
        with Connection(port) as connection:
            for _ in range(3):
                connection.send(request(BOUNCE))
                assert connection.answer().status == 422
                time.sleep(0.5)

    @pytest.mark.parametrize("before", [b"", head("/", method="GET")], ids=["alone", "pipelined"])
    def test_slow_body(self, port: int, before: bytes) -> None:
        """A body has a time limit of its own, also where its head came before its turn."""
        whole = request(BOUNCE)
        with Connection(port) as connection:
            connection.send(before + whole[:-1])
            if before:
                assert connection.answer().status == 404
            time.sleep(0.8)
            connection.send(whole[-1:])
            assert connection.answer().status == 422

    def test_rest(self, port: int) -> None:
        """What is still to come of a request that is answered is not waited for longer."""
        with Connection(port) as connection:
            connection.send(head(secret="wrong", length=100) + b"{")
            assert connection.answer().status == 401
            assert connection.is_over()


class TestRest:
    """What still comes of a request once it is answered."""

    @pytest.mark.parametrize("extra", [[CHUNKED], [b"Content-Length: 99999999999"]])
    def test_endless(self, port: int, extra: list[bytes]) -> None:
        """No more than a limit of it is read; then the connection is closed."""
        with Connection(port) as connection:
            connection.send(head(secret="wrong", extra=extra))
            assert connection.answer().status in {401, 413}
            assert flood(connection, chunk(b"x" * 65536)) < LARGEST_REST + BUFFERED
        assert get(port, "/").status == 404

    @pytest.mark.parametrize(
        ("secret", "length", "status"),
        [("wrong", LARGEST_REST - 1, 401), (SECRET, LARGEST_BODY + 1, 413)],
    )
    def test_answer_is_read_late(self, port: int, secret: str, length: int, status: int) -> None:
        """A client that reads only when it has sent everything gets its answer all the same."""
        with Connection(port) as connection:
            connection.send(head(secret=secret, length=length))
            for _ in range(length // 1024):
                connection.send(b"x" * 1024)
            connection.send(b"x" * (length % 1024))
            assert connection.answer().status == status

    def test_through_a_proxy(self, port: int, tmp_path: Path) -> None:
        """One that waits for nothing else once it cannot send has the answer all the same."""
        with fronting(tmp_path, port, "client_max_body_size 99m;") as front:
            for size in (1, 2, 8) * 3:
                assert ask(front, request(b"x" * (size * LARGEST_BODY + 1))).status == 413

    def test_next(self, port: int) -> None:
        """Once all of it came the connection serves the next request."""
        with Connection(port) as connection:
            for _ in range(3):
                connection.send(request(b"x" * (LARGEST_REST // 2), secret="wrong"))
                assert connection.answer().status == 401
            connection.send(request(BOUNCE))
            assert connection.answer().status == 422

    def test_no_second_answer(self, port: int) -> None:
        """A connection that is closed for what came after the answer gets no other answer."""
        with Connection(port) as connection:
            connection.send(head(secret="wrong", extra=[CHUNKED]))
            assert connection.answer().status == 401
            with suppress(ConnectionError):
                connection.send(chunk(b"x" * (LARGEST_REST + 1)))
            assert connection.is_over()


def test_keep_alive(port: int) -> None:
    """Many requests share a connection, one after the other."""
    with Connection(port) as connection:
        for secret, status in [(SECRET, 422), ("wrong", 401)] * 20:
            connection.send(request(BOUNCE, secret=secret))
            assert connection.answer().status == status


def test_head_behind_a_body(port: int) -> None:
    """What comes at once with the beginning of a head, but before it, is no part of it."""
    body, after = request(b"x" * 200_000), request(BOUNCE)
    with Connection(port) as connection:
        for _ in range(10):
            connection.send(body + after[:20])
            assert connection.answer().status == 422
            connection.send(after[20:])
            assert connection.answer().status == 422


def test_pipelined(port: int) -> None:
    """Requests that come at once are answered in their order, with and without a body."""
    whole = [
        *(request(BOUNCE), head("/", method="GET"), request(BOUNCE, secret="wrong")),
        head(extra=[CHUNKED]) + chunk(BOUNCE) + chunk(b""),
    ]
    with Connection(port) as connection:
        connection.send(b"".join(whole * 20))
        statuses = [connection.answer().status for _ in range(80)]
        assert statuses == [422, 404, 401, 422] * 20
