"""`hookrow check URL`: servers with one fault each, and what is reported about them."""

from __future__ import annotations

import errno
import json
import socket
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from html import escape
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from probes import HEADER, HOOKROW, PATH, UNKNOWN, UNVERIFIED, faults, findings, served, to
from werkzeug import Response

from command import Command
from hookrow import Postmark, Receiver
from hookrow.finding import Level
from hookrow.outside import reach
from hookrow.outside.address import read
from hookrow.outside.reach import check_addresses, check_port
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ENDPOINT, SECRET, free_port


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve hookrow at /mail, and nothing else; return the server's URL."""
    with loopback(HOOKROW) as port:
        yield f"http://127.0.0.1:{port}"


def test_harmless() -> None:
    """Nothing is parked and no hook is called; the log has two entries after two checks."""
    hook, log = Mock(), MemoryLog()
    receiver = Receiver(
        *(Postmark(SECRET), MemoryStore(log=log)),
        mount_path="/mail",
        on_recorded=hook,
        on_refused=hook,
    )
    with closing(receiver):
        assert [served(WSGI(receiver)) for _ in range(2)] == [[], []]
    hook.assert_not_called()
    assert log.count_parked() == 0
    assert {
        (each.record_type, each.status, each.attempts, each.recipient)
        for each in log.entries.values()
    } == {
        ("SubscriptionChange", 404, 2, "check@hookrow.invalid"),
        ("HookrowCheck", 422, 2, "check@hookrow.invalid"),
    }


def test_command(command: Command, url: str) -> None:
    """The secret's source is printed; as JSON a remedy has its own field; errors end with 1."""
    (command.folder / "secrets").write_text(f"{SECRET}\nan-older-one\n")
    done = command.call("check", url + PATH, HOOKROW_SECRET_FILE="secrets")
    first, *_ = done.stdout.splitlines()
    source = "secret_file is secrets, from the variable HOOKROW_SECRET_FILE."
    assert (done.returncode, first) == (0, f"ok       setting     {source}")
    done = command.call("check", "--json", f"{url}/", "--secret", SECRET)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    [error] = [each for each in objects if each["level"] == "error"]
    assert done.returncode == 1
    assert set(error) == {"level", "about", "text", "means", "change"}
    assert url + PATH in error["change"]


class TestConnection:
    def test_unknown_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A host name without an address is an error, and nothing else is checked."""
        unknown = Mock(side_effect=socket.gaierror(-2, "Name or service not known"))
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        [found] = findings("https://nobody.invalid/mail")
        assert (found.level, found.about) == (Level.ERROR, "dns")

    @pytest.mark.parametrize(
        ("ips", "level", "words"),
        [
            (["2606:2800:21f::1", "93.184.215.14"], Level.OK, "a.test is 2606:2800:21f::1, 93."),
            (["2606:2800:21f::1"], Level.WARNING, "IPv6 only"),
            (["10.0.0.1", "fe80::1%eth0"], Level.WARNING, "the provider cannot reach it"),
        ],
    )
    def test_addresses(self, ips: list[str], level: Level, words: str) -> None:
        """The host needs a public address, and that by IPv4."""
        found = check_addresses("a.test", ips)
        assert found.level is level
        assert words in repr(found)

    def test_closed_port(self, url: str) -> None:
        """A port without a server is an error; if only one of the addresses has none, a warning."""
        [fault] = faults(f"http://127.0.0.1:{free_port()}/")
        assert "takes no connection at 127.0.0.1: Connection refused" in fault
        found = check_port(read(url), ["127.0.0.1", "127.0.0.2"])
        assert (found.level, "127.0.0.2: Connection refused" in found.text) == (Level.WARNING, True)

    def test_no_ipv6(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If this machine has no IPv6, the server's IPv4 address is enough."""
        lacking = OSError(errno.ENETUNREACH, "Network is unreachable")
        monkeypatch.setattr(reach, "_fault", lambda ip, _: lacking if ":" in ip else None)
        address = read("http://localhost/")
        assert check_port(address, ["2001:db8::1", "127.0.0.1"]).level is Level.OK
        assert check_port(address, ["2001:db8::1"]).level is Level.ERROR


@pytest.mark.parametrize("path", ["/", "/mail/", ENDPOINT, f"/mail{PATH}"])
def test_likely_paths(path: str, url: str) -> None:
    """If hookrow answers at a likely path instead, the remedy is that URL."""
    [fault] = faults(url + path)
    assert fault.startswith(f"error path: POST {url}{path} with a made-up secret was answered")
    assert fault.endswith(f"Give the provider {url}{PATH}: hookrow answers there.")


def either(
    test: Callable[[WSGIEnvironment], bool], yes: WSGIApplication, no: WSGIApplication
) -> WSGIApplication:
    """Return an application that passes requests on to one of two."""
    return lambda environ, start: (yes if test(environ) else no)(environ, start)


def to_known(response: Response) -> WSGIApplication:
    """Respond so to the right secret, and as hookrow to any other."""
    return either(lambda environ: environ.get(HEADER) == SECRET, response, UNVERIFIED)


def to_none(response: Response) -> WSGIApplication:
    """Respond so to requests without a secret, and as hookrow to a wrong one."""
    return either(lambda environ: HEADER in environ, UNVERIFIED, response)


def beyond(limit: int, status: int) -> WSGIApplication:
    """Respond with the status to bodies larger than the limit, and pass others on to hookrow."""
    large = Response("", status)
    return either(lambda environ: int(environ["CONTENT_LENGTH"]) > limit, large, HOOKROW)


def proxy(secret: str | None, *, challenge: bool = True) -> WSGIApplication:
    """Set the header of the secret, or drop it; drop hookrow's challenge from the response."""

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        def forward(status: str, headers: list[tuple[str, str]]) -> object:
            return start(status, headers if challenge else headers[:0])

        changed = {**environ, HEADER: secret}
        if secret is None:
            del changed[HEADER]
        return HOOKROW(changed, forward)  # type: ignore[arg-type] # nobody passes an exception

    return app


MADE_UP = "POST http://127.0.0.1:80/mail/provider/webhooks with a made-up secret was answered "
RIGHT = "POST http://127.0.0.1:80/mail/provider/webhooks with the secret was answered "
NONE = "POST http://127.0.0.1:80/mail/provider/webhooks without a secret was "
LARGE = "A body of just under 1 MiB "
PAGE = "<html><title>Welcome\x1b[2J</title></html>"
UNSUPPORTED = "Webhook payload not supported"
ASLEEP = SQLStore("postgresql://ada@127.0.0.1:1/x")

FAULTS: Mapping[str, tuple[WSGIApplication, str, str]] = {
    "nothing there": (Response("Not Found", 404), f"error path: {MADE_UP}404", "Mount hookrow th"),
    "slash": (to(f"{PATH}/"), f"error redirect: {MADE_UP}", "with a slash at its end"),
    "https": (to(f"https://localhost{PATH}", 301), f"error redirect: {MADE_UP}", "http to https"),
    "itself": (to(PATH), f"error redirect: {MADE_UP}", "X-Forwarded-Proto"),
    "elsewhere": (to("/x"), f"error redirect: {MADE_UP}", "It leads elsewhere, to http://127.0."),
    "nowhere": (to("data:x", 302), f"error redirect: {MADE_UP}", "It leads nowhere"),
    "login page": (to("/accounts/login/?next=/", 302), f"error login: {MADE_UP}", "without a log"),
    "login": (Response("no", 401), f"error login: {MADE_UP}", "A login is in the way"),
    "page": (Response(PAGE), f"error page: {MADE_UP}", '200 "Welcome?[2J"'),
    "anything goes": (Response(""), f"error path: {MADE_UP}", "from anybody"),
    "CSRF protection": (Response("CSRF failed", 403), f"error csrf: {MADE_UP}", "csrf_exempt"),
    "firewall": (Response("no", 403), f"error forbidden: {MADE_UP}", "to stop for good"),
    "TLS port": (Response("to HTTPS port", 400), f"error tls: {MADE_UP}", "Write https://"),
    "failure": (Response("oh", 500), f"error server: {MADE_UP}", "no answer of hookrow's"),
    "no check": (UNKNOWN, "error secret: POST http://127.0.0.1:80/", "Anybody can suppress"),
    "no check for none": (to_none(UNKNOWN), f"error secret: {NONE}", "let in"),
    "header set": (proxy("x"), "error secret: No secret was sent; hookrow says", "wrong one came"),
    "header dropped": (proxy(None), "error secret: A made-up secret was sent; hookrow", "nginx: "),
    "header and challenge dropped": (
        proxy(None, challenge=False),
        "error secret: The secret of this configuration was answered 401, too.",
        "The server has another secret, or something in front drops the header",
    ),
    "no database": (
        WSGI(Receiver(Postmark(SECRET), ASLEEP, mount_path="/mail")),
        f"error database: {RIGHT}503",
        "its database",
    ),
    "other text": (to_known(Response("No", 404)), f"warning unknown: {RIGHT}404", "replaces it"),
    "other body": (to_known(Response(UNSUPPORTED, 422)), f"error body: {RIGHT}422", "drops the"),
    "other server": (to_known(Response("ok")), f"error unknown: {RIGHT}200", "this is not it"),
    "firewall for all": (to_known(Response("no", 403)), f"error forbidden: {RIGHT}", "A firewall"),
    "limit of 100 KB": (beyond(100_000, 413), f"warning body: {LARGE}is answered 413, one", "64"),
    "limit of 10 KB": (beyond(10_000, 413), f"error body: {LARGE}is answered 413, and so", "64"),
    "time limit": (beyond(100_000, 408), f"warning body: {LARGE}did not come through", "408"),
    "no limit": (beyond(2**20, 200), "warning body: A body over 1 MiB was answered 200", "413"),
}
"""By a name: what is served, and how the first fault begins and what it contains."""


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    """Each fault of a server is recognised by its responses, and explained."""
    app, beginning, words = FAULTS[name]
    fault, *_ = served(app)
    assert fault.startswith(beginning)
    assert words in fault


class TestSecret:
    def test_none_or_other(self, url: str) -> None:
        """Without a secret everything else is checked; one that is not accepted is an error."""
        [fault] = faults(url + PATH, None)
        assert fault.startswith("warning secret: No secret is set here")
        [fault] = faults(url + PATH, "another-secret-than-that")
        assert fault.startswith("error secret: The secret of this configuration was answered 401")
        assert "It came through, but hookrow has another one." in fault

    def test_stranger(self) -> None:
        """A server that does not respond as hookrow does is not sent the secret."""
        sent: list[str | None] = []

        def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            sent.append(environ.get(HEADER))
            return UNKNOWN(environ, start)

        served(app)
        assert sent
        assert SECRET not in sent

    def test_plain_http_in_public(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plain HTTP through the internet is an error, and the secret is not sent."""
        monkeypatch.setattr("hookrow.outside.is_public", lambda _: True)
        plain, unsent = faults(url + PATH)
        assert plain.startswith("error tls: Plain http, through the internet.")
        assert unsent.startswith("warning secret: The secret was not sent")

    @pytest.mark.parametrize("where", ["text", "html", "location"])
    def test_echo(self, where: str) -> None:
        """The login of the URL is sent; a response that repeats it is shown without it."""
        secret = "<a&secret>of-its-own"

        def echo(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            text = f"{secret} {environ['HTTP_AUTHORIZATION']}"
            repeated = Response(escape(text) if where == "html" else text, 500)
            known = to(f"/{text}") if where == "location" else repeated
            return (known if environ.get(HEADER) == secret else UNVERIFIED)(environ, start)

        with loopback(echo) as port:
            [fault, *_] = faults(f"http://hook:pa55word@127.0.0.1:{port}{PATH}", secret)
        assert ("307" if where == "location" else "500") in fault
        for hidden in (secret, escape(secret), "pa55word", b64encode(b"hook:pa55word").decode()):
            assert hidden not in fault


@contextmanager
def sending(piece: bytes, until: Event | None = None) -> Iterator[str]:
    """Send bytes to every client, and hang up once the event is set; yield the URL."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.wfile.write(piece)
                while until and not until.wait(0.01):
                    self.wfile.write(b"x")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{PATH}"
        finally:
            server.shutdown()
            thread.join()


class TestNoAnswer:
    def test_no_http(self) -> None:
        """A server that does not speak HTTP is an error."""
        with sending(b"SSH-2.0-OpenSSH\r\n") as url:
            [fault] = faults(url)
        assert fault.startswith("error server: The connection ended without an answer")

    @pytest.mark.parametrize("piece", [b"", b"HTTP/1.1 401 No\r\nContent-Length: 100000\r\n\r\n"])
    def test_endless(self, piece: bytes) -> None:
        """A response that does not end in time counts as none."""
        done = Event()
        with sending(piece, done) as url:
            [fault] = faults(url, patience=0.05)
            done.set()
        assert fault.startswith("error server: No answer came within 0.05 s from http://127.")

    def test_slow(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A response that takes longer than hookrow's own deadline is a warning."""
        monkeypatch.setattr("hookrow.outside.SLOW", 0.0)
        [fault] = faults(url + PATH)
        assert fault.startswith("warning speed: The slowest answer took ")
