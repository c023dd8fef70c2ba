"""A provider of the host's own in settings: `provider = "module:name"` in [providers.NAME]."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

import world
from command import Command
from hookrow import ConfigurationError, Postmark, Request, RequestHead
from hookrow._cli import hookrow
from hookrow._cli.entries import read_entries, senders_of
from hookrow._cli.settings import read_file
from hookrow._server.app import Server
from hookrow._server.preflight import check_and_prepare
from hookrow._server.settings import OwnEntrySettings, Settings, parsers_of
from wire import ADA, ADAS, AT, ENDPOINT, SECRET

KEY = "the-key-of-the-courier"

SOURCE = f"""
    import json
    from datetime import datetime

    from hookrow import ConfigurationError, Delivered, Event, Postmark
    from hookrow.providers import Provider

    class Courier(Provider):
        name = "courier"

        def __init__(self, key, *, strict=False):
            self.key, self.strict = key.encode(), strict

        def admit(self, head):
            return None if head.header("x-key") == self.key else "Key"

        def read(self, request):
            return [self.parse(request.body)]

        def parse(self, body):
            event = json.loads(body)
            at = datetime.fromisoformat(event["at"])
            return Event((Delivered(event["to"], event["id"], at),), body)

    class Nameless(Courier):
        name = ""

    def postmark():
        return Postmark("{SECRET}")

    def fail(key):
        raise LookupError(key)

    def refuse(key):
        raise ConfigurationError("No key today.")

    async def later(key):
        return Courier(key)

    text = "a text"
"""

EVENT = json.dumps({"to": ADA, "id": ADAS, "at": AT.isoformat()}).encode()


@pytest.fixture
def folder(command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the current directory, which contains the module `own_courier`."""
    (command.folder / "own_courier.py").write_text(dedent(SOURCE))
    monkeypatch.chdir(command.folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield command.folder
    sys.modules.pop("own_courier", None)


def read(name: str = "Courier", /, *, variable: str = "", **values: object) -> OwnEntrySettings:
    """Return the settings of an entry whose provider is in the module."""
    providers = {"news": {"provider": f"own_courier:{name}", **values}}
    environment = {"HOOKROW_PROVIDERS_NEWS_KEY": variable}
    [entry] = read_entries(providers, environment, "hookrow.toml").entries
    assert isinstance(entry, OwnEntrySettings)
    return entry


@pytest.mark.usefixtures("folder")
def test_the_other_settings_are_keyword_arguments() -> None:
    """A variable overrides one that the table has; none is printed."""
    entry = read(key=KEY, strict=True, tenant=7)
    provider = entry.build()
    assert (provider.name, vars(provider)) == ("courier", {"key": KEY.encode(), "strict": True})
    assert KEY not in repr(entry)
    assert vars(read(key="", variable=KEY).build())["key"] == KEY.encode()
    [parser] = parsers_of([entry])
    assert (parser.name, parser.tenant, parser.provider.parse(EVENT).notifications[0].at) == (
        "news",
        7,
        AT,
    )
    settings = Settings(entries=[read(key=KEY)], database_url="sqlite://", sweep=False)
    with pytest.raises(ConfigurationError, match="Every event of own_courier:Courier that the log"):
        _ = settings.sweeps


@pytest.mark.usefixtures("folder")
def test_a_function_may_return_a_provider_of_hookrows() -> None:
    """Its secrets are known, so that its requests can be sent."""
    entry = read("postmark")
    assert [*entry.secrets()] == [SECRET]
    [sender] = senders_of([entry])
    assert (sender.kind, sender.provider and sender.provider.secrets) == (Postmark, (SECRET,))
    [stranger] = senders_of([read(key=KEY)])
    assert (stranger.kind, stranger.provider) == (None, None)


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        ("own_couriers:Courier", "cannot be loaded: ModuleNotFoundError: No module named 'own_cou"),
        ("own_courier:Currier", "cannot be loaded: AttributeError: module 'own_courier' has no"),
        ("own_courier:text", "is str: name a subclass of hookrow.providers.Provider, or a pl"),
        ("own_courier:later", "is an async function: name a subclass of hookrow.providers.Pr"),
        ("own_courier:postmark", "does not accept these settings as its keyword arguments: got"),
        ("own_courier:json.dumps", "as its keyword arguments: missing a required argument: 'obj'."),
        ("own_courier:fail", "cannot be created: LookupError in {folder}/own_courier.py:32. Its"),
        ("own_courier:refuse", "[providers.news]: No key today."),
        ("builtins:dict", "returns dict, which is no instance of a subclass of hookrow.provid"),
        ("own_courier:Nameless", "The name of a provider has 1 to 32 characters, but that of Na"),
    ],
)
def test_mistakes(folder: Path, provider: str, text: str) -> None:
    providers = {"news": {"provider": provider, "key": KEY}}
    [entry] = read_entries(providers, {}, "hookrow.toml").entries
    with pytest.raises(ConfigurationError) as raised:
        entry.build()
    assert str(raised.value).startswith("[providers.news]: ")
    assert text.format(folder=folder) in str(raised.value)
    assert KEY not in str(raised.value)


def test_no_value_is_shown_among_the_sources() -> None:
    """Any of them may be a secret, whatever its name is."""
    table = {"provider": "own_courier:Courier", "tenant": 1, "pin": "hunter2", "strict": True}
    environment = {"HOOKROW_PROVIDERS_NEWS_PIN": "hunter3"}
    sources = read_entries({"news": table}, environment, "hookrow.toml").sources
    assert [each.text for each in sources] == [
        "providers.news.provider is own_courier:Courier, from the file hookrow.toml.",
        "providers.news.tenant is 1, from the file hookrow.toml.",
        "providers.news.pin is set, from the variable HOOKROW_PROVIDERS_NEWS_PIN.",
        "providers.news.strict is set, from the file hookrow.toml.",
    ]


@pytest.mark.parametrize("provider", ["own_courier.Courier", "own_courier:", "own courier:Courier"])
def test_what_is_not_a_reference(provider: str) -> None:
    with pytest.raises(ConfigurationError, match="is not module:name, such as"):
        read_entries({"news": {"provider": provider}}, {}, "hookrow.toml")


def test_the_commands(command: Command, folder: Path) -> None:
    """The server records its events, and the other commands read them."""
    assert command.call("db", "upgrade").returncode == 0
    world.fill(f"sqlite:///{folder / 'hookrow.db'}")
    (folder / "hookrow.toml").write_text(
        f"""
        [providers.mail]
        provider = "postmark"
        secret = "{SECRET}"
        [providers.news]
        provider = "own_courier:Courier"
        key = "{KEY}"
        """
    )
    file = read_file(folder / "hookrow.toml", hookrow)
    settings = Settings(
        entries=read_entries(file.providers, {}, "hookrow.toml").entries,
        database_url=f"sqlite:///{folder / 'hookrow.db'}",
    )
    check_and_prepare(settings)
    with closing(Server(settings)) as server:
        heads = [
            RequestHead("POST", f"{ENDPOINT}/news", [(b"x-key", key.encode())])
            for key in (KEY, "another-key")
        ]
        refused = [server.receiver.admit(each) for each in heads]
        assert [each and each.status for each in refused] == [None, 401]
        assert server.receiver(Request(heads[0], EVENT)).status == 200
        server.reload()  # which leaves it as it is
    done = command.call("log", "--json")
    [entry] = map(json.loads, done.stdout.splitlines())
    assert (entry["entry"], entry["provider"], entry["outcome"]) == ("news", "courier", "recorded")
    assert "1 notification" in command.call("replay", str(entry["id"])).stdout
    checked = command.call("check")
    assert "The provider of news verifies requests itself." in checked.stdout
    assert "providers.news.key is ***, from the file hookrow.toml." in checked.stdout
    assert KEY not in checked.stdout
    simulated = command.call("simulate", "delivery", ADA, ADAS, "--entry", "news")
    assert "The provider is not one of hookrow's own" in simulated.stderr
