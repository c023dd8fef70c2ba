"""The page on testing is run: its tests pass, its session prints what it says."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from shutil import copy

import pytest

from command import Command
from hookrow import testing
from hookrow.testing import SECRET, StoreContract

PAGE = (Path(__file__).parent.parent / "docs" / "testing.md").read_text(encoding="utf-8")

FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))

SAVE = "from main import save; save('ada@example.com', 'm-1')"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the tables that the page's application needs."""
    folder = tmp_path_factory.mktemp("database")
    assert Command(folder).run("db", "upgrade").returncode == 0
    return folder / "hookrow.db"


@pytest.fixture
def host(tmp_path: Path, database: Path) -> Command:
    """Make a folder with all files of the page, and the database."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    copy(database, tmp_path)
    return Command(tmp_path)


def test_its_tests_pass(host: Command) -> None:
    """Every block of Python is a file, and with no other the tests in them pass."""
    assert len(FILES) == PAGE.count("```python") == 7
    done = host.execute(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"{6 + len(contract)} passed" in done.stdout, done.stdout + done.stderr


def test_a_wrong_mapping_fails_as_it_says(host: Command) -> None:
    """The message shown is the one that comes."""
    tables = host.folder / "tables.py"
    wrong = FILES["tables.py"].replace('"email": "address"', '"email": "name"')
    tables.write_text(wrong)
    done = host.execute(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "a_delivery_sets"),
        "test_mapping.py",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    (shown,) = re.findall(r"^```text\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    pattern = re.escape(" ".join(shown.split())).replace(re.escape("..."), r"\w+")
    assert re.search(pattern, " ".join(done.stdout.replace("\nE ", "\n").split())), done.stdout


def test_its_session(host: Command) -> None:
    """Each command of the session prints what stands below it."""
    done = host.execute(sys.executable, "-c", SAVE, HOOKROW_SECRET=SECRET)
    assert done.returncode == 0, done.stderr
    (session,) = re.findall(r"^```console\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    with host.serving("--mount-path", "/mail", HOOKROW_SECRET=SECRET) as server:
        for part in session.split("$ ")[1:]:
            line, _, printed = part.replace(":8000", f":{server.port}").partition("\n")
            done = host.run(*shlex.split(line)[1:], HOOKROW_SECRET=SECRET)
            assert (done.stdout, done.returncode == 0) == (printed, printed == "200\n")


def test_every_payload_is_in_the_table() -> None:
    """Each sample payload stands there, and every one that does exists."""
    table = PAGE.partition("| payload |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    payloads = {name for name in testing.__all__ if name in dir(testing.payloads)} - {"Payload"}
    assert sorted(documented) == sorted(payloads)


def test_every_method_is_in_the_table() -> None:
    """What a host may define for its mapping stands there."""
    table = PAGE.partition("| define |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))
    public = {name for name in dir(StoreContract) if not name.startswith(("_", "test_"))}
    assert documented == public | {"store"}


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_on_the_page(name: str) -> None:
    """What can be imported is documented."""
    assert re.search(rf"\b{name}\b", PAGE)
