"""`hookrow serve` in processes: starts, stops, workers, terminals and outages.

Tests that need no process are in `hosts/test_serve_app.py` and `cli/test_cli_errors.py`, signals at
critical moments in `test_signals.py`.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path

import pytest
from sqlalchemy import make_url
from traffic import spooled

import world
from command import Command, Serving, Terminal, patched
from hookrow._server.app import DRAIN_TIMEOUT, RECORD_TIMEOUT, TASK_TIMEOUT
from hookrow._server.budgets import CHECK_BUDGETS_EVERY
from hookrow._server.limits import GRACE_PERIOD
from hookrow._server.workers import STOP_TIMEOUT
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from nginx import running
from postgres import Server
from wire import (
    ADAS,
    AT,
    DELIVERY,
    ENDPOINT,
    PATIENCE,
    SECRET,
    TEXT,
    Answer,
    Connection,
    ask,
    eventually,
    free_port,
    get,
    head,
    request,
)

NEW, OLD, OLDER = "the-secret-of-next-year", SECRET, "the-secret-of-last-year"

PASSWORD = "the-right-password"

DEADLINE, LONGEST_STOP = 5.0, 20.0
"""In seconds; a receiver's deadline for responses, and the time in docs/how-to/deploy.md."""

UNIT = (Path(__file__).parents[2] / "deploy" / "hookrow@.service").read_text(encoding="utf-8")

METRICS = (Path(__file__).parents[2] / "docs/how-to/metrics.md").read_text(encoding="utf-8")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder, with a short time limit for bodies."""
    return patched(tmp_path, "import hookrow.asgi; hookrow.asgi.BODY_TIMEOUT = 1.0")


@pytest.fixture
def filled(command: Command, sqlite_url: str) -> str:
    """Return the URL of the command's default database, with the rows of the cases."""
    assert sqlite_url == f"sqlite:///{command.folder}/hookrow.db"
    world.fill(sqlite_url)
    return sqlite_url


def post(server: Serving, path: str = ENDPOINT, *, secret: str = SECRET) -> Answer:
    """Post a delivery."""
    return ask(server.port, request(DELIVERY, path, secret=secret))


def delivered_at(url: str) -> object:
    """Return the delivery time of the first dispatch."""
    return world.rows(url)["dispatches"][0]["delivered_at"]


def wait_until_started(server: Serving, processes: int) -> None:
    """Wait until this number of processes has started."""
    server.wait_until_logged("Application startup complete", processes)


def test_defaults(command: Command) -> None:
    """With only a secret, it creates an SQLite file; log lines about refusals are limited."""
    url = f"sqlite:///{command.folder}/hookrow.db"
    with command.serving("--dashboard", HOOKROW_PREVIOUS_SECRET=OLDER) as server:
        first, second = server.log.splitlines()[:2]
        where = f"at http://127.0.0.1:{server.port}{ENDPOINT} and records them in sqlite:///"
        assert first.endswith(f"receives notifications {where}{command.folder}/hookrow.db")
        assert (
            f"The database sqlite:///{command.folder}/hookrow.db did not exist. It is new and has"
            in second
        )
        assert (command.folder / "hookrow.db").stat().st_mode & 0o777 == 0o600
        assert post(server).body == b"Engine::Subscriber not found"
        world.fill(url)
        answer = post(server, secret=OLDER)
        assert (answer.status, answer.body, answer.header("content-type")) == (200, b"", TEXT)
        assert answer.header("server") is None
        assert delivered_at(url) == AT
        for _ in range(100):
            assert ask(server.port, b"nonsense\r\n\r\n").status == 400
            assert post(server, secret="wrong").status == 401
        assert get(server.port, "/dashboard/").status == 401
        with Connection(server.port) as idle:
            idle.send(request(DELIVERY))
            assert idle.answer().status == 200
            server.send(signal.SIGTERM)
            assert server.ended() == 0
            assert idle.is_over()
    assert 1 <= server.log.count("Invalid HTTP request received") < 50
    assert 1 <= server.log.count("X-Provider-Secret is") < 50
    assert "Set HOOKROW_DASHBOARD_PASSWORD" in server.log  # there is no terminal
    assert not re.search(f"ERROR|Traceback|with the password|{SECRET}", server.log)


def test_a_start_that_fails(command: Command, empty_postgres_url: str) -> None:
    """The first line of the log names the database, without its password, and then the error."""
    url = make_url(empty_postgres_url)
    url = url.set(password="hunter2", query={**url.query, "password": "hunter2"})
    text = url.render_as_string(hide_password=False)
    done = command.run("serve", "--port", free_port(), HOOKROW_SECRET=SECRET, DATABASE_URL=text)
    first, *_, last = done.stderr.splitlines()
    assert re.search(rf"and records them in postgresql://{url.username}:\*\*\*@", first)
    assert first.endswith(f"/{url.database}")
    assert (done.returncode, "Otherwise, run `hookrow db upgrade`" in last) == (1, True)
    assert "hunter2" not in done.stderr


def test_ipv6(command: Command) -> None:
    """It listens at an IPv6 address, and stops on SIGINT."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    with command.serving(HOOKROW_HOST="::1") as server:
        assert f"http://[::1]:{server.port}{ENDPOINT}" in server.log
        server.send(signal.SIGINT)
        assert server.ended() == 0
    assert "Traceback" not in server.log


def test_log_of_workers_in_json(command: Command) -> None:
    """Every line is a JSON object; a line about a request contains its id."""
    options = ("--workers", 2, "--log-level", "debug", "--log-format", "json")
    with command.serving(*options, PYTHONWARNINGS="default::DeprecationWarning") as server:
        answer = ask(server.port, request(b"{}", extra=[b"X-Request-Id: from-a-proxy"]))
        assert (answer.status, answer.header("x-request-id")) == (422, "from-a-proxy")
        stranger = post(server, secret="wrong").header("x-request-id")
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert {"hookrow", "uvicorn.error"} <= {line["logger"] for line in lines}
    about = [line["request_id"] for line in lines if "request_id" in line]
    assert about == ["from-a-proxy", stranger]
    groups = [line["request_ids"] for line in lines if "request_ids" in line]
    assert groups == [["from-a-proxy"]]


@pytest.mark.usefixtures("filled")
class TestWorkers:
    def test_dashboard_and_metrics(self, command: Command) -> None:
        """The printed password is valid in every worker, and metrics are added up.

        No secret is in the log, or in a worker's command line or environment. The replacements of
        killed workers accept the password and continue the counts.
        """
        options = ("--dashboard", "--metrics", "--workers", 2, "--log-level", "debug")
        (command.folder / "hookrow.toml").write_text("[providers.acme]\nprovider = 'postmark'")
        with (
            Terminal() as terminal,
            Command(command.folder, terminal=terminal).serving(
                *options, HOOKROW_SECRET="", HOOKROW_PROVIDERS_ACME_SECRET=NEW
            ) as server,
        ):
            wait_until_started(server, 2)
            password = server.dashboard_password
            credentials = b64encode(f"hookrow:{password}".encode())
            authorization = [b"Authorization: Basic " + credentials]
            page = head("/dashboard/lists", method="GET", extra=authorization)
            assert get(server.port, "/dashboard/lists").status == 401
            assert [ask(server.port, page).status for _ in range(8)] == [200] * 8
            assert {post(server, secret=NEW).status for _ in range(40)} == {200}
            (counts,) = command.temporary.glob("hookrow-metrics-*")
            killed = server.workers()
            for worker in killed:
                for name in ("cmdline", "environ"):
                    content = Path(f"/proc/{worker}/{name}").read_bytes()
                    assert password.encode() not in content
                    assert NEW.encode() not in content
                os.kill(worker, signal.SIGKILL)
            wait_until_started(server, 4)
            assert not {*killed} & {*server.workers()}
            gauges = [counts / f"gauge_livesum_{worker}.db" for worker in killed]
            eventually(lambda: not any(gauge.exists() for gauge in gauges))
            assert [ask(server.port, page).status for _ in range(8)] == [200] * 8
            assert {post(server, secret=NEW).status for _ in range(10)} == {200}
            metrics = get(server.port, "/metrics").body.decode()
            labels = '{outcome="recorded",type="delivered"}'
            assert re.search(rf"^hookrow_\w+_total{labels} 50.0$", metrics, re.MULTILINE)
            assert "pid" not in metrics
            assert ask(server.port, f"{password}\r\n\r\n".encode()).status == 400
            server.send(signal.SIGINT)
            assert server.ended() == 0
        assert list(command.temporary.iterdir()) == []
        assert "Invalid HTTP request received" in server.log
        assert not re.search(f"Traceback|{password}|{NEW}", server.log)

    def test_stopped_while_they_start(self, command: Command) -> None:
        """A SIGTERM while the workers start deletes the folder with their counts."""
        with command.starting("--workers", 2, "--metrics") as server:
            eventually(lambda: [*command.temporary.glob("hookrow-metrics-*")])
            server.send(signal.SIGTERM)
            assert server.ended() == 0
        assert list(command.temporary.iterdir()) == []

    @pytest.mark.never_flaky
    def test_reload(self, command: Command) -> None:
        """On SIGHUP, every process reloads the secrets, and refuses no request meanwhile.

        The file of the flag takes precedence over the variable, before and after it.
        """
        secrets = command.folder / "secrets"
        secrets.touch(0o600)
        secrets.write_text(f"{OLD}\n{OLDER}")

        def statuses() -> list[int]:
            return [post(server, secret=each).status for each in (NEW, OLD, OLDER, "ignored")]

        options = ("--secret-file", secrets, "--workers", 2)
        with command.serving(*options, HOOKROW_SECRET="ignored") as server:
            wait_until_started(server, 2)
            before = server.workers()
            assert statuses() == [401, 200, 200, 401]
            secrets.write_text(f"{NEW}\n{OLD}")
            server.send(signal.SIGHUP)
            while server.log.count("The secrets were reloaded") < 2:
                assert post(server).status == 200
            assert [statuses() for _ in range(8)] == [[200, 200, 401, 401]] * 8
            assert server.workers() == before
        assert not re.search("Traceback|the-secret-of", server.log)


@pytest.mark.never_flaky
@pytest.mark.parametrize("workers", [1, 2])
def test_stop(command: Command, filled: str, workers: int) -> None:
    """On SIGTERM, requests in progress get their responses before the processes exit with status 0.

    A request whose body never ends gets a 408 at the time limit for bodies.
    """
    with command.serving("--workers", workers) as server, ExitStack() as stack:
        wait_until_started(server, workers)
        children = server.workers()
        stuck, *connections = [stack.enter_context(Connection(server.port)) for _ in range(20)]
        database = stack.enter_context(closing(sqlite3.connect(command.folder / "hookrow.db")))
        database.execute("BEGIN IMMEDIATE")
        for connection in connections:
            connection.send(request(DELIVERY))
        stuck.send(head(length=1000) + b"{")
        # When these have their responses, each process has read its requests.
        assert {get(server.port, "/healthz").status for _ in range(20)} == {200}
        server.send(signal.SIGTERM)
        server.wait_until_logged("Shutting down", workers)
        assert server.is_running
        database.rollback()
        assert [connection.answer().status for connection in connections] == [200] * 19
        assert stuck.answer().status == 408
        assert server.ended() == 0
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert delivered_at(filled) == AT
    assert "Traceback" not in server.log


@pytest.mark.usefixtures("filled")
def test_stop_during_a_download(command: Command) -> None:
    """On SIGTERM, a download is cut off after the grace period, and the server exits cleanly."""
    with closing(sqlite3.connect(command.folder / "hookrow.db")) as database, database:
        database.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?) "
            "INSERT INTO hookrow_subscribers (email, suppressed_at) "
            "SELECT n || '@example.com', '2026-03-04 05:06:07.000000' FROM numbers",
            (500_000,),
        )
    login = {"Authorization": f"Basic {b64encode(f'hookrow:{PASSWORD}'.encode()).decode()}"}
    with command.serving("--dashboard", HOOKROW_DASHBOARD_PASSWORD=PASSWORD) as server:
        with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/dashboard/suppressions.csv", headers=login)
            response = connection.getresponse()
            assert (response.status, len(response.read(1000))) == (200, 1000)
            server.send(signal.SIGTERM)
            with pytest.raises(IncompleteRead):
                response.read()
        assert server.ended() == 0
    assert "Dashboard user hookrow downloaded suppressions as CSV" in server.log
    assert not re.search("Traceback|Cancel|ERROR|WARNING", server.log)


def figures(server: Serving) -> dict[str, str]:
    """Return the values at /metrics by metric and labels, except the times of creation."""
    lines = get(server.port, "/metrics").body.decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: value for name, value in values.items() if "_created" not in name}


def has_read_the_log(server: Serving) -> bool:
    """Return whether the server's figures include the parked notification."""
    return figures(server)["hookrow_parked"] == "1.0"


@pytest.mark.usefixtures("filled")
def test_metrics_of_several_servers(tmp_path: Path) -> None:
    """Any worker returns the figures of all workers of its server, and the database's figures.

    Each server counts what it has received, so that the sum is right, and all servers read the same
    figures from the database, of which the maximum is right.
    """
    often = "import hookrow._receiver.receiver; hookrow._receiver.receiver.COLLECT_EVERY = 0.2"
    command, received = (
        patched(tmp_path, often),
        'hookrow_notifications_total{outcome="%s",type="%s"}',
    )
    delivered = received % ("recorded", "delivered")
    with (
        command.serving("--metrics", "--workers", 2) as workers,
        command.serving("--metrics") as single,
    ):
        wait_until_started(workers, 2)
        assert {post(workers).status for _ in range(20)} == {200}
        assert {post(single).status for _ in range(5)} == {200}
        parked = DELIVERY.replace(ADAS.encode(), b"m-1")
        assert ask(single.port, request(parked)).status == 404
        for server in (workers, single):
            eventually(partial(has_read_the_log, server))
        matches = 'hookrow_secret_matches_total{entry="",secret="1"}'  # each worker adds its own
        eventually(lambda: figures(workers)[matches] == "20.0")
        scraped = [figures(workers) for _ in range(20)]
        assert all(each == scraped[0] for each in scraped)
        assert [figures(each)[delivered] for each in (workers, single)] == ["20.0", "5.0"]


@pytest.mark.never_flaky
def test_longest_stop(command: Command, filled: str) -> None:
    """After SIGTERM, the server exits within 20 seconds; unrecorded notifications are spooled.

    The database is locked, one client does not read its responses, and another never ends its body.
    """
    assert GRACE_PERIOD + DEADLINE + CHECK_BUDGETS_EVERY <= DRAIN_TIMEOUT
    longest = DRAIN_TIMEOUT + RECORD_TIMEOUT + 4 * TASK_TIMEOUT
    (until_killed,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)  # by systemd
    assert longest <= LONGEST_STOP < STOP_TIMEOUT < int(until_killed)
    spool = command.folder / "spool.db"
    with Command(command.folder).serving("--spool", spool) as server, ExitStack() as stack:
        unread, stuck, *posting = [stack.enter_context(Connection(server.port)) for _ in range(50)]
        database = stack.enter_context(closing(sqlite3.connect(command.folder / "hookrow.db")))
        database.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as thread:
            sending = thread.submit(send_until_disconnected, unread)
            stuck.send(head(length=1000) + b"{")
            bodies = [DELIVERY.replace(ADAS.encode(), b"m-%d" % each) for each in range(48)]
            for connection, body in zip(posting, bodies, strict=True):
                connection.send(request(body))
            assert {get(server.port, "/healthz").status for _ in range(20)} == {200}
            check_time_of_stop(server)
            sending.result()
        assert [connection.answer().status for connection in posting] == [503] * 48
    assert spooled(spool) == 48
    assert delivered_at(filled) is None


@pytest.mark.never_flaky
def test_stop_while_postgres_is_frozen(
    command: Command, own_postgres: Server, own_postgres_url: str
) -> None:
    """All notifications are in the spool, including the group in progress."""
    assert DEADLINE + RECORD_TIMEOUT > TRANSACTION_TIMEOUT
    world.fill(own_postgres_url)
    spool = command.folder / "spool.db"
    variables = {"HOOKROW_DATABASE_URL": own_postgres_url}
    with command.serving("--spool", spool, **variables) as server, ExitStack() as stack:
        assert post(server).status == 200
        posting = [stack.enter_context(Connection(server.port)) for _ in range(600)]
        with own_postgres.frozen():
            for number, connection in enumerate(posting):
                connection.send(request(DELIVERY.replace(ADAS.encode(), b"m-%d" % number)))
            assert get(server.port, "/healthz").status == 200
            check_time_of_stop(server)
        assert {connection.answer().status for connection in posting} == {503}
    assert spooled(spool) == 600


def check_time_of_stop(server: Serving) -> None:
    """Check that the server exits in time after SIGTERM."""
    server.send(signal.SIGTERM)
    began = time.monotonic()
    assert server.ended() == 0
    seconds = time.monotonic() - began
    print(f"stopped after {seconds:.1f} s")
    assert seconds < LONGEST_STOP
    assert "Traceback" not in server.log


def send_until_disconnected(connection: Connection) -> None:
    """Pipeline requests endlessly, and read no response."""
    with suppress(ConnectionError):
        while True:
            connection.send(head("/", method="GET") * 1000)


@pytest.mark.usefixtures("filled")
def test_behind_nginx(command: Command) -> None:
    """The page's lines for nginx pass on only the webhook, not metrics or health checks."""
    (location,) = re.findall(r"^```nginx\n(.*?)^```", METRICS, re.DOTALL | re.MULTILINE)
    path = f"/mail{ENDPOINT}"
    with command.serving("--metrics", "--mount-path", "/mail") as server:
        port, location = free_port(), location.replace(":8000", f":{server.port}")
        lines = f"listen 127.0.0.1:{port}; client_max_body_size 99m; {location}"
        with running(command.folder, port, f"server {{ {lines} location / {{ return 404; }} }}"):
            assert ask(port, request(DELIVERY, path)).status == 200
            # nginx sends the whole body before it reads the response
            for size in (1, 2, 8):
                assert ask(port, request(b"x" * (size * 1024 * 1024 + 1), path)).status == 413
            for hidden in ("/metrics", "/mail/metrics", "/mail/../metrics", "/healthz"):
                assert get(port, hidden).status == 404
        assert get(server.port, "/metrics").status == 200


def show(server: Serving) -> Answer:
    """Get a page of the dashboard."""
    extra = [b"Authorization: Basic " + b64encode(f"hookrow:{PASSWORD}".encode())]
    return ask(server.port, head("/dashboard/notifications", method="GET", extra=extra))


def wait_until_ready(server: Serving) -> None:
    """Wait until the server, the database and the dashboard work."""
    eventually(lambda: get(server.port, "/readyz").status == 200)
    eventually(lambda: post(server).status == 200)
    eventually(lambda: show(server).status == 200)


@pytest.mark.never_flaky
def test_outages(command: Command, own_postgres: Server, own_postgres_url: str) -> None:
    """It starts while PostgreSQL is down; it and the dashboard recover from that and a freeze."""
    world.fill(own_postgres_url)
    variables = {
        "HOOKROW_DATABASE_URL": own_postgres_url,
        "HOOKROW_DASHBOARD_PASSWORD": PASSWORD,
    }
    own_postgres.stop()
    with command.serving("--dashboard", **variables) as server:
        assert re.search("WARNING .*Nothing can be recorded yet; .*cannot be reached", server.log)
        ready = get(server.port, "/readyz")
        assert (ready.status, b"cannot be reached" in ready.body) == (503, True)
        assert int(post(server).header("retry-after") or 0) > 0
        own_postgres.start()
        wait_until_ready(server)
        assert delivered_at(own_postgres_url) == AT
        with own_postgres.frozen(), ThreadPoolExecutor(20) as threads:
            pages = [threads.submit(show, server) for _ in range(16)]
            posted = threads.submit(post, server)
            assert get(server.port, "/healthz").status == 200
            eventually(lambda: b"The database " in get(server.port, "/readyz").body)
            answer = posted.result(PATIENCE)
            assert (answer.status, answer.body) == (503, b"Try again later")
            assert {each.result(PATIENCE).status for each in pages} == {503}
        wait_until_ready(server)
    assert "Traceback" not in server.log


@pytest.mark.never_flaky
def test_spool_of_workers(command: Command, own_postgres: Server, own_postgres_url: str) -> None:
    """The spool of two workers survives a kill during an outage, and is drained afterwards."""
    world.fill(own_postgres_url)
    spool = command.folder / "spool.db"
    options = ("--spool", spool, "--workers", 2)
    variables = {"HOOKROW_DATABASE_URL": own_postgres_url}
    own_postgres.stop()
    with command.serving(*options, **variables) as server:
        assert {post(server).status for _ in range(3)} == {503}
        eventually(lambda: spooled(spool) == 1)
        assert spool.stat().st_mode & 0o777 == 0o600
        server.send(signal.SIGKILL)
    own_postgres.start()
    with command.serving(*options, **variables) as server:
        eventually(lambda: delivered_at(own_postgres_url) == AT)
        eventually(lambda: spooled(spool) == 0)
        entry = json.loads(command.call("log", "--json", **variables).stdout)
        assert (entry["outcome"], entry["attempts"]) == ("recorded", 3)
    assert not re.search(f"Traceback|{SECRET}", server.log)
