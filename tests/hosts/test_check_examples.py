"""`hookrow check URL` against the examples, each under a server that people use with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from process import Command, granian, gunicorn, hypercorn, running, uvicorn

from hookrow.finding import Explained, Finding, Level
from hookrow.outside import look
from nginx import fronting
from wire import ENDPOINT, SECRET


def faults(port: int) -> list[Finding]:
    """Look from outside; return the faults, but that this machine is no public one."""
    found = list(look(f"http://127.0.0.1:{port}/mail{ENDPOINT}", SECRET))
    assert isinstance(found[-1], Explained)
    return [each for each in found if each.level is not Level.OK and each.about != "dns"]


@pytest.mark.parametrize(
    ("command", "app"),
    [
        (gunicorn, "wsgi_app:app"),
        (gunicorn, "flask_app:app"),
        (uvicorn, "asgi_app:app"),
        (uvicorn, "starlette_app:app"),
        (granian, "litestar_app:app"),
        (hypercorn, "quart_app:app"),
    ],
)
def test_all_is_well(command: Command, app: str, tmp_path: Path) -> None:
    """By itself and behind nginx: nothing is warned of that works."""
    variables = {"HOOKROW_SECRET": SECRET}
    with running(command, app, tmp_path, variables) as server:
        assert faults(server.port) == []
        with fronting(tmp_path, server.port, "client_max_body_size 9m;") as port:
            assert faults(port) == []
