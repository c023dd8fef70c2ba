"""The commands as a whole: their help, each in a process, without an extra, and `hookrow db`."""

import re
import sys
from collections.abc import Iterator
from subprocess import CompletedProcess

import click
from sqlalchemy import inspect

from command import Command
from hookrow import Schema, __version__
from hookrow.cli import hookrow
from hookrow.migrations import VERSION_TABLE
from hookrow.stores.engines import opened
from wire import SECRET, free_port

# The options that concern a single call; all others are settings, with a variable.
ONE_CALL = {
    *("count", "repeat", "concurrency"),
    *("recipient", "since", "outcome", "record_type", "message_id", "limit", "before", "period"),
}

# An import hook stands for a module that is not installed; an earlier line may have imported it.
SCRIPT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
for line in sys.argv[1:]:
    missing, *sys.argv[1:] = line.split()
    for name in list(sys.modules):
        if name.partition(".")[0] == missing:
            del sys.modules[name]
    try:
        from hookrow.__main__ import main
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        print(f"{line}: {int(ended.code != 0)}", file=sys.stderr)
"""

POSTGRES = "--database-url postgresql://ada@127.0.0.1:1/mail"

# By module and command: the extra that installs it.
MISSING = {
    "click -h": "serve",
    **{f"sqlalchemy {each}": "sql" for each in ("serve", "check", "db upgrade", "log", "stats")},
    **{f"sqlalchemy {each}": "sql" for each in ("replay 1", "prune", "demo --once")},
    "alembic db current": "sql",
    **{f"{each} serve": "serve" for each in ("uvicorn", "uvloop", "httptools")},
    **{f"psycopg {each} {POSTGRES}": "postgres" for each in ("serve", "log show 1")},
}


class TestHelp:
    def test_of_each_command(self, command: Command) -> None:
        """Each command has a help text, and each option a line and, if a setting, a variable."""
        for path, found in commands(hookrow):
            done = command.call(*path, "--help")
            assert (done.returncode, done.stderr) == (0, ""), path
            assert found.help
            for option in (each for each in found.params if isinstance(each, click.Option)):
                assert option.help
                assert option.help in done.stdout
                if option.name not in ONE_CALL and not option.is_flag:
                    assert f"HOOKROW_{option.name}".upper() in str(option.envvar)
                    assert option.show_envvar

    def test_with_a_broken_file(self, command: Command) -> None:
        (command.folder / "hookrow.toml").write_text("port = ")
        done = command.call("-h")
        assert (done.returncode, done.stderr, done.stdout[:14]) == (0, "", "Usage: hookrow")

    def test_hides_secrets(self, command: Command) -> None:
        """Secrets and passwords that are set are not printed as defaults."""
        (command.folder / "hookrow.toml").write_text(
            'secret = "hunter2-hunter2-hunter2"\ndatabase_url = "postgresql://ada:hunter2@db/mail"'
        )
        done = command.call("serve", "--help", HOOKROW_PREVIOUS_SECRET="hunter2")
        assert (done.returncode, "hunter2" in done.stdout) == (0, False)


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command, with what is typed for it."""
    yield path, group
    for name, member in group.commands.items():
        if isinstance(member, click.Group):
            yield from commands(member, *path, name)
        else:
            yield (*path, name), member


class TestProcess:
    def run(self, command: Command, *lines: str) -> CompletedProcess[str]:
        """Run commands in one process, each without a module; their statuses are on stderr."""
        settings = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port())}
        return command.execute(sys.executable, "-c", SCRIPT, *lines, **settings)

    def test_each_command(self, command: Command) -> None:
        """Each command runs in a process, on a new SQLite file, and none needs psycopg for it."""
        measured = Command(command.folder, measured=True)
        done = measured.execute(sys.executable, "-m", "hookrow", "--version")
        assert (done.returncode, done.stdout.split()[-1]) == (0, __version__)
        lines = (
            "db upgrade",
            "check",
            "log",
            "replay 1",
            "prune",
            "stats",
            "simulate open a",
            "-h",
        )
        done = self.run(measured, *(f"psycopg {line}" for line in lines))
        assert re.findall(r"^psycopg (.*): (\d)$", done.stderr, re.MULTILINE) == [
            (line, "1" if "simulate" in line else "0") for line in lines
        ]
        assert "Error: No answer from http://127.0.0.1:" in done.stderr
        for printed in (
            "ok       indexes     Every lookup has an index.\n",
            "\nThere are no such notifications.\n0 notifications replayed.\nPruned: 0.\n",
            "\nNo notification has come yet.\n",
            "\nUsage: ",
        ):
            assert printed in done.stdout

    def test_missing_extra(self, command: Command) -> None:
        """If an extra is missing, a line names the command that installs it; others still work."""
        others = ("sqlalchemy simulate open a@b", f"psycopg check {POSTGRES}")
        done = self.run(command, *MISSING, *others)
        error = r"Error: .*pip install 'hookrow\[(\w+)\]'\n(.*): 1$"
        found = re.findall(error, done.stderr, re.MULTILINE)
        assert [(line, extra) for extra, line in found] == list(MISSING.items()), done.stderr
        assert "Error: No answer from http://127.0.0.1:" in done.stderr
        assert done.stdout.count("pip install 'hookrow[postgres]'") == 1

    def test_broken_installation(self, command: Command) -> None:
        """A module that another package lacks is not blamed on an extra."""
        done = self.run(command, "mako db current")
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "pip install" not in done.stderr


class TestTables:
    def test_current(self, command: Command, empty_sqlite_url: str) -> None:
        """Nothing is created to look at the revision."""
        assert command.call("db", "current").stdout == "none\n"
        assert not list(command.folder.glob("*.db"))
        for _ in range(2):
            done = command.call("db", "upgrade", "--database-url", empty_sqlite_url)
            assert (done.returncode, done.stderr) == (0, "")
        assert command.call("db", "current").stdout == "0001 and 0002\n"

    def test_beside_tables_of_the_host(self, command: Command, empty_postgres_url: str) -> None:
        """If the file names the host's tables, only the log is created; no password is printed."""
        (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
        url = f"{empty_postgres_url}&password=hunter2"
        done = command.call("db", "upgrade", "--database-url", url)
        assert done.stdout.endswith(" is at 0002, the newest.\n")
        assert "hunter2" not in done.stdout
        with opened(empty_postgres_url) as engine:
            assert set(inspect(engine).get_table_names()) == {Schema().log, VERSION_TABLE}

    def test_sql(self, command: Command) -> None:
        """To print the statements the database need not be there."""
        done = command.call("db", "sql", *POSTGRES.split())
        assert (done.returncode, done.stderr) == (0, "")
        assert "CREATE TABLE hookrow_subscribers" in done.stdout
