"""SIGHUP and the commands that end by themselves; `faults/test_signals.py` is about `serve`."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from command import HOOKROW, Command
from wire import PATIENCE, SECRET


@pytest.mark.parametrize(
    ("before", "status"),
    [
        pytest.param((), -signal.SIGHUP, id="ended"),
        pytest.param(("nohup",), 1, id="ignored, as nohup asks for"),
    ],
)
def test_any_other_command(tmp_path: Path, before: tuple[str, ...], status: int) -> None:
    """Any other command ends with its terminal, unless nohup runs it."""
    command = Command(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        port = str(listener.getsockname()[1])
        waiting = subprocess.Popen(
            [*before, HOOKROW, "simulate", "open", "ada@example.com", "--port", port],
            cwd=tmp_path,
            env=command.environment({"HOOKROW_SECRET": SECRET}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        connection, _ = listener.accept()
        waiting.send_signal(signal.SIGHUP)
        connection.close()
        assert waiting.wait(PATIENCE) == status
