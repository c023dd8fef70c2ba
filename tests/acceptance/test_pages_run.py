"""The files and commands of hosts, the dashboard, failover and several machines work."""

import os
import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from django_project.page import PAGE, TRY, start
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables, open_receiver, post, suppression
from hookrow.wsgi import WSGI
from loopback import loopback
from nginx import running
from postgres import Server, find_binaries
from session import ROOT, read_blocks, read_commands, read_files, terminal
from wire import eventually, free_port, get

HOSTS = {page.stem for page in (ROOT / "docs/how-to/hosts").glob("*.md")} - {"index"}

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,6}Z?")


def follow(page: str, folder: Path) -> None:
    """Run each command of a page; assert that it prints the documented output, except for times."""
    [session] = read_blocks(page, "console")
    commands = read_commands(session)
    assert commands
    with terminal(folder) as shell:
        for line, expected in commands:
            printed = TIME.sub("", shell.type(line)).strip()
            is_omitted = line == "hookrow db upgrade" and not expected
            assert printed == TIME.sub("", expected).strip() or is_omitted, line


@pytest.mark.parametrize("host", sorted(HOSTS - {"django"}))
def test_host(host: str, tmp_path: Path) -> None:
    [code] = read_blocks(f"docs/how-to/hosts/{host}.md", "python")
    (tmp_path / f"{host}_app.py").write_text(code)
    follow(f"docs/how-to/hosts/{host}.md", tmp_path)
    assert (tmp_path / "hookrow.db").is_file()


def test_django(tmp_path: Path) -> None:
    start(tmp_path, TRY)
    follow(PAGE, tmp_path)


def test_dashboard(tmp_path: Path) -> None:
    code = read_files("docs/how-to/dashboard.md")["dashboard_app.py"]
    (tmp_path / "dashboard_app.py").write_text(code)
    follow("docs/how-to/dashboard.md", tmp_path)


def test_proxy(tmp_path: Path) -> None:
    """An application gets the requests of its endpoint through nginx, and no others."""
    [location] = read_blocks("docs/how-to/proxy.md", "nginx")
    port = free_port()
    with (
        closing(SQLStore("sqlite://")) as store,
        open_receiver(store) as receiver,
        loopback(DispatcherMiddleware(NotFound(), {"/mail": WSGI(receiver)})) as application,
        running(
            tmp_path,
            port,
            f"server {{ listen {port}; {location} }}".replace("8000", str(application)),
        ),
    ):
        Tables(store).add_subscriber("ada@example.com")
        payload = suppression("ada@example.com", None, at=datetime.now(UTC))
        assert post(f"http://127.0.0.1:{port}/mail/provider/webhooks", payload) == (200, "")
        assert get(port, "/readyz").status == 404


def test_more_than_one_machine(
    empty_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two receivers record in one database, and one of them goes on when the other has ended."""
    monkeypatch.setenv("PATH", f"{find_binaries()}:{os.environ['PATH']}")
    [session] = read_blocks("docs/how-to/more-than-one-machine.md", "console")
    session = session.replace("postgresql://mail:password@db.example.com/mail", empty_postgres_url)
    with terminal(tmp_path) as shell:
        for line, expected in read_commands(session.replace("8001", str(free_port()))):
            assert shell.type(line) == expected or line == "hookrow db upgrade", line


def test_failover(
    start_postgres: Callable[[], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the rehearsal, what gets a 503 is recorded by the standby after its promotion."""
    server = start_postgres()
    monkeypatch.setenv("PATH", f"{server.binaries}:{os.environ['PATH']}")
    first, second = str(free_port()), str(free_port())
    create, host, promote, return_, end = (
        block.replace("5441", first).replace("5442", second)
        for block in read_blocks("docs/how-to/failover.md", "sh")[-5:]
    )
    variables = create.partition("\n")[0]
    *prepare, loop = host.splitlines()
    post = loop.removeprefix("while sleep 1; do ").removesuffix("; done")
    crash, _, pg_promote = promote.splitlines()
    try:
        server.run(create)
        with terminal(tmp_path) as shell:
            for line in prepare:
                shell.type(line)
            assert shell.type(post) == "200\n"
            server.run(f"{variables}\n{crash}")
            assert shell.type(post) == "503 Try again later\n"
            server.run(f"{variables}\n{pg_promote}")
            eventually(lambda: shell.type(post) == "200\n")
            server.run(f"{variables}\n{return_}")
            assert shell.type(post) == "200\n"
            eventually(lambda: shell.type("hookrow log").count("recorded") >= 4)
        server.run(f"{variables}\n{end}")
    finally:
        server.run("for each in db?; do pg_ctl stop --pgdata $each --mode immediate || true; done")
        server.remove()
