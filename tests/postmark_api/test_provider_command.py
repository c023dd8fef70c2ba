"""The commands `hookrow provider register` and `status`."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from subprocess import CompletedProcess
from textwrap import dedent
from typing import TypeAlias

import pytest
from providing import writes

import world
from command import Command
from hookrow import Postmark, Receiver, Schema, testing
from hookrow._postmark_api import rotate
from hookrow._postmark_api.errors import TriggerResult
from hookrow._postmark_api.register import advice
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from stand_in import Fault, PostmarkStandIn, Trigger
from stand_in.state import Webhook
from wire import ADA, ADAS, ENDPOINT, SECRET

Run: TypeAlias = Callable[..., CompletedProcess[str]]


@pytest.fixture
def api() -> Iterator[PostmarkStandIn]:
    with PostmarkStandIn() as api:
        yield api


@contextmanager
def serve(command: Command, schema: Schema) -> Iterator[str]:
    """Return the URL of a hookrow that uses the command's database, with this schema."""
    assert command.call("db", "upgrade").returncode == 0
    store = SQLStore(f"sqlite:///{command.folder / 'hookrow.db'}", schema)
    receiver = Receiver(Postmark(SECRET), store, acknowledge_tests=True)
    with closing(store), closing(receiver), loopback(WSGI(receiver)) as port:
        yield f"http://127.0.0.1:{port}{ENDPOINT}"


@pytest.fixture
def url(command: Command) -> Iterator[str]:
    with serve(command, Schema()) as url:
        yield url


@pytest.fixture
def run(command: Command, api: PostmarkStandIn) -> Run:
    """Return a function that runs a command, and checks that it prints no secret."""
    variables = {
        "HOOKROW_PROVIDER_TOKEN": api.token,
        "HOOKROW_PROVIDER_API": api.address,
        "HOOKROW_SECRET": SECRET,
    }

    def run(*arguments: object, **given: str) -> CompletedProcess[str]:
        done = command.call("provider", *arguments, **(variables | given))
        for hidden in (api.token, SECRET):
            assert hidden not in done.stdout + done.stderr
        return done

    return run


def test_register_and_status(run: Run, api: PostmarkStandIn, url: str) -> None:
    """Both print each stream; `status` exits with 1 if a trigger is not verified."""
    done = run("register", "--url", url, "--dry-run")
    assert done.stdout == (
        "Server Stand-in (4711)\n"
        "outbound: would create a webhook.\n    The stream has no webhook.\n"
        "broadcast: would create a webhook.\n    The stream has no webhook.\n"
    )
    assert not writes(api)
    done = run("register", "--url", url, "--stream", "outbound")
    [webhook] = api.webhooks
    assert done.stdout == (
        "Server Stand-in (4711)\n"
        f"outbound: created webhook {webhook.id}.\n    The stream has no webhook.\n"
    )
    api.requests.clear()
    done = run("register", "--url", url, "--stream", "outbound")
    assert f"outbound: webhook {webhook.id} needs no change.\n" in done.stdout
    assert not writes(api)
    done = run("status")
    assert done.returncode == 0, done.stdout
    assert done.stdout == (
        "Server Stand-in (4711)\n"
        f"outbound: webhook {webhook.id}, {url}, with the newest secret\n"
        "    Delivery            verified    0 posts in 24 hours, 0 failed\n"
        "    Open                verified    0 posts in 24 hours, 0 failed\n"
        "    SubscriptionChange  verified    0 posts in 24 hours, 0 failed\n"
        "broadcast: no hookrow webhook.\n"
        "Delivery: the provider posted 0 in 24 hours, and the log has 0.\n"
        "Open: the provider posted 0 in 24 hours, and the log has 0.\n"
        "SubscriptionChange: the provider posted 0 in 24 hours, and the log has 0.\n"
        "Stand-in: 1 webhook on 1 stream: verified, as registered.\n"
    )
    assert not done.stderr
    chosen = run("status", "--stream", "outbound")
    assert "\nDelivery: the log has 0 of 24 hours, from all streams.\n" in chosen.stdout
    assert "the provider posted" not in chosen.stdout
    webhook.verified.remove(Trigger.OPEN)
    api.state.track_opens = False
    done = run("status")
    assert done.returncode == 1
    assert "    Open                paused " in done.stdout
    assert "Open tracking is off" in done.stdout
    assert "the trigger Open is not verified, so it is paused." in done.stdout.splitlines()[-1]


def test_json(run: Run, api: PostmarkStandIn, url: str) -> None:
    done = run("register", "--url", url, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["actions"] for each in lines] == [["create"], ["create"]]
    assert [each["webhook"] for each in lines] == [each.id for each in api.webhooks]
    found = json.loads(run("status", "--json").stdout)
    assert found["server"] == 4711
    assert [each["secret"] for each in found["webhooks"]] == [0, 0]
    fields = {"id", "stream", "url", "triggers", "secret", "drift", "requests", "failures"}
    assert {*found["webhooks"][0]} == fields
    assert found["logged"] == {"Delivery": 0, "Open": 0, "SubscriptionChange": 0}


def test_status_without_a_secret(run: Run, api: PostmarkStandIn, url: str) -> None:
    """No webhook can have the right header, so the status is unknown."""
    run("register", "--url", url)
    for webhook in api.webhooks:
        webhook.headers = ()
    done = run("status", HOOKROW_SECRET="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The webhook secret is missing: set HOOKROW_SECRET" in done.stderr


def test_a_failed_verification(run: Run, api: PostmarkStandIn, url: str) -> None:
    done = run("register", "--url", f"{url}/provider/webhooks")
    assert done.returncode == 1
    assert "Error: The verification failed (status 422, code 1364: 0/3 triggers" in done.stderr
    assert "    Delivery: 404. Remote server returned an HTTP status code of 404." in done.stderr
    assert "The webhook was not changed." in done.stderr
    assert "Turn on acknowledge_tests" in done.stderr
    assert not api.webhooks
    for status, remedy in ((401, "restart it, or send it SIGHUP"), (0, f"hookrow check {url}")):
        assert remedy in advice(
            TriggerResult("Open", success=False, status=status, message=""), url
        )


@pytest.mark.parametrize(
    ("arguments", "variables", "text"),
    [
        (["--stream", "x"], {}, "The provider has no message stream 'x'."),
        ([], {"HOOKROW_SECRET": ""}, "set HOOKROW_SECRET, --secret or --secret-file"),
        ([], {"HOOKROW_PROVIDER_TOKEN": ""}, "set HOOKROW_PROVIDER_TOKEN"),
        (["--provider-token-file", "none"], {}, "The token file none cannot be read: No such"),
        (["--provider-token-file", "empty"], {}, "The token file empty is empty"),
    ],
)
def test_mistakes(
    run: Run,
    api: PostmarkStandIn,
    url: str,
    command: Command,
    arguments: list[str],
    variables: dict[str, str],
    text: str,
) -> None:
    (command.folder / "empty").write_text("\n")
    done = run("register", "--url", url, *arguments, **variables)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert text in done.stderr
    assert not writes(api)


@pytest.mark.parametrize(
    "arguments",
    [
        ["register", "--url", "https://example.com/provider/webhooks"],
        ["status"],
        ["reconcile", "--since", "2026-11-20"],
        ["rotate", "--secret-file", "secrets"],
        ["rotate", "--secret-file", "secrets", "--finish"],
    ],
)
def test_the_token_of_another_server(
    run: Run, api: PostmarkStandIn, url: str, command: Command, arguments: list[str]
) -> None:
    """It changes nothing, although the other server has the webhook of another hookrow."""
    delivery = testing.delivery(ADA, ADAS, at=api.now) | {"ServerID": 5}
    testing.post(url, delivery, secret=SECRET)
    staging = Webhook(1, "https://staging.example.com/provider/webhooks", "outbound")
    api.state.webhooks[1] = staging
    secrets = command.folder / "secrets"
    secrets.write_text(f"{SECRET}\n")
    done = run(*arguments)
    assert done.returncode == 1
    assert "server Stand-in (4711), but the newest notifications" in done.stderr
    assert "are from the server 5: use the token of that server." in done.stderr
    assert not writes(api)
    assert secrets.read_text() == f"{SECRET}\n"


def test_the_token_from_a_file(run: Run, api: PostmarkStandIn, command: Command) -> None:
    file = command.folder / "token"
    file.write_text(f"{api.token}\n")
    for given in (
        {"HOOKROW_PROVIDER_TOKEN_FILE": str(file), "HOOKROW_PROVIDER_TOKEN": ""},
        {"HOOKROW_PROVIDER_TOKEN_FILE": "none"},  # the token itself takes precedence
    ):
        assert "no webhook posts to hookrow" in run("status", **given).stdout
    settings = f"provider_token_file = '{file}'\nprovider_api = '{api.address}'\n"
    (command.folder / "hookrow.toml").write_text(settings)
    done = command.call("provider", "status", HOOKROW_SECRET=SECRET)
    assert "no webhook posts to hookrow" in done.stdout
    flag = run("status", "--provider-token-file", file, HOOKROW_PROVIDER_TOKEN="wrong-token")
    assert "no webhook posts to hookrow" in flag.stdout, "the flag takes precedence"


def test_status_without_a_webhook(run: Run, api: PostmarkStandIn, url: str) -> None:
    """Nothing arrives if no webhook posts to hookrow, so the status is a failure, also as JSON."""
    for arguments in (["status"], ["status", "--json"]):
        done = run(*arguments)
        assert (done.returncode, done.stderr) == (1, "")
        assert "Stand-in: no webhook posts to hookrow." in done.stdout
    run("register", "--url", url, "--stream", "outbound")
    assert run("status").returncode == 0
    assert run("status", "--stream", "broadcast").returncode == 1
    api.webhooks[0].url = "https://example.com/another/application"
    assert run("status").returncode == 1


def test_without_a_database(run: Run, command: Command) -> None:
    with serve(command, Schema()) as url:
        assert run("register", "--url", url).returncode == 0
    (command.folder / "hookrow.db").unlink()
    done = run("status")
    assert "Warning: The log is not available for comparison. " in done.stderr
    assert "hookrow.db" in done.stderr
    assert done.returncode == 0


def test_optional_records(run: Run, api: PostmarkStandIn, command: Command) -> None:
    """Their triggers follow the mapping, even while the database cannot be opened."""
    (command.folder / "hookrow.toml").write_text('[tables]\nrecord = ["click", "bounce"]\n')
    with serve(command, Schema()) as url:
        done = run("register", "--url", url, "--stream", "outbound")
    assert "Click: 422" in done.stderr
    assert "restart hookrow with the mapping of this command" in done.stderr
    assert not api.webhooks
    with serve(command, Schema(record=("click", "bounce"))) as url:
        assert run("register", "--url", url, "--stream", "outbound").returncode == 0
    [webhook] = api.webhooks
    usual = {Trigger.DELIVERY, Trigger.OPEN, Trigger.CHANGE}
    assert webhook.verified == usual | {Trigger.CLICK, Trigger.BOUNCE}
    (command.folder / "hookrow.db").rename(command.folder / "away.db")
    done = run("register", "--url", url, "--stream", "outbound", "--dry-run")
    assert f"webhook {webhook.id} needs no change." in done.stdout
    assert "The log is not available" in done.stderr


def test_the_receiver_of_an_application(
    api: PostmarkStandIn, url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = """
        from hookrow import Postmark, Receiver, Schema
        from hookrow.providers.resend import Resend
        from hookrow.stores.sql import SQLStore
        store = SQLStore("sqlite:///hookrow.db")
        postmark = Receiver(Postmark("another-secret-of-16"), store)
        resend = Receiver(Resend("whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw=="), store)
    """
    (command.folder / "shop_provider.py").write_text(dedent(source))
    environment = {"HOOKROW_PROVIDER_TOKEN": api.token, "HOOKROW_PROVIDER_API": api.address}
    app = ("--app", "shop_provider:postmark", "provider", "register", "--url", url)
    done = command.call(*app, "--dry-run", **environment)
    assert done.returncode == 0, done.stderr
    done = command.call(*app, **environment)
    assert "Delivery: 401" in done.stderr, "this hookrow has another secret"
    done = command.call("--app", "shop_provider:resend", "provider", "status", **environment)
    assert "manages only webhooks at Postmark" in done.stderr
    del sys.modules["shop_provider"]


class TestEntries:
    """A receiver with several entries, of which one or two are Postmark's."""

    RESEND = f"whsec_{b64encode(b'a key of the webhook').decode()}"
    TWO = f"""
        [providers.news]
        provider = "resend"
        secret = "{RESEND}"
        [providers.mail]
        provider = "postmark"
        secret = "{SECRET}"
    """
    THREE = f"{TWO}[providers.other]\nprovider = 'postmark'\nsecret = 'another-secret-of-ours'"

    @pytest.fixture
    def url(self, command: Command) -> Iterator[str]:
        """Return the URL of Postmark's entry, without a query."""
        assert command.call("db", "upgrade").returncode == 0
        store = SQLStore(f"sqlite:///{command.folder / 'hookrow.db'}")
        entries = {"news": Resend(self.RESEND), "mail": Postmark(SECRET)}
        receiver = Receiver(entries, store, acknowledge_tests=True)
        with closing(store), closing(receiver), loopback(WSGI(receiver)) as port:
            yield f"http://127.0.0.1:{port}{ENDPOINT}/mail"

    @pytest.fixture
    def run(self, run: Run) -> Run:
        return lambda *typed: run(*typed, HOOKROW_SECRET="")

    def test_the_only_entry_of_postmark(
        self, run: Run, api: PostmarkStandIn, command: Command, url: str
    ) -> None:
        """Its secret and its name are in the webhook, whose URL is not that of the first entry."""
        (command.folder / "hookrow.toml").write_text(self.TWO)
        done = run("register", "--url", url, "--stream", "outbound")
        assert done.returncode == 0, done.stderr
        [webhook] = api.webhooks
        assert webhook.url == url
        assert "needs no change" in run("register", "--url", url, "--stream", "outbound").stdout
        status = run("status", "--stream", "outbound")
        assert status.returncode == 0, status.stdout
        assert f"{url}, with the newest secret" in status.stdout

    def test_the_webhook_of_another_entry_is_left_unchanged(
        self, run: Run, api: PostmarkStandIn, command: Command, url: str
    ) -> None:
        (command.folder / "hookrow.toml").write_text(self.THREE)
        register = ("register", "--url", url, "--entry", "mail", "--stream", "outbound")
        assert run(*register).returncode == 0
        done = run("status", "--entry", "other", "--stream", "outbound")
        assert "outbound: no hookrow webhook." in done.stdout
        [webhook] = api.webhooks
        assert webhook.url == url

    @pytest.mark.parametrize(
        ("of_file", "variables"),
        [
            ("token = '{token}'", {}),
            ("token = 'wrong'", {"HOOKROW_PROVIDERS_OTHER_TOKEN": "{token}"}),
            ("token = '{token}'", {"HOOKROW_PROVIDER_TOKEN": "wrong"}),
            ("token = '{token}'", {"HOOKROW_PROVIDER_TOKEN_FILE": "none"}),
            ("token_file = 'token'", {}),
            ("token_file = 'none'", {"HOOKROW_PROVIDERS_OTHER_TOKEN_FILE": "token"}),
            ("token_file = 'none'", {"HOOKROW_PROVIDERS_OTHER_TOKEN": "{token}"}),
            ("", {"HOOKROW_PROVIDER_TOKEN": "{token}"}),
        ],
    )
    def test_each_entry_may_have_its_own_token(
        self, command: Command, api: PostmarkStandIn, of_file: str, variables: dict[str, str]
    ) -> None:
        """It takes precedence over the one for all, and a variable over the file."""
        (command.folder / "token").write_text(f" {api.token}\n")
        (command.folder / "hookrow.toml").write_text(
            f"{self.THREE}\n{of_file.format(token=api.token)}"
        )
        given = {name: value.format(token=api.token) for name, value in variables.items()}
        address = {"HOOKROW_PROVIDER_API": api.address}
        done = command.call("provider", "status", "--entry", "other", **address, **given)
        assert "Server Stand-in (4711)" in done.stdout, done.stderr
        assert "is not a setting" not in done.stderr
        assert api.token not in done.stdout + done.stderr

    def test_a_file_on_the_command_line_takes_precedence(
        self, command: Command, api: PostmarkStandIn
    ) -> None:
        (command.folder / "token").write_text(api.token)
        (command.folder / "hookrow.toml").write_text(f"{self.THREE}\ntoken = 'wrong'")
        typed = ("--entry", "other", "--provider-token-file", "token")
        done = command.call("provider", "status", *typed, HOOKROW_PROVIDER_API=api.address)
        assert "Server Stand-in (4711)" in done.stdout, done.stderr

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (THREE, "is missing: set HOOKROW_PROVIDERS_OTHER_TOKEN, or --provider-token-file"),
            (f"{THREE}\ntoken = ' '", "is missing: set HOOKROW_PROVIDERS_OTHER_TOKEN, or"),
            (
                f"{THREE}\ntoken = 'a'\ntoken_file = 'b'",
                "Both token and token_file are set",
            ),
            (
                f"{THREE}\ntoken_file = 'none'",
                "Correct HOOKROW_PROVIDERS_OTHER_TOKEN_FILE, or token_file in [providers.other].",
            ),
            (f"{THREE}\ntoken = 1", "[providers.other]: token must be text, not int: write"),
            (f"{THREE}\ntokn = 'a'", "postmark has no setting 'tokn'. Did you mean 'token'?"),
            (f"{TWO}[providers.mailgun]\ntoken = 'a'", "mailgun has no setting 'token'."),
        ],
    )
    def test_mistakes_in_its_token(self, command: Command, content: str, text: str) -> None:
        (command.folder / "hookrow.toml").write_text(content)
        done = command.call("provider", "status", "--entry", "other")
        assert done.returncode == 1
        assert text in " ".join(done.stderr.split())

    def test_the_token_of_an_entry_of_an_application(
        self, command: Command, api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its settings file describes no entries, so a variable has the token."""
        monkeypatch.setattr(sys, "path", [*sys.path])
        source = f"""
            from hookrow import Postmark, Receiver
            from hookrow.stores.sql import SQLStore
            entries = {{"mail": Postmark("{SECRET}"), "other": Postmark("another-secret-of-16")}}
            receiver = Receiver(entries, SQLStore("sqlite:///hookrow.db"))
        """
        (command.folder / "shop_tokens.py").write_text(dedent(source))
        app = ("--app", "shop_tokens:receiver", "provider", "status", "--entry", "other")
        given = {"HOOKROW_PROVIDERS_OTHER_TOKEN": api.token, "HOOKROW_PROVIDER_API": api.address}
        done = command.call(*app, **given)
        assert "Server Stand-in (4711)" in done.stdout, done.stderr
        assert "is not a setting" not in done.stderr
        del sys.modules["shop_tokens"]

    @pytest.mark.parametrize(
        ("content", "typed", "text"),
        [
            (THREE, (), "Several entries are Postmark's: mail, other. Name one of them with"),
            (TWO, ("--entry", "news"), "The provider is resend: `hookrow provider` manages only"),
            (TWO, ("--entry", "nobody"), "The receiver has no entry 'nobody'. The names of its"),
        ],
    )
    def test_mistakes(
        self, run: Run, command: Command, content: str, typed: tuple[str, ...], text: str
    ) -> None:
        (command.folder / "hookrow.toml").write_text(content)
        done = run("status", *typed)
        assert done.returncode == 1
        assert text in done.stderr

    def test_the_url_of_another_entry(self, run: Run, command: Command, url: str) -> None:
        """That without a name is the first entry's."""
        (command.folder / "hookrow.toml").write_text(self.TWO)
        for wrong, end in ((url.replace("/mail", "/news"), "/news"), (url[: -len("/mail")], "")):
            done = run("register", "--url", wrong)
            assert done.returncode == 1
            assert (
                f"The URL ends in {ENDPOINT}{end}, but must end in {ENDPOINT}/mail." in done.stderr
            )

    def test_reconcile(self, run: Run, api: PostmarkStandIn, command: Command) -> None:
        """What is recorded belongs to the entry."""
        (command.folder / "hookrow.toml").write_text(self.TWO)
        assert command.call("db", "upgrade").returncode == 0
        world.fill(f"sqlite:///{command.folder / 'hookrow.db'}")
        api.send(ADA, message_id=ADAS)
        api.deliver(ADAS)
        done = run("reconcile", "--since", f"{api.now - timedelta(days=1):%Y-%m-%d}")
        assert "Recorded 0 suppressions, 0 opens and 1 delivery." in done.stdout
        [entry] = [json.loads(line) for line in command.call("log", "--json").stdout.splitlines()]
        assert (entry["entry"], entry["provider"]) == ("mail", "postmark")


def test_reconcile(run: Run, api: PostmarkStandIn, command: Command) -> None:
    assert command.call("db", "upgrade").returncode == 0
    world.fill(f"sqlite:///{command.folder / 'hookrow.db'}")
    api.send(ADA, message_id=ADAS)
    api.deliver(ADAS)
    api.open(ADAS)
    api.suppress("unknown@example.com")
    day = f"{api.now - timedelta(days=1):%Y-%m-%d}"
    done = run("reconcile", "--since", day, "--dry-run")
    assert "  delivered   ada@example.com  6f1d0a4e-" in done.stdout
    expected = (
        "0 suppressions, 1 open and 1 delivery. Events that match no row here: 1. "
        "Messages that the provider does not know: 5.\n"
    )
    assert done.stdout.endswith(f"Would record {expected}")
    assert run("reconcile", "--since", day).stdout == f"Recorded {expected}"
    entries = [json.loads(line) for line in command.call("log", "--json").stdout.splitlines()]
    assert [each["source"] for each in entries] == ["reconcile"] * 2
    assert "from the provider's API" in command.call("log", "show", entries[0]["id"]).stdout
    found = json.loads(run("reconcile", "--since", day, "--json", "--lift").stdout)
    assert found == {
        "dry_run": False,
        "suppressions": 0,
        "lifted": 1,
        "opens": 0,
        "deliveries": 0,
        "unknown": 1,
        "undelivered": 0,
        "unknown_there": 5,
        "failed": 0,
        "incomplete": [],
    }
    assert not writes(api)


def test_mistakes_of_reconcile(run: Run, api: PostmarkStandIn, url: str) -> None:
    assert url
    old = run("reconcile", "--since", "2020-01-01")
    assert "the provider keeps messages for 45 days" in old.stderr
    future = run("reconcile", "--since", "2999-01-01")
    assert (future.returncode, "in the future" in future.stderr) == (2, True)
    assert run("reconcile", "--since", "yesterday").returncode == 2
    api.inject(Fault.NOT_JSON, path="dump")
    failed = run("reconcile", "--since", f"{api.now:%Y-%m-%d}")
    assert failed.returncode == 1
    assert "Error: Stopped. Recorded 0 suppressions, 0 opens and 0 deliveries. " in failed.stderr
    assert "not a JSON object" in failed.stderr


def test_rotate(run: Run, api: PostmarkStandIn, command: Command) -> None:
    """A hookrow whose secret is not in a file is told how to rotate it by hand."""
    done = run("rotate")
    assert done.returncode == 1
    assert "Only secrets in a file can be rotated: set --secret-file." in done.stderr
    file = command.folder / "secrets"
    file.write_text(f"{SECRET}\n")
    given = {"HOOKROW_SECRET": "", "HOOKROW_SECRET_FILE": str(file)}
    assert "run `hookrow provider register` first" in run("rotate", **given).stderr
    assert file.read_text() == f"{SECRET}\n"
    finished = run("rotate", "--finish", **given)
    assert "No rotation is in progress" in finished.stdout
    partial = run("rotate", "--finish", "--stream", "outbound", **given)
    assert (partial.returncode, "omit --stream" in partial.stderr) == (2, True)
    assert not writes(api)


def test_a_rotation_whose_verification_fails(
    run: Run, api: PostmarkStandIn, url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the webhook's URL."""
    run("register", "--url", url, "--stream", "outbound")
    [webhook] = api.webhooks
    webhook.url = "http://127.0.0.1:9/provider/webhooks"
    file = command.folder / "secrets"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setattr(rotate, "accepts", lambda *_, **__: True)
    given = {"HOOKROW_SECRET": "", "HOOKROW_SECRET_FILE": str(file)}
    done = run("rotate", "--instance", url, **given)
    assert done.returncode == 1
    assert "    Delivery: no response. " in done.stderr
    assert f"hookrow check {webhook.url}" in done.stderr
