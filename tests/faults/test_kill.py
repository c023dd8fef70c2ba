"""The server is killed at random moments: what it answered 200 is there."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from random import uniform

import pytest
from traffic import Load, report

from command import Command

ROUNDS = 20


@pytest.mark.slow
def test_what_was_answered_survives_a_kill(database_url: str, tmp_path: Path) -> None:
    """After each of 20 kills every 200 is on its row and in the log, and nothing counts twice.

    What was in flight is posted again to the next server, as the provider does.
    """
    load = Load(database_url)
    command = Command(tmp_path)
    for _ in range(ROUNDS):
        with (
            command.serving("--database-url", database_url) as serving,
            load.on(serving.port),
        ):
            time.sleep(uniform(0.3, 1.0))
            serving.send(signal.SIGKILL)
            assert serving.ended() == -signal.SIGKILL
        if database_url.startswith("sqlite"):
            assert _integrity(tmp_path / "hookrow.db") == "ok"
        assert load.lost() == []
        assert load.miscounted() == []
        assert load.unposted() == []
        assert set(load.statuses()) <= {200, None}
    report(f"{ROUNDS} kills: {load.told()}")


def _integrity(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return "\n".join(line for (line,) in connection.execute("PRAGMA integrity_check"))
