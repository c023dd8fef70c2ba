"""SIGHUP and the commands that end by themselves; that of `serve` is a reload."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

from command import HOOKROW, Command
from wire import SECRET

LIMIT = 60.0
"""In seconds; how long a process may take on a busy machine."""


def test_hangup(tmp_path: Path) -> None:
    """Any other command ends with its terminal, unless nohup runs it."""
    command = Command(tmp_path)
    for before, status in (((), -signal.SIGHUP), (("nohup",), 1)):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LIMIT)
            port = str(listener.getsockname()[1])
            waiting = subprocess.Popen(
                [*before, HOOKROW, "simulate", "open", "ada@example.com", "--port", port],
                cwd=tmp_path,
                env=command.environment({"HOOKROW_SECRET": SECRET}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            connection, _ = listener.accept()
            waiting.send_signal(signal.SIGHUP)
            connection.close()
            assert waiting.wait(LIMIT) == status
