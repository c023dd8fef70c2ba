"""Receivers of version 0.1.0 and of this version run at the same time, on one database."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from traffic import Load

from command import HOOKROW, Command
from wire import SECRET

pytestmark = pytest.mark.never_flaky

WHEEL = Path(__file__).parents[1] / "fixtures" / "first_edition" / "hookrow-0.1.0-py3-none-any.whl"


@pytest.fixture
def former(tmp_path: Path) -> Command:
    """Return the command of version 0.1.0."""
    folder = tmp_path / "0.1.0"
    with ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return Command(folder, [Path("/usr/bin/env"), f"PYTHONPATH={folder}", HOOKROW])


def test_rolling_upgrade_and_rollback(
    former: Command, empty_database_url: str, tmp_path: Path
) -> None:
    """The database is upgraded under load. Then both versions serve, then only the former."""
    current, url = Command(tmp_path), ("--database-url", empty_database_url)
    created = former.run("db", "upgrade", *url)
    assert created.returncode == 0, created.stderr
    load = Load(empty_database_url, pause=0.02)
    with former.serving(*url) as old:
        with load.on(old.port):
            load.wait_for(100, 200)
            upgraded = current.run("db", "upgrade", *url)
            assert upgraded.returncode == 0, upgraded.stderr
            assert upgraded.stdout.endswith(
                "added revisions 0003, 0004, 0005, 0006, 0007, 0008, 0009, 0010, 0011.\n"
            )
            load.wait_for(100, 200)
        with current.serving(*url) as new, load.on(old.port, new.port):
            load.wait_for(200, 200)
        with load.on(old.port):
            load.wait_for(100, 200)
    load.check(200)
    assert load.miscounted() == []
    for command in (former, current):
        checked = command.run("check", *url, HOOKROW_SECRET=SECRET)
        assert checked.returncode == 0, checked.stdout + checked.stderr
