"""`hookrow demo` without a terminal: it ends by itself."""

import logging
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import Command
from wire import free_port

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Restore what the demo sets in its process; have temporary files in the test's folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    logger, handlers = logging.getLogger("hookrow"), [signal.getsignal(each) for each in SIGNALS]
    level = logger.level
    yield
    logger.setLevel(level)
    for number, handler in zip(SIGNALS, handlers, strict=True):
        signal.signal(number, handler)


def test_demo(command: Command) -> None:
    """It shows each answer and what changes, a parked notification, and a summary.

    Settings for hookrow and a proxy make no difference.
    """
    done = command.call(
        "demo",
        COLUMNS="120",
        HOOKROW_SECRET="short",
        HOOKROW_DATABASE_URL="postgresql://ada@127.0.0.1:1/mail",
        HOOKROW_MOUNT_PATH="/elsewhere",
        http_proxy=f"http://127.0.0.1:{free_port()}",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in command.folder.rglob("*")] == ["tmp"]
    for expected in (
        *(" 401 Cannot verify webhook", "dispatch 1: delivered_at 2", "subscriber 3: active"),
        *("subscription 3: suppressed, HardBounce", "subscriber 2: suppressed, SpamComplaint"),
        "\n14 notifications: 8 answered 200, 1 answered 400, 1 answered 401, ",
    ):
        assert expected in done.stdout
    refused = r"\n.* (400|401|404|422) \w.* nothing(?=\n)"
    late = r"\nthe (same|suppression again).* nothing(?=\n)"
    assert [len(re.findall(rows, done.stdout)) for rows in (refused, late)] == [6, 2]
    assert re.search(r"/dashboard/\?token=\S{43}\n", done.stdout)
    assert "Ctrl-C" not in done.stdout
    assert re.search(
        r"no dispatch had the id (\S+) when it came; 1 attempt; tried again\s"
        r"(.*\n)*  dispatch 5: delivered_at 2.*\n"
        r"  no dispatch had the id \1 when it came; 1 attempt; recorded \d+ m?s later\n",
        done.stdout,
    )
