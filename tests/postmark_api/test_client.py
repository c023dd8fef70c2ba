"""The client of Postmark's API: addresses, tokens, errors and repetitions."""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from socket import create_server
from threading import Thread
from time import sleep
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from providing import client

from hookrow._postmark_api import ADDRESS
from hookrow._postmark_api import client as api_client
from hookrow._postmark_api.client import RETRY_PAUSES, PostmarkAPI
from hookrow._postmark_api.errors import APIError, Unconfirmed, error_of
from hookrow._postmark_api.webhooks import read_server
from hookrow.errors import ConfigurationError
from loopback import loopback
from stand_in import Fault, PostmarkStandIn


@pytest.mark.parametrize(
    "address",
    [
        *("", "api.postmarkapp.com", "ftp://api.postmarkapp.com", "https://", "https://a b"),
        *("https://user:password@example.com", "https://example.com?token=a", "https://[::1"),
        *("https://example.com/ä", "https://example.com/a\nb"),
        *("http://example.com", "http://10.0.0.1", "http://127.0.0.1.example.com"),
    ],
)
def test_addresses_that_are_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="HOOKROW_PROVIDER_API") as raised:
        PostmarkAPI("a-token", address)
    assert "password" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["https://example.com/", "http://127.0.0.1:8000", "http://localhost", "http://[::1]:1"],
)
def test_addresses(address: str) -> None:
    assert PostmarkAPI("a-token", address).address == address.rstrip("/")


def test_a_host_that_is_not_valid() -> None:
    with pytest.raises(APIError, match="cannot be reached"):
        PostmarkAPI("a-token", "https://api..example.com").get("/server")


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "tökén"])
def test_tokens_that_no_header_can_contain(token: str) -> None:
    with pytest.raises(ConfigurationError, match="HOOKROW_PROVIDER_TOKEN") as raised:
        PostmarkAPI(token, ADDRESS)
    assert not token or token not in str(raised.value)


def test_a_wrong_token() -> None:
    with PostmarkStandIn() as api:
        wrong = PostmarkAPI("another-token", api.address)
        with pytest.raises(APIError, match="HOOKROW_PROVIDER_TOKEN") as raised:
            wrong.get("/server")
    assert raised.value.code == 10
    assert "another-token" not in str(raised.value)


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.MAINTENANCE])
def test_a_request_that_was_not_carried_out_is_repeated(fault: Fault) -> None:
    waits: list[float] = []
    with PostmarkStandIn() as api:
        api.inject(fault, len(RETRY_PAUSES))
        assert client(api, sleep=waits.append).get("/server")["ID"] == 4711
        assert waits == list(RETRY_PAUSES)
        api.inject(fault, len(RETRY_PAUSES) + 1)
        with pytest.raises(APIError, match="later"):
            client(api).post("/message-streams/outbound/suppressions", {"Suppressions": []})
        assert len(api.requests) == 2 * (len(RETRY_PAUSES) + 1)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.ERROR_AFTER_CHANGE])
def test_only_reading_is_repeated_without_a_clear_response(fault: Fault) -> None:
    with PostmarkStandIn() as api:
        api.inject(fault)
        assert client(api).get("/server")
        api.inject(fault)
        with pytest.raises(Unconfirmed):
            client(api).post("/message-streams/outbound/suppressions", {"Suppressions": []})
        assert len(api.requests) == 3


def test_a_timeout() -> None:
    with PostmarkStandIn() as api:
        api.inject(Fault.TIMEOUT_AFTER_CHANGE)
        with pytest.raises(Unconfirmed, match="did not respond"):
            client(api, timeout=0.2).put("/webhooks/1", {})


@pytest.mark.parametrize("rest", ["Content-Length: 1000\r\n\r\n", "\r\n", "X: "])
def test_a_response_that_never_ends(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives before the timeout, but the whole response has a limit, too."""
    monkeypatch.setattr(api_client, "RESPONSE_TIMEOUT", 0.3)
    listener = create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(f"HTTP/1.1 200 OK\r\n{rest}".encode())
            while True:
                connection.sendall(b" ")
                sleep(0.05)

    with listener:
        Thread(target=drip, daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(APIError, match=r"is not complete after 0\.3 s") as raised:
            PostmarkAPI("a-token", address).get("/server")
    assert not raised.value.temporary


def test_a_limit_that_the_reading_thread_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the same as if its caller had noticed the limit first."""
    clock = Mock(monotonic=count(step=api_client.RESPONSE_TIMEOUT + 1).__next__)
    monkeypatch.setattr(api_client, "time", clock)

    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    with loopback(app) as port, pytest.raises(APIError, match="is not complete after 120 s"):
        PostmarkAPI("a-token", f"http://127.0.0.1:{port}").get("/server")


@pytest.mark.parametrize("headers", [[], [("Content-Length", str(2**21))]])
def test_a_response_that_is_too_large(
    headers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "MAX_RESPONSE_BYTES", 2**20)

    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", headers)
        return [b" " * 2**20, b" " * 2**20]

    with loopback(app) as port, pytest.raises(APIError, match="is larger than 1 MiB"):
        PostmarkAPI("a-token", f"http://127.0.0.1:{port}").get("/server")


def test_a_response_that_is_cut_off() -> None:
    """Reading is repeated."""
    paths: list[str] = []

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        paths.append(environ["PATH_INFO"])
        start("200 OK", [("Content-Length", "12" if len(paths) < 3 else "2")])
        return [b"{}"]

    with loopback(app) as port:
        api = PostmarkAPI("a-token", f"http://127.0.0.1:{port}", sleep=lambda _: None)
        assert api.get("/server") == {}
    assert len(paths) == 3


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"ID": 1, "Name": ' + "[" * 400 + "]" * 400 + "}"]
)
def test_a_response_that_is_nested_too_deeply(body: str) -> None:
    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [("Content-Length", str(len(body)))])
        return [body.encode()]

    with loopback(app) as port, pytest.raises(APIError, match=r"is not (a JSON object|one of)"):
        read_server(PostmarkAPI("a-token", f"http://127.0.0.1:{port}"))


def test_a_response_that_is_not_json() -> None:
    with PostmarkStandIn() as api:
        api.inject(Fault.NOT_JSON)
        with pytest.raises(APIError, match=r"not a JSON object \(status 200"):
            client(api).get("/server")


def test_an_unreachable_address() -> None:
    with PostmarkStandIn() as api:
        address = api.address
    with pytest.raises(APIError, match=r"cannot be reached \(Connection refused"):
        PostmarkAPI("a-token", address).get("/server")


def test_an_address_that_becomes_unreachable() -> None:
    """Reading is repeated, because the address was right; a change is not."""
    waits: list[float] = []
    with PostmarkStandIn() as api:
        used = client(api, sleep=waits.append)
        assert used.get("/server")
    with pytest.raises(APIError, match="cannot be reached"):
        used.put("/webhooks/1", {})
    assert not waits
    with pytest.raises(APIError, match="cannot be reached"):
        used.get("/server")
    assert waits == list(RETRY_PAUSES)


@pytest.mark.parametrize(
    ("skew", "text"), [(60, "60 minutes behind"), (-60, "60 minutes ahead of"), (4, None)]
)
def test_a_clock_that_is_off(skew: int, text: str | None) -> None:
    with PostmarkStandIn(skew=timedelta(minutes=skew)) as api:
        if text is None:
            assert client(api).get("/server")
        else:
            with pytest.raises(APIError, match=text):
                client(api).get("/server")


def test_redirects_are_not_followed() -> None:
    paths: list[str] = []

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        paths.append(environ["PATH_INFO"])
        start("307 Temporary Redirect", [("Location", "/elsewhere"), ("Content-Length", "0")])
        return [b""]

    with loopback(app) as port, pytest.raises(APIError, match="status 307"):
        PostmarkAPI("a-token", f"http://127.0.0.1:{port}").get("/server")
    assert paths == ["/server"]


def test_the_type_of_a_response_is_cleaned() -> None:
    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "text/a-token"), ("Content-Length", "2")])
        return [b"hi"]

    text = re.escape("(status 200, text/***)")
    with loopback(app) as port, pytest.raises(APIError, match=text):
        PostmarkAPI("a-token", f"http://127.0.0.1:{port}").get("/server")


def test_hidden_texts_are_kept_once() -> None:
    """The dashboard's task hides the same secrets every five minutes."""
    api = PostmarkAPI("a-token", ADDRESS)
    for _ in range(3):
        api.hide("a-secret", "another")
    assert api._hidden == ("a-token", "a-secret", "another")


def test_messages_contain_neither_the_token_nor_a_secret() -> None:
    body = b'{"ErrorCode": 1, "Message": "a-token and a-secret\\n\\u001b[31m"}'

    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("422 Unprocessable Entity", [("Content-Length", str(len(body)))])
        return [body]

    with loopback(app) as port:
        api = PostmarkAPI("a-token", f"http://127.0.0.1:{port}", hidden=["a-secret"])
        with pytest.raises(APIError, match=re.escape("*** and ***  [31m")):
            api.get("/server")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("7", 7), ("99999", 60), ("100000", 60), ("9" * 5000, 60), ("", 0), ("-1", 0)],
)
def test_the_wait_that_the_provider_requests(text: str, seconds: int) -> None:
    """A longer one is shortened; a date is ignored."""
    error = error_of(429, {"retry-after": text}, {}, changes=False)
    assert (error.temporary, error.wait) == (True, seconds)
