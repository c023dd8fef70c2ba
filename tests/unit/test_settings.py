"""Settings: the file `hookrow.toml`, the file of secrets, and what a worker receives."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from hookrow import ConfigurationError, Role, Schema
from hookrow.settings import Settings, read

KNOWN = {"secret", "database_url", "mount_path", "port", "log_level", "sweep"}
PEOPLE = "[tables.subscribers]\ntable = 'people'\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a file that does not exist."""
    return tmp_path / "hookrow.toml"


@pytest.mark.parametrize(
    ("content", "settings", "schema"),
    [
        ("", {}, Schema()),
        (
            'port = 8001\nmount_path = "/größe"\nsweep = false',
            {"port": 8001, "mount_path": "/größe", "sweep": False},
            Schema(),
        ),
        (
            """
            [tables]
            log = false
            messages = { table = "campaigns", columns = { list_id = "audience" } }
            reasons = { HardBounce = 1, "*" = 9 }
            [tables.subscribers]
            table = "crm.people"
            columns = { email = "address", suppression_reason = false }
            where = { deleted_at = false, active = true, tenant = "acme", state = 1 }
            fold = "lower"
            """,
            {},
            Schema(
                subscribers=Role(
                    "crm.people",
                    {"email": "address", "suppression_reason": None},
                    where={"deleted_at": False, "active": True, "tenant": "acme", "state": 1},
                    fold="lower",
                ),
                messages=Role("campaigns", {"list_id": "audience"}),
                reasons={"HardBounce": 1, "*": 9},
                log=None,
            ),
        ),
    ],
    ids=["empty", "values", "tables"],
)
def test_read(file: Path, content: str, settings: dict[str, object], schema: Schema) -> None:
    """The file has plain settings and a schema, in which `false` is a missing column or role."""
    file.write_text(content, encoding="utf-8")
    assert read(file, KNOWN) == (settings, schema)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("port = ", "cannot be read: Invalid value"),
        (b"\xff\xfe", "cannot be read: 'utf-8'"),
        ("prot = 1", "no setting 'prot'. Did you mean 'port'?"),
        ("x = 1", "there is no setting 'x'."),
        ("port = 1.5", "port is neither text nor a whole number"),
        ("secret = ['hunter2']", "secret is neither text nor"),
        ("secret = hunter2", "cannot be read"),
        ("tables = 5", '[tables.subscribers] and below it table = "its_name".'),
        ("[tables]\nsubscribers = 'people'", 'subscribers] and below it table = "people".'),
        ("[tables]\ndispatches = false", "`$.dispatches`"),
        ("[tables.subscribers]\ntabel = 'people'", "'tabel'. Did you mean 'table'?"),
        (f"{PEOPLE}columns = {{ emial = 'x' }}", "no column 'emial'. Did you mean 'email'?"),
        (f"{PEOPLE}columns = {{ email = false }}", "needs the column 'email'"),
        (f"{PEOPLE}fold = 'lowr'", "no fold 'lowr'. Did you mean 'lower'?"),
        (f"{PEOPLE}where = {{ state = 1.5 }}", "$.subscribers.where"),
        ("[tables.messages]\ncolumns = { list_id = 'x' }", "the messages have no table: name it"),
        ("[tables]\nreasons = { HardBounce = 1 }", "numbers need one for all others"),
    ],
)
def test_refused_file(file: Path, content: str | bytes, text: str) -> None:
    """A mistake in the file is reported in one line with the file's name, and without a secret."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError) as raised:
        read(file, KNOWN)
    message = str(raised.value)
    assert text in message
    assert message.startswith(str(file))
    assert "\n" not in message
    assert "hunter2" not in message


def test_missing_file(file: Path) -> None:
    """A missing file, or a folder in its place, is a mistake."""
    for path in (file, file.parent):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read(path, KNOWN)


def test_handover() -> None:
    """A worker decodes the same settings that its parent encoded."""
    subscribers = Role("people", {"email": "address"}, where={"state": 1}, fold="citext")
    settings = Settings(
        secrets=("a", "b"),
        database_url="sqlite:///größe.db",
        keep=None,
        keep_bodies=timedelta(0),
        schema=Schema(subscribers=subscribers, subscriptions=None, reasons={"*": 9}),
    )
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings


def test_secrets_file(tmp_path: Path) -> None:
    """Each line of the file is a secret without surrounding space; the file is read each time."""
    file = tmp_path / "secrets"
    settings = Settings(database_url="sqlite://", secret_file=str(file))
    for content, secrets in (
        (b"one", ["one"]),
        (b"\r\n new \r\n\r\n\told\r\n\n", ["new", "old"]),
        (b" \n\n", []),
    ):
        file.write_bytes(content)
        assert settings.accepted() == secrets


@pytest.mark.parametrize(
    ("name", "secrets", "text"),
    [
        ("missing", (), "No such file"),
        ("", (), "Is a directory"),
        ("binary", (), "'utf-8' codec"),
        ("binary", ("another",), "keep one of the two"),
    ],
)
def test_refused_secrets(tmp_path: Path, name: str, secrets: tuple[str, ...], text: str) -> None:
    """A file that cannot be read, or secrets besides a file, are refused, without a secret."""
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    file = str(tmp_path / name)
    settings = Settings(database_url="sqlite://", secrets=secrets, secret_file=file)
    with pytest.raises(ConfigurationError, match=re.escape(text)) as raised:
        settings.accepted()
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)
