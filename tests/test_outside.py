"""`hookrow check URL`: real servers with each mistake, and what is said of them."""

from __future__ import annotations

import errno
import json
import ssl
import subprocess
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from html import escape
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from time import sleep
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from command import Command
from hookrow import Postmark, Receiver
from hookrow.asgi import ASGI
from hookrow.finding import Explained, Finding, Level
from hookrow.outside import look, reach
from hookrow.outside.address import read
from hookrow.outside.reach import check_addresses, check_port
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from nginx import fronting, installed
from wire import ENDPOINT, SECRET, free_port, uvicorn_serving

PATH = f"/mail{ENDPOINT}"

UNSENT = "warning secret: The secret was not sent"


def seen(url: str, secret: str | None = SECRET, patience: float = 8.0) -> list[Finding]:
    """Look from outside; return what was found, but that this machine is no public one."""
    found = list(look(url, secret, patience=patience))
    assert all(
        not isinstance(each, Explained) or each.level is Level.OK or (each.means and each.change)
        for each in found
    ), "each fault has a meaning and a change"
    assert not any(secret and secret in repr(each) for each in found)
    return found


def faults(url: str, secret: str | None = SECRET, patience: float = 8.0) -> list[str]:
    """Look from outside; return how bad each fault is, what it is about, and all its words."""
    return [
        f"{each.level.value} {each.about}: {each.text} {each.means} {each.change}"
        for each in seen(url, secret, patience)
        if isinstance(each, Explained) and each.level is not Level.OK and each.about != "dns"
    ]


@pytest.fixture(scope="module")
def hookrow() -> Iterator[int]:
    """Serve a receiver at /mail, and nothing else; return the port."""
    receiver = Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail")
    with uvicorn_serving(ASGI(receiver)) as port:
        yield port
    receiver.close()


class TestWell:
    def test_all(self, hookrow: int) -> None:
        """Where all is well each thing is said to be, and that this machine is no public one."""
        found = seen(f"http://127.0.0.1:{hookrow}{PATH}")
        assert [(each.level.value, each.about) for each in found] == [
            ("warning", "dns"),
            *(("ok", about) for about in ("connection", "tls", "path", "secret", "secret")),
            *(("ok", about) for about in ("unknown", "body", "body", "speed")),
        ]

    def test_a_slash_at_the_end(self, hookrow: int) -> None:
        """It is the same endpoint, and no fault."""
        assert faults(f"http://127.0.0.1:{hookrow}{PATH}/") == []

    def test_no_secret_is_set(self, hookrow: int) -> None:
        """Then the rest is looked at."""
        [fault] = faults(f"http://127.0.0.1:{hookrow}{PATH}", None)
        assert fault.startswith("warning secret: No secret is set here")

    def test_another_secret(self, hookrow: int) -> None:
        """What the server does not accept is an error, and that it came is known."""
        [fault] = faults(f"http://127.0.0.1:{hookrow}{PATH}", "another-secret-than-that")
        assert fault.startswith("error secret: The secret of this configuration was answered 401")
        assert "It came through, but hookrow has another one." in fault


class TestHarmless:
    @pytest.mark.parametrize("log", [True, False])
    def test_nothing_is_left(self, *, log: bool) -> None:
        """All is well, and yet nothing is parked and no hook is called, with a log or without."""
        store = MemoryStore(log=MemoryLog() if log else None)
        told: list[object] = []
        receiver = Receiver(
            Postmark(SECRET),
            store,
            mount_path="/mail",
            on_recorded=lambda *end: told.append(end),
            on_refused=lambda *end: told.append(end),
        )
        with closing(receiver), uvicorn_serving(ASGI(receiver)) as port:
            assert faults(f"http://127.0.0.1:{port}{PATH}") == []
        assert not told
        if store.log is not None:
            assert store.log.count_parked() == 0
            ends = {(each.record_type, each.status) for each in store.log.entries.values()}
            assert ends == {("SubscriptionChange", 404), ("HookrowCheck", 422)}


class TestCommand:
    @pytest.fixture
    def command(self, tmp_path: Path) -> Command:
        """Return the command, in a folder of its own."""
        return Command(tmp_path)

    def test_what_stands_in_the_log(self, command: Command) -> None:
        """It ends with 0; what it posted is nobody's, and kept once however often it runs."""
        with command.serving() as server:
            url = f"http://127.0.0.1:{server.port}{ENDPOINT}"
            for _ in range(2):
                done = command.run("check", url, HOOKROW_SECRET=SECRET)
                assert (done.returncode, done.stderr) == (0, "")
            listed = command.call("log", "--json").stdout.splitlines()
        assert f"ok       path        hookrow answers at {url}.\n" in done.stdout
        entries = [json.loads(line) for line in listed]
        assert {entry["recipient"] for entry in entries} == {"check@hookrow.invalid"}
        types = sorted((entry["record_type"], entry["attempts"]) for entry in entries)
        assert types == [("HookrowCheck", 2), ("SubscriptionChange", 2)]

    def test_json(self, command: Command, hookrow: int) -> None:
        """What is an error ends with 1, and says what to change by itself."""
        done = command.call("check", "--json", f"http://127.0.0.1:{hookrow}/", "--secret", SECRET)
        (error,) = (
            each for each in map(json.loads, done.stdout.splitlines()) if each["level"] == "error"
        )
        assert done.returncode == 1
        assert set(error) == {"level", "about", "text", "means", "change"}
        assert f"http://127.0.0.1:{hookrow}{PATH}" in error["change"]

    @pytest.mark.parametrize("url", ["example", "ftp://a/b", "http://", "http://a:b@c:d/", "/x"])
    def test_no_address(self, command: Command, url: str) -> None:
        """It is a line, without what may be a password."""
        done = command.call("check", url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: That is no web address")

    @pytest.mark.parametrize("secret", ["", "two words", "größe", "line\nbreak"])
    def test_no_secret(self, command: Command, hookrow: int, secret: str) -> None:
        """What no header can carry is a line, without the secret."""
        url = f"http://127.0.0.1:{hookrow}{PATH}"
        done = command.call("check", url, f"--secret={secret}")
        assert done.returncode == 1
        assert done.stderr.startswith("Error: The webhook secret")
        assert not secret or secret not in done.stdout + done.stderr

    def test_where_the_secret_comes_from(self, command: Command, hookrow: int) -> None:
        """It is said, and a file has the one that the provider has: the newest, its first."""
        (command.folder / "secrets").write_text(f"{SECRET}\nan-older-one\n")
        url = f"http://127.0.0.1:{hookrow}{PATH}"
        done = command.call("check", url, HOOKROW_SECRET_FILE="secrets")
        first, *_ = done.stdout.splitlines()
        where = "secret_file is secrets, from the variable HOOKROW_SECRET_FILE."
        assert (first, done.returncode) == (f"ok       setting     {where}", 0)


class TestReach:
    def test_no_name(self) -> None:
        """A name that there is none of is said, and nothing else looked at."""
        [found] = seen("https://nobody.invalid/mail")
        assert (found.level, found.about) == (Level.ERROR, "dns")

    def test_nobody_listens(self) -> None:
        """So is a port without a server."""
        port = free_port()
        [fault] = faults(f"http://127.0.0.1:{port}/")
        assert f"Port {port} takes no connection at 127.0.0.1: Connection refused" in fault

    def test_plain_http_in_public(self, hookrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Through the internet it is an error, and the secret is not sent."""
        monkeypatch.setattr("hookrow.outside.is_public", lambda _: True)
        plain, unsent = faults(f"http://127.0.0.1:{hookrow}{PATH}")
        assert plain.startswith("error tls: Plain http, through the internet.")
        assert unsent.startswith(UNSENT)

    @pytest.mark.parametrize(
        ("ips", "level", "words"),
        [
            (["93.184.215.14"], Level.OK, "a.test is 93.184.215.14."),
            (["2606:2800:21f::1", "93.184.215.14"], Level.OK, ""),
            (["2606:2800:21f::1"], Level.WARNING, "IPv6 only"),
            (["10.0.0.1", "fe80::1%eth0"], Level.WARNING, "the provider cannot reach it"),
        ],
    )
    def test_addresses(self, ips: list[str], level: Level, words: str) -> None:
        """One that can be reached from everywhere is well, by IPv4 for sure."""
        found = check_addresses("a.test", ips)
        assert found.level is level
        assert words in repr(found)

    @pytest.mark.parametrize(
        ("ips", "level"),
        [(["2001:db8::1", "127.0.0.1"], Level.OK), (["2001:db8::1"], Level.ERROR)],
    )
    def test_no_ipv6_here(
        self, ips: list[str], level: Level, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """That this machine lacks it is no fault of the server's, where it has IPv4, too."""
        lacking = OSError(errno.ENETUNREACH, "Network is unreachable")
        monkeypatch.setattr(reach, "_fault", lambda ip, _: lacking if ":" in ip else None)
        assert check_port(read("http://localhost/"), ips).level is level

    def test_one_of_two_addresses(self, hookrow: int) -> None:
        """Where another listens at only some, the provider may take the wrong one."""
        address = read(f"http://localhost:{hookrow}/")
        found = check_port(address, ["127.0.0.1", "127.0.0.2"])
        assert (found.level, "127.0.0.2: Connection refused" in found.text) == (Level.WARNING, True)


class TestPath:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/mail",
            "/mail/",
            ENDPOINT,
            "/mail/mail/provider/webhooks",
            "/mail/webhooks",
            "/x/y",
        ],
    )
    def test_likely_ones_are_tried(self, path: str, hookrow: int) -> None:
        """The address where hookrow answers is said."""
        url = f"http://127.0.0.1:{hookrow}"
        [fault] = faults(url + path)
        assert fault.startswith(f"error path: POST {url}{path} with a made-up secret was answered")
        assert fault.endswith(f"Give the provider {url}{PATH}: hookrow answers there.")

    def test_hookrow_is_nowhere(self) -> None:
        """A server without it has no address to give."""
        with uvicorn_serving(Starlette()) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        assert '404 "Not Found"' in fault
        assert fault.endswith("Mount hookrow there, or give the provider the address where it is.")


def answering(response: Callable[[Request], Response]) -> Starlette:
    """Return an application that answers so whatever is asked."""

    async def answer(request: Request) -> Response:
        await request.body()
        return response(request)

    app = Starlette()
    app.add_route("/{path:path}", answer, methods=["POST", "GET"])
    return app


def to(url: str, status: int = 307) -> Callable[[Request], Response]:
    """Redirect to an address."""
    return lambda _: RedirectResponse(url, status)


STRANGERS: Mapping[str, tuple[Callable[[Request], Response], str, str]] = {
    "a login page": (to("/accounts/login/?next=/mail", 302), "error login", "without a login"),
    "https": (to(f"https://localhost{PATH}", 301), "error redirect", f"https://localhost{PATH}"),
    "a slash": (to(f"{PATH}/"), "error redirect", "with a slash at its end"),
    "itself": (
        lambda request: RedirectResponse(str(request.url)),
        "error redirect",
        "X-Forwarded-Proto",
    ),
    "elsewhere": (to("/x"), "error redirect", "It leads elsewhere, to http://127.0.0.1:"),
    "nowhere": (to("data:x", 302), "error redirect", "It leads nowhere"),
    "a page": (
        lambda _: HTMLResponse("<html><title>Welcome\x1b[2J</title></html>"),
        "error page",
        '200 "Welcome?[2J"',
    ),
    "anything goes": (lambda _: PlainTextResponse(""), "error path", "from anybody"),
    "no secret check": (
        lambda _: PlainTextResponse("Engine::Subscriber not found", 404),
        "error secret",
        "Anybody can suppress",
    ),
    "a form": (lambda _: HTMLResponse("CSRF failed", 403), "error csrf", "csrf_exempt"),
    "a firewall": (lambda _: PlainTextResponse("no", 403), "error forbidden", "to stop for good"),
    "a host name": (lambda _: PlainTextResponse("no", 400), "error server", "ALLOWED_HOSTS"),
    "another 401": (lambda _: PlainTextResponse("no", 401), "error login", "A login is in the way"),
    "an error": (lambda _: PlainTextResponse("oh", 500), "error server", "no answer of hookrow's"),
}


class TestStrangers:
    @pytest.mark.parametrize("name", STRANGERS)
    def test_each(self, name: str) -> None:
        """What answers instead of hookrow is told by its answer."""
        response, about, words = STRANGERS[name]
        with uvicorn_serving(answering(response)) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        assert fault.startswith(f"{about}: POST http://127.0.0.1:{port}{PATH} with a made-up")
        assert words in fault

    def test_a_password_is_not_shown(self) -> None:
        """Neither the one of the address, nor what a server makes of it; but it is sent."""
        app = answering(
            lambda request: PlainTextResponse("", 500 + ("authorization" in request.headers))
        )
        with uvicorn_serving(app) as port:
            [fault] = faults(f"http://hook:pa55word@127.0.0.1:{port}/")
        assert "was answered 501." in fault
        assert "pa55word" not in fault


@contextmanager
def sending(*pieces: bytes, every: float = 0.0) -> Iterator[int]:
    """Serve bytes that may be no HTTP to whoever comes, and hang up; yield the port."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                for piece in pieces:
                    self.wfile.write(piece)
                    sleep(every)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


OURS = PlainTextResponse("Cannot verify webhook", 401)
UNKNOWN = PlainTextResponse("Engine::Subscriber not found", 404)

LET_IN: Mapping[str, tuple[Response, str, str]] = {
    "no database": (PlainTextResponse("Try again later", 503), "error database", "its database"),
    "another text": (PlainTextResponse("No page", 404), "warning unknown", "replaces it"),
    "another body": (
        PlainTextResponse("Webhook payload not supported", 422),
        "error body",
        "changes or drops the body",
    ),
    "another server": (PlainTextResponse("ok"), "error unknown", "this is not it"),
    "a firewall": (PlainTextResponse("no", 403), "error forbidden", "A firewall"),
}


class TestLetIn:
    @pytest.mark.parametrize("name", LET_IN)
    def test_each(self, name: str) -> None:
        """What comes in place of hookrow's answer to the right secret is told by what it is."""
        response, about, words = LET_IN[name]

        def answer(request: Request) -> Response:
            return response if request.headers.get("x-provider-secret") == SECRET else OURS

        with uvicorn_serving(answering(answer)) as port:
            fault = faults(f"http://127.0.0.1:{port}{PATH}")[0]
        assert fault.startswith(f"{about}: POST http://127.0.0.1:{port}{PATH} with the secret was")
        assert words in fault

    def test_no_database(self) -> None:
        """Hookrow itself says so where its database cannot be reached."""
        store = SQLStore("postgresql://ada@127.0.0.1:1/mail")
        receiver = Receiver(Postmark(SECRET), store, mount_path="/mail")
        with uvicorn_serving(ASGI(receiver)) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        receiver.close()
        assert fault.startswith("error database: ")

    @pytest.mark.parametrize(
        ("response", "about"), [(UNKNOWN, "secret"), (PlainTextResponse("", 403), "forbidden")]
    )
    def test_without_a_secret(self, response: Response, about: str) -> None:
        """To answer those who have none in another way is an error."""
        app = answering(
            lambda request: OURS if "x-provider-secret" in request.headers else response
        )
        with uvicorn_serving(app) as port:
            fault, *_ = faults(f"http://127.0.0.1:{port}{PATH}")
        assert fault.startswith(f"error {about}: POST http://127.0.0.1:{port}{PATH} without a")

    def test_a_large_body_is_lost(self) -> None:
        """What is no limit in size may be a slow line's fault, and is a warning."""

        def answer(request: Request) -> Response:
            if request.headers.get("x-provider-secret") != SECRET:
                return OURS
            large = int(request.headers["content-length"]) > 100_000
            return PlainTextResponse("", 408) if large else UNKNOWN

        with uvicorn_serving(answering(answer)) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        assert fault.startswith("warning body: A body of just under 1 MiB did not come through: 4")


class TestNoHTTP:
    @pytest.mark.parametrize(
        "pieces",
        [(), (b"SSH-2.0-OpenSSH\r\n",), (b"\0" * 70_000,)],
    )
    def test_each(self, pieces: tuple[bytes, ...]) -> None:
        """What is no answer of a web server is said to be none."""
        with sending(*pieces) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        assert fault.startswith("error server: The connection ended without an answer")

    def test_drops(self) -> None:
        """An answer that never ends is none."""
        head = b"HTTP/1.1 401 No\r\nContent-Length: 1000\r\n\r\n"
        with sending(head, *[b"x"] * 100, every=0.02) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}", patience=0.3)
        assert fault.startswith("error server: No answer came within 0.3 s")


class TestEcho:
    @pytest.mark.parametrize("where", ["text", "html", "location"])
    def test_nothing_secret_is_repeated(self, where: str) -> None:
        """A server that sends back what it was sent has nothing of it shown."""
        secret = "<a&secret>of-its-own"

        def echo(request: Request) -> Response:
            known = request.headers.get("x-provider-secret", "")
            if known != secret:
                return OURS
            text = f"{known} {request.headers['authorization']}"
            if where == "location":
                return RedirectResponse(f"/{text}", 307)
            return PlainTextResponse(escape(text) if where == "html" else text, 500)

        with uvicorn_serving(answering(echo)) as port:
            found = faults(f"http://hook:pa55word@127.0.0.1:{port}{PATH}", secret)
        assert "500" in found[0] or "307" in found[0]
        shown = repr(found)
        for hidden in (secret, escape(secret), "pa55word", b64encode(b"hook:pa55word").decode()):
            assert hidden not in shown


class TestSlow:
    def test_no_answer(self) -> None:
        """One that takes longer than anybody waits is an error."""

        def late(_: Request) -> Response:
            sleep(1.0)
            return PlainTextResponse("")

        with uvicorn_serving(answering(late)) as port:
            [fault] = faults(f"http://127.0.0.1:{port}/", patience=0.3)
        assert fault.startswith("error server: No answer came within 0.3 s from http://127.")

    def test_late(self, hookrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that takes longer than hookrow's own deadline is a warning."""
        monkeypatch.setattr("hookrow.outside.SLOW", 0.0)
        [fault] = faults(f"http://127.0.0.1:{hookrow}{PATH}")
        assert fault.startswith("warning speed: The slowest answer took 0.")


ADDED = f'proxy_set_header X-Provider-Secret "{SECRET}";'
ERRORS = "proxy_intercept_errors on; error_page 404 =404 /oops; "

PROXIES = {
    "well": ("", "", []),
    "drops the header": (
        "",
        'proxy_set_header X-Provider-Secret "";',
        ["error secret: A made-up secret was sent; hookrow says that none came."],
    ),
    "drops it and the challenge": (
        "",
        'proxy_set_header X-Provider-Secret ""; proxy_hide_header WWW-Authenticate;',
        ["error secret: The secret of this configuration was answered 401, too. The server has"],
    ),
    "adds the header": ("", ADDED, ["error secret: POST http://127.0.0.1:"]),
    "sets another": (
        "",
        'proxy_set_header X-Provider-Secret "another";',
        ["error secret: No secret was sent; hookrow says that a wrong one came."],
    ),
    "takes 100 KiB": (
        "client_max_body_size 100k;",
        "",
        ["warning body: A body of just under 1 MiB is answered 413, one of 64 KiB is not."],
    ),
    "takes 10 KiB": ("client_max_body_size 10k;", "", ["error body: A body of just under 1 MiB"]),
    "takes more": ("client_max_body_size 9m;", "", []),
    "replaces errors": (
        'location = /oops { internal; return 404 "oops"; }',
        ERRORS,
        ["warning unknown: "],
    ),
    "wants a login": ("auth_basic x; auth_basic_user_file /dev/null;", "", ["error login: "]),
    "is closed": ("deny all;", "", ["error forbidden: "]),
    "wants a slash": (
        f"location = {PATH} {{ return 404; }}",
        "",
        ["error path: POST http://127.0.0.1:"],
    ),
    "redirects": ("return 301 https://$host$request_uri;", "", ["error redirect: "]),
    "lost its application": ("", "proxy_pass http://127.0.0.1:1;", ["error server: "]),
}


class TestProxy:
    @pytest.mark.parametrize("name", PROXIES)
    def test_each(self, name: str, hookrow: int, tmp_path: Path) -> None:
        """What nginx does to the requests is told, and nothing is told of one that does well."""
        server, location, expected = PROXIES[name]
        with fronting(tmp_path, hookrow, server, location) as port:
            found = faults(f"http://127.0.0.1:{port}{PATH}")
        assert len(found) == len(expected), found
        assert all(fault.startswith(begin) for fault, begin in zip(found, expected, strict=True))

    def test_a_login_that_the_address_has(self, hookrow: int, tmp_path: Path) -> None:
        """It is sent as the provider would, and shown nowhere."""
        users = tmp_path / "users"
        users.write_text("hook:{PLAIN}pa55word")
        login = f"auth_basic x; auth_basic_user_file {users};"
        with fronting(tmp_path, hookrow, login) as port:
            found = seen(f"http://hook:pa55word@127.0.0.1:{port}{PATH}")
            [fault] = faults(f"http://hook:pa66word@127.0.0.1:{port}{PATH}")
        assert {each.level for each in found[1:]} == {Level.OK}
        assert "pa55word" not in repr(found)
        assert fault.startswith("error login: ")
        assert "pa66word" not in fault


@contextmanager
def tls_serving(app: WSGIApplication, context: ssl.SSLContext) -> Iterator[int]:
    """Serve an application over TLS, in a thread; yield the port."""
    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for certificates; skip the test where nothing makes them."""
    installed("openssl", "openssl")
    return tmp_path_factory.mktemp("certificates")


def certificate(folder: Path, name: str, days: int) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for a name and some days; return it, and a server's context with it."""
    request, key, made = (folder / f"{name}{days}.{end}" for end in ("csr", "key", "pem"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    _openssl("req", "-new", *curve, "-keyout", key, "-out", request, *names)
    signed = ("-signkey", key, "-days", days, "-copy_extensions", "copy")
    _openssl("x509", "-req", "-in", request, *signed, "-out", made)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made, key)
    return made, context


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class TestTLS:
    @pytest.mark.parametrize(
        ("name", "days", "trusted", "expected"),
        [
            ("localhost", 90, True, []),
            ("localhost", 5, True, ["warning tls: TLSv1.3; the certificate is trusted and ends"]),
            ("localhost", -1, True, ["error tls: The certificate has expired.", UNSENT]),
            ("other.test", 90, True, ["error tls: The certificate is not for the name", UNSENT]),
            ("localhost", 90, False, ["error tls: The certificate is self-signed.", UNSENT]),
        ],
    )
    def test_certificate(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        name: str,
        days: int,
        trusted: bool,
        expected: list[str],
    ) -> None:
        """Its name, its time and its authority are looked at; without trust no secret is sent."""
        made, context = certificate(folder, name, days)
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(made))
        receiver = Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail")
        sent: list[str | None] = []

        def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            sent.append(environ.get("HTTP_X_PROVIDER_SECRET"))
            return WSGI(receiver)(environ, start)

        with tls_serving(app, context) as port:
            found = faults(f"https://localhost:{port}{PATH}")
        receiver.close()
        assert len(found) == len(expected), found
        assert all(map(str.startswith, found, expected))
        assert (UNSENT in expected) == (SECRET not in sent)

    def test_old_version(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that speaks nothing of today is told by that."""
        made, context = certificate(folder, "localhost", 90)
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a version that is old
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with tls_serving(WSGI(Receiver(Postmark(SECRET), MemoryStore())), context) as port:
            [fault] = faults(f"https://localhost:{port}/")
        assert fault.startswith("error tls: The server speaks no version of TLS that is in use.")

    def test_no_tls(self, hookrow: int) -> None:
        """A plain server is told from one that speaks TLS."""
        [fault] = faults(f"https://127.0.0.1:{hookrow}{PATH}")
        assert fault.startswith(f"error tls: Port {hookrow} does not speak TLS.")

    def test_a_redirect_to_it(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where hookrow answers there, that is known and said."""
        made, context = certificate(folder, "localhost", 90)
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        receiver = Receiver(Postmark(SECRET), MemoryStore())
        with tls_serving(WSGI(receiver), context) as secured:
            url = f"https://localhost:{secured}{ENDPOINT}"
            with uvicorn_serving(answering(to(url, 301))) as port:
                [fault] = faults(f"http://127.0.0.1:{port}{ENDPOINT}")
        assert "It leads from http to https." in fault
        assert fault.endswith(f"Give the provider {url}: hookrow answers there.")

    def test_plain_http_to_a_port_for_it(self, hookrow: int, folder: Path, tmp_path: Path) -> None:
        """And the other way round."""
        made, _ = certificate(folder, "localhost", 90)
        secured = f"ssl_certificate {made}; ssl_certificate_key {made.with_suffix('.key')};"
        with fronting(tmp_path, hookrow, secured) as port:
            [fault] = faults(f"http://127.0.0.1:{port}{PATH}")
        assert fault.startswith("error tls: ")
        assert fault.endswith("Write https:// in the address.")
