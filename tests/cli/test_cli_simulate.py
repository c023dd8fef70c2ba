"""`hookrow simulate`: the requests it posts, and its output."""

import re
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from itertools import pairwise
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
import pytest
from werkzeug import Request, Response

import world
from command import HOOKROW, Command
from hookrow import Postmark, Receiver
from hookrow.providers._registry import built_in
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from hookrow.testing import WebhookSender
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ADA, ADAS, ENDPOINT, PATIENCE, SECRET, free_port

Simulate = Callable[..., CompletedProcess[str]]


class Provider:
    """A server that keeps payloads and responds 200, but 404 to those for "nobody"."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        assert environ["PATH_INFO"] == f"/mail{ENDPOINT}"
        assert environ["HTTP_X_PROVIDER_SECRET"] == SECRET
        payload = msgspec.json.decode(Request(environ).get_data())
        self.posted.append(payload)
        unknown = payload.get("Recipient", "").startswith("nobody")
        return (Response("nobody", 404) if unknown else Response(""))(environ, start)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def simulate(command: Command, provider: Provider) -> Iterator[Simulate]:
    with loopback(provider) as port:
        options = {"HOOKROW_PORT": str(port), "HOOKROW_MOUNT_PATH": "mail"}
        yield lambda *typed: command.call("simulate", *typed, HOOKROW_SECRET=SECRET, **options)


def counts(done: CompletedProcess[str]) -> dict[str, int]:
    """Return the printed summary: the number of each response."""
    first, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ posted in \d+\.\d s, [\d,]+ per second:", first)
    found = {text.strip(): int(number) for number, text in (line.split(None, 1) for line in lines)}
    assert first.startswith(f"{sum(found.values())} posted")
    return found


@pytest.mark.parametrize(
    ("typed", "payload"),
    [
        (("delivery", ADA, ADAS), {"RecordType": "Delivery", "MessageID": ADAS}),
        (("open", ADA, ADAS), {"RecordType": "Open", "MessageID": ADAS}),
        (("suppression", ADA), {"SuppressSending": True, "SuppressionReason": "HardBounce"}),
        (("suppression", ADA, "--reason", "Spam"), {"SuppressionReason": "Spam"}),
        (("reactivation", ADA), {"RecordType": "SubscriptionChange", "SuppressSending": False}),
        (("bounce", ADA, ADAS), {"RecordType": "Bounce", "Email": ADA, "MessageID": ADAS}),
        (("complaint", ADA), {"RecordType": "SpamComplaint", "Email": ADA}),
        (("click", ADA, ADAS), {"RecordType": "Click", "Recipient": ADA}),
        (("inbound", ADA), {"From": ADA, "MessageStream": "inbound"}),
        (("test",), {"RecordType": "Delivery", "Recipient": "john@example.com"}),
    ],
)
def test_each_kind(
    simulate: Simulate, provider: Provider, typed: tuple[str], payload: dict[str, object]
) -> None:
    done = simulate(*typed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")
    assert provider.posted[0].items() >= payload.items()
    if typed[0] in {"delivery", "open", "suppression", "reactivation"}:
        assert provider.posted[0]["Recipient"] == ADA


def test_count(simulate: Simulate, provider: Provider) -> None:
    """With --count, the times differ by a millisecond, and {} is replaced by the number."""
    began = time.time()
    done = simulate("delivery", "ada{}@a{}.example", "m-{}", "--count", 5)
    assert (done.returncode, counts(done)) == (0, {"200": 5})
    assert done.stderr == ""
    posted = provider.posted
    times = [datetime.fromisoformat(payload["DeliveredAt"]) for payload in posted]
    assert {after - before for before, after in pairwise(times)} == {timedelta(milliseconds=1)}
    assert began - 0.1 <= times[-1].timestamp() <= time.time()
    assert [(each["Recipient"], each["MessageID"]) for each in posted] == [
        (f"ada{n}@a{n}.example", f"m-{n}") for n in range(1, 6)
    ]


def test_other_responses(
    simulate: Simulate, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a response is not 200 or there is none, it is printed or counted, and the status is 1."""
    done = simulate("open", "nobody@example.com")
    assert (done.returncode, done.stdout) == (1, "404 nobody\n")
    done = simulate("open", "nobody@example.com", "--count", 4)
    assert (done.returncode, counts(done)) == (1, {"404 nobody": 4})
    monkeypatch.setattr(sys.modules["hookrow._cli.simulate"], "START_TIMEOUT", 0.0)
    done = command.call("simulate", "open", ADA, "--count", 3, "--port", free_port())
    assert (done.returncode, counts(done)) == (1, {"no response": 3})
    assert "refused. Is `hookrow serve`, or the server of your application, runn" in done.stderr


def test_a_server_that_is_just_starting(
    command: Command, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection is retried until the server listens."""
    port = free_port()
    options = ("--port", port, "--mount-path", "mail", "--secret", SECRET)
    with ExitStack() as server:

        def start(_: float) -> None:
            server.enter_context(loopback(provider, port=port))

        monkeypatch.setattr(sys.modules["hookrow._cli.simulate"], "sleep", start)
        assert command.call("simulate", "open", ADA, *options).stdout == "200\n"


def test_the_secret_file(command: Command, provider: Provider) -> None:
    """Its first secret, the newest, is sent, unless a flag names another one."""
    (command.folder / "secrets").write_text(f"\n{SECRET}\nold\n")
    with loopback(provider) as port:
        options = ("simulate", "open", ADA, "--port", port, "--mount-path", "mail")
        assert command.call(*options, "--secret-file", "secrets").stdout == "200\n"
        variables = {"HOOKROW_SECRET_FILE": "missing"}
        assert command.call(*options, "--secret", SECRET, **variables).stdout == "200\n"


SIGNING_SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"

ENTRIES = f"""
    mount_path = "/mail"
    [providers.acme]
    provider = "postmark"
    secret = "{SECRET}"
    [providers.globex]
    provider = "resend"
    secret = "{SIGNING_SECRET}"
"""


class TestEntries:
    """Each entry gets the requests of its provider at its URL."""

    @pytest.fixture
    def url(self, command: Command, sqlite_url: str) -> Iterator[str]:
        """Return the URL of the first entry."""
        world.fill(sqlite_url)
        (command.folder / "hookrow.toml").write_text(ENTRIES)
        entries = {"acme": Postmark(SECRET), "globex": Resend(SIGNING_SECRET)}
        with (
            closing(SQLStore(sqlite_url)) as store,
            closing(Receiver(entries, store, mount_path="/mail")) as receiver,
            loopback(WSGI(receiver)) as port,
        ):
            yield f"http://127.0.0.1:{port}/mail{ENDPOINT}"

    @pytest.fixture
    def simulate(self, command: Command, url: str) -> Simulate:
        port = str(urlsplit(url).port)
        return lambda *typed: command.call("simulate", *typed, HOOKROW_PORT=port)

    def test_the_first_entry_is_the_default(self, simulate: Simulate, command: Command) -> None:
        assert simulate("delivery", ADA, ADAS).stdout == "200\n"
        assert simulate("open", ADA, ADAS, "--entry", "acme").stdout == "200\n"
        logged = command.call("log", "--entry", "acme", "--json").stdout.splitlines()
        assert len(logged) == 2

    @pytest.mark.parametrize(
        ("typed", "type_"),
        [
            (("delivery", ADA, ADAS), "Delivery"),
            (("open", ADA, ADAS), "Open"),
            (("suppression", ADA), "SubscriptionChange"),
            (("suppression", ADA, "m-1", "--reason", "SpamComplaint"), "SubscriptionChange"),
            (("reactivation", ADA), "SubscriptionChange"),
            (("bounce", ADA, ADAS), "Bounce"),
            (("complaint", ADA, ADAS), "SpamComplaint"),
            (("click", ADA, ADAS), "Click"),
        ],
    )
    def test_each_kind_of_resend(
        self, simulate: Simulate, command: Command, typed: tuple[str, ...], type_: str
    ) -> None:
        """The requests are signed."""
        assert simulate(*typed, "--entry", "globex").stdout == "200\n"
        [line] = command.call("log", "--json").stdout.splitlines()
        entry = msgspec.json.decode(line)
        assert (entry["entry"], entry["provider"]) == ("globex", "resend")
        assert (entry["record_type"], entry["recipient"]) == (type_, ADA)

    @pytest.mark.parametrize(
        ("path", "typed", "name"),
        [
            ("", (), "acme"),
            ("/acme", (), "acme"),
            ("/globex/", (), "globex"),
            ("/globex", ("--entry", "globex"), "globex"),
            ("", ("--entry", "globex"), "globex"),
        ],
    )
    def test_the_url_of_an_entry(
        self,
        simulate: Simulate,
        command: Command,
        url: str,
        path: str,
        typed: tuple[str, ...],
        name: str,
    ) -> None:
        """The name at its end chooses the entry, or else `--entry` does."""
        assert simulate("open", ADA, ADAS, "--url", url + path, *typed).stdout == "200\n"
        [line] = command.call("log", "--json").stdout.splitlines()
        assert msgspec.json.decode(line)["entry"] == name

    def test_many(self, simulate: Simulate) -> None:
        """Each request has an id of its own, so that all are different events."""
        done = simulate("delivery", ADA, ADAS, "--count", "3", "--entry", "globex")
        assert counts(done) == {"200": 3}

    @pytest.mark.parametrize(
        ("typed", "text"),
        [
            (("--entry", "initech"), "The receiver has no entry 'initech'. The names of its entr"),
            (
                ("--url", "http://[::1]/provider/webhooks/x"),
                "The receiver has no entry 'x'.",
            ),
            (
                ("--url", "http://[::1]/provider/webhooks/acme", "--entry", "globex"),
                "The URL is that of the entry 'acme': omit --entry.",
            ),
            (("--entry", "Acme"), "'Acme' is not the name of an entry"),
        ],
    )
    def test_an_entry_that_does_not_exist(
        self, simulate: Simulate, typed: tuple[str, ...], text: str
    ) -> None:
        done = simulate("open", ADA, ADAS, *typed)
        assert done.returncode == 2
        assert text in done.stderr

    def test_only_postmark_has_some_kinds(self, simulate: Simulate) -> None:
        done = simulate("inbound", ADA, "--entry", "globex")
        assert done.returncode == 1
        assert "Only Postmark has inbound: choose another kind" in done.stderr

    def test_without_a_secret(self, simulate: Simulate, command: Command) -> None:
        (command.folder / "hookrow.toml").write_text(ENTRIES.replace("secret =", "# secret ="))
        done = simulate("open", ADA, ADAS, "--entry", "globex")
        assert done.stdout == "401 Cannot verify webhook\n"
        assert (
            "Warning: No secret is set, so the receiver refuses the requests: set "
            "HOOKROW_PROVIDERS_GLOBEX_SECRET." in done.stderr
        )


KINDS = ("delivery", "open", "click", "bounce", "complaint", "suppression")


@pytest.mark.parametrize("name", ["mandrill", "mailjet", "mailgun", "brevo"])
def test_each_kind_of_a_provider(command: Command, sqlite_url: str, name: str) -> None:
    """The requests are those of the provider, and several at once are different events."""
    url = "https://example.com/mail/provider/webhooks"
    sender = WebhookSender(name, **({"url": url} if name == "mandrill" else {}))
    file = command.folder / "hookrow.toml"
    setting = built_in(name).credential
    file.write_text(f'[providers.{name}]\n{setting} = "{sender.credential}"\n')
    if name == "mandrill":
        file.write_text(f'{file.read_text()}url = "{url}"\n')
    world.fill(sqlite_url)
    with (
        closing(SQLStore(sqlite_url)) as store,
        closing(Receiver({name: sender.provider}, store)) as receiver,
        loopback(WSGI(receiver)) as port,
    ):
        for kind in KINDS:
            done = command.call("simulate", kind, ADA, "<7>", HOOKROW_PORT=str(port))
            assert (done.stdout, done.stderr) == ("200\n", "")
        options = ("--count", "3", "--port", port)
        assert counts(command.call("simulate", "open", ADA, "<8>", *options)) == {"200": 3}
    logged = [*map(msgspec.json.decode, command.call("log", "--json").stdout.splitlines())]
    assert len(logged) == len(KINDS) + 3
    assert {(each["entry"], each["recipient"]) for each in logged} == {(name, ADA)}


@pytest.mark.parametrize("name", ["postmark", "resend", "mandrill", "mailjet", "mailgun", "brevo"])
def test_a_provider_without_settings(command: Command, sqlite_url: str, name: str) -> None:
    """The command has the credential, and a URL that is also the one that Mandrill signs."""
    port = free_port()
    url = f"http://127.0.0.1:{port}{ENDPOINT}"
    sender = WebhookSender(name, **({"url": url} if name == "mandrill" else {}))
    world.fill(sqlite_url)
    with (
        closing(SQLStore(sqlite_url)) as store,
        closing(Receiver(sender.provider, store)) as receiver,
        loopback(WSGI(receiver), port=port),
    ):
        posting = ("simulate", "suppression", ADA, "--provider", name, "--url", url)
        done = command.call(*posting, "--secret", sender.credential)
        assert (done.stdout, done.stderr) == ("200\n", "")
        other, _ = built_in(name).generate()
        assert command.call(*posting, "--secret", other).stdout.startswith("401 ")
        done = command.call(*posting)
        assert done.stdout.startswith("401 ")
        setting = built_in(name).credential
        end = "." if setting == "secret" else f" to the {setting} of {name}."
        assert f"set HOOKROW_SECRET, --secret or --secret-file{end}" in done.stderr
    logged = [*map(msgspec.json.decode, command.call("log", "--json").stdout.splitlines())]
    assert [(each["provider"], each["recipient"]) for each in logged] == [(name, ADA)]


def test_the_url_that_a_provider_signs(command: Command, sqlite_url: str) -> None:
    """That of the receiver may be another one than that of the request, behind a proxy."""
    public = "https://ada:secret@example.com/mail/provider/webhooks"
    sender = WebhookSender("mandrill", url=public)
    world.fill(sqlite_url)
    with (
        closing(SQLStore(sqlite_url)) as store,
        closing(Receiver(sender.provider, store)) as receiver,
        loopback(WSGI(receiver)) as port,
    ):
        posting = ("simulate", "open", ADA, "7", "--provider", "mandrill", "--port", port)
        done = command.call(*posting, "--secret", sender.credential, "--signed-url", public)
        assert done.stdout == "200\n"
        done = command.call(*posting, "--secret", sender.credential)
        assert done.stdout == "401 Cannot verify webhook\n"


@pytest.mark.parametrize(
    ("typed", "status", "text"),
    [
        (("--provider", "postmrk"), 2, "'postmrk' is not one of 'postmark', 'resend', 'am"),
        (
            ("--provider", "brevo", "--entry", "acme"),
            2,
            "settings: omit --provider.",
        ),
        (
            ("--provider", "brevo", "--signed-url", "https://a"),
            2,
            "Only a --provider that",
        ),
        (("--signed-url", "https://a.example"), 2, "Only a --provider that"),
        (("--provider", "brevo", "--secret", "x"), 1, "write them as 'user:password' or 'Be"),
        (("--provider", "resend", "--secret", "x"), 1, "The signing secret is not valid."),
        (("--provider", "sendgrid"), 1, "Only sendgrid can sign its requests: choose"),
        (("--provider", "amazon_ses"), 1, "Only amazon_ses can sign its requests: send an email"),
    ],
)
def test_a_provider_that_cannot_be_simulated(
    command: Command, typed: tuple[str, ...], status: int, text: str
) -> None:
    done = command.call("simulate", "open", ADA, "7", *typed)
    assert done.returncode == status
    assert text in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "typed", "text"),
    [
        ("amazon_ses", ("open", ADA, "7"), "Only amazon_ses can sign its requests: send an email"),
        ("sendgrid", ("open", ADA, "7"), 'Only sendgrid can sign its requests: choose "Test Your'),
        ("brevo", ("reactivation", ADA), "brevo sends no reactivation."),
        (
            "brevo",
            ("suppression", ADA, "--reason", "Spam"),
            "brevo sends no suppression with the reason Spam.",
        ),
    ],
)
def test_events_that_cannot_be_sent(
    command: Command, name: str, typed: tuple[str, ...], text: str
) -> None:
    kind = built_in(name)
    (command.folder / "hookrow.toml").write_text(
        f'[providers.{name}]\n{kind.credential} = "{kind.generate()[0]}"\n'
    )
    done = command.call("simulate", *typed)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr


def test_no_secret(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning names the settings, because the response does not."""
    monkeypatch.setattr(sys.modules["hookrow._cli.simulate"], "START_TIMEOUT", 0.0)
    done = command.call("simulate", "open", ADA, "--count", 2, "--port", free_port())
    assert done.stderr.splitlines()[0] == (
        "Warning: No secret is set, so the receiver refuses the requests: set HOOKROW_SECRET, "
        "--secret or --secret-file."
    )


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Handle Ctrl-C by default, although a shell in the background lets the tests ignore it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("_interruptible")
def test_interrupted_wait(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the wait for a server that does not listen."""

    def interrupt(_: float) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys.modules["hookrow._cli.simulate"], "sleep", interrupt)
    done = command.call("simulate", "open", ADA, "--port", free_port(), "--secret", SECRET)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nAborted!\n")


@pytest.mark.usefixtures("_interruptible")
def test_interrupted_request(command: Command) -> None:
    """One Ctrl-C ends the command, although a request is in progress, without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with subprocess.Popen(
            [HOOKROW, "simulate", "open", ADA, "--count", "9", "--port", str(port)],
            env=command.environment({"HOOKROW_SECRET": SECRET}),
            cwd=command.folder,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                running.send_signal(signal.SIGINT)
                _, printed = running.communicate(timeout=PATIENCE)
    assert (running.returncode, printed) == (130, "\nAborted!\n")
