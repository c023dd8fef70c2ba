"""What runs on every system: all public modules are imported, and receivers record in SQLite.

These tests need the dependency group `portable` and no `conftest.py`. `make test-portable` runs
them, and the workflow of the public repository does so on Linux, macOS and Windows. Except on
Windows, each script also runs without what Windows lacks; `lacking.py` states what this proves.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookrow import Schema, migrations
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET, StoreContract, Tables

FOLDER = Path(__file__).parent
REFERENCE = FOLDER.parent.parent / "docs" / "reference" / "api"

SYSTEMS = ["windows"] if sys.platform == "win32" else ["native", "windows"]

OTHER_SYSTEMS = "mount the receiver in your application, or use Linux, macOS, WSL or a container"


def run(
    system: str, script: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process, which `lacking.py` starts."""
    path = FOLDER / "scripts" / f"{script}.py"
    return subprocess.run(
        [sys.executable, FOLDER / "lacking.py", system, path, *arguments],
        cwd=folder,
        env={**os.environ, "HOOKROW_SECRET": SECRET},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_public_module_can_be_imported(system: str, tmp_path: Path) -> None:
    """The modules of all names that the reference lists are among them."""
    done = run(system, "imports", folder=tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    imported = {"hookrow", *done.stdout.split()}
    pages = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    listed = re.findall(r"^::: (hookrow[\w.]*)", pages, re.MULTILINE)
    assert listed
    for name in listed:
        assert {
            name,
            name.rpartition(".")[0],
            name.rpartition(".")[0].rpartition(".")[0],
        } & imported


@pytest.mark.parametrize("system", SYSTEMS)
def test_receivers_record_in_a_file(system: str, tmp_path: Path) -> None:
    """Over WSGI and ASGI, after `hookrow.migrations.upgrade` has created the file."""
    done = run(system, "records", folder=tmp_path)
    assert (done.stderr, done.stdout.split()) == ("", ["200", "OK", "200"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_commands_for_the_database(system: str, tmp_path: Path) -> None:
    upgraded = run(system, "run_command", "db", "upgrade", folder=tmp_path)
    assert (upgraded.stderr, upgraded.returncode) == ("", 0)
    listed = run(system, "run_command", "log", "--json", folder=tmp_path)
    assert (listed.stdout, listed.stderr, listed.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("arguments", "feature", "remedy"),
    [
        ("serve", "`hookrow serve`", OTHER_SYSTEMS),
        ("demo", "`hookrow demo`", OTHER_SYSTEMS),
        (
            "provider rotate --provider-token-file token",
            *("`hookrow provider rotate`", "run it on Linux or macOS"),
        ),
        (
            "check --database-url mariadb:///mail?unix_socket=/run/mysqld.sock",
            *("A connection by unix_socket", "remove unix_socket from the URL"),
        ),
    ],
)
def test_what_windows_lacks_is_refused(
    arguments: str, feature: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a-token")
    done = run("windows", "run_command", *arguments.split(), folder=tmp_path)
    assert f"{feature} is not available on Windows: {remedy}." in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_a_spool_is_refused_on_windows(tmp_path: Path) -> None:
    done = run("windows", "spools", folder=tmp_path)
    assert done.stdout == (
        "A spool is not available on Windows: omit `spool`; the provider repeats notifications "
        "that get a 503.\n"
    )


class TestContract(StoreContract):
    """The contract of stores, on hookrow's own tables in a file."""

    @pytest.fixture(autouse=True)
    def _open_store(self, tmp_path: Path) -> Iterator[None]:
        url = f"sqlite:///{tmp_path.as_posix()}/mail of hookrow.db"
        migrations.upgrade(url, Schema())
        with closing(SQLStore(url)) as self.store:
            yield

    def add_subscriber(self, email: str, /) -> int:
        return Tables(self.store).add_subscriber(email)

    def add_dispatch(self, message_id: str, subscriber: object, list_: object, /) -> int:
        assert isinstance(subscriber, int)
        assert isinstance(list_, int)
        return Tables(self.store).add_dispatch(message_id, subscriber, list_)

    def add_list(self) -> int:
        return Tables(self.store).add_list()

    def add_subscription(self, list_: object, subscriber: object, /) -> None:
        assert isinstance(list_, int)
        assert isinstance(subscriber, int)
        Tables(self.store).add_subscription(list_, subscriber)
