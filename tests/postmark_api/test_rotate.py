"""The rotation of a webhook's secret."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from providing import TRIGGERS, client, endpoint, kill_at_each_request, writes

from engines import MEMORY
from hookrow import Postmark, Receiver, Schema
from hookrow._diagnostics.probe import PROBE_TIMEOUT
from hookrow._postmark_api import rotate
from hookrow._postmark_api.errors import APIError, VerificationFailed
from hookrow._postmark_api.register import ExpectedWebhook, register
from hookrow._postmark_api.rotate import RETRIES_FOR, Rotation, RotationState, SecretFile
from hookrow._postmark_api.webhooks import read_streams
from hookrow._receiver.hourly import COUNT_EVERY
from hookrow._server.settings import EntrySettings
from hookrow.errors import ConfigurationError
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from stand_in import Fault, PostmarkStandIn
from wire import ENDPOINT, SECRET

HEADER = "X-Provider-Secret"
STEP = timedelta(seconds=1)


@dataclass
class Home:
    """An instance of hookrow that reads its secrets from a file, and its webhooks."""

    api: PostmarkStandIn
    file: SecretFile
    postmark: Postmark
    url: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    reloads: bool = True

    def sleep(self, seconds: float) -> None:
        """Reload the secrets, as after SIGHUP."""
        self.now += timedelta(seconds=seconds)
        if self.reloads:
            self.postmark.accept(*self.file.read())

    def rotation(self, *, dry_run: bool = False) -> Rotation:
        used = client(self.api)
        return Rotation(
            api=used,
            file=self.file,
            streams=read_streams(used),
            dry_run=dry_run,
            sleep=self.sleep,
            now=lambda: self.now,
        )

    def finish(self, store: SQLStore | None = None) -> list[str]:
        with closing(SQLStore(MEMORY)) as unused:
            return [*self.rotation().finish(store or unused)]

    def secrets_at_the_provider(self) -> set[str]:
        return {each.headers[0]["Value"] for each in self.api.webhooks}


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotate, "PROBES", 2)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o640)
    postmark, store = Postmark(SECRET), SQLStore(MEMORY)
    receiver = Receiver(postmark, store, acknowledge_tests=True)
    with (
        closing(store),
        closing(receiver),
        loopback(WSGI(receiver)) as port,
        PostmarkStandIn() as api,
    ):
        url = f"http://127.0.0.1:{port}{ENDPOINT}"
        used = client(api)
        assert list(
            register(
                used,
                ExpectedWebhook(url=url, secrets=[SECRET], triggers=TRIGGERS),
                read_streams(used),
            )
        )
        api.requests.clear()
        yield Home(api, SecretFile(path, EntrySettings(file=str(path)).given), postmark, url)


def test_a_rotation(home: Home) -> None:
    """Both secrets are accepted until the provider repeats nothing any more."""
    steps = list(home.rotation().begin())
    new, old = home.file.read()
    assert old == SECRET
    assert len(new) >= 43
    assert home.secrets_at_the_provider() == {new}
    assert home.file.path.stat().st_mode & 0o777 == 0o640
    assert not [text for text in steps if new in text or old in text]
    assert [text.split()[0] for text in steps] == [
        *("Wrote", "Waiting", "Webhook", "Webhook", "The")
    ]
    assert writes(home.api) == [f"PUT /webhooks/{each.id}" for each in home.api.webhooks]
    home.now += RETRIES_FOR - STEP
    with pytest.raises(ConfigurationError, match="for another 1 minute:"):
        home.finish()
    assert home.file.read() == [new, old]
    home.now += STEP
    assert home.finish()[-1] == "The rotation is complete."
    assert home.file.read() == [new]
    assert home.postmark.secrets == (new,)
    assert [*home.file.path.parent.iterdir()] == [home.file.path], "nothing else is left"


def test_a_second_run_changes_nothing(home: Home) -> None:
    list(home.rotation().begin())
    secrets, at = home.file.read(), home.file.state.rotated_at
    home.api.requests.clear()
    home.now += timedelta(minutes=5)
    list(home.rotation().begin())
    assert (home.file.read(), home.file.state.rotated_at) == (secrets, at)
    assert not writes(home.api)


def test_a_dry_run(home: Home) -> None:
    steps = list(home.rotation(dry_run=True).begin())
    assert [text.split()[:2] for text in steps] == [["Would", "write"], ["Would", "give"]]
    assert home.file.read() == [SECRET]
    assert not writes(home.api)


def test_an_instance_that_does_not_reload(home: Home) -> None:
    """The webhooks keep the old secret, and the next run continues with the same new one."""
    home.reloads = False
    with pytest.raises(ConfigurationError, match=f"{home.url} did not accept the new secret"):
        list(home.rotation().begin())
    assert home.secrets_at_the_provider() == {SECRET}
    new = home.file.read()[0]
    home.reloads = True
    list(home.rotation().begin())
    assert home.file.read() == [new, SECRET]
    assert home.secrets_at_the_provider() == {new}


def test_every_instance_is_asked(home: Home) -> None:
    with endpoint() as other:
        rotation = replace(home.rotation(), instances=[home.url, other])
        with pytest.raises(ConfigurationError, match=f"s, {other} did not accept"):
            list(rotation.begin())
    assert home.secrets_at_the_provider() == {SECRET}


def test_a_verification_that_fails_keeps_the_old_secret(home: Home) -> None:
    home.api.webhooks[0].url = "http://127.0.0.1:9/provider/webhooks"
    rotation = replace(home.rotation(), instances=[home.url])
    with pytest.raises(VerificationFailed):
        list(rotation.begin())
    assert SECRET in home.secrets_at_the_provider()
    assert len(home.file.read()) == 2


@pytest.mark.parametrize("fault", [Fault.RESET_AFTER_CHANGE, Fault.RESET])
def test_a_change_without_a_response(home: Home, fault: Fault) -> None:
    home.api.inject(fault, method="PUT")
    list(home.rotation().begin())
    assert home.secrets_at_the_provider() == {home.file.read()[0]}


def test_a_webhook_of_another_hookrow_stays(home: Home) -> None:
    home.api.webhooks[0].headers = ({"Name": HEADER, "Value": "another-one"},)
    list(home.rotation().begin())
    assert home.secrets_at_the_provider() == {"another-one", home.file.read()[0]}
    home.api.state.webhooks.clear()
    with pytest.raises(ConfigurationError, match="register"):
        list(home.rotation().begin())


def test_finish_needs_a_rotation(home: Home) -> None:
    list(home.rotation().begin())
    home.api.webhooks[0].headers = ({"Name": HEADER, "Value": SECRET},)
    with pytest.raises(ConfigurationError, match="do not have the newest secret"):
        home.finish()
    list(home.rotation().begin())
    home.file.delete_state()
    with pytest.raises(ConfigurationError, match="time of the rotation is unknown"):
        home.finish()


def test_finish_while_the_old_secret_is_used(home: Home, hookrow_store: SQLStore) -> None:
    list(home.rotation().begin())
    home.now += RETRIES_FOR
    assert hookrow_store.log is not None
    used_at = home.now - timedelta(minutes=119)
    for entry, text in (
        ("", "The old secret was"),
        ("mail", "The old secret of the entry mail was"),
    ):
        used = RequestHour(RequestKind.OLD_SECRET, entry, used_at)
        hookrow_store.log.add_requests({used: len(text)})  # the entry with most comes first
        with pytest.raises(ConfigurationError, match=f"{text} used in the hour from"):
            home.finish(hookrow_store)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        list(home.rotation().finish(None))
    home.now += timedelta(minutes=1)
    home.finish(hookrow_store)
    assert len(home.file.read()) == 1


def test_finish_waits_for_the_last_counts(home: Home, hookrow_store: SQLStore) -> None:
    list(home.rotation().begin())
    home.now += RETRIES_FOR

    def sleep(seconds: float) -> None:
        assert hookrow_store.log is not None
        assert seconds > COUNT_EVERY
        hookrow_store.log.add_requests({RequestHour(RequestKind.OLD_SECRET, "", home.now): 1})

    with pytest.raises(ConfigurationError, match="was used in the hour from"):
        list(replace(home.rotation(), sleep=sleep).finish(hookrow_store))
    assert len(home.file.read()) == 2


def test_finish_without_a_log(home: Home) -> None:
    """The provider's retries have ended, but another sender may still use the old secret."""
    list(home.rotation().begin())
    home.now += RETRIES_FOR
    with closing(SQLStore(MEMORY, Schema(log=None))) as store:
        steps = home.finish(store)
    assert len(home.file.read()) == 1
    assert "cannot see whether the old secret is still used." in steps[0]


def test_an_instance_that_still_accepts_the_old_secret(home: Home) -> None:
    """The state is kept until it rejects it, so that the next run continues there."""
    list(home.rotation().begin())
    old = home.file.read()[1]
    home.now += RETRIES_FOR
    home.reloads = False
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=f"{home.url} did not reject the old secret"):
            home.finish()
    with pytest.raises(ConfigurationError, match="The previous rotation is not complete"):
        list(home.rotation().begin())
    assert (home.postmark.secrets[1], home.file.state.removed) == (old, (old,))
    state = home.file.path.with_name("secret.rotated")
    assert state.stat().st_mode & 0o777 == 0o640, "it has a secret"
    home.reloads = True
    assert home.finish()[-1] == "The rotation is complete."
    assert [*home.postmark.secrets] == home.file.read()
    assert not state.exists()


@pytest.mark.parametrize("missing", [0, 1])
def test_an_instance_that_accepts_only_one_secret(home: Home, missing: int) -> None:
    """The webhooks are not changed, because the provider may repeat notifications with the old."""
    rotation = home.rotation()

    def accept_one(seconds: float) -> None:
        home.now += timedelta(seconds=seconds)
        home.postmark.accept(home.file.read()[1 - missing])

    names = ("new secret", "old secret besides the new one")
    with pytest.raises(ConfigurationError, match=f"{home.url} did not accept the {names[missing]}"):
        list(replace(rotation, sleep=accept_one).begin())
    assert home.secrets_at_the_provider() == {SECRET}


def test_an_instance_that_responds_late(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the probes counts, not only the pauses between them."""

    def time_out(*_: object) -> None:
        home.now += timedelta(seconds=PROBE_TIMEOUT)

    monkeypatch.setattr(rotate, "accepts", time_out)
    began = home.now
    with pytest.raises(ConfigurationError, match=r"After 300 s, .* did not accept the new secret"):
        list(home.rotation().begin())
    assert home.now - began < timedelta(seconds=rotate.INSTANCES_TIMEOUT + 2 * PROBE_TIMEOUT)


def test_the_probes_are_no_uses_of_the_old_secret(home: Home) -> None:
    """Otherwise, the rotation would delay its own end."""
    list(home.rotation().begin())
    assert home.postmark.matched[1] > 0
    assert home.postmark.old_matches == 0


def test_two_runs_at_once(home: Home, hookrow_store: SQLStore) -> None:
    first = home.rotation().begin()
    assert next(first).startswith("Wrote")
    secrets = home.file.read()
    for second in (home.rotation().begin(), home.rotation().finish(hookrow_store)):
        with pytest.raises(ConfigurationError, match="is already running"):
            list(second)
    list(first)
    assert home.file.read() == secrets
    assert home.secrets_at_the_provider() == {secrets[0]}
    list(home.rotation().begin())


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-20T00:00:00\n", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T00:00:00+01:00\n", datetime(2026, 11, 19, 23, tzinfo=UTC)),
        *(("yesterday\n", None), ("", None), ("0001-01-01T00:00:00+01:00\n", None)),
    ],
)
def test_the_time_of_a_rotation(home: Home, text: str, at: datetime | None) -> None:
    """A time without an offset is in UTC."""
    home.file.path.with_name("secret.rotated").write_text(text)
    assert home.file.state == RotationState(at)


def test_an_instance_whose_url_is_not_valid(home: Home) -> None:
    """Nothing is written."""
    with pytest.raises(ConfigurationError, match="not the URL of a webhook"):
        list(replace(home.rotation(), instances=["shop.example"]).begin())
    assert home.file.read() == [SECRET]


def test_a_killed_run_can_be_repeated(home: Home) -> None:
    """There is never a third secret, nor a webhook whose secret is not accepted."""

    @contextmanager
    def start() -> Iterator[Home]:
        home.file.path.write_text(f"{SECRET}\n")
        home.file.delete_state()
        home.postmark.accept(SECRET)
        for each in home.api.webhooks:
            each.headers = ({"Name": HEADER, "Value": SECRET},)
        yield home

    def describe(home: Home) -> object:
        newest, *old = home.file.read()
        at_provider = home.secrets_at_the_provider()
        assert at_provider <= {*home.postmark.secrets}
        has_time = home.file.state == RotationState(home.now)
        return old, [each == newest for each in at_provider], has_time

    count = kill_at_each_request(start, lambda home: [*home.rotation().begin()], describe)
    assert count > 3
    assert describe(home) == ([SECRET], [True], True)


def test_a_killed_end_can_be_repeated(home: Home) -> None:
    """It ends when no instance accepts the old secret, and nothing else is left."""
    list(home.rotation().begin())
    secrets, rotated_at = home.file.read(), home.now
    home.now += RETRIES_FOR

    @contextmanager
    def start() -> Iterator[Home]:
        home.file.write(secrets)
        home.file.set_state(rotated_at)
        home.postmark.accept(*secrets)
        yield home

    def describe(home: Home) -> object:
        files = [each.read_text() for each in home.file.path.parent.iterdir()]
        return home.file.read(), [*home.postmark.secrets], sorted(files)

    assert kill_at_each_request(start, lambda home: home.finish(), describe) > 3
    newest = secrets[:1]
    assert describe(home) == (newest, newest, [f"{newest[0]}\n"])


@pytest.mark.parametrize("function", ["NamedTemporaryFile", "os.fchown"])
def test_a_file_that_cannot_be_replaced(
    home: Home, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """The folder cannot be written, or the file would belong to another user."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(f"{rotate.__name__}.{function}", refuse)
    with pytest.raises(ConfigurationError, match="cannot be replaced: Permission denied"):
        list(home.rotation().begin())
    assert home.file.read() == [SECRET]
    assert [*home.file.path.parent.iterdir()] == [home.file.path]
    assert not writes(home.api)


def test_a_webhook_that_is_changed_later(home: Home) -> None:
    """The provider's whole retry time starts again, as after a rotation of only some streams."""
    list(home.rotation().begin())
    home.now += RETRIES_FOR
    home.api.webhooks[0].headers = ({"Name": HEADER, "Value": SECRET},)
    list(home.rotation().begin())
    with pytest.raises(ConfigurationError, match="for another 72 minutes"):
        home.finish()


def test_a_webhook_that_is_deleted_during_a_rotation(home: Home) -> None:
    steps = home.rotation().begin()
    while not next(steps).startswith("Webhook"):
        pass
    home.api.state.webhooks.popitem()
    with pytest.raises(APIError, match="was deleted"):
        list(steps)


def test_a_dry_run_of_the_end_changes_nothing(home: Home, hookrow_store: SQLStore) -> None:
    home.file.set_state(home.now)
    list(home.rotation(dry_run=True).finish(hookrow_store))
    assert home.file.state.rotated_at == home.now
