"""The command: what it prints, its exit status, and where its settings come from.

`hookrow serve` has `test_server.py`, `check` and `demo` their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import click
import pytest
from sqlalchemy import text

import world
from command import HOOKROW, Command
from hookrow import Schema, __version__, processes
from hookrow.cli import hookrow
from hookrow.migrations import VERSION_TABLE
from hookrow.settings import Settings
from hookrow.stores.engines import open_engine
from hookrow.stores.tables import metadata
from wire import SECRET, free_port

PATH = "/provider/webhooks"

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"

OF_ONE_CALL = {
    *("count", "repeat", "concurrency"),
    *("recipient", "since", "outcome", "record_type", "message_id", "limit", "before", "period"),
}
"""The options that say what is asked this time; all others are settings."""

WEEK = timedelta(days=7)

NO_BODIES = ("keep_bodies", timedelta(0))

OTHERWISE = """
secret_file = "other"
spool = "other.db"
keep = "1d"
keep_bodies = "1d"
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield every command, as what is typed for it."""
    yield path
    for name, member in group.commands.items():
        if isinstance(member, click.Group):
            yield from commands(member, *path, name)
        else:
            yield (*path, name)


def tables(url: str) -> set[str]:
    """Return the names of a database's tables."""
    engine = open_engine(url)
    if engine.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    with engine.connect() as connection:
        names = {name for (name,) in connection.execute(text(query))}
    engine.dispose()
    return names


def execute(url: str, statement: str) -> None:
    """Run a statement on a database."""
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


class TestHelp:
    @pytest.mark.parametrize("path", list(commands(hookrow)), ids=" ".join)
    def test_each(self, command: Command, path: tuple[str, ...]) -> None:
        """Each command says what it does, and of each option what it is and its variable."""
        done = command.call(*path, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        found: click.Command = hookrow
        for name in path:
            assert isinstance(found, click.Group)
            found = found.commands[name]
        assert found.help
        assert found.help.splitlines()[0].rstrip(".") in done.stdout
        for parameter in found.params:
            if isinstance(parameter, click.Option):
                assert f"{max(parameter.opts, key=len)}" in done.stdout
                assert parameter.help
                assert parameter.help in done.stdout

    @pytest.mark.parametrize("path", list(commands(hookrow)), ids=" ".join)
    def test_variables(self, path: tuple[str, ...]) -> None:
        """Every setting has a variable, named after it and told by its help."""
        found: click.Command = hookrow
        for name in path:
            assert isinstance(found, click.Group)
            found = found.commands[name]
        for parameter in found.params:
            if isinstance(parameter, click.Option) and parameter.name in OF_ONE_CALL:
                assert parameter.envvar is None
            elif isinstance(parameter, click.Option) and not parameter.is_flag:
                long = max(parameter.opts, key=len)
                variable = f"HOOKROW_{long.removeprefix('--').replace('-', '_').upper()}"
                assert variable in str(parameter.envvar)
                assert parameter.show_envvar

    def test_short(self, command: Command) -> None:
        """`-h` is as good as `--help`, and both as no command at all."""
        long = command.run("--help")
        assert command.run("-h").stdout == long.stdout
        assert long.stdout.startswith("Usage: hookrow ")

    def test_broken_file(self, command: Command) -> None:
        """Help is to be had though the settings are broken: that is when one asks for it."""
        (command.folder / "hookrow.toml").write_text("port = ")
        done = command.call("--help")
        assert (done.returncode, done.stderr) == (0, "")

    def test_shows_no_secret(self, command: Command) -> None:
        """Help shows neither a secret nor a password that is set."""
        (command.folder / "hookrow.toml").write_text(
            'secret = "hunter2-hunter2-hunter2"\ndatabase_url = "postgresql://ada:hunter2@db/mail"'
        )
        for name in ("serve", "check", "simulate"):
            done = command.call(name, "--help", HOOKROW_PREVIOUS_SECRET="hunter2")
            assert done.returncode == 0
            assert "hunter2" not in done.stdout

    def test_version(self, command: Command) -> None:
        """The version is that of the package."""
        done = command.run("--version")
        assert (done.returncode, done.stdout) == (0, f"hookrow {__version__}\n")

    def test_completion(self, command: Command) -> None:
        """A shell can ask for completion."""
        done = command.run(_HOOKROW_COMPLETE="bash_source")
        assert "complete -o nosort" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("sevre",), "No such command 'sevre'"),
            (("serve", "--prot", "1"), "No such option"),
            (("simulate", "open"), "Missing argument 'EMAIL'"),
            (("simulate", "click", ADA), "'click' is not one of"),
            (("serve", "--port", "0"), "0 is not in the range"),
        ],
    )
    def test_misuse(self, command: Command, arguments: tuple[str, ...], says: str) -> None:
        """What was typed wrong is said, with the status that is usual for it."""
        done = command.call(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


class TestPrecedence:
    """What `simulate` cannot reach, `db upgrade` makes and `check` names tells what was set."""

    def aim(self, command: Command, *arguments: object, **variables: str) -> str:
        """Return the address that `simulate` tried, at which nobody listens."""
        done = command.call("simulate", "open", ADA, *arguments, **variables)
        assert (done.returncode, done.stdout) == (1, "")
        found = re.fullmatch(r"Error: No answer from (\S+): .*\n", done.stderr)
        assert found, done.stderr
        return found[1]

    def test_address(self, command: Command) -> None:
        """A flag beats the environment, which beats the file, which beats the default."""
        one, two, three = (free_port() for _ in range(3))
        file = command.folder / "hookrow.toml"
        assert self.aim(command, HOOKROW_PORT=str(one)) == f"http://127.0.0.1:{one}{PATH}"
        file.write_text(f'port = {two}\nmount_path = "file"\nhost = "127.0.0.2"')
        assert self.aim(command) == f"http://127.0.0.2:{two}/file{PATH}"
        variables = {"HOOKROW_PORT": str(one), "HOOKROW_MOUNT_PATH": "/environment/"}
        assert self.aim(command, **variables) == f"http://127.0.0.2:{one}/environment{PATH}"
        flags = ("--port", three, "--mount-path", "/flag", "--host", "127.0.0.3")
        assert self.aim(command, *flags, **variables) == f"http://127.0.0.3:{three}/flag{PATH}"

    def test_database(self, command: Command) -> None:
        """The same for the database, for which DATABASE_URL stands in."""

        def named(*arguments: str, **variables: str) -> str:
            done = command.call("db", "upgrade", *arguments, **variables)
            assert done.returncode == 0, done.stderr
            return done.stdout.partition(" ")[0]

        file = command.folder / "hookrow.toml"
        both = {"HOOKROW_DATABASE_URL": "sqlite:///ours.db", "DATABASE_URL": "sqlite:///common.db"}
        assert named() == "sqlite:///hookrow.db"
        file.write_text('database_url = "sqlite:///file.db"')
        assert named() == "sqlite:///file.db"
        assert named(DATABASE_URL="sqlite:///common.db") == "sqlite:///common.db"
        assert named(**both) == "sqlite:///ours.db"
        assert named("--database-url", "sqlite:///flag.db", **both) == "sqlite:///flag.db"
        made = {path.name for path in command.folder.glob("*.db")}
        assert made == {"hookrow.db", "file.db", "common.db", "ours.db", "flag.db"}

    def test_secret(self, command: Command) -> None:
        """The same for the secret; a variable that is empty is none."""

        def length(*arguments: str, **variables: str) -> int:
            printed = command.call("check", *arguments, **variables).stdout.splitlines()[0]
            found = re.search(r"It has (\d+) characters", printed)
            return int(found[1]) if found else 0

        assert length() == 0
        (command.folder / "hookrow.toml").write_text('secret = "abc"')
        assert length() == 3
        assert length(HOOKROW_SECRET="") == 3
        assert length(HOOKROW_SECRET="abcd") == 4
        assert length("--secret", "abcde", HOOKROW_SECRET="abcd") == 5

    def test_file(self, command: Command) -> None:
        """`--config` names another file than hookrow.toml, and so does its variable."""
        for name in ("hookrow", "environment", "flag"):
            (command.folder / f"{name}.toml").write_text(f'database_url = "sqlite:///{name}.db"')
        for arguments, variables, name in (
            ((), {}, "hookrow"),
            ((), {"HOOKROW_CONFIG": "environment.toml"}, "environment"),
            (("--config", "flag.toml"), {"HOOKROW_CONFIG": "environment.toml"}, "flag"),
        ):
            done = command.call(*arguments, "db", "upgrade", **variables)
            assert done.stdout.startswith(f"sqlite:///{name}.db is at"), done.stderr

    @pytest.mark.parametrize(
        ("flag", "variable", "line", "name", "value"),
        [
            ("--secret-file=a", "SECRET_FILE=a", "secret_file = 'a'", "secret_file", "a"),
            ("--no-sweep", "SWEEP=false", "sweep = false", "sweep", False),
            ("--sweep", "SWEEP=1", "sweep = true", "sweep", True),
            ("--spool=a.db", "SPOOL=a.db", "spool = 'a.db'", "spool", "a.db"),
            ("--keep=12h", "KEEP=12h", "keep = '12h'", "keep", timedelta(hours=12)),
            ("--keep=2w", "KEEP=14d", "keep = '20160m'", "keep", timedelta(days=14)),
            ("--keep=forever", "KEEP=forever", "keep = 'forever'", "keep", None),
            ("--keep-bodies=7d", "KEEP_BODIES=7d", "keep_bodies = '7d'", "keep_bodies", WEEK),
            ("--keep-bodies=none", "KEEP_BODIES=none", "keep_bodies = 'none'", *NO_BODIES),
        ],
    )
    def test_each_source(
        self,
        command: Command,
        monkeypatch: pytest.MonkeyPatch,
        *,
        flag: str,
        variable: str,
        line: str,
        name: str,
        value: object,
    ) -> None:
        """What the server is told is the same from a flag, the environment or the file."""
        started: list[Settings] = []
        monkeypatch.setattr(processes, "serve", lambda settings, **_: started.append(settings))
        file = command.folder / "hookrow.toml"
        environment, _, given = variable.partition("=")
        file.write_text(line)
        assert command.call("serve").returncode == 0
        file.write_text(OTHERWISE)
        assert command.call("serve", **{f"HOOKROW_{environment}": given}).returncode == 0
        assert command.call("serve", flag).returncode == 0
        assert [getattr(settings, name) for settings in started] == [value] * 3

    @pytest.mark.parametrize(
        ("arguments", "variables", "says"),
        [
            (("--keep", "none"), {}, "'none' is no duration"),
            (("--keep", "90"), {}, "'90' is no duration: write 90d, 12h"),
            (("--keep-bodies", "0d"), {}, "'0d' is no duration"),
            ((), {"HOOKROW_KEEP": "soon"}, "'soon' is no duration"),
            ((), {"HOOKROW_SWEEP": "maybe"}, "'maybe' is not a valid boolean"),
        ],
    )
    def test_wrong_values(
        self, command: Command, arguments: Sequence[str], variables: Mapping[str, str], says: str
    ) -> None:
        """A value that an option cannot have is refused, and what it could be is told."""
        done = command.call("serve", *arguments, **variables)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("port = ", "cannot be read"),
            ("keep = 90", "keep: 90 is no duration: write 90d"),
            ("keep = false", "keep is neither text nor a whole number"),
            ("keep = 'none'", "keep: 'none' is no duration"),
            ("keep_bodies = 'some'", "keep_bodies: 'some' is no duration"),
            ("spool = true", "spool is neither text nor a whole number"),
            ("sweep = 'maybe'", "sweep: 'maybe' is not a valid boolean"),
            ("count = 2", "there is no setting 'count'"),
            ("[tables]\nlog = true", "log"),
            ("prot = 1", "there is no setting 'prot'. Did you mean 'port'?"),
            ("port = true", "port is neither text nor a whole number"),
            ('port = "x"', "port"),
            ("port = 0", "port"),
            ('log_level = "loud"', "log_level"),
            ("[tables.subscribers]\ntable = 'people'\ncolumns = { emial = 'x' }", "emial"),
        ],
    )
    def test_mistaken_file(self, command: Command, content: str, says: str) -> None:
        """A mistake in the file is one line that names the file, and the status is 1."""
        (command.folder / "hookrow.toml").write_text(content)
        done = command.call("serve", HOOKROW_SECRET=SECRET)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: hookrow.toml")
        assert says in done.stderr
        assert done.stderr.count("\n") == 1

    def test_missing_file(self, command: Command) -> None:
        """A file that is named and not there is a mistake."""
        done = command.call("--config", "nope.toml", "db", "current")
        assert done.returncode == 1
        assert done.stderr.startswith("Error: nope.toml cannot be read")


class TestDatabase:
    def test_upgrade(self, command: Command, empty_database_url: str) -> None:
        """The first time makes our tables; the second finds them as they should be."""
        for _ in range(2):
            done = command.run("db", "upgrade", HOOKROW_DATABASE_URL=empty_database_url)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.endswith(" is at 0001 and 0002, the newest.\n")
        assert tables(empty_database_url) == {*metadata.tables, VERSION_TABLE}

    def test_current(self, command: Command, empty_database_url: str) -> None:
        """Before there are tables of ours the revision is none."""
        variables = {"HOOKROW_DATABASE_URL": empty_database_url}
        assert command.call("db", "current", **variables).stdout == "none\n"
        command.call("db", "upgrade", **variables)
        assert command.call("db", "current", **variables).stdout == "0001 and 0002\n"

    def test_current_makes_nothing(self, command: Command) -> None:
        """To ask for the revision makes no file."""
        assert command.call("db", "current").stdout == "none\n"
        assert list(command.folder.glob("*.db")) == []

    def test_sql_asks_no_database(self, command: Command) -> None:
        """To print statements needs a database's name only, not the database."""
        url = "postgresql://ada:hunter2@127.0.0.1:1/mail"
        done = command.call("db", "sql", "--database-url", url)
        assert (done.returncode, done.stderr) == (0, "")
        assert "CREATE TABLE hookrow_subscribers" in done.stdout

    def test_password_is_masked(self, command: Command, empty_postgres_url: str) -> None:
        """The database is named without its password."""
        url = f"{empty_postgres_url}&password=hunter2"
        done = command.run("db", "upgrade", "--database-url", url)
        assert done.returncode == 0
        assert "hunter2" not in done.stdout

    @pytest.mark.parametrize("name", ["upgrade", "current"])
    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("postgresql://ada:hunter2@127.0.0.1:1/mail", "The database cannot be"),
            ("mysql://ada:hunter2@db/mail", "PostgreSQL and SQLite, not on mysql"),
            ("hunter2", "no database URL"),
            ("postgresql://ada:hunter2@db:port/mail", "no database URL"),
        ],
    )
    def test_refused(self, command: Command, name: str, url: str, says: str) -> None:
        """A database that cannot be had is one line, without the password, and status 1."""
        done = command.call("db", name, "--database-url", url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: ")
        assert says in done.stderr
        assert "hunter2" not in done.stderr
        assert done.stderr.count("\n") == 1

    def test_newer(self, command: Command, database_url: str) -> None:
        """Tables that a newer hookrow made are refused in a line, and left as they are."""
        execute(
            database_url,
            f"UPDATE {VERSION_TABLE} SET version_num = '9999' WHERE version_num = '0002'",
        )
        done = command.call("db", "upgrade", "--database-url", database_url)
        assert (done.returncode, done.stdout) == (1, "")
        assert "9999" in done.stderr
        assert done.stderr.count("\n") == 1

    def test_strangers(self, command: Command, empty_database_url: str) -> None:
        """A table with our name that hookrow did not make is named and left alone."""
        execute(empty_database_url, "CREATE TABLE hookrow_lists (x integer)")
        done = command.call("db", "upgrade", "--database-url", empty_database_url)
        assert done.returncode == 1
        assert "already has hookrow_lists" in done.stderr
        assert tables(empty_database_url) == {"hookrow_lists"}

    def test_tables_of_their_own(self, command: Command) -> None:
        """Where the file names a host's tables, only the log is made; without one, nothing."""
        file, url = command.folder / "hookrow.toml", f"sqlite:///{command.folder}/hookrow.db"
        people = "[tables.subscribers]\ntable = 'people'"
        file.write_text(f"[tables]\nlog = false\n{people}")
        done = command.call("db", "upgrade")
        assert done.returncode == 1
        assert "your own migrations" in done.stderr
        assert tables(url) == set()
        file.write_text(people)
        done = command.call("db", "upgrade")
        assert done.stdout.endswith(" is at 0002, the newest.\n")
        assert tables(url) == {Schema().log, VERSION_TABLE}


class TestSimulate:
    def test_each_kind(self, command: Command, database_url: str) -> None:
        """Each kind is posted to a server that runs, which answers, and changes its rows."""
        world.fill(database_url)
        with command.serving("--mount-path", "/mail", HOOKROW_DATABASE_URL=database_url) as server:
            variables = {
                "HOOKROW_SECRET": SECRET,
                "HOOKROW_PORT": str(server.port),
                "HOOKROW_MOUNT_PATH": "mail",
            }

            def simulate(*arguments: str, **others: str) -> tuple[int, str]:
                done = command.call("simulate", *arguments, **variables | others)
                assert done.stderr == ""
                return done.returncode, done.stdout

            assert simulate("delivery", ADA, ADAS) == (0, "200\n")
            assert simulate("open", ADA, ADAS) == (0, "200\n")
            assert simulate("suppression", ADA, ADAS, "--reason", "SpamComplaint") == (0, "200\n")
            rows = world.rows(database_url)
            assert rows["dispatches"][0]["delivered_at"] is not None
            assert rows["dispatches"][0]["opened_at"] is not None
            for name in ("subscribers", "dispatches", "subscriptions"):
                assert rows[name][0]["suppression_reason"] == "SpamComplaint"
            assert simulate("reactivation", ADA.upper()) == (0, "200\n")
            rows = world.rows(database_url)
            assert rows["subscribers"][0]["suppressed_at"] is None
            assert rows["dispatches"][0]["suppressed_at"] is not None

            stranger = simulate("delivery", "eve@example.com")
            assert stranger == (1, "404 Engine::Subscriber not found\n")
            wrong = simulate("open", ADA, ADAS, "--secret", "wrong")
            assert wrong == (1, "401 Cannot verify webhook\n")
            assert simulate("open", ADA, HOOKROW_SECRET="") == (1, "401 Cannot verify webhook\n")
            elsewhere = f"http://127.0.0.1:{server.port}/other/provider/webhooks"
            assert simulate("open", ADA, "--url", elsewhere) == (1, "404 Not Found\n")
            right = f"http://localhost:{server.port}/mail/provider/webhooks/"
            assert simulate("open", ADA, ADAS, "--url", right) == (0, "200\n")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--port", "1"), "No answer from http://127.0.0.1:1/provider/webhooks"),
            (("--url", "nowhere"), "'nowhere' is no web address"),
            (("--url", "http://"), "No answer from http://"),
            (("--url", "http://[::1"), "http://[::1"),
            (("--url", "ftp://127.0.0.1/"), "is no web address"),
            (("--mount-path", "/a b"), "The mount path '/a b' is no path"),
        ],
    )
    def test_in_vain(self, command: Command, arguments: tuple[str, ...], says: str) -> None:
        """Where nobody listens, or there is no such address, a line says so; the status is 1."""
        done = command.call("simulate", "open", ADA, *arguments, HOOKROW_SECRET=SECRET)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1
        assert SECRET not in done.stderr

    def test_secret_that_cannot_be_sent(self, command: Command) -> None:
        """A secret that no header carries, as from a file with CRLF, is refused unseen."""
        done = command.call("simulate", "open", ADA, "--port", 1, HOOKROW_SECRET="hunter2\r")
        assert done.returncode == 1
        assert "hunter2" not in done.stderr
        assert "secret" in done.stderr

    def test_email_of_bytes(self, command: Command) -> None:
        """An email that is no text is answered in a line, as any other mistake."""
        done = command.execute(
            "sh", "-c", """exec "$0" simulate open "$(printf 'a\\377b')" --port 1""", HOOKROW
        )
        assert done.returncode in {1, 2}
        assert "Traceback" not in done.stderr
