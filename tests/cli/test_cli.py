"""All commands: help, processes and missing extras; and `hookrow db` and `hookrow demo`."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import click
import pytest
from click.testing import CliRunner
from sqlalchemy import inspect

from command import HOOKROW, Command
from engines import opened
from hookrow import Schema, __version__
from hookrow._cli import hookrow
from wire import SECRET, free_port

# The options of a single call; all others are settings and have a variable.
REVISIONS = "0001, 0002"

ONE_CALL = {
    *("count", "repeat", "concurrency", "url", "streams", "instances", "fd", "entry", "names"),
    *("recipient", "since", "outcome", "record_type", "message_id", "limit", "before", "period"),
    *("after", "provider", "signed_url"),
}

AWAY = "--database-url postgresql://ada@127.0.0.1:1/mail"


class TestHelp:
    def test_of_each_command(self, command: Command) -> None:
        """Each command and each option has a help text, and each setting a variable."""
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

    def test_summaries_are_complete(self) -> None:
        """In a terminal of 80 columns, no summary in a list of commands is truncated."""
        groups = [path for path, found in commands(hookrow) if isinstance(found, click.Group)]
        assert len(groups) == 4
        for path in groups:
            done = CliRunner().invoke(hookrow, [*path, "--help"], terminal_width=80)
            summaries = done.stdout.partition("\nCommands:\n")[2].splitlines()
            assert summaries
            assert not [line for line in summaries if not re.search(r"\w\.$", line)], path

    def test_with_a_broken_file(self, command: Command) -> None:
        (command.folder / "hookrow.toml").write_text("port = ")
        done = command.call("-h")
        assert (done.returncode, done.stderr, done.stdout[:14]) == (0, "", "Usage: hookrow")

    def test_hides_secrets(self, command: Command) -> None:
        (command.folder / "hookrow.toml").write_text(
            'secret = "hunter2-hunter2-hunter2"\ndatabase_url = "postgresql://ada:hunter2@db/mail"'
        )
        done = command.call("serve", "--help", HOOKROW_PREVIOUS_SECRET="hunter2")
        assert (done.returncode, "hunter2" in done.stdout) == (0, False)


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name, member in group.commands.items():
        if isinstance(member, click.Group):
            yield from commands(member, *path, name)
        else:
            yield (*path, name), member


def run_without(modules: list[str], command: Command, typed: str) -> CompletedProcess[str]:
    """Run a command in a process, as if these modules were not installed."""
    script = (
        f"import sys; sys.modules |= dict.fromkeys({modules}); "
        "from hookrow.__main__ import main; main()"
    )
    variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port())}
    return command.execute(sys.executable, "-c", script, *typed.split(), **variables)


class TestProcess:
    @pytest.mark.usefixtures("sqlite_url")
    @pytest.mark.parametrize("typed", ["log >&-", "log 2>&-", "prune 2>&-", "demo <&- >&- 2>&-"])
    def test_closed_streams(self, command: Command, typed: str) -> None:
        """Closed standard streams change neither what a command does nor its exit status."""
        done = command.execute("sh", "-c", f"{HOOKROW} {typed}")
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("typed", "printed"),
        [
            ("--version", f" {__version__}\n"),
            ("log", "No notifications found.\n"),
            ("prune", "Pruned 0 entries and bodies.\n"),
            ("stats", "No notification has been received yet.\n"),
            (
                "db upgrade",
                f" is up to date (revisions {REVISIONS}).\n",
            ),
            ("check --secret " + SECRET, "All tables and columns exist."),
        ],
    )
    @pytest.mark.usefixtures("sqlite_url")
    def test_each_command(self, command: Command, typed: str, printed: str) -> None:
        """Commands run in a process; for SQLite, none needs a driver or SQLAlchemy.

        The test of the README runs the other commands.
        """
        done = run_without(["psycopg", "sqlalchemy"], command, typed)
        assert done.returncode == 0
        assert printed in done.stdout

    @pytest.mark.parametrize(
        ("module", "typed", "extra"),
        [
            ("click", "-h", "serve"),
            *((module, "serve", "serve") for module in ("uvicorn", "uvloop", "httptools")),
            ("psycopg", f"serve {AWAY}", "postgres"),
            ("prometheus_client", "serve --metrics", "metrics"),
            ("prometheus_client", "serve --metrics --workers 2", "metrics"),
            ("jinja2", "serve --dashboard", "dashboard"),
            ("uvicorn", "demo --once", "serve"),
        ],
    )
    def test_missing_extra(self, command: Command, module: str, typed: str, extra: str) -> None:
        done = run_without([module], command, typed)
        assert done.returncode == 1
        assert re.search(rf".*pip install 'hookrow\[{extra}\]'\n$", done.stderr)
        assert "Traceback" not in done.stderr

    def test_broken_installation(self, command: Command) -> None:
        """If a module of another package is missing, no extra is mentioned."""
        done = run_without(["sqlite3"], command, "db current")
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "pip install" not in done.stderr


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_script(self, command: Command, shell: str) -> None:
        done = command.call("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert "_HOOKROW_COMPLETE" in done.stdout

    @pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
    def test_in_bash(self, command: Command) -> None:
        """The script completes a command, and an option of a subcommand."""
        script = """
            eval "$(hookrow completion bash)"
            complete -p hookrow
            COMP_WORDS=(hookrow re) COMP_CWORD=1
            _hookrow_completion hookrow
            echo "${COMPREPLY[@]}"
            COMP_WORDS=(hookrow log --fol) COMP_CWORD=2 COMPREPLY=()
            _hookrow_completion hookrow
            echo "${COMPREPLY[@]}"
        """
        path = f"{HOOKROW.parent}:{os.environ['PATH']}"
        done = command.execute("bash", "-c", script, PATH=path)
        assert done.returncode == 0, done.stderr
        _, first, second = done.stdout.splitlines()
        assert (first, second) == ("replay", "--follow")


class TestTables:
    def test_current(self, command: Command, empty_sqlite_url: str) -> None:
        """Printing the revision creates no file."""
        assert command.call("db", "current").stdout == "none\n"
        assert not list(command.folder.glob("*.db"))
        for _ in range(2):
            done = command.call("db", "upgrade", "--database-url", empty_sqlite_url)
            assert (done.returncode, done.stderr) == (0, "")
        assert command.call("db", "current").stdout == f"{REVISIONS}\n"

    def test_json(self, command: Command) -> None:
        """The keys are those that the README documents."""
        revisions = REVISIONS.split(", ")
        upgraded = {"database": "sqlite:///hookrow.db", "revisions": revisions}
        for added in (revisions, []):
            done = command.call("db", "upgrade", "--json")
            assert json.loads(done.stdout) == upgraded | {"added": added}
        assert json.loads(command.call("db", "current", "--json").stdout) == {
            "revisions": revisions
        }

    def test_beside_tables_of_the_host(self, command: Command, empty_postgres_url: str) -> None:
        """If the file names the host's tables, only the log is created; no password is printed."""
        (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
        url = f"{empty_postgres_url}&password=hunter2"
        done = command.call("db", "upgrade", "--database-url", url)
        assert done.stdout.endswith(": added revision 0002.\n")
        assert "hunter2" not in done.stdout
        with opened(empty_postgres_url) as engine:
            names = set(inspect(engine).get_table_names())
        assert Schema().log in names
        assert not names & {role.table for role in Schema().roles.values()}

    def test_sql(self, command: Command) -> None:
        """The statements are printed without a connection to the database."""
        done = command.call("db", "sql", *AWAY.split())
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("\\set ON_ERROR_STOP on\nBEGIN;")
        assert "CREATE TABLE hookrow_subscribers" in done.stdout
        assert command.call("db", "sql").stdout.startswith(".bail on\nBEGIN;")
        done = command.call("db", "sql", "--database-url", "mariadb://ada@127.0.0.1:1/mail")
        assert done.stdout.startswith("CREATE TABLE IF NOT EXISTS hookrow_migrations")


def test_demo(tmp_path: Path) -> None:
    """Without a terminal, it prints all responses and changes, and exits; no file remains.

    It ignores the settings of hookrow and of a proxy.
    """
    done = Command(tmp_path).run(
        "demo",
        HOOKROW_SECRET="short",
        HOOKROW_DATABASE_URL="postgresql://ada@127.0.0.1:1/mail",
        HOOKROW_MOUNT_PATH="/elsewhere",
        http_proxy=f"http://127.0.0.1:{free_port()}",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]
    for expected in (
        *(" 401 Cannot verify webhook\n", "dispatch 1: delivered_at 2", "dispatch 1: opened_at 2"),
        *("subscription 3: suppressed_at 2", "subscriber 3: suppressed_at null\n"),
        *(" 400 Dispatch subscriber ada", " 422 Webhook payload not supported\n"),
    ):
        assert expected in done.stdout
    for without_changes in ("The suppression again", "Open of ada", "Bounce"):
        assert re.search(rf"^{without_changes}.*\n\w", done.stdout, re.MULTILINE)
    assert re.search(r"/dashboard/\n  user hookrow, password \S{43}\n", done.stdout)
    assert "Ctrl-C" not in done.stdout
    assert re.search(
        r"404 Engine::Dispatch not found\n(.*\n)*  dispatch 5: delivered_at 2.*\n$", done.stdout
    )
