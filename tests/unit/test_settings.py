"""Settings: the file `hookrow.toml`, the secret file, and workers."""

import re
from pathlib import Path

import pytest

from hookrow import ConfigurationError, Role, Schema
from hookrow._cli import hookrow
from hookrow._cli.serve import serve
from hookrow._cli.settings import read_file
from hookrow._server.settings import EntrySettings, Settings
from hookrow._server.workers import build_server

PEOPLE = "[tables.subscribers]\ntable = 'people'\n"
TABLES = """
[tables]
log = false
messages = { table = "campaigns", columns = { list_id = "audience" } }
dispatches = { table = "sends", empty = "" }
reasons = { HardBounce = "bounced" }
[tables.subscribers]
table = "crm.people"
columns = { email = "address", suppression_reason = false }
where = { deleted_at = false, active = true, tenant = "acme", state = 1 }
fold = "lower"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hookrow.toml"


def test_the_file_has_a_schema_in_which_false_means_no_column_or_role(file: Path) -> None:
    file.write_text(TABLES)
    assert read_file(file, serve).schema == Schema(
        subscribers=Role(
            "crm.people",
            {"email": "address", "suppression_reason": None},
            where={"deleted_at": False, "active": True, "tenant": "acme", "state": 1},
            fold="lower",
        ),
        dispatches=Role("sends", empty=""),
        messages=Role("campaigns", {"list_id": "audience"}),
        reasons={"HardBounce": "bounced"},
        log=None,
    )


def test_a_setting_in_the_file_is_a_default_only_where_it_is_a_setting(file: Path) -> None:
    """For `simulate`, but not for the arguments of other commands that have the same name."""
    file.write_text("url = 'http://127.0.0.1/provider/webhooks'\nsecret = 's'")
    values = read_file(file, hookrow).defaults
    assert {*values["simulate"]} == {"url", "secret"}
    for others in (values["check"], values["provider"]["register"]):
        assert {*others} == {"secret"}


PYTHON = re.compile(r"\b(None|True|False|Role|Schema)\b|\w=|\{'")
"""What TOML does not have: Python's constants, arguments and dicts."""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("port = ", "cannot be read: Invalid value"),
        (b"\xff\xfe", "cannot be read: 'utf-8'"),
        ("prot = 1", "no setting 'prot'. Did you mean 'port'?"),
        ("x = 1", "there is no setting 'x'."),
        ("port = 1.5", "port: must be text or a whole number"),
        ("secret = ['hunter2']", "secret: must be text or"),
        ("keep = false", "keep: must be text or a whole number."),
        ("sweep = 0.5", "sweep: must be true or false."),
        ("sweep = 'maybe'", "sweep: 'maybe' is not a valid boolean"),
        ("secret = hunter2", "cannot be read"),
        ("tables = 5", "[tables]: Expected `object`, got `int`"),
        (
            "[tables]\nsubscribers = 'people'",
            "the role 'subscribers' has no table: write subscribers = { table = \"people\" }.",
        ),
        (
            f"{PEOPLE}email = 'address'\nsuppression_reason = false",
            (
                "the role 'subscribers' has the columns 'email' and 'suppression_reason' beside "
                'its table: write columns = { email = "address", suppression_reason = false }.'
            ),
        ),
        ("[tables]\ndispatches = false", "or turn off `subscriptions` in the same way."),
        ("[tables.subscribers]\ntabel = 'people'", "'tabel'. Did you mean 'table'?"),
        (f"{PEOPLE}columns = {{ emial = 'x' }}", "no column 'emial'. Did you mean 'email'?"),
        (f"{PEOPLE}fold = 'lowr'", "unknown fold 'lowr'. Did you mean 'lower'?"),
        (f"{PEOPLE}empty = 'none'", "has 'none' for `empty`, which is not an empty string"),
        (f"{PEOPLE}empty = 0", "`$.subscribers.empty`"),
        (f"{PEOPLE}tenant = 'email'", "has the tenant 'email', which notifications set or search"),
        ("[tables]\nlog = ''", "The log needs a table: set its name, or disable the log."),
        ("[tables]\nreasons = {}", "`reasons` is empty: map reasons, for example 'HardBounce' to"),
        ("[tables.reasons]\nHardBounce = 1", "add one for all others, with the key '*'."),
        (f"{PEOPLE}where = {{ state = 1.5 }}", "$.subscribers.where"),
        (
            "[tables.messages]\ncolumns = { list_id = 'x' }",
            "the role 'messages' has no table: set 'messages.table' to the table's name",
        ),
    ],
)
def test_mistakes_in_the_file(file: Path, content: str | bytes, text: str) -> None:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError) as raised:
        read_file(file, serve)
    message = str(raised.value)
    assert text in message
    assert message.startswith(str(file))
    assert "\n" not in message
    assert "hunter2" not in message
    assert not PYTHON.search(message)


def test_the_secret_file_has_one_secret_per_line_and_is_read_each_time(file: Path) -> None:
    settings = EntrySettings(file=str(file))
    for content, secrets in (
        (b"one", ["one"]),
        (b"\r\n new \r\n\r\n\told\r\n\n", ["new", "old"]),
        (b"new\nold\nnew", ["new", "old"]),
    ):
        file.write_bytes(content)
        assert settings.read() == secrets
    file.write_bytes(b" \n\n")
    with pytest.raises(ConfigurationError, match=r"hookrow.toml is empty: write one secret per li"):
        settings.read()


def test_no_secret_is_in_the_representation() -> None:
    """An exception in the log may contain it."""
    settings = Settings(
        entries=[EntrySettings(credentials=("hunter2",), options={"url": "hunter2"})],
        database_url="postgresql://mail:hunter2@localhost/mail",
        dashboard_password="hunter2",
        generated_password="hunter2",
        provider_tokens={None: "hunter2"},
    )
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("secrets", [(), ("",), ("a", "")])
def test_a_missing_secret_names_its_settings(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="HOOKROW_SECRET, --secret or --secret-file"):
        EntrySettings(credentials=secrets).read()


@pytest.mark.parametrize(
    ("name", "secrets", "text"),
    [
        ("missing", (), "No such file"),
        ("", (), "Is a directory"),
        ("binary", (), "'utf-8' codec"),
        ("binary", ("another",), "use only one"),
    ],
)
def test_wrong_secrets(tmp_path: Path, name: str, secrets: tuple[str, ...], text: str) -> None:
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    file = str(tmp_path / name)
    settings = EntrySettings(credentials=secrets, file=file)
    with pytest.raises(ConfigurationError, match=re.escape(text)) as raised:
        settings.read()
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_worker_that_cannot_start(caplog: pytest.LogCaptureFixture) -> None:
    """It logs the mistake, and exits, so that another one is started."""
    with pytest.raises(SystemExit):
        build_server(Settings(entries=[EntrySettings(file="missing")], database_url="sqlite://"))
    assert "This worker cannot start. The secret file cannot be read" in caplog.text
