"""The page on testing is complete, its code runs, and its commands print the documented output."""

import asyncio
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from hypercorn.middleware import DispatcherMiddleware
from litestar import Litestar, asgi
from quart import Quart
from starlette.applications import Starlette
from starlette.routing import Mount

from command import Command
from hookrow import Receiver, pytest_plugin, testing
from hookrow.asgi import ASGI
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.testing import SECRET, StoreContract, Tables
from session import ROOT, execute, read_blocks, read_commands, read_files
from wire import ENDPOINT, uvicorn_serving

PAGE = (ROOT / "docs/how-to/testing.md").read_text(encoding="utf-8")
FILES = read_files("docs/how-to/testing.md")


@pytest.fixture
def host(tmp_path: Path) -> Command:
    """Return a folder with all files of the page and the database."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = Command(tmp_path)
    assert command.call("db", "upgrade").returncode == 0
    return command


def test_files(host: Command) -> None:
    """The tests in the files of the page pass."""
    assert len(FILES) == PAGE.count("```python") == 10
    typed = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "hookrow.pytest_plugin"]
    typed += ["-W", "ignore:Using `httpx`"]  # in place of httpx2, of which Starlette warns
    done = host.execute(sys.executable, *typed, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"{9 + len(contract)} passed" in done.stdout, done.stdout + done.stderr


def test_session(host: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.folder)
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    names = execute(FILES["main.py"])
    names["save"]("ada@example.com", "m-1")
    [session] = read_blocks("docs/how-to/testing.md", "console")
    with closing(names["receiver"]), uvicorn_serving(names["app"]) as port:
        for line, printed in read_commands(session.replace(":8000", f":{port}")):
            done = host.call(*shlex.split(line)[1:], HOOKROW_SECRET=SECRET)
            assert (done.stdout, done.returncode == 0) == (printed, printed == "200\n")


CLIENTS = dict(re.findall(r"^\| (.+) \| `(.+\.post\(path, .+)` \|$", PAGE, re.MULTILINE))
"""The request of each framework's test client. Django's tests prove theirs."""


@pytest.fixture
def applications(hookrow_receiver: Receiver) -> Mapping[str, Any]:
    """Return an application of each framework, in which the receiver is mounted at /mail."""
    webhook, flask, fastapi = ASGI(hookrow_receiver), Flask(__name__), FastAPI()
    flask.register_blueprint(blueprint(hookrow_receiver), url_prefix="/mail")
    fastapi.include_router(router(hookrow_receiver), prefix="/mail")
    mounts: dict[str, Any] = {"/mail": webhook, "": Quart(__name__)}
    return {
        "Starlette": Starlette(routes=[Mount("/mail", webhook)]),
        "FastAPI": fastapi,
        "Litestar": Litestar([asgi("/mail", is_mount=True, copy_scope=True)(webhook)]),
        "Quart, other ASGI applications": DispatcherMiddleware(mounts),
        "Flask": flask,
        "other WSGI applications": flask,
    }


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
@pytest.mark.parametrize("framework", sorted(CLIENTS.keys() - {"Django"}))
def test_clients(framework: str, applications: Mapping[str, Any]) -> None:
    """Each posts a payload to the receiver, with the secret."""
    request = CLIENTS[framework]
    modules = re.findall(r"([a-z.]+)\.\w*Client\(", request)
    names: dict[str, Any] = {"path": f"/mail{ENDPOINT}", "payload": {}, "headers": testing.headers}
    names |= {"app": applications[framework]}
    imports = "".join(f"import {module}\n" for module in modules)
    exec(f"{imports}async def post(): return {request}", names)
    response = asyncio.run(names["post"]())
    assert (response.status_code, response.text) == (422, "Webhook payload not supported")


def _rows(head: str) -> set[str]:
    """Return the names at the beginning of a table's rows."""
    table = PAGE.partition(head)[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))


def test_tables() -> None:
    """They have every payload and method, and the page every public name."""
    payloads = {name for name in testing.__all__ if name in dir(testing._payloads)} - {"Payload"}
    assert _rows("| payload |") == payloads
    public = {name for name in dir(StoreContract) if not name.startswith(("_", "test_"))}
    assert _rows("| define |") == public | {"store"}
    assert _rows("| method |") == {name for name in dir(Tables) if not name.startswith("_")}
    assert _rows("| fixture |") == {name for name in dir(pytest_plugin) if "hookrow" in name}
    assert len(CLIENTS) == 7
    assert [name for name in testing.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []
