"""`hookrow check URL`: servers with one fault each, the diagnoses, and where the secret is sent."""

import json
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import closing
from errno import ECONNREFUSED
from io import BytesIO
from pathlib import Path
from socket import gaierror
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from time import time
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from prometheus_client import CollectorRegistry
from werkzeug import Response

from command import Command
from courier import Courier
from engines import MEMORY
from hookrow import Postmark, Receiver
from hookrow._core.rules import PROBE
from hookrow._diagnostics import Level
from hookrow._diagnostics.diagnosis import DIAGNOSES, ProbeSecret, Reply, diagnose
from hookrow._diagnostics.probe import LARGE_BODY, Sender, check_url
from hookrow._http import SECRET_HEADER
from hookrow._receiver.entries import Entry
from hookrow.errors import ConfigurationError
from hookrow.metrics import Metrics
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.providers.mandrill import Mandrill
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from hookrow.wsgi import WSGI
from loopback import loopback
from nginx import installed
from wire import AT, ENDPOINT, PATIENCE, SECRET, free_port

PATH = f"/mail{ENDPOINT}"
UNAUTHENTIC, UNKNOWN = "Cannot verify webhook", "Engine::Subscriber not found"
WRONG, NONE, CONFIGURED = ProbeSecret


def sender(secret: str | None = SECRET) -> Sender:
    return Sender(None, Postmark, None if secret is None else Postmark(secret))


def faults(url: str, secret: str | None = SECRET, timeout: float = 20.0) -> list[str]:
    """Check a URL; return the faults. Not even a part of the secret is printed."""
    results = list(check_url(url, [sender(secret)], timeout=timeout))
    assert secret is None or secret[:8] not in repr(results)
    return [
        f"{each.level.value} {each.subject}: {each.text} {each.meaning} {each.remedy}"
        for each in results
        if each.level is not Level.OK
    ]


class Site:
    """An application: hookrow, but with other `responses` to some probes. Records the probes."""

    def __init__(self) -> None:
        self.store, self.hook, self.registry = SQLStore(MEMORY), Mock(), CollectorRegistry()
        Tables(self.store).add_subscriber(PROBE, suppressed_at=AT)
        self.receiver = Receiver(
            Postmark(SECRET),
            self.store,
            mount_path="/mail",
            on_recorded=self.hook,
            on_refused=self.hook,
            observer=Metrics(self.registry),
        )
        self.responses: dict[ProbeSecret, WSGIApplication] = {}
        self.readiness: WSGIApplication = Response("Not Found", 404)
        self.probes: list[ProbeSecret] = []
        self.size = 0

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/readyz":
            assert environ["REQUEST_METHOD"] == "GET"
            assert "HTTP_X_PROVIDER_SECRET" not in environ
            return self.readiness(environ, start)
        secret = environ.get("HTTP_X_PROVIDER_SECRET")
        self.probes.append({None: NONE, SECRET: CONFIGURED}.get(secret, WRONG))
        self.size = int(environ["CONTENT_LENGTH"])
        return self.responses.get(self.probes[-1], WSGI(self.receiver))(environ, start)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.receiver.close()
    site.store.close()


@pytest.fixture
def url(site: Site) -> Iterator[str]:
    with loopback(site) as port:
        yield f"http://127.0.0.1:{port}"


def test_sound_webhook(site: Site, url: str) -> None:
    """Three requests are sent, the last one with a large body. They change nothing.

    Not even a suppressed subscriber with the address of the probes is reactivated. Nothing is
    logged, and no hook is called. The metrics count the response.
    """
    results = list(check_url(url + PATH, [sender()]))
    assert [each.subject for each in results] == ["path", "secret", "secret"]
    assert {each.level for each in results} == {Level.OK}
    assert results[0].text == f"hookrow responds at {url}{PATH}."
    assert site.probes == [WRONG, NONE, CONFIGURED]
    assert site.size == LARGE_BODY
    site.receiver.close()
    site.hook.assert_not_called()
    assert site.store.log is not None
    assert site.store.log.bounds() is None
    assert Tables(site.store).subscriber(PROBE).suppressed_at == AT
    labels = {"type": "reactivated", "outcome": "subscriber_not_found"}
    assert site.registry.get_sample_value("hookrow_notifications_total", labels) == 1


def test_command(command: Command, url: str) -> None:
    """The source of the secret is printed, and its newest line is used; an error is status 1."""
    (command.folder / "secrets").write_text(f"{SECRET}\nan-older-one\n")
    done = command.call("check", url + PATH, HOOKROW_SECRET_FILE="secrets")
    source = "secret_file is secrets, from the variable HOOKROW_SECRET_FILE."
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"ok       setting     {source}")
    done = command.call("check", "--json", f"{url}/mail/?a=b", "--secret", SECRET)
    error = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, error["level"], error["subject"]) == (1, "error", "path")
    assert error["text"].startswith(f"POST {url}/mail/?a=b with a wrong secret returned 404")


# -- the table of diagnoses ------------------------------------------------------------

URL = "https://example.com/mail/provider/webhooks"

REPLIES = [
    (Reply(URL, WRONG, 0, "cannot resolve: Name or service not known"), "a DNS record"),
    (Reply(URL, WRONG, 0, "TLS failed: certificate has expired"), "Renew the certificate"),
    (Reply(URL, WRONG, 0, "TLS failed: wrong version number"), "fullchain.pem"),
    (Reply(URL, WRONG, 0, f"no response: [Errno {ECONNREFUSED}] ..."), "Start `hookrow serve`"),
    (Reply(URL, WRONG, 0, "no response: [Errno 104] Connection reset"), "Start the web server"),
    (Reply(URL, CONFIGURED, 0, "no complete response within 30 s"), "waits for the body"),
    (Reply(URL, WRONG, 401, UNAUTHENTIC, 'error="missing"'), "removes the header X-Provider"),
    (Reply(URL, WRONG, 401, UNAUTHENTIC, 'error="wrong"'), f"hookrow responds at {URL}."),
    (Reply(URL, NONE, 401, UNAUTHENTIC, 'error="wrong"'), "sets the header X-Provider-Secret"),
    (Reply(URL, NONE, 401, UNAUTHENTIC, 'error="missing"'), "are rejected with 401"),
    (Reply(URL, CONFIGURED, 401, UNAUTHENTIC, 'error="wrong"'), "has a different one"),
    (Reply(URL, CONFIGURED, 401, UNAUTHENTIC, 'Signature error="wrong"'), "body was changed on"),
    (Reply(URL, CONFIGURED, 401, UNAUTHENTIC, 'Signature error="expired"'), "two clocks is wrong"),
    (Reply(URL, CONFIGURED, 401, UNAUTHENTIC), "not have the same secret, or a proxy removes"),
    (Reply(URL, CONFIGURED, 404, UNKNOWN), "is accepted"),
    (Reply(URL, CONFIGURED, 408, "Request Timeout"), "reads it before hookrow does"),
    (Reply(URL, CONFIGURED, 422, "Webhook payload not supported"), "changes bodies"),
    (Reply(URL, CONFIGURED, 413, ""), "client_max_body_size"),
    (Reply(URL, NONE, 422, "Webhook payload not supported"), "anybody can suppress"),
    (Reply(URL, CONFIGURED, 503, "Try again later"), "cannot use its database"),
    (Reply(URL, CONFIGURED, 404, "No"), "a proxy replaces it"),
    (Reply(URL, WRONG, 200, "Welcome\x1b[2J\n\nto"), 'returned 200 "Welcome\\x1b[2J to".'),
    (Reply(URL, WRONG, 405, "Method Not Allowed"), "not at this path"),
    (Reply(URL, WRONG, 307, "", f"{URL}/\x1b"), f"redirects to {URL}/\\x1b."),
    (Reply(URL, WRONG, 400, "Bad Request"), "ALLOWED_HOSTS"),
    (Reply(URL, NONE, 401, "no"), "A login"),
    (Reply(URL, WRONG, 403, "CSRF failed"), "csrf_exempt"),
    (Reply(URL, WRONG, 429, ""), "rate limit"),
    (Reply(URL, WRONG, 502, "<h1>Bad Gateway</h1>"), "the application behind it"),
    (Reply(URL, WRONG, 500, "oh"), "response is not from hookrow"),
]


@pytest.mark.parametrize(("reply", "words"), REPLIES)
def test_diagnosis(reply: Reply, words: str) -> None:
    result = diagnose(reply)
    assert words in f"{result.text} {result.meaning} {result.remedy}"
    if result.level is not Level.OK:
        assert result.text.startswith(f"POST {URL} {reply.sent.value} ")
        assert result.meaning
        assert result.remedy


def test_each_diagnosis_is_given_for_a_reply() -> None:
    """No diagnosis is hidden by an earlier one."""
    results = [diagnose(reply) for reply, _ in REPLIES]
    given = {(each.subject, each.remedy, each.level) for each in results}
    facts = {"proof": SECRET_HEADER, "settings": "secret"}
    assert given == {(each.subject, each.remedy.format(**facts), each.level) for each in DIAGNOSES}


@pytest.mark.parametrize(
    ("name", "challenge", "words"),
    [
        ("resend", "wrong", "the secret differs, or the body was changed on its way. Use the same"),
        ("mandrill", "wrong", "or the URL is not exactly the one that was entered at Mandrill"),
        ("mandrill", "wrong", "Use the same key and url here, in the server"),
        ("mailgun", "wrong", "is wrong for the server: the key differs. Use the same signing_key"),
        ("resend", "expired", "was signed more than 5 minutes ago or ahead, so one of the two"),
        ("mailgun", "expired", "was signed more than 12 hours ago, or 5 minutes ahead, so one of"),
        ("sendgrid", "expired", "was signed more than 25 hours ago, or 5 minutes ahead, so one"),
        ("mailjet", None, "does not have the same credentials, or a proxy removes the header Auth"),
    ],
)
def test_what_a_provider_signs(name: str, challenge: str | None, words: str) -> None:
    """The causes of a 401, and the age of a signature, are those of the provider."""
    header = f'Signature error="{challenge}"' if challenge else 'Basic realm="hookrow"'
    found = diagnose(Reply(URL, CONFIGURED, 401, UNAUTHENTIC, header, built_in(name)))
    assert words in f"{found.meaning} {found.remedy}"


def test_a_provider_that_is_not_one_of_hookrows() -> None:
    """The header with its secret has no name, as far as hookrow knows."""
    found = diagnose(Reply(URL, NONE, 401, UNAUTHENTIC, 'error="wrong"', None))
    assert found.meaning.startswith("A proxy sets the header with the secret, perhaps also in")


# -- the readiness of the server -------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text", "level", "words"),
    [
        (200, "ready\n", Level.OK, "The server is ready: a notification would be recorded."),
        (
            200,
            "attention: It is full.\n",
            Level.WARNING,
            "/readyz returned: attention: It is full.",
        ),
        (503, "not ready: It\x1b[2J is.\n", Level.ERROR, r"returned: not ready: It\x1b[2J is."),
        # Servers other than hookrow's own.
        (200, "ready for you", None, ""),
        (200, "not ready: x", None, ""),
        (503, "ready\n", None, ""),
        (503, "attention: x", None, ""),
        (302, "", None, ""),
    ],
)
def test_readiness(
    site: Site, url: str, status: int, text: str, level: Level | None, words: str
) -> None:
    """The last result is what the server says about itself, without the webhook's path or query."""
    site.readiness = Response(text, status)
    *results, last = check_url(f"{url}{PATH}?a=b", [sender()])
    if level is None:
        assert last.subject == "secret"
        return
    assert {each.level for each in results} == {Level.OK}
    assert (last.level, last.subject) == (level, "readiness")
    assert words in last.text


def test_the_reason_why_the_database_cannot_be_used(site: Site, url: str) -> None:
    """The server's reason follows the response of the webhook."""
    site.responses[CONFIGURED] = Response("Try again later", 503)
    site.readiness = Response("not ready: The disk is full.\n", 503)
    *_, error, reason = check_url(url + PATH, [sender()])
    assert (error.level, error.subject) == (Level.ERROR, "database")
    assert reason.text == "/readyz returned: not ready: The disk is full."


def test_a_server_whose_readiness_never_ends(
    site: Site, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not hookrow's own, and delays the command only for a moment."""
    monkeypatch.setattr("hookrow._diagnostics.probe.READINESS_TIMEOUT", 0.1)
    done = Event()

    def wait(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        done.wait(PATIENCE)
        return Response("ready")(environ, start)

    site.readiness = wait
    assert faults(url + PATH) == []
    assert not done.is_set()
    done.set()


# -- the URL and the connection --------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["a.b/x", "ftp://a/", "https://", "http://a:x/", "http://a b/", "http://\n", "http://u@a"],
)
def test_invalid_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http://, and without a user name or password"):
        list(check_url(url, [sender()]))


def test_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=gaierror(-2, "Not known")))
    [result] = check_url("https://nobody.invalid/mail", [sender()])
    assert (result.level, result.subject) == (Level.ERROR, "dns")


def test_port_without_tls_or_without_a_server(url: str) -> None:
    [fault] = faults(url.replace("http:", "https:") + PATH)
    assert "WRONG_VERSION_NUMBER" in fault
    [fault] = faults(f"http://127.0.0.1:{free_port()}/")
    assert "Connection refused. No program listens at this address" in fault
    assert "Start `hookrow serve`, or" in fault


@pytest.mark.parametrize(
    ("start", "repeated", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", None, "failed: no response: SSH-2.0"),
        (b"", b"", "failed: no complete response within 0.1 s"),
        (b"HTTP/1.1 401 No\r\nX: ", b"x", "failed: no complete response within 0.1 s"),
        (b"HTTP/1.1 401 No\r\n\r\n", b"x", "failed: no complete response within 0.1 s"),
    ],
    ids=["no HTTP", "silent", "endless head", "endless body"],
)
def test_server_without_a_response(start: bytes, repeated: bytes | None, words: str) -> None:
    done = Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(start)
            while repeated is not None and not done.wait(0.01):
                self.wfile.write(repeated)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        timeout = 20.0 if repeated is None else 0.1
        [fault] = faults(f"http://127.0.0.1:{server.server_address[1]}{PATH}", timeout=timeout)
        done.set()
        server.shutdown()
        thread.join()
    assert words in fault


def test_huge_response(site: Site, url: str) -> None:
    """Only the beginning of a response is read, and less is printed."""
    site.responses[WRONG] = Response(iter([b"x" * LARGE_BODY] * 1000), 500)
    [fault] = faults(url + PATH)
    assert f'returned 500 "{"x" * 150}".' in fault


def test_invalid_certificate(site: Site, tmp_path: Path) -> None:
    """Without a trusted certificate, no request is sent."""
    file = str(tmp_path / "certificate")
    options = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", file]
    openssl = [installed("openssl", "openssl"), "req", "-x509", *options, "-out", file]
    subprocess.run(openssl, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with loopback(site, context) as port:
        [fault] = faults(f"https://localhost:{port}{PATH}")
    assert fault.startswith("error tls: ")
    assert "self-signed certificate" in fault
    assert not site.probes


# -- middlewares -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (None, "returned 408. The body does not arrive complete"),
        ("0", "returned 422. A middleware"),
    ],
)
def test_a_middleware_that_reads_the_body(
    site: Site, url: str, length: str | None, words: str
) -> None:
    """It is named as the cause, whether or not it also changes the declared length."""

    def middleware(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        changed = {"wsgi.input": BytesIO(), "CONTENT_LENGTH": length or environ["CONTENT_LENGTH"]}
        return WSGI(site.receiver)({**environ, **changed}, start)

    site.responses[CONFIGURED] = middleware
    [fault] = faults(url + PATH)
    assert words in fault
    assert "middleware of the application" in fault
    assert "Exempt this path from middlewares that read or log bodies" in fault


# -- where the secret is sent ----------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "response"),
    [
        (WRONG, Response(UNKNOWN, 404)),
        (WRONG, Response("", 307, {"Location": "/x"})),
        (WRONG, Response("no", 401)),
        (NONE, Response(UNKNOWN, 404)),
        (CONFIGURED, Response(SECRET, 500)),
        (CONFIGURED, Response("", 307, {"Location": f"/{SECRET}"})),
    ],
)
def test_secret_is_sent_last_and_never_printed(
    site: Site, url: str, probe: ProbeSecret, response: Response
) -> None:
    """It is sent only if hookrow rejects the other probes, and is not printed if it is repeated."""
    site.responses[probe] = response
    [fault] = faults(url + PATH)
    assert f"{probe.value} returned {response.status_code}" in fault
    assert site.probes[-1] is probe
    assert site.probes.count(CONFIGURED) == (probe is CONFIGURED)


def test_secret_is_not_sent_unencrypted_to_a_public_address(
    site: Site, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = Mock(return_value=Mock(is_global=True))
    monkeypatch.setattr("hookrow._diagnostics.probe.ip_address", public)
    *_, error = check_url(url + PATH, [sender()])
    assert (error.level, error.subject) == (Level.ERROR, "tls")
    assert site.probes == [WRONG, NONE]


def test_no_or_invalid_secret(url: str) -> None:
    """Without a secret, everything else is checked."""
    [fault] = faults(url + PATH, None)
    assert fault.startswith("warning secret: No secret was sent: set HOOKROW_SECRET.")


# -- several entries -------------------------------------------------------------------

SIGNING_SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"
OTHER_SECRET = f"whsec_{b64encode(b'a key of another one').decode()}"


@pytest.fixture
def several() -> Iterator[str]:
    """Return the URL of a receiver with an entry of Postmark's, Resend's and the courier's."""
    with closing(SQLStore(MEMORY)) as store:
        entries = {"acme": Postmark(SECRET), "globex": Resend(SIGNING_SECRET), "parcels": Courier()}
        with (
            closing(Receiver(entries, store, mount_path="/mail")) as receiver,
            loopback(WSGI(receiver)) as port,
        ):
            yield f"http://127.0.0.1:{port}{PATH}"
        assert store.log is not None
        assert store.log.bounds() is None


GLOBEX = Sender("globex", Resend, Resend(SIGNING_SECRET))
PARCELS = Sender.of(Entry("parcels", Courier()))
ACME = Sender("acme", Postmark, Postmark(SECRET))


def test_each_entry_is_checked_at_its_url(several: str) -> None:
    """The first one is at the URL itself. That of Resend gets a signed event."""
    results = [*check_url(several, [ACME, GLOBEX, PARCELS])]
    assert {each.level for each in results} == {Level.OK}
    assert [each.text for each in results if each.subject == "path"] == [
        f"hookrow responds at {several}.",
        f"hookrow responds at {several}/globex.",
    ]
    accepted = "The configured secret is accepted, and a body of 64 KiB arrives."
    assert [each.text for each in results].count(accepted) == 2
    assert results[-1].text.startswith("hookrow cannot make an authentic request of this provider")


def test_the_url_of_an_entry(several: str) -> None:
    results = [*check_url(f"{several}/globex", [ACME, GLOBEX, PARCELS])]
    assert {each.level for each in results} == {Level.OK}
    assert [each.text for each in results if each.subject == "path"] == [
        f"hookrow responds at {several}/globex."
    ]


def test_the_url_of_an_entry_that_the_receiver_does_not_have() -> None:
    """No request is sent, because a 404 would not show why."""
    [result] = check_url(f"http://hookrow.invalid{PATH}/globx/", [ACME, GLOBEX, PARCELS])
    assert (result.level, result.subject) == (Level.ERROR, "path")
    assert result.text == (
        "The receiver has no entry 'globx'. The names of its entries: 'acme', 'globex', 'parcels'. "
        "Did you mean 'globex'?"
    )


def test_the_url_of_an_entry_while_only_its_secret_is_known(several: str) -> None:
    """The settings have no entries, so those of the server are not known."""
    assert faults(f"{several}/acme") == []


@pytest.mark.parametrize(
    ("sender", "words"),
    [
        (Sender("globex", Resend, Resend(OTHER_SECRET)), "or the body was changed on its way"),
        (
            Sender("globex", Resend, Resend(SIGNING_SECRET, clock=lambda: time() - 3600)),
            "so one of the two clocks is wrong",
        ),
        (Sender("globex", Resend), "No secret was sent: set the secret of globex."),
        (Sender("initech", Postmark), "hookrow is not at this path"),
    ],
    ids=["another secret", "a wrong clock", "no secret", "another name"],
)
def test_a_fault_of_an_entry(several: str, sender: Sender, words: str) -> None:
    """It does not hide that the others have none."""
    results = [*check_url(several, [ACME, sender])]
    faults = [each for each in results if each.level is not Level.OK]
    [fault] = faults
    assert words in f"{fault.text} {fault.meaning}"
    assert len(results) >= 4


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_each_provider(name: str) -> None:
    """Its requests are accepted, unless only the provider can sign them, and none is logged."""
    kind, port = built_in(name), free_port()
    url = f"http://127.0.0.1:{port}{PATH}/{name}"
    options = {"url": url} if name == "mandrill" else {}
    credential, signing = kind.generate(**options)
    is_signed = name not in {"amazon_ses", "sendgrid"}
    checked = signing if is_signed else kind(credential)
    with closing(SQLStore(MEMORY)) as store:
        with (
            closing(Receiver({name: checked}, store, mount_path="/mail")) as receiver,
            loopback(WSGI(receiver), port=port),
        ):
            found = [*check_url(url, [Sender(name, kind, checked)])]
            other = [*check_url(url, [Sender(name, kind, kind.generate(**options)[1])])]
        assert store.log is not None
        assert store.log.bounds() is None
    assert [each.level for each in found] == [Level.OK] * 3, found
    accepted = "The configured secret is accepted" if is_signed else kind.own_test
    assert accepted in found[-1].text
    assert (other[-1].level, other[-1].subject) == (Level.ERROR, "secret")


def test_the_url_that_mandrill_signs() -> None:
    """It must be the checked one, apart from credentials, and that of the server."""
    port = free_port()
    url = f"http://127.0.0.1:{port}{PATH}"
    named = f"{url}/mandrill"

    def check(checked: str, of_settings: str) -> list[str]:
        sender = Sender("mandrill", Mandrill, Mandrill("a-key", url=of_settings))
        found = check_url(checked, [sender])
        return [
            f"{each.level.value} {each.subject}: {each.text} {each.meaning}"
            for each in found
            if each.level is not Level.OK
        ]

    server = Mandrill("a-key", url=named)
    with (
        closing(Receiver({"mandrill": server}, SQLStore(MEMORY), mount_path="/mail")) as receiver,
        loopback(WSGI(receiver), port=port),
    ):
        assert check(named, named) == []
        assert check(url, named) == [], "the first entry has both URLs"
        [doubt, fault] = check(named, f"{named}/")
        assert doubt.startswith("warning url: Mandrill signs the URL that was entered there, whi")
        assert f"which is {named}/ by the setting url, and not the URL of this check." in doubt
        assert fault.startswith("error secret: ")
        assert "the URL is not exactly the one that was entered at Mandrill" in fault
        [fault] = check(named, named.replace("//", "//ada:secret@"))
        assert fault.startswith("error secret: ")
        assert "ada" not in fault


@pytest.mark.parametrize("name", ["mailjet", "brevo", "postmark"])
def test_credentials_are_not_sent_in_plain_http(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow._diagnostics.probe._are_public", lambda _: True)
    kind = built_in(name)
    credential, provider = kind.generate()
    with (
        closing(Receiver(provider, SQLStore(MEMORY))) as receiver,
        loopback(WSGI(receiver)) as port,
    ):
        url = f"http://127.0.0.1:{port}{ENDPOINT}"
        *_, last = check_url(url, [Sender(None, kind, kind(credential))])
    assert (last.level, last.subject) == (Level.ERROR, "tls")


def test_the_entries_of_the_settings(command: Command, several: str) -> None:
    (command.folder / "hookrow.toml").write_text(
        f"""
        [providers.acme]
        provider = "postmark"
        secret = "{SECRET}"
        [providers.globex]
        provider = "resend"
        secret = "{SIGNING_SECRET}"
        """
    )
    done = command.call("check", several)
    assert done.returncode == 0, done.stdout
    assert "providers.globex.secret is ***, from the file hookrow.toml." in done.stdout
    assert f"hookrow responds at {several}/globex." in done.stdout
    assert SECRET not in done.stdout
