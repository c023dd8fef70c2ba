"""`hookrow --app`: the commands on the receiver or the store of a host application."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from subprocess import CompletedProcess
from textwrap import dedent
from typing import Any

import pytest

from command import Command
from engines import run
from hookrow import Arrival, Receiver, Schema, testing
from hookrow._core.notification import Refusal
from hookrow._receiver.spool import Spool
from hookrow.migrations import upgrade
from hookrow.wsgi import WSGI
from loopback import loopback
from received import keep
from stand_in import PostmarkStandIn
from wire import ADA, ADAS, AT, SECRET

Write = Callable[..., None]
"""Writes a module of the package `shop`: its name, and its text."""

MAIL = f"""
    from functools import cache
    from types import SimpleNamespace

    from hookrow import Postmark, Receiver
    from hookrow.stores.sql import SQLStore

    store = SQLStore("sqlite:///shop.db")
    receiver = Receiver(Postmark("{SECRET}", "the-previous-secret"), store, mount_path="/mail")
    sweeping = Receiver(Postmark("{SECRET}"), store, sweep=True)
    app = SimpleNamespace(state=SimpleNamespace(receiver=receiver))
    in_tests = Receiver(Postmark("{SECRET}"), SQLStore("sqlite://"))


    @cache
    def create_receiver(path=""):
        return receiver


    def create_app():
        return app


    async def create_later():
        return receiver


    def open_shop(day):
        raise LookupError(f"closed on\\n{{day}}")


    def fail():
        open_shop("Sunday")
"""


TEAMS = f"""
    from hookrow import Postmark, Receiver, Role, Schema, Tenant
    from hookrow.stores.sql import SQLStore

    schema = Schema(subscribers=Role("hookrow_subscribers", tenant="team"))
    teams = {{"acme": Tenant(Postmark("{SECRET}"), 1), "globex": Tenant(Postmark("{SECRET}"), 2)}}
    receiver = Receiver(teams, SQLStore("sqlite:///teams.db", schema), spool="spool.db")
"""


@pytest.fixture
def write(command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return the function; afterwards, the import path and the modules are as before."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = command.folder / "shop"
    folder.mkdir()

    def write(name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")

    write("__init__", "")
    yield write
    for name in [each for each in sys.modules if each.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def shop(command: Command, write: Write) -> Command:
    """Write the module `mail`, and create its tables; return the command."""
    write("mail", MAIL)
    done = command.call("--app", "shop.mail:receiver", "db", "upgrade")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Upgraded sqlite:///shop.db: added revisions 0001, ")
    assert [each.name for each in command.folder.glob("*.db")] == ["shop.db"]
    return command


@pytest.mark.parametrize("name", ["receiver", "store", "app.state.receiver", "create_receiver"])
def test_names(shop: Command, name: str) -> None:
    """Attributes and functions are accepted; importing the application starts nothing."""
    threads = threading.enumerate()
    done = shop.call("--app", f"shop.mail:{name}", "log")
    assert (done.returncode, done.stdout) == (0, "No notifications found.\n")
    assert threading.enumerate() == threads


def test_sources(shop: Command) -> None:
    """The app may also be a variable or in hookrow.toml; other variables are the host's own."""
    (shop.folder / "hookrow.toml").write_text('app = "shop.nowhere:receiver"')
    variables = {"HOOKROW_DATABASE_URL": "sqlite:///none.db"}
    assert "No module named 'shop.nowhere'" in shop.call("log").stderr
    variables["HOOKROW_APP"] = "shop.none:receiver"
    assert "No module named 'shop.none'" in shop.call("log", **variables).stderr
    for command in ("log", "db current", "db sql", "stats", "prune", "replay --since 1d"):
        done = shop.call("--app", "shop.mail:receiver", *command.split(), **variables)
        assert done.returncode == 0, done.stderr
    assert not (shop.folder / "none.db").exists()


def test_rows_of_a_tenant(command: Command, write: Write) -> None:
    """The statistics of an entry count the rows of its tenant."""
    write("teams", TEAMS)
    url = f"sqlite:///{command.folder}/teams.db"
    upgrade(url, Schema())
    run(
        url,
        "ALTER TABLE hookrow_subscribers ADD COLUMN team INTEGER",
        "INSERT INTO hookrow_subscribers (email, team, suppressed_at, suppression_reason) VALUES "
        "('a@x.com', 1, '2026-03-04', 'HardBounce'), ('b@x.com', 2, '2026-03-04', 'SpamComplaint')",
    )
    for options, reasons in (
        (("--entry", "globex"), {"SpamComplaint": 1}),
        ((), {"HardBounce": 1, "SpamComplaint": 1}),
    ):
        done = command.call("--app", "shop.teams:receiver", "stats", "--json", *options)
        found = json.loads(done.stdout)
        assert (found["suppressed"], found["sent"]) == (reasons, 0)


def test_forget_a_person_of_a_tenant(command: Command, write: Write) -> None:
    """The same address stays in the notifications of other tenants, and is not counted in theirs.

    Without a choice, nothing is erased, and the message names the entries.
    """
    write("teams", TEAMS)
    url = f"sqlite:///{command.folder}/teams.db"
    upgrade(url, Schema())
    run(url, "ALTER TABLE hookrow_subscribers ADD COLUMN team INTEGER")
    payload = testing.delivery(ADA, "m-late", at=AT)
    for name in ("acme", "globex", "left"):
        keep(url, payload, Refusal.DISPATCH_NOT_FOUND.refused(), entry=name)
    spooled = Arrival((), json.dumps(payload).encode(), AT, entry="globex")
    Spool(command.folder / "spool.db", "a mapping").put([spooled])

    def forget(*options: str) -> CompletedProcess[str]:
        return command.call("--app", "shop.teams:receiver", "log", "forget", ADA, *options)

    def left() -> list[Any]:
        return run(url, "SELECT entry FROM hookrow_notifications WHERE recipient IS NOT NULL")

    refused = forget()
    assert refused.returncode == 2
    assert "Error: The entries of the receiver are tenants: 'acme', 'globex'. The" in refused.stderr
    of_store = command.call("--app", "shop.teams:receiver.store", "log", "forget", ADA)
    assert "Error: The entries of the receiver are tenants. The address" in of_store.stderr
    assert forget("--entry", "acme", "--all-entries").returncode == 2
    assert "has no entry 'globx'" in forget("--entry", "acme", "--entry", "globx").stderr
    assert len(left()) == 3
    done = forget("--entry", "acme")
    assert (done.returncode, done.stdout) == (0, "Erased from 1 notification.\n")
    assert left() == [("globex",), ("left",)]
    done = forget("--entry", "left", "--entry", "globex")
    assert done.returncode == 1
    assert done.stdout.startswith("Erased from 2 notifications.\nThe spool has 1 notification with")
    assert forget("--all-entries", "--json").stdout.endswith('"spooled":1}\n')


def test_tables_of_an_application(command: Command) -> None:
    """In the directory of an application, without --app, missing tables may have other names."""
    hint = (
        "If your application has its own tables, use its mapping: with --app, or [tables] in "
        "hookrow.toml (in Python, SQLStore(url, schema)). Otherwise, run `hookrow db upgrade`, with"
    )
    assert f"hookrow.db does not exist. {hint}" in command.call("log").stderr
    assert f"hookrow.db does not exist. {hint}" in command.call("check").stdout
    (command.folder / "hookrow.db").touch()
    assert hint in command.call("log").stderr
    assert f"not created yet. {hint}" in command.call("check").stdout


# By the name of the app: the error.
MISTAKES = {
    "": "'' is not module:name, such as shop.mail:receiver; ",
    "mail": "'mail' is not module:name, such as shop.mail:receiver; ",
    "shop/mail.py:receiver": " is not module:name, such as shop.mail:receiver; ",
    "shop..mail:receiver": " is not module:name, such as shop.mail:receiver; ",
    "shob:receiver": " cannot be loaded: ModuleNotFoundError: No module named 'shob'\n",
    "shop.mail:reciever": " cannot be loaded: AttributeError: module 'shop.mail' has no attribute",
    "shop.mail:app": " is SimpleNamespace: name a Receiver or an SQLStore, or a",
    "shop.mail:create_app": " is SimpleNamespace: name a Receiver or an SQLStore, or",
    "shop.mail:Receiver": " is the class Receiver: name a Receiver or an SQLStore, or a function",
    "shop.mail:open_shop": " cannot be loaded: TypeError: open_shop() missing 1 required position",
    "shop.mail:create_later": " cannot be loaded: TypeError: it is an async function: name a plain",
    "shop.mail:fail": " cannot be loaded: LookupError in {}/shop/mail.py:29: closed on Sunday\n",
    "shop.empty:x": " cannot be loaded: ConfigurationError in {}/shop/empty.py:2: The webhook",
    "shop.syntax:x": " cannot be loaded: SyntaxError: invalid syntax (syntax.py, line 1)",
    "shop.other:x": " cannot be loaded: KeyError in {}/shop_settings.py:1: 'SHOP_SECRET'",
    "shop.exits:x": " cannot be loaded: SystemExit in {}/shop/exits.py:1: no settings",
}


@pytest.mark.parametrize("app", MISTAKES)
def test_mistake(command: Command, write: Write, app: str) -> None:
    """Each is one sentence, with the line of the application that raised an exception."""
    write("mail", MAIL)
    write("empty", "import hookrow\nreceiver = hookrow.Postmark('')")
    write("syntax", "receiver = = 1")
    write("exits", "raise SystemExit('no settings')")
    write("other", "import shop_settings")
    (command.folder / "shop_settings.py").write_text("{}['SHOP_SECRET']")
    done = command.call("--app", app, "log")
    assert (done.returncode, done.stdout) == (1, "")
    assert MISTAKES[app].format(command.folder) in done.stderr
    assert done.stderr.startswith("Error: The app ")
    assert done.stderr.count("\n") == 1


def test_faults_of_a_mapping(command: Command, write: Write) -> None:
    """Each fault of an application's mapping is on its own line, and none is left out."""
    names = ", ".join(f"'column_{number}': 'x'" for number in range(20))
    write("faulty", f"from hookrow import Role, Schema\nSchema(subscribers=Role('x', {{{names}}}))")
    first, *others = command.call("--app", "shop.faulty:x", "log").stderr.splitlines()
    place = f"ConfigurationError in {command.folder}/shop/faulty.py:2"
    assert first == f"Error: The app shop.faulty:x cannot be loaded: {place}: {len(others)} faults:"
    assert "- The role 'subscribers' has no column 'column_19'." in others


HAS_BOTH = (
    "already has a database and a mapping: omit --database-url, and database_url and [tables]"
)


@pytest.mark.parametrize(
    ("file", "typed", "expected"),
    [
        ("", "log --database-url sqlite:///a.db", HAS_BOTH),
        ("database_url = 'a'", "check", HAS_BOTH),
        ("[tables]\nlog = false", "log", HAS_BOTH),
        ("", f"check --secret {SECRET}", "already has secrets: omit --secret."),
        ("", "serve", "mount the receiver there. For hookrow's own server, omit --app, HOOKROW_A"),
        ("app = 'shop.mail:store'", "serve", "mount the receiver there. For hookrow's own server,"),
        ("", "demo", "The demo runs its own application: omit --app."),
    ],
)
def test_other_settings(shop: Command, file: str, typed: str, expected: str) -> None:
    """Settings that the app replaces are errors; the server does not ignore an app."""
    (shop.folder / "hookrow.toml").write_text(file)
    app = () if file.startswith("app") else ("--app", "shop.mail:receiver")
    done = shop.call(*app, *typed.split())
    assert done.returncode
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_check(shop: Command) -> None:
    """The receiver is checked, and no setting of `serve` is mentioned."""
    done = shop.call("--app", "shop.mail:receiver", "check", HOOKROW_SECRET="", HOOKROW_PORT="x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == dedent(
        """\
        ok       status      OK: notifications are recorded, and nothing needs attention.
        ok       setting     app is shop.mail:receiver, from the flag --app.
        ok       app         Its endpoint is {}, below the path at which it is mounted.
        ok       secret      It is set.
        ok       database    sqlite:///shop.db responds.
        ok       migrations  They are up to date (revisions {}).
        ok       tables      All tables and columns exist.
        ok       indexes     Every lookup has an index.
        ok       retries     0 notifications in the log will be retried.
        ok       sweep       Since August 2026, Postmark does not repeat a notification {}
                             Unless another process sweeps this log, turn on the sweep: {}
        """
    ).format(
        "/mail/provider/webhooks",
        "0001, 0002",
        "that got a 404. No sweep is on, so one that arrives before its rows are committed waits "
        "in the log for a replay, and expires after three days.",
        "`sweep = true` (in Python, sweep=True; in Django, 'SWEEP': True).",
    )
    with PostmarkStandIn() as api:
        token = {"HOOKROW_PROVIDER_TOKEN": api.token, "HOOKROW_PROVIDER_API": api.address}
        done = shop.call("--app", "shop.mail:receiver", "check", **token)
    first, finding, *_ = done.stdout.splitlines()
    assert first == "error    status      Broken: 1 finding."
    assert finding == (
        "- provider: Stand-in: no webhook posts to hookrow. `hookrow --app shop.mail:receiver "
        "provider status` lists the differences; `register` corrects them."
    )
    assert "\nerror    provider    Stand-in: no webhook posts to hookrow.\n" in done.stdout
    done = shop.call("--app", "shop.mail:sweeping", "check")
    assert "sweep" not in done.stdout.partition("indexes")[2]
    done = shop.call("--app", "shop.mail:store", "check")
    assert (done.returncode, "secret" in done.stdout) == (0, False)
    for app in ("in_memory", "in_tests"):
        done = shop.call("--app", f"shop.mail:{app}", "check", "--json")
        last = json.loads(done.stdout.splitlines()[-1])
        assert (done.returncode, last["level"], last["subject"]) == (1, "error", "app")
    assert "in memory exists only in the process that opens it, for tests" in last["text"]


MODELS = f"""
    from datetime import datetime

    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

    from hookrow import Postmark, Receiver, Role, Schema
    from hookrow.stores.sql import SQLStore


    class Base(DeclarativeBase):
        pass


    class Person(Base):
        __tablename__ = "people"

        id: Mapped[int] = mapped_column(primary_key=True)
        address: Mapped[str] = mapped_column("adr")
        suppressed_at: Mapped[datetime | None]


    class Mailing(Base):
        __tablename__ = "mailings"

        id: Mapped[int] = mapped_column(primary_key=True)
        postmark_id: Mapped[str | None]
        person_id: Mapped[int]
        delivered_at: Mapped[datetime | None]
        opened_at: Mapped[datetime | None]


    schema = Schema(
        subscribers=Role.of(Person, email=Person.address),
        dispatches=Role.of(
            Mailing, provider_message_id=Mailing.postmark_id, subscriber_id=Mailing.person_id
        ),
        subscriptions=None,
    )
    receiver = Receiver(Postmark("{SECRET}"), SQLStore("sqlite:///models.db", schema))
"""


def test_models(command: Command, write: Write) -> None:
    """The upgrade creates only the log, and the check compares the models with the tables."""
    write("models", MODELS)
    url, app = f"sqlite:///{command.folder}/models.db", ("--app", "shop.models:receiver")
    people = "CREATE TABLE people (id INTEGER PRIMARY KEY, {} TEXT, suppressed_at TEXT)"
    mailings = (
        "CREATE TABLE mailings (id INTEGER PRIMARY KEY, postmark_id TEXT, person_id INTEGER, "
        "delivered_at TEXT, opened_at TEXT)"
    )
    run(url, people.format("email"), mailings)
    assert command.call(*app, "db", "upgrade").stdout.endswith("added revision 0002.\n")
    done = command.call(*app, "check")
    assert done.returncode == 1
    assert (
        "The table 'people' has no column 'adr'. Person.address declares it: run your migrations, "
        "or correct the model."
    ) in done.stdout
    run(url, "ALTER TABLE people RENAME COLUMN email TO adr")
    done = command.call(*app, "check")
    assert "ok       tables      All tables and columns exist.\n" in done.stdout
    assert done.returncode == 0
    run(url, f"INSERT INTO people (adr) VALUES ('{ADA}')")
    stats = command.call(*app, "stats", "--json")
    assert json.loads(stats.stdout.splitlines()[0]), stats.stderr


def test_over_http(shop: Command) -> None:
    """`simulate` and `check URL` use the receiver's newest secret and its mount path."""
    assert shop.call("--app", "shop.mail:receiver", "log").returncode == 0
    receiver: Receiver = sys.modules["shop.mail"].receiver
    app = ("--app", "shop.mail:receiver")
    variables = {"HOOKROW_SECRET": "a-wrong-secret"}
    with closing(receiver), loopback(WSGI(receiver)) as port:
        open_ = ("simulate", "open", ADA, ADAS, "--port", port)
        assert shop.call(*app, *open_, **variables).stdout.startswith("404 Engine::Subscriber ")
        done = shop.call(*app, *open_, "--secret", "a-wrong-secret")
        assert done.stdout == "401 Cannot verify webhook\n"
        assert shop.call(*app, *open_, "--mount-path", "/other").stdout == "404 Not Found\n"
        url = f"http://127.0.0.1:{port}/mail/provider/webhooks"
        done = shop.call(*app, "check", url, **variables)
    assert "The configured secret is accepted" in done.stdout
    assert done.stdout.startswith("ok       setting     app is shop.mail:receiver, from the flag")


MAILJET = """
    from hookrow import Receiver
    from hookrow.providers.mailjet import Mailjet
    from hookrow.stores.sql import SQLStore

    receiver = Receiver(Mailjet("hookrow:a-password-of-the-tests"), SQLStore("sqlite://"))
"""


def test_credentials_are_sent_as_such(command: Command, write: Write) -> None:
    """`check URL` must not send a password in X-Provider-Secret."""
    write("mailjet", MAILJET)
    app = ("--app", "shop.mailjet:receiver")
    assert command.call(*app, "check").returncode == 1  # because the store is in memory
    receiver: Receiver = sys.modules["shop.mailjet"].receiver
    with closing(receiver), loopback(WSGI(receiver)) as port:
        done = command.call(*app, "check", f"http://127.0.0.1:{port}/provider/webhooks")
    assert "The configured secret is accepted" in done.stdout


HOST = """
    from datetime import datetime

    import msgspec
    from engines import open_engine

    from hookrow import Delivered, Event, Postmark, Receiver, Role, Schema
    from hookrow.providers import Provider
    from hookrow.stores.sql import SQLStore


    class Courier(Provider):
        name = "courier"

        def admit(self, head):
            return None

        def read(self, request):
            return [self.parse(request.body)]

        def parse(self, body):
            fields = msgspec.json.decode(body, type=tuple[str, str, datetime])
            return Event((Delivered(*fields),), body)


    schema = Schema(
        subscribers=Role("people", {{"email": "address"}}),
        dispatches=Role(
            "sends", {{"list_id": None, "suppressed_at": None, "suppression_reason": None,
            "suppression_changed_at": None}}
        ),
        subscriptions=None,
    )
    engine = open_engine({url!r})
    receiver = Receiver(Courier(), SQLStore(engine, schema))
"""

TABLES = """
    CREATE TABLE people (
        id integer PRIMARY KEY, address text, suppressed_at timestamp, suppression_reason text,
        suppression_changed_at timestamp
    );
    CREATE TABLE sends (
        id integer PRIMARY KEY, provider_message_id text, subscriber_id integer,
        delivered_at timestamp, opened_at timestamp
    );
    INSERT INTO people (id, address) VALUES (1, 'ada@example.com')
"""


def test_host_tables(command: Command, write: Write, empty_database_url: str) -> None:
    """A replay uses the host's engine, mapping and provider, and leaves the engine as it was."""
    write("host", HOST.format(url=empty_database_url))
    app = ("--app", "shop.host:receiver")
    run(empty_database_url, *TABLES.split(";"))
    done = command.call(*app, "db", "upgrade")
    assert done.stdout.endswith(": added revision 0002.\n")
    assert command.call(*app, "db", "current").stdout == "0002\n"
    assert "hookrow_subscribers" not in command.call(*app, "db", "sql").stdout
    host: Any = sys.modules["shop.host"]
    pool = host.engine.pool
    posted = testing.post(host.receiver, [ADA, "m-1", AT])
    assert posted == (200, "")
    run(host.engine, "INSERT INTO sends VALUES (1, 'm-1', 1, NULL, NULL)")
    done = command.call(*app, "replay", "--outcome", "dispatch_not_found")
    assert (done.returncode, done.stdout) == (0, "1 notification replayed: 1 recorded.\n")
    assert "the rows already have these" in command.call(*app, "log", "show", 1).stdout
    assert command.call(*app, "stats").returncode == 0
    checked = command.call(*app, "check").stdout
    assert "secret" not in checked
    assert "sweep" not in checked, "the warning is about Postmark"
    assert run(host.engine, "SELECT delivered_at FROM sends") != [(None,)]
    assert host.engine.pool is pool
    assert pool.checkedout() == 0
    host.engine.dispose()


def test_process(command: Command, write: Write) -> None:
    """In a process: the directory is importable, and threads of the host do not keep it alive."""
    write("mail", MAIL)
    write(
        "threads",
        """
        from threading import Event, Thread

        from shop.mail import receiver

        Thread(target=Event().wait).start()
        """,
    )
    app = ("--app", "shop.threads:receiver")
    assert command.run(*app, "db", "upgrade").returncode == 0
    done = command.run(*app, "log", "show", 7)
    assert (done.returncode, done.stderr) == (1, "Error: The log has no notification 7.\n")
