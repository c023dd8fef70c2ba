"""The receiver's entries in settings: [providers.NAME], its variables, and the commands."""

import json
import sys
from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import world
from command import Command
from hookrow import Arrival, ConfigurationError, Postmark
from hookrow._cli.entries import ConfiguredEntries, read_entries
from hookrow._core.schema import Schema
from hookrow._diagnostics import Level
from hookrow._diagnostics.check import check_secrets
from hookrow._receiver.recorder import record
from hookrow._server.settings import EntrySettings, Settings, parsers_of
from hookrow.providers._built_in import credential_settings
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, SECRET

SIGNING_SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"

ACME = {"provider": "postmark", "secret": "acme's secret"}
GLOBEX = {"provider": "resend", "secret_file": "globex.secret"}


def read(providers: object, **variables: str) -> ConfiguredEntries:
    environment = {f"HOOKROW_PROVIDERS_{name}": value for name, value in variables.items()}
    return read_entries(providers, environment, "hookrow.toml")


def read_built_in(providers: object, **variables: str) -> list[EntrySettings]:
    """Return the entries, whose providers are hookrow's."""
    entries = read(providers, **variables).entries
    built_in_entries = [each for each in entries if isinstance(each, EntrySettings)]
    assert len(built_in_entries) == len(entries)
    return built_in_entries


def test_the_order_of_the_tables_is_that_of_the_entries() -> None:
    assert read({"acme": ACME, "globex": GLOBEX}).entries == [
        EntrySettings(name="acme", provider="postmark", credentials=("acme's secret",)),
        EntrySettings(name="globex", provider="resend", file="globex.secret"),
    ]
    assert read({}).entries == []


def test_the_provider_is_by_default_the_one_with_the_name_of_the_table() -> None:
    [entry] = read({"resend": {}}).entries
    assert entry.provider == "resend"


@pytest.mark.parametrize("tenant", [1, "acme"])
def test_a_tenant(tenant: object) -> None:
    [entry] = read({"acme": ACME | {"tenant": tenant}}).entries
    assert entry.tenant == tenant


@pytest.mark.parametrize(
    ("table", "variables", "expected"),
    [
        ({"secret": "file"}, {"ACME_SECRET": "variable"}, (("variable",), None)),
        ({"secret": "file"}, {"ACME_SECRET": ""}, (("file",), None)),
        ({"secret": "new"}, {"ACME_PREVIOUS_SECRET": "old"}, (("new", "old"), None)),
        ({"secret_file": "f"}, {"ACME_SECRET": "variable"}, (("variable",), None)),
        ({"secret": "s"}, {"ACME_SECRET_FILE": "f"}, ((), "f")),
        # Neither takes precedence, so that `EntrySettings` rejects them.
        ({"secret": "s", "secret_file": "f"}, {}, (("s",), "f")),
        ({"secret_file": "f"}, {"ACME_PREVIOUS_SECRET": "old"}, (("old",), "f")),
    ],
)
def test_a_variable_overrides_the_file(
    table: dict[str, str], variables: dict[str, str], expected: tuple[tuple[str, ...], str | None]
) -> None:
    [entry] = read_built_in({"acme": {"provider": "postmark"} | table}, **variables)
    assert (entry.credentials, entry.file) == expected


def test_the_variable_of_a_name_with_a_hyphen() -> None:
    providers = {"acme-2": {"provider": "postmark"}}
    [entry] = read_built_in(providers, ACME_2_SECRET="s")
    assert entry.credentials == ("s",)
    assert "HOOKROW_PROVIDERS_ACME_2_PREVIOUS_SECRET" in read(providers).variables


@pytest.mark.parametrize(
    ("providers", "text"),
    [
        (5, "providers must be tables, such as [providers.acme]."),
        ({"secret": "hunter2"}, "providers.secret must be a table"),
        ({"Acme Inc": ACME}, "[providers.Acme Inc]: the name of an entry has 1 to 64 lower-case"),
        ({"Acme Inc": ACME}, "is part of a URL: write [providers.acme-inc]."),
        ({"é!": ACME}, "is part of a URL: write [providers.acme]."),
        ({"acme": {"eu": ACME}}, "entry, its name has no dot: write [providers.acme-eu]."),
        ({"acme": {}}, '[providers.acme] has no provider: write provider = "postmark", or another'),
        ({"acme": {"provider": 5}}, "[providers.acme] has no provider"),
        (
            {"acme": {"provider": "postmrk"}},
            "[providers.acme]: There is no provider 'postmrk'. Did you mean 'postmark'?",
        ),
        (
            {"acme": {"provider": "resend", "secrt": "hunter2"}},
            "[providers.acme]: resend has no setting 'secrt'. Did you mean 'secret'?",
        ),
        (
            {"sendgrid": {"secret": "hunter2"}},
            "sendgrid has no setting 'secret'. It has these: provider, tenant, public_key, ",
        ),
        *(
            ({"acme": ACME | {"secret": secret}}, f"secret must be text, not {fault}")
            for secret, fault in (
                (5, 'int: write secret = "...".'),
                (True, 'bool: write secret = "...".'),
                (
                    ["hunter2"],
                    'list: write secret = "...". Write the older one as previous_secret.',
                ),
            )
        ),
        (
            {"sendgrid": {"groups": "yes"}},
            "groups must be true or false, not str: write groups = true.",
        ),
        (
            {"sendgrid": {"groups": 1}},
            "groups must be true or false, not int: write groups = true.",
        ),
        *(
            ({"acme": ACME | {"tenant": tenant}}, f"[providers.acme]: tenant must {fault}")
            for tenant, fault in (
                (1.5, "be text or a whole number: write, for example, tenant = 1."),
                (True, "be text or a whole number: write, for example, tenant = 1."),
                (2**70, "fit 64 bits, but 11"),
            )
        ),
        (
            {"acme": ACME | {"tenant": 1}, "globex": GLOBEX},
            "[providers.globex] has no tenant, but other entries have",
        ),
        (
            {"a-b": ACME, "a_b": ACME},
            "[providers.a-b] and [providers.a_b] have the same variable, HOOKROW_PROVIDERS_A_B_SEC",
        ),
        (
            {"acme": ACME, "acme_previous": ACME},
            "[providers.acme] and [providers.acme_previous] have the same variable, HOOKROW_PROVID",
        ),
    ],
)
def test_mistakes(providers: object, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(providers)
    assert str(raised.value).startswith("hookrow.toml: ")
    assert text in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_every_mistake_in_a_secret_names_its_setting(tmp_path: Path) -> None:
    """No message contains the secret."""
    file = tmp_path / "secrets"
    file.write_text("\n")
    variable = "HOOKROW_PROVIDERS_ACME_SECRET"
    for given, text in (
        (
            {},
            f"The entry acme has no secret, or it is empty: set {variable}, or secret or secret",
        ),
        ({"credentials": ("hunter2",)}, f"It is set in {variable}, or secret in [providers.acme]."),
        ({"file": "missing"}, f"Correct {variable}_FILE, or secret_file in [providers.acme]."),
        ({"file": str(file)}, f"the newest first, or correct {variable}_FILE, or secret_file in"),
        ({"file": "f", "credentials": ("hunter2",)}, "are set for the entry acme, and neither"),
    ):
        arguments: dict[str, Any] = given
        with pytest.raises(ConfigurationError) as raised:
            EntrySettings(name="acme", provider="resend", **arguments).read()
        assert text in str(raised.value)
        assert "hunter2" not in str(raised.value)


def test_the_log_is_read_without_a_secret() -> None:
    parsers = parsers_of(read({"acme": ACME | {"tenant": 1}, "b": GLOBEX | {"tenant": 2}}).entries)
    assert [each.provider.name for each in parsers] == [Postmark.name, Resend.name]
    assert parsers.tenants == {"acme": 1, "b": 2}


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_each_provider_accepts_its_credential(name: str, tmp_path: Path) -> None:
    """The setting is named as the provider names it. A variable or a file may have it, too."""
    kind = built_in(name)
    options = {"url": "https://example.com/hooks"} if name == "mandrill" else {}
    new, old = (kind.generate(**options)[0] for _ in range(2))
    newest, previous, file = credential_settings(kind.credential)
    (tmp_path / "credentials").write_text(f"{new}\n{old}\n")
    for table in ({newest: new, previous: old}, {file: str(tmp_path / "credentials")}):
        [entry] = read_built_in({name: table | options})
        assert [*entry.read()] == [new, old]
        assert entry.build().name == name
    [entry] = read_built_in({name: options}, **{f"{name}_{newest}".upper(): new})
    assert [*entry.read()] == [new]
    assert repr(new) not in repr(entry)
    [parser] = parsers_of(read({name: {}}).entries)
    assert parser.provider.name == name


def test_an_option_may_be_required() -> None:
    [entry] = read({"mandrill": {"key": "a-key-of-the-webhook"}}).entries
    with pytest.raises(ConfigurationError, match="The entry mandrill has no url, or it is empty"):
        entry.build()


def test_an_option_decides_how_the_log_is_read() -> None:
    """In the log, an event of SendGrid's has no trace of the setting."""
    table = {"message_id_key": "anymail_id"}
    [entry] = parsers_of(read({"sendgrid": table}).entries)
    body = (
        b'{"event": "open", "timestamp": 1700000000, "email": "a@example.com", "anymail_id": "7"}'
    )
    assert entry.provider.parse(body).notifications[0].message_id == "7"


@pytest.mark.parametrize(
    ("table", "variables", "expected"),
    [
        ({}, {}, {}),
        ({"groups": True}, {}, {"groups": True}),
        ({}, {"SENDGRID_GROUPS": "true"}, {"groups": True}),
        ({"groups": True}, {"SENDGRID_GROUPS": "0"}, {"groups": False}),
        ({"groups": True}, {"SENDGRID_GROUPS": ""}, {"groups": True}),
    ],
)
def test_a_flag(
    table: dict[str, object], variables: dict[str, str], expected: dict[str, object]
) -> None:
    """A variable overrides the file, also to turn the flag off."""
    found = read({"sendgrid": table}, **variables)
    assert found.entries[0].options == expected
    [parser] = parsers_of(found.entries)
    event = parser.provider.parse(
        b'{"event": "group_unsubscribe", "timestamp": 1700000000, "email": "a@example.com"}'
    )
    assert bool(event.notifications) is bool(expected.get("groups"))


def test_a_variable_that_is_no_flag() -> None:
    text = "HOOKROW_PROVIDERS_SENDGRID_GROUPS must be true or false"
    with pytest.raises(ConfigurationError, match=text):
        read({"sendgrid": {}}, SENDGRID_GROUPS="some")


@pytest.mark.parametrize("command_", ["serve", "check", "log", "simulate open a@example.com 7"])
def test_a_package_that_is_not_installed(
    command: Command, monkeypatch: pytest.MonkeyPatch, command_: str
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "hookrow.providers.sendgrid", raising=False)
    (command.folder / "hookrow.toml").write_text('[providers.sendgrid]\npublic_key = "MFkw"\n')
    done = command.call(*command_.split())
    assert done.returncode == 1
    assert "[providers.sendgrid]: hookrow.providers.sendgrid needs an extra: pip" in done.stderr


def test_the_length_of_a_password_counts_without_the_user_name() -> None:
    [entry] = read({"brevo": {"credentials": "a-long-user-name:hunter22"}}).entries
    assert [*entry.secrets()] == ["hunter22"]
    assert check_secrets(entry.secrets).level is Level.WARNING


# -- the commands ----------------------------------------------------------------------

FILE = f"""
    [providers.acme]
    provider = "postmark"
    secret = "{SECRET}"
    [providers.globex]
    provider = "resend"
"""


@pytest.fixture
def file(command: Command, sqlite_url: str) -> Path:
    """Return the settings file, with two entries; the database has the world's rows."""
    world.fill(sqlite_url)
    path = command.folder / "hookrow.toml"
    path.write_text(FILE)
    return path


@pytest.mark.usefixtures("file")
def test_check(command: Command) -> None:
    """It checks the secret of each entry, and prints the sources, but no secret."""
    done = command.call("check", "--json", HOOKROW_PROVIDERS_GLOBEX_SECRET=SIGNING_SECRET)
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    assert SECRET not in done.stdout
    assert SIGNING_SECRET not in done.stdout
    found = [*map(json.loads, done.stdout.splitlines())]
    texts = [each["text"] for each in found if each["subject"] == "secret"]
    assert texts == ["That of acme is set.", "That of globex is set."]
    sources = {each["setting"]: each for each in found if each["subject"] == "setting"}
    for name, expected in {
        "providers.acme.provider": ("postmark", "file", "hookrow.toml"),
        "providers.acme.secret": ("***", "file", "hookrow.toml"),
        "providers.globex.secret": ("***", "variable", "HOOKROW_PROVIDERS_GLOBEX_SECRET"),
    }.items():
        assert tuple(sources[name][key] for key in ("value", "source", "name")) == expected


@pytest.mark.usefixtures("file")
def test_check_finds_each_missing_secret(command: Command) -> None:
    done = command.call("check")
    assert done.returncode == 1
    assert "error    secret      The entry globex has no secret, or it is empty" in done.stdout


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("name", ["serve", "check", "simulate open a@example.com m"])
def test_a_secret_beside_the_entries(command: Command, name: str) -> None:
    done = command.call(*name.split(), HOOKROW_SECRET=SECRET)
    assert done.returncode == 1
    text = "Both [providers] and secret are set, but each entry has its own: move it to secret in"
    assert text in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.usefixtures("file")
def test_a_mistyped_variable(command: Command) -> None:
    done = command.call("log", HOOKROW_PROVIDERS_GLOBX_SECRET="s")
    assert done.returncode == 0
    assert "Did you mean 'HOOKROW_PROVIDERS_GLOBEX_SECRET'?" in done.stderr


def test_an_application_has_its_own_entries(command: Command, file: Path) -> None:
    file.write_text(FILE)
    done = command.call("--app", "shop:receiver", "log")
    assert done.returncode == 1
    assert "already has its providers: omit [providers] in the settings file" in done.stderr


def test_replay_reads_each_entry_with_its_provider(
    command: Command, file: Path, sqlite_url: str
) -> None:
    del file
    data = {"email_id": ADAS, "to": [ADA]}
    event = {"type": "email.delivered", "created_at": "2026-03-05T12:00:00Z", "data": data}
    body = json.dumps(event).encode()
    notifications = Resend.parse(body).notifications
    arrival = Arrival(notifications, body, datetime.now(UTC), provider="resend", entry="globex")
    with closing(SQLStore(sqlite_url)) as store:
        store.claim_log()
        record(store, [arrival])
    done = command.call("replay", "1", "--json")
    assert json.loads(done.stdout)["outcomes"] == {"recorded": 1}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("tenant = 1", "the mapping does not name the column with the tenant of a row: write"),
        ("[tables.subscribers]\ntable = 'p'\ntenant = 'team'", "so each entry of the receiver ne"),
    ],
)
@pytest.mark.parametrize("name", ["serve", "log", "check"])
def test_tenants_are_in_the_entries_and_in_the_mapping(
    command: Command, sqlite_url: str, name: str, line: str, text: str
) -> None:
    del sqlite_url
    entry = f"[providers.acme]\nprovider = 'postmark'\nsecret = '{SECRET}'\n"
    (command.folder / "hookrow.toml").write_text(entry + line)
    done = command.call(name)
    assert done.returncode == 1
    assert text in (done.stdout if name == "check" else done.stderr)


# -- what is acknowledged --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, None),
        (
            {"sweep": False, "keep_bodies": timedelta(0), "schema": Schema(log=None)},
            "HOOKROW_SWEEP; and .*, --keep-bodies or HOOKROW_KEEP_BODIES; and `log = false` in",
        ),
        ({"schema": Schema(log=None)}, "its bodies: remove `log = false` in .tables.; or set"),
        ({"sweep": False}, "Every event of resend that the log has gets a 200, which needs the"),
        ({"sweep": False, "acknowledge_parked": False}, None),
        ({"sweep": False, "acknowledge_parked": True}, "acknowledge_parked needs the sweep"),
        (
            {"sweep": False, "acknowledge_parked": False, "acknowledge_spooled": True},
            "acknowledge_spooled needs the sweep",
        ),
    ],
)
def test_what_is_acknowledged_needs_the_sweep(options: dict[str, Any], text: str | None) -> None:
    entries = [EntrySettings(name=each, provider=each) for each in ("postmark", "resend")]
    settings = Settings(entries=entries, database_url="sqlite://", **options)
    if text is None:
        assert settings.sweeps is options.get("sweep", True)
    else:
        with pytest.raises(ConfigurationError, match=text):
            _ = settings.sweeps
