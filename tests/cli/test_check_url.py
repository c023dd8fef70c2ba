"""`hookrow check URL`: servers with one fault each, the diagnoses, and where the secret is sent."""

import json
import socket
import ssl
import subprocess
import warnings
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import closing
from html import escape
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from prometheus_client import CollectorRegistry
from werkzeug import Response

from command import Command
from hookrow import Postmark, Receiver
from hookrow.core.rules import PROBE
from hookrow.diagnostics.client import Reply, Sent, parse_url
from hookrow.diagnostics.diagnosis import DIAGNOSES, diagnose
from hookrow.diagnostics.probe import LARGE, check_url
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.errors import ConfigurationError
from hookrow.metrics import Metrics
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.wsgi import WSGI
from loopback import loopback
from nginx import installed
from wire import AT, ENDPOINT, SECRET, free_port

PATH = f"/mail{ENDPOINT}"
HEADER = "HTTP_X_PROVIDER_SECRET"
HOOKROW = WSGI(Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail"))
UNVERIFIED = Response("Cannot verify webhook", 401)
UNKNOWN = Response("Engine::Subscriber not found", 404)


def check(url: str, secret: str | None = SECRET, timeout: float = 20.0) -> list[CheckResult]:
    """Check a URL; return all results except that this machine is not public.

    Each fault has a meaning and a remedy, and no result contains the secret.
    """
    private, *results = check_url(url, secret, timeout=timeout)
    assert (private.level, private.subject) == (Level.WARNING, "dns")
    assert not secret or secret not in repr(results)
    faults = [each for each in results if each.level is not Level.OK]
    assert all(each.meaning and each.remedy for each in faults)
    return results


def faults(url: str, secret: str | None = SECRET, timeout: float = 20.0) -> list[str]:
    """Check a URL; return the faults."""
    return [
        f"{each.level.value} {each.subject}: {each.text} {each.meaning} {each.remedy}"
        for each in check(url, secret, timeout)
        if each.level is not Level.OK
    ]


def served(app: WSGIApplication) -> list[str]:
    with loopback(app) as port:
        return faults(f"http://127.0.0.1:{port}{PATH}")


class Recorder:
    """Records the secrets that an application receives."""

    def __init__(self, app: WSGIApplication) -> None:
        self.secrets: set[str] = set()
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        self.secrets.add(environ.get(HEADER, ""))
        return self._app(environ, start)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with loopback(HOOKROW) as port:
        yield f"http://127.0.0.1:{port}"


def test_probes_change_nothing_are_not_logged_and_call_no_hook() -> None:
    """Not even a suppressed subscriber with the address of the probes is reactivated.

    The metrics count the response.
    """
    hook, log, registry = Mock(), MemoryLog(), CollectorRegistry()
    subscriber = {"email": PROBE, "suppressed_at": AT}
    store = MemoryStore({1: subscriber}, log=log)
    receiver = Receiver(
        Postmark(SECRET),
        store,
        mount_path="/mail",
        on_recorded=hook,
        on_refused=hook,
        observer=Metrics(registry),
    )
    with closing(receiver):
        assert served(WSGI(receiver)) == []
    hook.assert_not_called()
    assert not log.entries
    assert subscriber["suppressed_at"] == AT
    labels = {"type": "reactivated", "outcome": "subscriber_not_found"}
    assert registry.get_sample_value("hookrow_notifications_total", labels) == 1


def test_results() -> None:
    """Results without a fault state what was found; the large probe is received."""
    sizes = []

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        sizes.append(int(environ["CONTENT_LENGTH"]))
        return HOOKROW(environ, start)

    with loopback(app) as port:
        results = check(f"http://127.0.0.1:{port}{PATH}")
    assert [each.subject for each in results] == ["path", "secret", "secret", "speed"]
    assert results[0].text == f"hookrow responds at http://127.0.0.1:{port}{PATH}."
    assert max(sizes) == LARGE


def test_command(command: Command, url: str) -> None:
    """The source of the secret is printed; in JSON, a remedy is a field; an error is status 1.

    Of several secrets, the newest is used.
    """
    (command.folder / "secrets").write_text(f"{SECRET}\nan-older-one\n")
    done = command.call("check", url + PATH, HOOKROW_SECRET_FILE="secrets")
    source = "secret_file is secrets, from the variable HOOKROW_SECRET_FILE."
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"ok       setting     {source}")
    done = command.call("check", "--json", f"{url}/", "--secret", SECRET)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    [error] = [each for each in objects if each["level"] == "error"]
    assert done.returncode == 1
    assert set(error) == {"level", "subject", "text", "meaning", "remedy"}
    assert url + PATH in error["remedy"]


# -- the table of diagnoses ------------------------------------------------------------

WRONG, NONE, CONFIGURED = Sent
MISSING_ERROR, WRONG_ERROR = 'Secret error="missing"', 'Secret error="wrong"'
UNVERIFIED_TEXT, RECEIVED_TEXT = "Cannot verify webhook", "Engine::Subscriber not found"
URL = "https://example.com/mail/provider/webhooks"

# A reply, the subject of its diagnosis, and words of the result.
REPLIES = [
    (Reply(WRONG, 0, "cannot resolve (Name or service not known)"), "dns", "A record"),
    (Reply(WRONG, 0, "cannot connect (Connection refused)"), "connection", "Start the server"),
    (Reply(WRONG, 0, "TLS failed (certificate has expired)"), "tls", "that is valid now"),
    (Reply(WRONG, 0, "TLS failed (self-signed certificate)"), "tls", "a public authority"),
    (Reply(WRONG, 0, "TLS failed (self signed certificate in chain)"), "tls", "public authority"),
    (
        Reply(WRONG, 0, "TLS failed (Hostname mismatch, certificate is not valid)"),
        "tls",
        "for this name.",
    ),
    (Reply(WRONG, 0, "TLS failed (unable to get local issuer)"), "tls", "fullchain.pem"),
    (Reply(WRONG, 0, "TLS failed ([SSL: WRONG_VERSION_NUMBER])"), "tls", "does not use TLS"),
    (Reply(WRONG, 0, "TLS failed ([SSL: UNSUPPORTED_PROTOCOL])"), "tls", "ssl_protocols"),
    (Reply(WRONG, 0, "TLS failed ([SSL: ALERT_BAD_CERTIFICATE])"), "tls", "SNI"),
    (Reply(WRONG, 0, "no complete response within 30 s"), "server", "only a few times"),
    (Reply(WRONG, 401, UNVERIFIED_TEXT, MISSING_ERROR), "secret", "removes the header X-Prov"),
    (Reply(WRONG, 401, UNVERIFIED_TEXT, WRONG_ERROR), "path", f"responds at {URL}."),
    (Reply(NONE, 401, UNVERIFIED_TEXT, WRONG_ERROR), "secret", "sets the header X-Provider"),
    (Reply(NONE, 401, UNVERIFIED_TEXT, MISSING_ERROR), "secret", "are rejected with 401"),
    (Reply(CONFIGURED, 401, UNVERIFIED_TEXT, WRONG_ERROR), "secret", "has a different one"),
    (Reply(CONFIGURED, 401, UNVERIFIED_TEXT), "secret", "different secret, or a proxy removes"),
    (Reply(CONFIGURED, 404, RECEIVED_TEXT), "secret", "is accepted"),
    (Reply(CONFIGURED, 503, "Try again later"), "database", "cannot use its database"),
    (Reply(CONFIGURED, 422, "Webhook payload not supported"), "body", "changed or removed"),
    (Reply(CONFIGURED, 404, "No"), "response", "a proxy replaces it"),
    (Reply(WRONG, 404, RECEIVED_TEXT), "secret", "anybody can suppress"),
    (Reply(NONE, 200, RECEIVED_TEXT), "secret", "anybody can suppress"),
    (Reply(WRONG, 200, "<html><title>Welcome\x1b[2J</title>"), "path", '200 "Welcome?[2J"'),
    (Reply(CONFIGURED, 200, RECEIVED_TEXT), "path", "not hookrow, but it accepts requests"),
    (Reply(WRONG, 301, "", URL), "redirect", "X-Forwarded-Proto"),
    (Reply(WRONG, 302, "", "https://example.com/accounts/login/"), "login", "without a login"),
    (Reply(WRONG, 307, "", f"{URL}/"), "redirect", f"redirects to {URL}/."),
    (Reply(WRONG, 307, "", "https://login.test/lessons/"), "redirect", "redirects to https"),
    (Reply(WRONG, 302, ""), "redirect", "an invalid URL"),
    (Reply(WRONG, 400, "plain HTTP request was sent to HTTPS port"), "tls", "Use https://"),
    (Reply(WRONG, 400, "Bad Request"), "server", "ALLOWED_HOSTS"),
    (Reply(NONE, 401, "no"), "login", "A login is required"),
    (Reply(WRONG, 403, "CSRF failed"), "forbidden", "csrf_exempt"),
    (Reply(CONFIGURED, 403, "no"), "forbidden", "stops sending"),
    (Reply(WRONG, 404, "Not Found"), "path", "not at this path"),
    (Reply(WRONG, 405, "Method Not Allowed"), "path", "not at this path"),
    (Reply(CONFIGURED, 413, ""), "body", "client_max_body_size"),
    (Reply(WRONG, 429, ""), "server", "rate limit"),
    (Reply(WRONG, 502, "<h1>Bad Gateway</h1>"), "server", "the application behind it"),
    (Reply(WRONG, 500, "oh"), "server", "not a response of hookrow"),
]


@pytest.mark.parametrize(("reply", "subject", "words"), REPLIES)
def test_diagnosis(reply: Reply, subject: str, words: str) -> None:
    result = diagnose(parse_url(URL), reply)
    assert result.subject == subject
    assert words in f"{result.text} {result.meaning} {result.remedy}"
    if result.level is not Level.OK:
        assert result.text.startswith(f"POST {URL} {reply.sent.value} ")
        assert result.meaning
        assert result.remedy


def test_each_diagnosis_is_given_for_a_reply() -> None:
    """No diagnosis is hidden by an earlier one."""
    results = [diagnose(parse_url(URL), reply) for reply, *_ in REPLIES]
    given = {(each.subject, each.remedy, each.level) for each in results}
    assert given == {(each.subject, each.remedy, each.level) for each in DIAGNOSES}


# -- the URL and the connection --------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["example.com/x", "ftp://a/", "https://", "http://a:x/", "http://a b/", "http://\n"]
)
def test_text_that_is_not_a_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="it should be like https://example"):
        list(check_url(url, SECRET))


def test_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Mock(side_effect=socket.gaierror(-2, "Name or service not known"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    [result] = check_url("https://nobody.invalid/mail", SECRET)
    assert (result.level, result.subject) == (Level.ERROR, "dns")


def test_port_without_a_server() -> None:
    [fault] = faults(f"http://127.0.0.1:{free_port()}/")
    assert fault.startswith("error connection: POST http://127.0.0.1:")
    assert "failed: cannot connect (Connection refused)" in fault


def test_server_without_http() -> None:
    class SSH(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), SSH) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        [fault] = faults(f"http://127.0.0.1:{server.server_address[1]}{PATH}")
        server.shutdown()
        thread.join()
    assert fault.startswith("error server: ")
    assert "failed: no response (SSH-2.0" in fault


def test_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        [fault] = faults(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=0.05)
    assert "failed: no complete response within 0.05 s" in fault


def test_endless_response() -> None:
    done = Event()

    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("401 No", [("Content-Length", "100000")])
        while not done.wait(0.01):
            yield b"x"

    with loopback(app) as port:
        [fault] = faults(f"http://127.0.0.1:{port}/", timeout=0.05)
        done.set()
    assert "failed: no complete response within 0.05 s" in fault


def test_huge_response() -> None:
    """Only the beginning of a response is read."""
    [fault] = served(Response(iter([b"x" * 65536] * 1000), 500))
    assert f'returned 500 "{"x" * 77}...".' in fault


def test_slow_response(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow.diagnostics.probe.SLOW", 0.0)
    [fault] = faults(url + PATH)
    assert fault.startswith("warning speed: The slowest response took ")


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


class TestTLS:
    @pytest.mark.parametrize(
        ("name", "days", "words"),
        [
            ("localhost", 5, "warning tls: TLSv1.3; the certificate is trusted, and valid for 5 "),
            ("localhost", -1, "failed: TLS failed (certificate has expired). Clients that"),
            ("a.test", 90, "failed: TLS failed (Hostname mismatch, certificate is not valid"),
        ],
    )
    def test_certificate(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, days: int, words: str
    ) -> None:
        """The secret is sent only if the certificate is valid."""
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        app = Recorder(HOOKROW)
        with loopback(app, secured(tmp_path, name, days)) as port:
            [fault] = faults(f"https://localhost:{port}{PATH}")
        assert words in fault
        assert (SECRET in app.secrets) == (days == 5)

    def test_self_signed(self, tmp_path: Path) -> None:
        app = Recorder(HOOKROW)
        with loopback(app, secured(tmp_path, "localhost", 90)) as port:
            [fault] = faults(f"https://localhost:{port}{PATH}")
        assert "TLS failed (self-signed certificate). Clients that verify" in fault
        assert not app.secrets

    def test_server_without_tls(self) -> None:
        with loopback(HOOKROW) as port:
            [fault] = faults(f"https://127.0.0.1:{port}{PATH}")
        assert "The server at this port does not use TLS." in fault

    def test_old_versions(self, tmp_path: Path) -> None:
        context = secured(tmp_path, "localhost", 90)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with loopback(HOOKROW, context) as port:
            [fault] = faults(f"https://localhost:{port}/")
        assert "The server supports no current version of TLS" in fault

    def test_redirect(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If http redirects to hookrow at https, the remedy is that URL."""
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        with loopback(HOOKROW, secured(tmp_path, "localhost", 90)) as port:
            url = f"https://localhost:{port}{PATH}"
            assert faults(url) == []
            [fault] = served(to(url, 301))
        assert fault.startswith("error redirect: ")
        assert fault.endswith(f"Give the provider {url}: hookrow responds there.")


# -- where hookrow is, and where the secret is sent ------------------------------------


def to(location: str, status: int = 307) -> Response:
    return Response("", status, {"Location": location})


@pytest.mark.parametrize("path", ["/", "/mail/", ENDPOINT, f"/mail{PATH}", f"/api{PATH}?a=b"])
def test_hookrow_at_a_likely_path(path: str, url: str) -> None:
    [fault] = faults(url + path)
    assert fault.startswith(f"error path: POST {url}{path} with a wrong secret returned 404")
    assert fault.endswith(f"Give the provider {url}{PATH}: hookrow responds there.")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (PATH, "The URL redirects to itself."),
        ("/x\x1b", "The URL redirects to an invalid URL."),
        ("data:x", "The URL redirects to an invalid URL."),
        ("/x y", "/x%20y."),
        ("//[", "The URL redirects to an invalid URL."),
    ],
)
def test_location_of_a_redirect(location: str, words: str) -> None:
    def app(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("307 Temporary Redirect", [("Location", location)])
        return [b""]

    [fault] = served(app)
    assert words in fault


class TestSecret:
    def test_none(self, url: str) -> None:
        """Without a secret, everything else is checked."""
        [fault] = faults(url + PATH, None)
        assert fault.startswith("warning secret: No secret is configured here")

    def test_invalid(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="visible ASCII"):
            list(check_url(url, "größe"))

    def test_different(self, url: str) -> None:
        [fault] = faults(url + PATH, "another-secret-than-that")
        assert fault.startswith("error secret: POST ")
        assert "hookrow received the secret, but has a different one." in fault

    @pytest.mark.parametrize("app", [UNKNOWN, to("/x"), Response("no", 401)])
    def test_is_not_sent_unless_hookrow_rejects_a_wrong_one(self, app: WSGIApplication) -> None:
        recorder = Recorder(app)
        assert served(recorder)
        assert recorder.secrets
        assert SECRET not in recorder.secrets

    def test_is_not_sent_if_a_missing_one_is_accepted(self) -> None:
        def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            return (UNVERIFIED if HEADER in environ else UNKNOWN)(environ, start)

        recorder = Recorder(app)
        [fault] = served(recorder)
        assert "without a secret returned 404" in fault
        assert SECRET not in recorder.secrets

    def test_is_not_sent_unencrypted_to_a_public_address(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        public = Mock(return_value=Mock(is_global=True))
        monkeypatch.setattr("hookrow.diagnostics.probe.ip_address", public)
        app = Recorder(HOOKROW)
        with loopback(app) as port:
            dns, *_, error = check_url(f"http://127.0.0.1:{port}{PATH}", SECRET)
        assert (dns.level, error.level, error.subject) == (Level.OK, Level.ERROR, "tls")
        assert "the secret was not sent" in error.text
        assert SECRET not in app.secrets

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
            [fault] = faults(f"http://hook:pa55word@127.0.0.1:{port}{PATH}", secret)
        assert ("307" if where == "location" else "500") in fault
        for hidden in (secret, escape(secret), "pa55word", b64encode(b"hook:pa55word").decode()):
            assert hidden not in fault
