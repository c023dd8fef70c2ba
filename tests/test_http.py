"""The little of HTTP that every host shares: where a request is for, and what goes back."""

from __future__ import annotations

import pytest

from hookrow.http import (
    LARGEST_BODY,
    SLOWEST_BODY,
    Head,
    Response,
    declared_length,
    oversized,
    refuse,
    respond,
)
from hookrow.notification import Recorded, Refusal, Refused

ENDPOINT = "/provider/webhooks"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}


class TestIsAt:
    @pytest.mark.parametrize(
        ("path", "root"),
        [
            pytest.param("/provider/webhooks", "", id="no mount"),
            pytest.param("/provider/webhooks/", "", id="slash at the end, and Litestar"),
            pytest.param("/provider/webhooks", "/", id="mount at the root"),
            pytest.param("/mail/provider/webhooks", "/mail", id="Starlette, FastAPI"),
            pytest.param("/mail/provider/webhooks/", "/mail", id="mounted, slash at the end"),
            pytest.param("/mail/provider/webhooks", "/mail/", id="mount with a slash"),
            pytest.param("/a/b/provider/webhooks", "/a/b", id="mount in a mount"),
            pytest.param("/mail/provider/webhooks", "/api/mail", id="FastAPI behind a proxy"),
            pytest.param("/provider/webhooks", "/api", id="a proxy took the root off"),
            pytest.param("/provider/webhooks", "/pro", id="the root is no segment of the path"),
            pytest.param("/größe/provider/webhooks", "/größe", id="not ASCII"),
            pytest.param("/provider/webhooks/provider/webhooks", ENDPOINT, id="its own name"),
        ],
    )
    def test_there(self, path: str, root: str) -> None:
        """The endpoint is found whatever the mount took, with or without a slash at its end."""
        assert Head("POST", path, (), root).is_at(ENDPOINT)

    @pytest.mark.parametrize(
        ("path", "root"),
        [
            pytest.param("", "", id="nothing"),
            pytest.param("/", "", id="the root"),
            pytest.param("/", "/", id="the root of a mount there"),
            pytest.param("/mail", "/mail", id="the mount itself"),
            pytest.param("/mail/provider/webhooks", "", id="deeper than the mount"),
            pytest.param("/mail/x/provider/webhooks", "/mail", id="deeper in the mount"),
            pytest.param("/provider/webhooks/x", "", id="further"),
            pytest.param("/provider/webhooks//", "", id="two slashes at the end"),
            pytest.param("//provider/webhooks", "", id="two slashes at the start"),
            pytest.param("/provider//webhooks", "", id="two slashes within"),
            pytest.param("/provider", "", id="half of it"),
            pytest.param("/Provider/Webhooks", "", id="another case"),
            pytest.param("provider/webhooks", "", id="no slash at the start"),
            pytest.param("/xprovider/webhooks", "/api", id="the tail of a longer segment"),
            pytest.param("/provider/webhooks", ENDPOINT, id="taken by the mount"),
        ],
    )
    def test_elsewhere(self, path: str, root: str) -> None:
        """Any other path is not the endpoint."""
        assert not Head("POST", path, (), root).is_at(ENDPOINT)


class TestHeader:
    @pytest.mark.parametrize(
        "came", [b"x-provider-secret", b"X-Provider-Secret", b"X-PROVIDER-SECRET"]
    )
    @pytest.mark.parametrize("asked", ["x-provider-secret", "X-Provider-Secret"])
    def test_case_of_the_name(self, came: bytes, asked: str) -> None:
        """A header's name is compared without regard to case, however a host spells it."""
        assert Head("POST", "/", [(came, b"Abc")]).header(asked) == b"Abc"

    def test_absent(self) -> None:
        """A header that did not come is None, which is not the same as an empty one."""
        assert Head("POST", "/", [(b"host", b"x")]).header("X-Provider-Secret") is None
        assert Head("POST", "/", [(b"x-provider-secret", b"")]).header("X-Provider-Secret") == b""

    def test_twice(self) -> None:
        """A header that comes twice is one with a comma between, in order."""
        headers = [(b"a", b"1"), (b"b", b"2"), (b"A", b"3")]
        assert Head("POST", "/", headers).header("a") == b"1, 3"

    @pytest.mark.parametrize("came", [b"Abc", b" Abc", b"Abc ", b"\t Abc \t"])
    def test_white_space_around(self, came: bytes) -> None:
        """White space around a value is none of it, also where a host leaves it there."""
        assert Head("POST", "/", [(b"a", came)]).header("a") == b"Abc"
        assert Head("POST", "/", [(b"a", came), (b"a", came)]).header("a") == b"Abc, Abc"

    @pytest.mark.parametrize("came", [b"A b\tc", b"\xff\x00", "Größe".encode(), b"\nAbc\x0b"])
    def test_bytes_as_they_came(self, came: bytes) -> None:
        """A value is not decoded, and nothing else of it is taken off: its bytes are what came."""
        assert Head("POST", "/", [(b"a", came)]).header("a") == came


class TestDeclaredLength:
    @pytest.mark.parametrize(
        ("came", "length"),
        [
            *((b"0", 0), (b" 12 ", 12), (b"0012", 12), (b"0" * 5000 + b"7", 7)),
            *((b"", None), (b"x", None), (b"-1", None), (b"+1", None), (b"1, 1", None)),
            *((b"1_0", None), (b"1 0", None), (b"0x1", None), (b"\xd9\xa1", None)),
        ],
    )
    def test_length(self, came: bytes, length: int | None) -> None:
        """A length is ASCII digits, however many; anything else is none."""
        assert declared_length(Head("POST", "/", [(b"content-length", came)])) == length

    def test_none(self) -> None:
        """A head need not declare one."""
        assert declared_length(Head("POST", "/", ())) is None

    @pytest.mark.parametrize(
        ("length", "over"),
        [
            (str(LARGEST_BODY), False),
            (str(LARGEST_BODY + 1), True),
            ("1" + "0" * 20, True),
            ("9" * 5000, True),
        ],
        ids=["1 MiB", "a byte more", "21 digits", "5,000 digits"],
    )
    def test_oversized(self, length: str, *, over: bool) -> None:
        """A body that is declared longer than it may be is refused."""
        head = Head("POST", "/", [(b"content-length", length.encode())])
        assert oversized(head) == over


class TestRespond:
    def test_recorded(self) -> None:
        """A notification that was processed is answered 200 with an empty body."""
        assert respond(Recorded(())) == Response(200, b"", PLAIN)

    @pytest.mark.parametrize(
        ("refusal", "response"),
        [
            (Refusal.NO_SUCH_PATH, Response(404, b"Not Found", PLAIN)),
            (
                Refusal.METHOD_NOT_ALLOWED,
                Response(405, b"Method Not Allowed", PLAIN | {"Allow": "POST"}),
            ),
            (Refusal.UNAUTHENTIC, Response(401, b"Cannot verify webhook", PLAIN)),
            (Refusal.TIMED_OUT, Response(408, b"Request Timeout", PLAIN)),
            (Refusal.TOO_LARGE, Response(413, b"Webhook payload too large", PLAIN)),
            (Refusal.UNSUPPORTED, Response(422, b"Webhook payload not supported", PLAIN)),
            (Refusal.SUBSCRIBER_NOT_FOUND, Response(404, b"Engine::Subscriber not found", PLAIN)),
            (Refusal.DISPATCH_NOT_FOUND, Response(404, b"Engine::Dispatch not found", PLAIN)),
            (
                Refusal.UNAVAILABLE,
                Response(503, b"Try again later", PLAIN | {"Retry-After": "30"}),
            ),
        ],
        ids=lambda value: value.name if isinstance(value, Refusal) else "",
    )
    def test_refused(self, refusal: Refusal, response: Response) -> None:
        """A refusal is answered with its status and text, to the byte, and its headers."""
        assert refuse(refusal) == response
        assert respond(Refused(refusal, refusal.text)) == response

    def test_text_that_names_somebody(self) -> None:
        """A recipient that does not match is answered with the text that names both, in UTF-8."""
        text = "Dispatch subscriber zoë@example.net does not match payload recipient {x}@b"
        response = respond(Refused(Refusal.RECIPIENT_MISMATCH, text))
        assert response == Response(400, text.encode("utf-8"), PLAIN)


class TestValues:
    def test_limits(self) -> None:
        """A body may have 1 MiB and take 15 seconds to come."""
        assert (LARGEST_BODY, SLOWEST_BODY) == (1_048_576, 15.0)
