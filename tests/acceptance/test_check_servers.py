"""`hookrow check URL` against real servers, and through nginx."""

from __future__ import annotations

from pathlib import Path

import pytest

import nginx
from hookrow.finding import Explained, Level
from hookrow.outside import look
from process import Command, granian, gunicorn, hypercorn, running, uvicorn
from wire import ENDPOINT, SECRET

pytestmark = pytest.mark.slow

LIMIT = "client_max_body_size 9m;"
HIDDEN = 'proxy_set_header X-Provider-Secret "";'


def faults(port: int) -> list[str]:
    """Check a server's URL; return the subjects of all faults but that it is not public."""
    return [
        each.about
        for each in look(f"http://127.0.0.1:{port}/mail{ENDPOINT}", SECRET)
        if isinstance(each, Explained) and each.level is not Level.OK and each.about != "dns"
    ]


@pytest.mark.parametrize(
    ("command", "app"),
    [
        (gunicorn, "flask_app:app"),
        (uvicorn, "starlette_app:app"),
        (granian, "litestar_app:app"),
        (hypercorn, "quart_app:app"),
    ],
)
def test_servers(command: Command, app: str, tmp_path: Path) -> None:
    """The examples have no fault, neither directly nor behind nginx, but for what it drops."""
    with running(command, app, tmp_path, {"HOOKROW_SECRET": SECRET}) as server:
        assert faults(server.port) == []
        with nginx.fronting(tmp_path, server.port, LIMIT) as port:
            assert faults(port) == []
        with nginx.fronting(tmp_path, server.port, LIMIT, HIDDEN) as port:
            assert faults(port) == ["secret"]
