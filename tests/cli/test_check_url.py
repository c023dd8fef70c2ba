"""`hookrow check URL`: servers with one fault each, and what is reported about them."""

import errno
import json
import socket
import ssl
import subprocess
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from html import escape
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from werkzeug import Response

from command import Command
from hookrow import Postmark, Receiver
from hookrow.diagnostics.result import Explained, Level
from hookrow.outside import look, reach
from hookrow.outside.address import read
from hookrow.outside.reach import check_addresses, check_port
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.wsgi import WSGI
from loopback import loopback
from nginx import installed
from wire import ENDPOINT, SECRET, free_port

PATH = f"/mail{ENDPOINT}"
HEADER = "HTTP_X_PROVIDER_SECRET"
HOOKROW = WSGI(Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail"))
UNVERIFIED = Response("Cannot verify webhook", 401)
UNKNOWN = Response("Engine::Subscriber not found", 404)


def faults(url: str, secret: str | None = SECRET, patience: float = 20.0) -> list[str]:
    """Check a URL; return all faults except that this machine is not public.

    Each has a meaning and a remedy, and nothing that is found contains the secret.
    """
    found = list(look(url, secret, patience=patience))
    assert not secret or secret not in repr(found)
    bad = [each for each in found if isinstance(each, Explained) and each.level is not Level.OK]
    assert all(each.means and each.change for each in bad)
    return [
        f"{each.level.value} {each.about}: {each.text} {each.means} {each.change}"
        for each in bad
        if each.text != "127.0.0.1 is 127.0.0.1." and not each.text.startswith("localhost is ")
    ]


class Noting:
    def __init__(self, app: WSGIApplication) -> None:
        self.secrets: set[str] = set()
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        self.secrets.add(environ.get(HEADER, ""))
        return self._app(environ, start)


def served(app: WSGIApplication) -> list[str]:
    with loopback(app) as port:
        found = faults(f"http://127.0.0.1:{port}{PATH}")
    return [fault.replace(f":{port}", ":80") for fault in found]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with loopback(HOOKROW) as port:
        yield f"http://127.0.0.1:{port}"


def test_harmless() -> None:
    """Nothing is parked and no hook is called; the log has two entries after two checks."""
    hook, log = Mock(), MemoryLog()
    store = MemoryStore(log=log)
    hooks = {"on_recorded": hook, "on_refused": hook}
    with closing(Receiver(Postmark(SECRET), store, mount_path="/mail", **hooks)) as receiver:
        assert [served(WSGI(receiver)) for _ in range(2)] == [[], []]
    hook.assert_not_called()
    assert log.count_parked() == 0
    entries = log.entries.values()
    assert {(each.record_type, each.status, each.attempts, each.recipient) for each in entries} == {
        ("SubscriptionChange", 404, 2, "check@hookrow.invalid"),
        ("HookrowCheck", 422, 2, "check@hookrow.invalid"),
    }


def test_command(command: Command, url: str) -> None:
    """The source of the secret is printed; as JSON a remedy has its own field; errors end with 1.

    Of several secrets the newest is used.
    """
    (command.folder / "secrets").write_text(f"{SECRET}\nan-older-one\n")
    done = command.call("check", url + PATH, HOOKROW_SECRET_FILE="secrets")
    source = "secret_file is secrets, from the variable HOOKROW_SECRET_FILE."
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"ok       setting     {source}")
    done = command.call("check", "--json", f"{url}/", "--secret", SECRET)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    [error] = [each for each in objects if each["level"] == "error"]
    assert done.returncode == 1
    assert set(error) == {"level", "about", "text", "means", "change"}
    assert url + PATH in error["change"]


class TestConnection:
    def test_unknown_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        unknown = Mock(side_effect=socket.gaierror(-2, "Name or service not known"))
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        [fault] = faults("https://nobody.invalid/mail")
        assert fault.startswith("error dns: The name nobody.invalid has no address")

    @pytest.mark.parametrize(
        ("ips", "level", "words"),
        [
            (["2606:2800:21f::1", "93.184.215.14"], Level.OK, "a.test is 2606:2800:21f::1, 93."),
            (["2606:2800:21f::1"], Level.WARNING, "IPv6 only"),
            (["10.0.0.1", "fe80::1%eth0"], Level.WARNING, "the provider cannot reach it"),
        ],
    )
    def test_addresses(self, ips: list[str], level: Level, words: str) -> None:
        found = check_addresses("a.test", ips)
        assert found.level is level
        assert words in repr(found)

    def test_closed_port(self, url: str) -> None:
        """A port without a server is an error; if only one of the addresses has none, a warning."""
        [fault] = faults(f"http://127.0.0.1:{free_port()}/")
        assert "takes no connection at 127.0.0.1: Connection refused" in fault
        found = check_port(read(url), ["127.0.0.1", "127.0.0.2"])
        assert (found.level, "127.0.0.2: Connection refused" in found.text) == (Level.WARNING, True)

    def test_machine_without_ipv6(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lacking = OSError(errno.ENETUNREACH, "Network is unreachable")
        monkeypatch.setattr(reach, "_fault", lambda ip, _: lacking if ":" in ip else None)
        address = read("http://localhost/")
        assert check_port(address, ["2001:db8::1", "127.0.0.1"]).level is Level.OK
        assert check_port(address, ["2001:db8::1"]).level is Level.ERROR


def secured(folder: Path, name: str, days: int) -> ssl.SSLContext:
    """Return the context of a server with a certificate, "cert", for a name and some days."""
    openssl, file, request = installed("openssl", "openssl"), folder / "cert", folder / "request"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    signed = ("-days", str(days), "-copy_extensions", "copy", "-signkey", f"{file}.key")
    for command in (
        ("req", "-new", *curve, "-keyout", f"{file}.key", "-out", request, *names),
        ("x509", "-req", "-in", request, *signed, "-out", file),
    ):
        subprocess.run([openssl, *command], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, f"{file}.key")
    return context


@pytest.fixture
def _trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))


class TestTLS:
    @pytest.mark.parametrize(
        ("name", "days", "begin"),
        [
            ("localhost", 5, "warning tls: TLSv1.3; the certificate is trusted and ends"),
            ("localhost", -1, "error tls: The certificate has expired."),
            ("a.test", 90, "error tls: The certificate is not for the"),
        ],
    )
    @pytest.mark.usefixtures("_trusted")
    def test_certificate(self, tmp_path: Path, name: str, days: int, begin: str) -> None:
        """Its name and its end are checked; the secret is sent only if both are right."""
        app = Noting(HOOKROW)
        with loopback(app, secured(tmp_path, name, days)) as port:
            fault, *unsent = faults(f"https://localhost:{port}{PATH}")
        assert fault.startswith(begin)
        assert (SECRET in app.secrets) == (not unsent) == (days == 5)

    def test_self_signed(self, tmp_path: Path) -> None:
        app = Noting(HOOKROW)
        with loopback(app, secured(tmp_path, "localhost", 90)) as port:
            fault, unsent = faults(f"https://localhost:{port}{PATH}")
        assert fault.startswith("error tls: The certificate is self-signed")
        assert unsent.startswith("warning secret: The secret was not sent")
        assert SECRET not in app.secrets

    def test_no_tls(self) -> None:
        with loopback(HOOKROW) as port:
            [fault] = faults(f"https://127.0.0.1:{port}{PATH}")
        assert fault.startswith(f"error tls: Port {port} does not speak TLS.")

    def test_old_versions(self, tmp_path: Path) -> None:
        context = secured(tmp_path, "localhost", 90)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with loopback(HOOKROW, context) as port:
            [fault] = faults(f"https://localhost:{port}/")
        assert fault.startswith("error tls: The server speaks no version of TLS that is in use.")

    @pytest.mark.usefixtures("_trusted")
    def test_redirect(self, tmp_path: Path) -> None:
        """If http redirects to hookrow at https, which has no fault, the remedy is that URL."""
        with loopback(HOOKROW, secured(tmp_path, "localhost", 90)) as port:
            url = f"https://localhost:{port}{PATH}"
            assert faults(url) == []
            [fault] = served(to(url, 301))
        assert fault.endswith(f"Give the provider {url}: hookrow answers there.")


@pytest.mark.parametrize("path", ["/", "/mail/", ENDPOINT, f"/mail{PATH}"])
def test_hookrow_at_a_likely_path(path: str, url: str) -> None:
    [fault] = faults(url + path)
    assert fault.startswith(f"error path: POST {url}{path} with a made-up secret was answered")
    assert fault.endswith(f"Give the provider {url}{PATH}: hookrow answers there.")


def to(location: str, status: int = 307) -> Response:
    return Response("", status, {"Location": location})


def when(
    test: Callable[[WSGIEnvironment], bool], then: WSGIApplication, otherwise: WSGIApplication
) -> WSGIApplication:
    return lambda environ, start: (then if test(environ) else otherwise)(environ, start)


def to_known(status: int, text: str) -> WSGIApplication:
    """Respond so to the right secret, and as hookrow to any other."""
    return when(lambda environ: environ.get(HEADER) == SECRET, Response(text, status), UNVERIFIED)


def beyond(limit: int, status: int) -> WSGIApplication:
    """Respond with the status to bodies larger than the limit, and pass others on to hookrow."""
    return when(
        lambda environ: int(environ["CONTENT_LENGTH"]) > limit, Response("", status), HOOKROW
    )


def challenging(error: str) -> Response:
    """Respond to all as hookrow does if something in front sets the header or drops it."""
    return Response("Cannot verify webhook", 401, {"WWW-Authenticate": f'Secret error="{error}"'})


MADE_UP = "POST http://127.0.0.1:80/mail/provider/webhooks with a made-up secret was answered "
RIGHT = "POST http://127.0.0.1:80/mail/provider/webhooks with the secret was answered "
NONE = "POST http://127.0.0.1:80/mail/provider/webhooks without a secret was "
LARGE = "A body of just under 1 MiB "
PAGE = "<html><title>Welcome\x1b[2J</title></html>"
UNSUPPORTED = "Webhook payload not supported"

# By a name: what is served, and how the first fault begins and what it contains.
FAULTS: dict[str, tuple[WSGIApplication, str, str]] = {
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
    "no check for none": (
        when(lambda environ: HEADER in environ, UNVERIFIED, UNKNOWN),
        f"error secret: {NONE}",
        "let in",
    ),
    "header set": (
        challenging("wrong"),
        "error secret: No secret was sent; hookrow says",
        "wrong one came",
    ),
    "header dropped": (
        challenging("missing"),
        "error secret: A made-up secret was sent; hookrow",
        "nginx: ",
    ),
    "header and challenge dropped": (
        UNVERIFIED,
        "error secret: The secret of this configuration was answered 401, too.",
        "The server has another secret, or something in front drops the header",
    ),
    "no database": (
        to_known(503, "Try again later"),
        f"error database: {RIGHT}503",
        "its database",
    ),
    "other text": (to_known(404, "No"), f"warning unknown: {RIGHT}404", "replaces it"),
    "other body": (to_known(422, UNSUPPORTED), f"error body: {RIGHT}422", "drops the"),
    "other server": (to_known(200, "ok"), f"error unknown: {RIGHT}200", "this is not it"),
    "firewall for all": (to_known(403, "no"), f"error forbidden: {RIGHT}", "A firewall"),
    "limit of 100 KB": (beyond(100_000, 413), f"warning body: {LARGE}is answered 413, one", "64"),
    "limit of 10 KB": (beyond(10_000, 413), f"error body: {LARGE}is answered 413, and so", "64"),
    "time limit": (beyond(100_000, 408), f"warning body: {LARGE}did not come through", "408"),
    "no limit": (beyond(2**20, 200), "warning body: A body over 1 MiB was answered 200", "413"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
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

    def test_is_not_sent_to_a_stranger(self) -> None:
        app = Noting(UNKNOWN)
        served(app)
        assert app.secrets
        assert SECRET not in app.secrets

    def test_plain_http_in_public(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


class SSH(StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH\r\n")


class TestNoAnswer:
    def test_no_http(self) -> None:
        with ThreadingTCPServer(("127.0.0.1", 0), SSH) as server:
            thread = Thread(target=server.serve_forever, args=[0.01])
            thread.start()
            [fault] = faults(f"http://127.0.0.1:{server.server_address[1]}{PATH}")
            server.shutdown()
            thread.join()
        assert fault.startswith("error server: The connection ended without an answer")

    def test_silence(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            [fault] = faults(f"http://127.0.0.1:{server.getsockname()[1]}/", patience=0.05)
        assert fault.startswith("error server: No answer came within 0.05 s from http://127.")

    def test_endless_answer(self) -> None:
        done = Event()

        def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            start("401 No", [("Content-Length", "100000")])
            while not done.wait(0.01):
                yield b"x"

        with loopback(app) as port:
            [fault] = faults(f"http://127.0.0.1:{port}/", patience=0.05)
            done.set()
        assert fault.startswith("error server: No answer came within 0.05 s from http://127.")

    def test_slower_than_the_deadline(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hookrow.outside.SLOW", 0.0)
        [fault] = faults(url + PATH)
        assert fault.startswith("warning speed: The slowest answer took ")
