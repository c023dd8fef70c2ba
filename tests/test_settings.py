"""The file, read and checked whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from hookrow import ConfigurationError, Role, Schema
from hookrow.settings import Settings, read

KNOWN = {"secret", "database_url", "mount_path", "port", "log_level", "sweep"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where a test writes its file."""
    return tmp_path / "hookrow.toml"


class TestRead:
    def test_empty(self, file: Path) -> None:
        """A file with nothing in it sets nothing, and leaves our own tables."""
        file.touch()
        assert read(file, KNOWN) == ({}, Schema())

    def test_values(self, file: Path) -> None:
        """Text, whole numbers, true and false come as they stand."""
        file.write_text('port = 8001\nmount_path = "/größe"\nsweep = false', encoding="utf-8")
        given = {"port": 8001, "mount_path": "/größe", "sweep": False}
        assert read(file, KNOWN) == (given, Schema())

    def test_tables(self, file: Path) -> None:
        """The tables make a schema, in which `false` stands for what a host does not have."""
        file.write_text("""
            [tables]
            log = false
            subscriptions = false

            [tables.subscribers]
            table = "people"
            columns = { email = "address", suppression_reason = false }

            [tables.dispatches]
            table = "crm.sends"
        """)
        assert read(file, KNOWN) == (
            {},
            Schema(
                subscribers=Role("people", {"email": "address", "suppression_reason": None}),
                dispatches=Role("crm.sends"),
                subscriptions=None,
                log=None,
            ),
        )

    def test_everything_of_tables(self, file: Path) -> None:
        """What a schema can say a file can: `false` of a hidden column stays as it is."""
        file.write_text("""
            [tables]
            messages = { table = "campaigns", columns = { list_id = "audience" } }
            reasons = { HardBounce = 1, "*" = 9 }

            [tables.subscribers]
            table = "people"
            where = { deleted_at = false, active = true, tenant = "acme", state = 1 }
            fold = "lower"
        """)
        assert read(file, KNOWN)[1] == Schema(
            subscribers=Role(
                "people",
                where={"deleted_at": False, "active": True, "tenant": "acme", "state": 1},
                fold="lower",
            ),
            messages=Role("campaigns", {"list_id": "audience"}),
            reasons={"HardBounce": 1, "*": 9},
        )

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            pytest.param(b"port = ", "cannot be read: Invalid value", id="broken"),
            pytest.param(b"port", "cannot be read: Expected '='", id="not finished"),
            pytest.param(b"port = 1\nport = 2", "cannot be read: Cannot overwrite", id="twice"),
            pytest.param(b"\xff\xfe", "cannot be read: 'utf-8'", id="no UTF-8"),
            pytest.param(b"prot = 1", "no setting 'prot'. Did you mean 'port'?", id="near"),
            pytest.param(b"x = 1", "there is no setting 'x'.", id="unknown"),
            pytest.param(b"[serve]\nport = 1", "there is no setting 'serve'.", id="section"),
            pytest.param(b"port = 1.5", "port is neither text nor a whole number", id="fraction"),
            pytest.param(b"sweep = {}", "neither text nor a whole number, true or", id="inline"),
            pytest.param(b"secret = ['a']", "secret is neither text nor", id="list"),
            pytest.param(b"secret = 1979-05-27", "secret is neither text nor", id="date"),
            pytest.param(
                b"tables = 5",
                '[tables.subscribers] and below it table = "its_name".',
                id="no table",
            ),
            pytest.param(
                b"[tables]\nsubscriber = 5",
                "'subscriber'. Did you mean 'subscribers'?",
                id="unknown role",
            ),
            pytest.param(
                b"[tables]\nsubscribers = 'people'",
                '[tables]: write [tables.subscribers] and below it table = "people".',
                id="role that is text",
            ),
            pytest.param(
                b"[tables]\ndispatches = false", "`$.dispatches`", id="role that is needed"
            ),
            pytest.param(
                b"[tables.subscribers]\ntabel = 'people'",
                "'tabel'. Did you mean 'table'?",
                id="role without a table",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\ncolumns = { emial = 'x' }",
                "no column 'emial'. Did you mean 'email'?",
                id="unknown column",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\ncolumns = { email = false }",
                "needs the column 'email'",
                id="column that is needed",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\ncolumns = { email = 5 }",
                "$.subscribers.columns",
                id="column that is a number",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\ncolums = { email = 'address' }",
                "'colums'. Did you mean 'columns'?",
                id="unknown part of a role",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\nfold = 'lowr'",
                "no fold 'lowr'. Did you mean 'lower'?",
                id="unknown fold",
            ),
            pytest.param(
                b"[tables.subscribers]\ntable = 'people'\nwhere = { state = 1.5 }",
                "$.subscribers.where",
                id="hidden by a fraction",
            ),
            pytest.param(
                b"[tables.messages]\ncolumns = { list_id = 'group' }",
                "the messages have no table: name it, as their 'table'.",
                id="role that only has columns",
            ),
            pytest.param(
                b"[tables]\nreasons = { HardBounce = 1 }",
                "numbers need one for all others",
                id="numbers without the others",
            ),
            pytest.param(
                b"[tables]\nreasons = { HardBounce = false }", "$.reasons", id="reason that is none"
            ),
        ],
    )
    def test_refused(self, file: Path, content: bytes, says: str) -> None:
        """What is wrong with a file is said in one line, which names the file."""
        file.write_bytes(content)
        with pytest.raises(ConfigurationError) as raised:
            read(file, KNOWN)
        assert says in str(raised.value)
        assert str(raised.value).startswith(str(file))
        assert "\n" not in str(raised.value)

    def test_no_secret_in_the_message(self, file: Path) -> None:
        """What is wrong with a secret's line is said without the secret."""
        for content in ("secret = ['hunter2']", "secret = hunter2", "secrte = 'hunter2'"):
            file.write_text(content)
            with pytest.raises(ConfigurationError) as raised:
                read(file, KNOWN)
            assert "hunter2" not in str(raised.value)

    def test_missing(self, file: Path) -> None:
        """A file that is not there is a mistake, for somebody named it."""
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read(file, KNOWN)

    def test_folder(self, tmp_path: Path) -> None:
        """A folder is no file."""
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read(tmp_path, KNOWN)


class TestSettings:
    def test_to_a_worker_and_back(self) -> None:
        """Whatever the settings are, a worker decodes what its parent encoded."""
        settings = Settings(
            secrets=("a", "b"),
            secret_file="größe.txt",
            database_url="sqlite:///größe.db",
            mount_path="/mail",
            sweep=False,
            spool="spool.db",
            keep=None,
            keep_bodies=timedelta(0),
            schema=Schema(
                subscribers=Role(
                    "people",
                    {"email": "address", "suppression_reason": None},
                    where={"deleted_at": None, "active": True, "state": 1, "tenant": "acme"},
                    fold="citext",
                ),
                subscriptions=None,
                reasons={"HardBounce": 1, "*": 9},
            ),
        )
        assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings

    def test_defaults(self) -> None:
        """By default the mount path is empty, the tables are ours, and the log keeps 90 days."""
        settings = Settings(secrets=("a",), database_url="sqlite://")
        assert (settings.mount_path, settings.schema) == ("", Schema())
        assert (settings.sweep, settings.spool) == (True, None)
        assert (settings.keep, settings.keep_bodies) == (timedelta(days=90), None)


class TestSecrets:
    @pytest.mark.parametrize(
        ("content", "secrets"),
        [
            (b"one", ["one"]),
            (b"new\nold\n", ["new", "old"]),
            (b"\r\n new \r\n\r\n\told\r\n\n", ["new", "old"]),
            (b"", []),
            (b" \n\n", []),
        ],
    )
    def test_file(self, tmp_path: Path, content: bytes, secrets: Sequence[str]) -> None:
        """Each line of the file is a secret; what is blank, and space around one, is none."""
        (tmp_path / "secrets").write_bytes(content)
        found = Settings(database_url="sqlite://", secret_file=str(tmp_path / "secrets"))
        assert found.accepted() == secrets

    def test_read_anew(self, tmp_path: Path) -> None:
        """The file is read each time that it is asked for."""
        file = tmp_path / "secrets"
        settings = Settings(database_url="sqlite://", secret_file=str(file))
        for secret in ("old", "new"):
            file.write_text(secret)
            assert settings.accepted() == [secret]

    @pytest.mark.parametrize(
        ("name", "secrets", "says"),
        [
            ("missing", (), "No such file"),
            ("", (), "cannot be read"),
            (".", (), "Is a directory"),
            ("binary", (), "'utf-8' codec"),
            ("binary", ("another",), "keep one of the two"),
        ],
    )
    def test_refused(self, tmp_path: Path, name: str, secrets: tuple[str, ...], says: str) -> None:
        """A file that cannot be read is refused in a line, and so are secrets besides it."""
        (tmp_path / "binary").write_bytes(b"hunter2\xff")
        file = str(tmp_path / name) if name else ""
        settings = Settings(database_url="sqlite://", secrets=secrets, secret_file=file)
        with pytest.raises(ConfigurationError, match=re.escape(says)) as raised:
            settings.accepted()
        assert "hunter2" not in str(raised.value)
        assert "\n" not in str(raised.value)
