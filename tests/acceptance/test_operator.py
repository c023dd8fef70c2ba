"""Faults of a running server, each of which is on the status within a minute, everywhere.

A fault is on the dashboard, at /readyz, in the metrics and in the output of `hookrow check` and
`hookrow stats`, with its cause and its remedy, and gone from there within a minute after it is
removed. The servers of several places run at the same time, because a status waits for periods.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any

import pytest
from small_disk import SmallDisk, small_disk
from surfaces import Surfaces, operated

import mariadb
import nginx
import postgres
from command import HOOKROW, Command
from databases import kind_of
from hookrow import Schema, testing
from hookrow._core.status import Status, StatusLevel, StatusSubject
from hookrow._diagnostics.status import describe_status
from hookrow._migrations import sql, upgrade
from stand_in import PostmarkStandIn
from temporary_server import identity
from times import DAY, HOUR
from wire import ENDPOINT, ask, free_port, request

OK, ATTENTION, BROKEN = StatusLevel

MINUTE_SECONDS = 60.0

PEOPLE = [f"person-{number}@example.com" for number in range(6)]

FOUND = PEOPLE[0]
"""The address of a subscriber. If no notification found its row, the mapping would be a finding."""

ADD_FOUND = f"INSERT INTO hookrow_subscribers (email) VALUES ('{FOUND}')"


# -- places: running servers, and what surrounds them -----------------------------------


@dataclass
class Place:
    """A running server in a folder, with the database of a URL.

    `remains` are the subjects that still need attention because of earlier faults.
    """

    surfaces: Surfaces
    url: str
    remains: frozenset[StatusSubject] = frozenset()
    _numbers: Iterator[int] = field(default_factory=count)

    def post(self) -> int:
        """Post a notification of an event that has just occurred; return the status."""
        number = next(self._numbers)
        person = PEOPLE[number % len(PEOPLE)]
        about = testing.suppression if person == FOUND else testing.delivery
        payload = about(person, f"message-{number}", at=datetime.now(UTC))
        return ask(self.surfaces.port, request(json.dumps(payload).encode())).status

    def execute(self, script: str) -> None:
        kind_of(self.url).execute(self.url, script)


@dataclass(kw_only=True)
class OnDisk(Place):
    """A place whose database, or spool, is on a small disk."""

    disk: SmallDisk

    def fill(self) -> None:
        """Fill the disk, and post until the database has used all that was reserved."""
        self.disk.fill()
        within_a_minute(lambda: self._expect(503))

    def _expect(self, status: int) -> None:
        assert self.post() == status


@dataclass(kw_only=True)
class OnServer(OnDisk):
    """A place with its own database server, part of whose files are on a small disk."""

    server: Any


@dataclass(frozen=True)
class Tools:
    """What places are made of."""

    folder: Path
    databases: postgres.Databases
    start_postgres: Callable[[], postgres.Server]
    start_mariadb: Callable[[], mariadb.Server]
    starting: Lock = field(default_factory=Lock)
    """Held while a server is started, because several would take too long on a busy machine."""

    def new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


@contextmanager
def on_postgres(tools: Tools) -> Iterator[OnServer]:
    """Run a server whose database is in a tablespace on a small disk."""
    with tools.starting:
        server = tools.start_postgres()
    try:
        with small_disk(server.folder / "disk", "32m", user=identity()) as disk:
            server.stop()
            server.start(within=disk.program)
            server.execute(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
            server.execute("CREATE DATABASE mail TABLESPACE small")
            url = server.url("mail")
            server.execute(sql("postgresql"), url=url)
            server.execute(ADD_FOUND, url=url)
            command = Command(tools.new_folder("postgres"))
            with operated(command, HOOKROW_DATABASE_URL=url) as surfaces:
                yield OnServer(surfaces, url, disk=disk, server=server)
    finally:
        server.remove()


@contextmanager
def on_mariadb(tools: Tools) -> Iterator[OnServer]:
    """Run a server whose database is on a small disk; its user obeys `read_only`."""
    with tools.starting:
        server = tools.start_mariadb()
    folder = server.folder / "data/mail"
    try:
        with small_disk(folder, "4m", user=identity()) as disk:
            server.stop()
            server.start(within=disk.program)
            server.execute("CREATE DATABASE IF NOT EXISTS mail")
            server.execute("ALTER DATABASE mail CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
            mariadb.execute_script(server.url("mail"), sql("mariadb"))
            server.execute(ADD_FOUND, url=server.url("mail"))
            server.execute("CREATE USER hookrow@localhost")
            server.execute("GRANT ALL ON mail.* TO hookrow@localhost")
            url = server.url("mail").replace("root@", "hookrow@")
            command = Command(tools.new_folder("mariadb"))
            with operated(command, HOOKROW_DATABASE_URL=url) as surfaces:
                yield OnServer(surfaces, url, disk=disk, server=server)
    finally:
        server.remove()


@dataclass(kw_only=True)
class OnSQLite(OnDisk):
    """A place whose server can be started again, when no program has opened the file."""

    stack: ExitStack

    def start_read_only(self) -> None:
        """Start the server on a read-only disk."""
        self.stack.close()
        self.disk.become("ro")
        self.start()

    def start(self) -> None:
        server = operated(self.surfaces.command, **self.surfaces.variables)
        self.surfaces = self.stack.enter_context(server)


@contextmanager
def on_sqlite(tools: Tools) -> Iterator[OnSQLite]:
    """Run a server whose file is on a small disk."""
    folder = tools.new_folder("sqlite")
    with small_disk(folder / "disk", "1m") as disk, ExitStack() as stack:
        url = f"sqlite:///{disk.folder}/hookrow.db"
        command = Command(folder, [*disk.program, HOOKROW])
        command.run("db", "upgrade", HOOKROW_DATABASE_URL=url)
        surfaces = stack.enter_context(operated(command, HOOKROW_DATABASE_URL=url))
        yield OnSQLite(surfaces, url, disk=disk, stack=stack)


@contextmanager
def with_a_spool(tools: Tools) -> Iterator[OnDisk]:
    """Run a server whose spool is on a small disk, but whose database is not."""
    folder = tools.new_folder("spool")
    url = f"sqlite:///{folder}/hookrow.db"
    upgrade(url, Schema())
    with small_disk(folder / "disk") as disk:
        command = Command(folder, [*disk.program, HOOKROW])
        spool = f"{disk.folder}/spool.db"
        with operated(command, HOOKROW_DATABASE_URL=url, HOOKROW_SPOOL=spool) as surfaces:
            yield OnDisk(surfaces, url, disk=disk)


@contextmanager
def with_own_tables(tools: Tools) -> Iterator[Place]:
    """Run a server with tables of an application."""
    folder = tools.new_folder("tables")
    url = f"sqlite:///{folder}/hookrow.db"
    (folder / "hookrow.toml").write_text(MAPPING)
    with closing(sqlite3.connect(folder / "hookrow.db")) as connection:
        connection.executescript(TABLES)
    command = Command(folder)
    command.run("db", "upgrade", HOOKROW_DATABASE_URL=url)
    with operated(command, HOOKROW_DATABASE_URL=url) as surfaces:
        yield Place(surfaces, url)


MAPPING = """
[tables]
dispatches = false
subscriptions = false

[tables.subscribers]
table = "people"
columns = { email = "address" }
"""

TABLES = """
CREATE TABLE people (
    id integer PRIMARY KEY, address text UNIQUE, suppressed_at datetime,
    suppression_reason text, suppression_changed_at datetime
);
CREATE UNIQUE INDEX people_address ON people (lower(address));
"""


@dataclass(kw_only=True)
class WithClock(Place):
    """A place in which the clock of the machine may be wrong."""

    offset: Path

    def set_clock(self, ahead: timedelta) -> None:
        """Set the clock of all processes."""
        new = self.offset.with_suffix(".new")
        new.write_text(str(ahead.total_seconds()))
        new.replace(self.offset)  # so that no process reads a part of it

    def receive(self) -> None:
        """Post as many events as it takes to doubt the clock."""
        for _ in range(20):
            self.post()


FAKE_CLOCK = """
import ctypes, gc, os, time
from datetime import datetime, timedelta

now, time_ = datetime.now, time.time


def ahead():
    with open(os.environ["FAKE_CLOCK"]) as file:
        return float(file.read())


def fake_now(cls, tz=None):
    return now(tz) + timedelta(seconds=ahead())


[methods] = [each for each in gc.get_referents(datetime.__dict__) if type(each) is dict]
methods["now"] = classmethod(fake_now)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
time.time = lambda: time_() + ahead()
"""
"""Python imports it as `sitecustomize` in each process, whose clock it moves. Linux gives a process
no clock of its own, and the methods of a class in C cannot be replaced in another way."""


@contextmanager
def with_clock(tools: Tools, name: str, url: str) -> Iterator[WithClock]:
    folder = tools.new_folder(f"clock-{name}")
    (folder / "sitecustomize.py").write_text(FAKE_CLOCK)
    command = Command(folder)
    path = ":".join(filter(None, [str(folder), command.environment({}).get("PYTHONPATH")]))
    offset = folder / "offset"
    offset.write_text("0")
    variables = {"PYTHONPATH": path, "FAKE_CLOCK": str(offset), "HOOKROW_DATABASE_URL": url}
    command.run("db", "upgrade", **variables)
    kind_of(url).execute(url, ADD_FOUND)
    with operated(command, **variables) as surfaces:
        yield WithClock(surfaces, url, offset=offset)


@contextmanager
def clock_beside_postgres(tools: Tools) -> Iterator[WithClock]:
    with with_clock(tools, "postgres", tools.databases.create()) as place:
        yield place


@contextmanager
def clock_beside_sqlite(tools: Tools) -> Iterator[WithClock]:
    with with_clock(tools, "sqlite", f"sqlite:///{tools.folder}/clock.db") as place:
        yield place


@dataclass(kw_only=True)
class WithProvider(Place):
    """A place with webhooks at the provider, which reach the server through a proxy."""

    api: PostmarkStandIn
    proxy: Callable[[str], None]
    public: int

    @property
    def webhook(self) -> str:
        """The URL for the provider."""
        return f"http://127.0.0.1:{self.public}{ENDPOINT}"

    def happen(self) -> None:
        """Let events happen at the provider, which posts them."""
        for email in PEOPLE:
            self.api.deliver(self.api.send(email))
        self.api.flush()

    def change_secret(self) -> None:
        """Set another secret at the provider."""
        with self.api.state.lock:
            for number, each in self.api.state.webhooks.items():
                headers = ({"Name": "X-Provider-Secret", "Value": "another-secret"},)
                self.api.state.webhooks[number] = replace(each, headers=headers)
        self.happen()

    def register(self) -> None:
        """Do what the remedy says."""
        done = self.surfaces.run("provider", "register", "--url", self.webhook)
        assert done.returncode == 0, done.stderr
        self.happen()

    def refuse(self, directive: str) -> None:
        """Let the proxy answer by itself."""
        self.proxy(directive)
        self.happen()

    def forward(self) -> None:
        """Let the proxy forward requests again, and do what the remedy says for paused webhooks."""
        self.proxy("")
        self.register()


@contextmanager
def with_provider(tools: Tools, name: str) -> Iterator[WithProvider]:
    folder = tools.new_folder(name)
    url = f"sqlite:///{folder}/hookrow.db"
    upgrade(url, Schema())
    port, public = free_port(), free_port()

    def site(directive: str) -> str:
        return f"""
          server {{
            listen 127.0.0.1:{public}; absolute_redirect off;
            location = /login {{ return 200 "Log in"; }}
            location / {{ {directive} proxy_pass http://127.0.0.1:{port}; }}
          }}
        """

    with (
        PostmarkStandIn(now=datetime.now(UTC)) as api,
        nginx.running(folder, public, site("")) as reload,
        operated(
            Command(folder),
            HOOKROW_DATABASE_URL=url,
            HOOKROW_PORT=str(port),
            HOOKROW_PROVIDER_TOKEN=api.token,
            HOOKROW_PROVIDER_API=api.address,
            HOOKROW_ACKNOWLEDGE_TESTS="true",
        ) as surfaces,
    ):
        place = WithProvider(
            surfaces, url, api=api, proxy=lambda directive: reload(site(directive)), public=public
        )
        place.register()
        yield place


# -- faults ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault that is injected in a place, and what its operator reads.

    `cause` and `remedy` are regular expressions for the text of the finding. `remains` are the
    subjects that need attention for longer than a minute after the fault, because it has refused
    notifications.
    """

    inject: Callable[[Any], object]
    heal: Callable[[Any], object]
    subject: StatusSubject
    cause: str
    remedy: str
    level: StatusLevel = BROKEN
    remains: frozenset[StatusSubject] = frozenset()


def set_read_only(place: OnServer, value: str) -> None:
    place.server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    place.server.execute("SELECT pg_reload_conf()")


def be_silent(place: Place) -> None:
    """Let notifications have arrived in each quarter of a day until three days ago."""
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 3 * DAY
    hours = [last - number * 6 * HOUR for number in range(40)]
    rows = ", ".join(
        f"('{hour:%Y-%m-%d %H:%M:%S.%f}', 'Delivery', '', 'recorded', '', 9)" for hour in hours
    )
    columns = "hour, record_type, reason, first_outcome, entry, entries"
    place.execute(f"INSERT INTO hookrow_hours ({columns}) VALUES {rows}")


LOST = frozenset({StatusSubject.RESPONSES})

LANES: Sequence[tuple[Callable[[Tools], AbstractContextManager[Place]], Mapping[str, Fault]]] = [
    (
        on_postgres,
        {
            "PostgreSQL is down": Fault(
                inject=lambda place: place.server.stop(),
                heal=lambda place: place.server.start(within=place.disk.program),
                subject=StatusSubject.WRITES,
                cause="connection to server .* failed",
                remedy="Start the database",
            ),
            "PostgreSQL is read-only": Fault(
                inject=partial(set_read_only, value="on"),
                heal=partial(set_read_only, value="off"),
                subject=StatusSubject.WRITES,
                cause="the server is read-only",
                remedy="turn off default_transaction_read_only",
            ),
            "the disk of PostgreSQL is full": Fault(
                inject=OnDisk.fill,
                heal=lambda place: place.disk.empty(),
                subject=StatusSubject.WRITES,
                cause="the disk of the server is full",
                remedy="free space on it",
                remains=LOST,
            ),
        },
    ),
    (
        on_mariadb,
        {
            "MariaDB is read-only": Fault(
                inject=lambda place: place.server.execute("SET GLOBAL read_only = 1"),
                heal=lambda place: place.server.execute("SET GLOBAL read_only = 0"),
                subject=StatusSubject.WRITES,
                cause="the server is read-only",
                remedy="turn off read_only",
            ),
            "the disk of MariaDB is full": Fault(
                inject=OnDisk.fill,
                heal=lambda place: place.disk.empty(),
                subject=StatusSubject.WRITES,
                cause="a table, or the disk of the server, is full",
                remedy="free space on it",
                remains=LOST,
            ),
        },
    ),
    (
        on_sqlite,
        {
            "the disk of SQLite is full": Fault(
                inject=OnDisk.fill,
                heal=lambda place: place.disk.empty(),
                subject=StatusSubject.WRITES,
                cause="database or disk is full",
                remedy="Free space on the disk",
                remains=LOST,
            ),
            "the disk of SQLite is read-only": Fault(
                inject=OnSQLite.start_read_only,
                heal=lambda place: place.disk.become("rw"),
                subject=StatusSubject.WRITES,
                cause="hookrow.db cannot be written",
                remedy="give this user write access to it",
            ),
        },
    ),
    (
        with_a_spool,
        {
            "the disk of the spool is full": Fault(
                inject=lambda place: place.disk.fill(),
                heal=lambda place: place.disk.empty(),
                subject=StatusSubject.SPOOL,
                level=ATTENTION,
                cause="so it cannot keep notifications",
                remedy="Free space on the disk of .*/spool.db",
            ),
        },
    ),
    (
        with_own_tables,
        {
            "a column is dropped": Fault(
                inject=lambda place: place.execute("ALTER TABLE people DROP suppression_reason"),
                heal=lambda place: place.execute("ALTER TABLE people ADD suppression_reason text"),
                subject=StatusSubject.WRITES,
                cause="The table 'people' has no column 'suppression_reason'",
                remedy="If it was dropped, add it again",
            ),
            "silence": Fault(
                inject=be_silent,
                heal=Place.post,
                subject=StatusSubject.SILENCE,
                level=ATTENTION,
                cause="No notification has arrived for .*The longest pause",
                remedy="hookrow check with the URL of the webhook tests the way",
            ),
        },
    ),
    (
        clock_beside_postgres,
        {
            "the clock is days slow": Fault(
                inject=lambda place: place.set_clock(-3 * DAY),
                heal=lambda place: place.set_clock(0 * DAY),
                subject=StatusSubject.CLOCK,
                level=ATTENTION,
                cause="The clock of this machine is 3 days, 0:00:0. slow, compared with the data",
                remedy="Set the clock, for example with NTP",
            ),
        },
    ),
    (
        clock_beside_sqlite,
        {
            "the clock is days fast, beside SQLite": Fault(
                inject=lambda place: (place.set_clock(3 * DAY), place.receive()),
                heal=lambda place: (place.set_clock(0 * DAY), place.post()),
                subject=StatusSubject.CLOCK,
                level=ATTENTION,
                cause="The clock of the receiver's machine seems to be .* fast",
                remedy="Set the clock, for example with NTP",
            ),
        },
    ),
    (
        partial(with_provider, name="secret"),
        {
            "the secret at the provider is wrong": Fault(
                inject=WithProvider.change_secret,
                heal=WithProvider.register,
                subject=StatusSubject.SECRETS,
                level=ATTENTION,
                cause="requests with a wrong secret or signature got a 401 in the last day",
                remedy="hookrow provider status compares it with the one at Postmark",
                remains=frozenset({StatusSubject.SECRETS}),
            ),
        },
    ),
    *(
        (
            partial(with_provider, name=f"proxy-{status}"),
            {
                f"a proxy answers {status}": Fault(
                    inject=partial(WithProvider.refuse, directive=directive),
                    heal=WithProvider.forward,
                    subject=StatusSubject.PROVIDER,
                    cause=cause,
                    remedy=remedy,
                )
            },
        )
        for status, directive, cause, remedy in (
            (
                413,
                "client_max_body_size 100;",
                "returned 413 .* A proxy rejects bodies that hookrow accepts",
                "client_max_body_size 1m;",
            ),
            (301, "return 301 /login;", "returned 301 .* It redirects to /login", "remove the red"),
            (403, "return 403;", "returned 403 .* A login, a firewall", "Exempt POST requests"),
        )
    ),
]

FAULTS = {name: fault for _, faults in LANES for name, fault in faults.items()}


# -- proofs ------------------------------------------------------------------------------


def within_a_minute(check: Callable[[], None]) -> None:
    """Call a function until it raises no `AssertionError`; fail if it still does after a minute."""
    until = monotonic() + MINUTE_SECONDS
    while True:
        try:
            return check()
        except AssertionError:
            if monotonic() > until:
                raise
        sleep(0.25)


def prove(place: Place, fault: Fault) -> None:
    """Inject a fault; check that it is on all surfaces and, after its removal, on none."""
    within_a_minute(lambda: check_pages_after(place.surfaces, place.remains))
    fault.inject(place)
    try:
        within_a_minute(lambda: check_pages(place.surfaces, fault))
        within_a_minute(lambda: check_commands(place.surfaces, fault))
    finally:
        fault.heal(place)
    place.remains |= fault.remains
    within_a_minute(lambda: check_pages_after(place.surfaces, place.remains))
    within_a_minute(lambda: check_commands_after(place.surfaces, place.remains))


def check_pages(surfaces: Surfaces, fault: Fault) -> None:
    """Check that the metrics, the dashboard and /readyz have the fault."""
    levels = surfaces.levels()
    assert levels.get(fault.subject) is fault.level, (levels, surfaces.page()[:2000])
    words = f"{fault.level.value.capitalize()}: {fault.subject.value} "
    assert re.search(f"{words}.*{fault.cause}.*{fault.remedy}", surfaces.page()), surfaces.page()
    answer = surfaces.readiness()
    text = answer.body.decode()
    if fault.subject is StatusSubject.WRITES:
        assert (answer.status, text.startswith("not ready: ")) == (503, True)
        assert re.search(fault.cause, text), text
    else:
        assert answer.status == 200
        assert re.fullmatch(rf"ready\nattention: .*\b{fault.subject.value}\b.*\n", text), text


def check_commands(surfaces: Surfaces, fault: Fault) -> None:
    """Check that `hookrow check` and `hookrow stats` have the fault."""
    line = f"^- {fault.subject.value}: .*{fault.cause}.*{fault.remedy}"
    checked = surfaces.run("check")
    text = checked.stdout.replace("`", "")
    assert re.search(line, text, re.MULTILINE), (text, checked.stderr)
    assert checked.returncode == (" Broken: " in text), text
    if fault.subject is not StatusSubject.PROVIDER:  # `stats` sends no requests to the provider
        counted = surfaces.run("stats")
        text = counted.stdout.replace("`", "")
        assert re.search(line, text, re.MULTILINE), (text, counted.stderr)


def check_pages_after(surfaces: Surfaces, remains: frozenset[StatusSubject]) -> None:
    """Check that the metrics, the dashboard and /readyz have nothing but what remains."""
    levels = surfaces.levels()
    assert {**levels} == dict.fromkeys(remains, ATTENTION), surfaces.page()[:2000]
    page = surfaces.page()
    if not remains:
        assert "and nothing needs attention." in page, page
    attention = ", ".join(each.value for each in StatusSubject if each in remains)
    expected = f"ready\nattention: {attention}\n" if remains else "ready\n"
    assert surfaces.readiness().body.decode() == expected


def check_commands_after(surfaces: Surfaces, remains: frozenset[StatusSubject]) -> None:
    """Check that the commands have nothing but what remains."""
    for name in ("check", "stats"):
        done = surfaces.run(name)
        assert done.returncode == 0, done.stdout
        found = re.findall(r"^- (\w+): ", done.stdout, re.MULTILINE)
        assert {*found} == {each.value for each in remains}, done.stdout
        assert remains or describe_status(Status())[0] in done.stdout


@pytest.fixture(scope="module")
def proofs(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: postgres.Databases,
    start_postgres: Callable[[], postgres.Server],
    start_mariadb: Callable[[], mariadb.Server],
) -> Iterator[Mapping[str, Future[None]]]:
    """Prove the faults of the chosen tests, those of all places at the same time."""
    chosen = {
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_a_fault_is_on_the_status
    }
    tools = Tools(tmp_path_factory.mktemp("places"), postgres, start_postgres, start_mariadb)
    results: dict[str, Future[None]] = {name: Future() for name in chosen}
    with ThreadPoolExecutor(len(LANES)) as threads:
        for place, faults in LANES:
            if wanted := {name: fault for name, fault in faults.items() if name in chosen}:
                threads.submit(prove_all, partial(place, tools), wanted, results)
        yield results


def prove_all(
    place: Callable[[], AbstractContextManager[Place]],
    faults: Mapping[str, Fault],
    results: Mapping[str, Future[None]],
) -> None:
    """Prove the faults of a place, one after the other."""
    try:
        with place() as running:
            for name, fault in faults.items():
                try:
                    prove(running, fault)
                except BaseException as error:  # noqa: BLE001 - the test raises it
                    results[name].set_exception(error)
                else:
                    results[name].set_result(None)
    except BaseException as error:  # noqa: BLE001 - each test raises it, also a skip
        for name in faults:
            if not results[name].done():
                results[name].set_exception(error)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_on_the_status(name: str, proofs: Mapping[str, Future[None]]) -> None:
    proofs[name].result()
