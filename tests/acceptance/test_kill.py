"""The server is killed at random moments: every notification that got a 200 is recorded."""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from random import uniform

import pytest
from traffic import Load

from command import Command

pytestmark = pytest.mark.never_flaky

ROUNDS = 6


def test_acknowledged_notifications_survive_a_kill(database_url: str, tmp_path: Path) -> None:
    """After each kill, their rows and the log contain them, and nothing is counted twice.

    The clients repeat requests without a response to the next server, as the provider does.
    """
    load, command = Load(database_url, pause=0.002), Command(tmp_path)
    for _ in range(ROUNDS):
        with command.serving("--database-url", database_url) as serving, load.on(serving.port):
            load.wait_for(1, 200)
            time.sleep(uniform(0.1, 0.4))
            serving.send(signal.SIGKILL)
            assert serving.ended() == -signal.SIGKILL
        if database_url.startswith("sqlite"):
            with closing(sqlite3.connect(tmp_path / "hookrow.db")) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        load.check(200, None)
        assert load.miscounted() == []
    print(f"{ROUNDS} kills: {load}")
