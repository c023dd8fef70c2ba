"""Several workers of `hookrow serve`: they share counts, and get their settings in a file."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import world
from command import Command, Serving
from hookrow import testing
from nginx import fronting
from small_world import AT
from wire import ask, eventually, get, request

pytestmark = pytest.mark.slow

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
DELIVERY = msgspec.json.encode(testing.delivery(ADA, ADAS, at=AT))
PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")

IN_THE_FILE = """
secret = "hunter2-of-this-year"
previous_secret = "hunter2-of-last-year"
"""
IN_VARIABLES = {"HOOKROW_SECRET": "", "HOOKROW_DASHBOARD_PASSWORD": "hunter2-of-the-dashboard"}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in a folder with a database."""
    command = Command(tmp_path, measured=True)
    command.call("db", "upgrade")
    world.fill(f"sqlite:///{tmp_path}/hookrow.db")
    return command


def files(command: Command, kind: str) -> Sequence[Path]:
    """Return the temporary files or folders of a kind."""
    return list(command.temporary.glob(f"hookrow-{kind}-*"))


def count(server: Serving, labels: str) -> float:
    """Return a sample of the page of metrics, by its labels; 0 if there is none."""
    page = get(server.port, "/metrics").body.decode()
    assert "pid" not in page
    found = re.search(rf"^hookrow_\w+_total{{{labels}}} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0


def send(server: Serving, number: int) -> None:
    """Send deliveries, each over a connection of its own."""
    whole = request(DELIVERY, secret="hunter2-of-this-year")
    for _ in range(number):
        assert ask(server.port, whole).status == 200
        assert ask(server.port, request(b"", "/x")).status == 404


def test_two_workers(command: Command) -> None:
    """Workers count together, also after one was killed, and no secret is in an environment."""
    (command.folder / "hookrow.toml").write_text(IN_THE_FILE)
    options = ("--dashboard", "--metrics", "--workers", 2)
    with command.serving(*options, **IN_VARIABLES) as server:
        server.wait_until_it_says("Application startup complete", 2)
        for child in server.children():
            assert b"hunter2" not in Path(f"/proc/{child}/environ").read_bytes()
        (settings,) = files(command, "settings")
        assert settings.stat().st_mode & 0o777 == 0o600
        assert b"hunter2-of-the-dashboard" in settings.read_bytes()
        send(server, 30)
        (folder,) = files(command, "metrics")
        killed = server.workers()[0]
        gauge = folder / f"gauge_livesum_{killed}.db"
        assert gauge.exists()
        os.kill(killed, signal.SIGKILL)
        server.wait_until_it_says("Application startup complete", 3)
        eventually(lambda: not gauge.exists(), seconds=30)
        send(server, 10)
        assert count(server, 'outcome="recorded",type="delivered"') == 40
        assert count(server, 'refusal="no_such_path"') == 40
        server.send(signal.SIGINT)
        assert server.ended() == 0
    assert list(command.temporary.iterdir()) == []
    assert "hunter2" not in server.log
    assert "Traceback" not in server.log


def test_stopped_while_workers_start(command: Command) -> None:
    """A SIGTERM while the workers start deletes the file with their settings."""
    with command.starting("--workers", 2) as server:
        eventually(lambda: files(command, "settings"), seconds=30)
        server.send(signal.SIGTERM)
        assert server.ended() == 0
    assert files(command, "settings") == []


def test_behind_nginx(command: Command, tmp_path: Path) -> None:
    """The page's lines for nginx pass on the webhook, and neither metrics nor health checks."""
    (location,) = re.findall(r"^```nginx\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with command.serving("--metrics", "--mount-path", "/mail") as server:
        passing = location.replace(":8000", f":{server.port}")
        lines = f"client_max_body_size 99m; {passing}"
        with fronting(tmp_path, server.port, lines, "return 404;") as port:
            assert ask(port, request(DELIVERY, "/mail/provider/webhooks")).status == 200
            # nginx sends a body to the end before it reads the response
            for size in (1, 2, 8) * 3:
                large = request(b"x" * (size * 1024 * 1024 + 1), "/mail/provider/webhooks")
                assert ask(port, large).status == 413
            for path in ("/metrics", "/mail/metrics", "/mail/../metrics", "/healthz"):
                assert get(port, path).status == 404
        answer = get(server.port, "/metrics")
        assert (answer.header("content-type") or "").startswith("text/plain; version=")
        assert count(server, 'outcome="recorded",type="delivered"') == 1
        assert files(command, "metrics") == []
