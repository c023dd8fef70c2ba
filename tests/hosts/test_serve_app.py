"""The application of `hookrow serve` in this process: pages, periodic tasks and secrets.

Processes and signals are tested in `acceptance/test_server.py`.
"""

import logging
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import inspect, make_url

import own_tables
import wire
import world
from engines import database_user, opened, run
from hookrow import Refusal, RequestHead, Schema
from hookrow._server.app import MinuteSummary, Server
from hookrow._server.preflight import check_and_prepare
from hookrow._server.protocol import NotificationProtocol
from hookrow._server.settings import EntrySettings, Settings
from hookrow.stores._errors import Unavailable
from wire import ADAS, AT, DELIVERY, ENDPOINT, SECRET, STRANGER, TEXT, Answer

MISSING = DELIVERY.replace(ADAS.encode(), b"m-1")


@dataclass
class Served:
    port: int
    reload: Callable[[], None]

    def post(self, body: bytes = DELIVERY, path: str = ENDPOINT, secret: str = SECRET) -> Answer:
        return wire.ask(self.port, wire.request(body, path, secret=secret))

    def get(self, path: str) -> Answer:
        return wire.get(self.port, path)


@contextmanager
def serving(url: str, **options: Any) -> Iterator[Served]:  # noqa: ANN401 - as `Settings` types them
    entries = options.pop("entries", [EntrySettings(credentials=(SECRET,))])
    settings = Settings(entries=entries, database_url=url, **options)
    check_and_prepare(settings)
    server = Server(settings)
    with wire.uvicorn_serving(server, lifespan="on", http=NotificationProtocol) as port:
        yield Served(port, server.reload)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hookrow")


def test_summary(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each minute, a line has the number of notifications by outcome, and of wrong secrets."""
    summary = MinuteSummary()
    monkeypatch.setattr("hookrow._server.app.MinuteSummary", lambda: summary)
    world.fill(sqlite_url)
    with serving(sqlite_url) as server:
        summary.log_counts()
        for body in (DELIVERY, DELIVERY, MISSING, STRANGER, b"{}"):
            server.post(body)
        server.post(secret="wrong")
        server.get("/healthz")
        summary.log_counts()
        summary.log_counts()
        server.post(secret="wrong")
        server.post(secret="wrong")
        summary.log_counts()
    first, second = (line for line in caplog.messages if line.startswith("Received "))
    assert first == (
        "Received 5 notifications in the last minute: 2 recorded, 1 dispatch_not_found, "
        "1 subscriber_not_found, 1 unsupported; 1 request without a valid secret."
    )
    assert second == (
        "Received 0 notifications in the last minute; 2 requests without a valid secret."
    )


def test_summary_by_entry(caplog: pytest.LogCaptureFixture) -> None:
    """The requests without a valid secret are counted by entry."""
    summary, head = MinuteSummary(), RequestHead("POST", ENDPOINT, ())
    for refusal, entry in (
        (Refusal.UNAUTHENTIC, "acme"),
        (Refusal.UNAUTHENTIC, "globex"),
        (Refusal.UNAUTHENTIC, "globex"),
        (Refusal.TOO_LARGE, "acme"),
    ):
        summary.refused(head, refusal, entry)
    summary.log_counts()
    summary.log_counts()
    [line] = caplog.messages
    assert line == (
        "Received 0 notifications in the last minute; 3 requests without a valid secret "
        "(globex: 2, acme: 1)."
    )


def test_the_summary_is_logged_each_minute(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookrow._server.app.MINUTE_SECONDS", 0.1)
    world.fill(sqlite_url)
    with serving(sqlite_url) as server:
        server.post()
        line = "Received 1 notification in the last minute: 1 recorded."
        wire.eventually(lambda: caplog.messages.count(line) == 1)


def test_new_file(empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file gets its tables; the endpoint is at the mount path, health checks at the root.

    /readyz detects another revision of the tables within a second or two, here sooner.
    """
    monkeypatch.setattr("hookrow._diagnostics.status_reader.VALID_FOR", 0.1)
    with serving(empty_sqlite_url, mount_path="mail/") as server:
        for path, body in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
            answer = server.get(path)
            assert (answer.status, answer.body, answer.header("content-type")) == (200, body, TEXT)
        world.fill(empty_sqlite_url)
        assert server.post(path=f"/mail{ENDPOINT}/").status == 200
        assert times(empty_sqlite_url)[0] == AT
        for path in (ENDPOINT, "/mail/healthz", "/mail/dashboard/"):
            assert server.post(path=path).body == b"Not Found"
        run(empty_sqlite_url, "DELETE FROM hookrow_migrations WHERE revision = '0002'")
        wire.eventually(lambda: server.get("/readyz").status == 503)
        assert server.get("/healthz").status == 200


def test_a_warning_of_a_new_file(
    empty_sqlite_url: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A mistyped path is noticed. A file that exists, even without tables, may be as intended."""
    entries = [EntrySettings(credentials=(SECRET,))]
    settings = Settings(entries=entries, database_url=empty_sqlite_url)
    check_and_prepare(settings)
    [warning] = caplog.messages
    assert (
        f"The database sqlite:///{tmp_path / 'hookrow.db'} did not exist. It is new and has no"
        in warning
    )
    caplog.clear()
    check_and_prepare(settings)
    (tmp_path / "empty.db").touch()
    check_and_prepare(replace(settings, database_url=f"sqlite:///{tmp_path}/empty.db"))
    assert not caplog.messages


def test_a_first_session_that_is_closed(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a proxy that has just found out which server is the primary: the server starts."""

    def fail(*_: object) -> NoReturn:
        raise Unavailable("AdminShutdown 57P01")

    with monkeypatch.context() as patched:
        patched.setattr("hookrow._diagnostics.check.verify", fail)
        entries = [EntrySettings(credentials=(SECRET,))]
        check_and_prepare(Settings(entries=entries, database_url=sqlite_url))
    assert caplog.messages == [
        "Nothing can be recorded yet; responses are 503. AdminShutdown 57P01."
    ]
    with serving(sqlite_url) as server:
        assert server.get("/readyz").body == b"ready\n"


def read_only(url: str, *, on: bool) -> None:
    """Make a PostgreSQL database read-only, or writable again, and end its other sessions."""
    change = "SET default_transaction_read_only = on" if on else "RESET ALL"
    run(
        url,
        "SET default_transaction_read_only = off",
        f"ALTER DATABASE {make_url(url).database} {change}",
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def test_a_server_starts_on_a_read_only_database(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It says in its log that it records nothing, until the database accepts changes."""
    world.fill(postgres_url)
    read_only(postgres_url, on=True)
    with serving(postgres_url) as server:
        assert "Nothing can be recorded yet; responses are 503. The database acc" in caplog.text
        read_only(postgres_url, on=False)
        wire.eventually(lambda: server.post().status == 200)


@pytest.mark.parametrize("has_spool", [False, True])
def test_a_server_whose_database_becomes_read_only(
    postgres_url: str, tmp_path: Path, *, has_spool: bool
) -> None:
    """It is not ready, or needs attention if a spool keeps notifications, until that ends."""
    world.fill(postgres_url)
    word = b"attention" if has_spool else b"not ready"
    with serving(postgres_url, spool=str(tmp_path / "spool") if has_spool else None) as server:
        assert server.get("/readyz").body == b"ready\n"
        read_only(postgres_url, on=True)
        wire.eventually(lambda: server.get("/readyz").body.startswith(word))
        answer = server.get("/readyz")
        assert answer.status == (200 if has_spool else 503)
        assert b"the server is read-only" in answer.body
        assert server.post().status == 503
        read_only(postgres_url, on=False)
        wire.eventually(lambda: server.post().status == 200)
        wire.eventually(lambda: server.get("/readyz").body == b"ready\n")


def test_a_revoked_privilege(postgres_url: str) -> None:
    """The server is not ready until the privilege is granted again."""
    grant = "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}"
    sequences = "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}"
    with database_user(postgres_url, grant, sequences) as url, serving(url) as server:
        user = make_url(url).username
        assert server.get("/readyz").body == b"ready\n"
        run(postgres_url, f"REVOKE UPDATE ON hookrow_dispatches FROM {user}")
        wire.eventually(lambda: server.get("/readyz").status == 503)
        assert server.get("/readyz").body.startswith(b"not ready: permission denied for table ")
        run(postgres_url, f"GRANT UPDATE ON hookrow_dispatches TO {user}")
        wire.eventually(lambda: server.get("/readyz").body == b"ready\n")


def test_dashboard(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The dashboard is below the mount path, and has the URL of the endpoint.

    The warning of a weak password does not contain it.
    """
    with serving(
        sqlite_url, dashboard=True, dashboard_password="word", mount_path="/mail"
    ) as server:
        given = b"Authorization: Basic " + b64encode(b"hookrow:word")
        for path in ("/mail/dashboard", "/mail/dashboard/", "/mail/dashboard/lists"):
            page = wire.head(path, method="GET", secret=None, extra=[given])
            response = wire.ask(server.port, page)
            assert response.status == 200
            assert (b"/mail/provider/webhooks</code>" in response.body) is (path[-1] != "s")
        paths = ("/mail/dashboard/", "/mail/dashboards")
        assert [server.get(path).status for path in paths] == [401, 404]
    assert "The dashboard's password has 4 characters" in caplog.text
    assert "word" not in caplog.text.replace("password", "")


def test_tables_of_a_host(empty_sqlite_url: str) -> None:
    """Tables of hookrow that the host's migrations created are used, but not migrated."""
    with opened(empty_sqlite_url) as engine:
        own_tables.metadata.create_all(engine)
        world.fill(engine)
        with serving(empty_sqlite_url) as server:
            assert server.post().status == 200
        assert not inspect(engine).has_table("hookrow_migrations")


def test_secret_file(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Secrets are reloaded from their file unless it is invalid; the uses of each are counted."""
    file = tmp_path / "secrets"
    new, old, older = "the-secret-of-next-year", SECRET, "the-secret-of-last-year"
    file.write_text(f"\n{old}\n\n  {older}\n")
    with serving(sqlite_url, entries=[EntrySettings(file=str(file))]) as server:
        for content, mode, logged, statuses in (
            (
                f"{old}\n{older}",
                0o640,
                f"Other users can read the secret file. Run: chmod 600 {file}",
                (1, 0, 0),
            ),
            ("\n", 0o640, "The secrets were not reloaded", (1, 0, 0)),
            ("not one secret", 0o640, "The secrets were not reloaded", (1, 0, 0)),
            (f"{new}\n{old}", 0o600, "The secrets were reloaded", (0, 0, 1)),
            ("hunter2", 0o600, "The webhook secret has 7 characters and can be guessed", (1, 1, 1)),
        ):
            caplog.clear()
            file.write_text(content)
            file.chmod(mode)
            server.reload()
            refused = [server.post(secret=each).status == 401 for each in (new, old, older)]
            assert tuple(refused) == statuses
            assert logged in caplog.text
            assert ("Other users" in caplog.text) == (logged.startswith("Other users"))
            assert not re.search("the-secret-of|hunter2", caplog.text)
    assert "How often each secret was used, the newest first: 1, 1." in caplog.text


def test_entries(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each has a path; a reload reads the file of each, and keeps the secrets of a faulty one."""
    files = [tmp_path / "acme", tmp_path / "globex"]
    entries = [EntrySettings(name=each.name, file=str(each)) for each in files]
    old, new = (SECRET, "the-secret-of-globex"), ("the-new-one-of-acme", "the-new-one-of-globex")

    def write(*secrets: str) -> None:
        for file, secret in zip(files, secrets, strict=True):
            file.touch(0o600)
            file.write_text(secret)

    write(*old)
    with serving(sqlite_url, entries=entries) as server:

        def accepted(*secrets: str) -> list[bool]:
            paths = [f"{ENDPOINT}/{each.name}" for each in files]
            posts = [server.post(path=a, secret=b) for a, b in zip(paths, secrets, strict=True)]
            return [each.status != 401 for each in posts]

        assert accepted(*old) == [True, True]
        assert accepted(*reversed(old)) == [False, False]
        assert server.post(path=f"{ENDPOINT}/initech").status == 404
        write(new[0], "\n")
        server.reload()
        assert "The secrets were not reloaded. The secret file" in caplog.text
        assert "The secrets were reloaded." not in caplog.text
        assert accepted(new[0], old[1]) == [True, True]
        write(*new)
        server.reload()
        assert "The secrets were reloaded." in caplog.text
        assert accepted(*new) == [True, True]


def times(url: str) -> list[object]:
    """Return the delivery times of the first dispatch and of the last one."""
    dispatches = world.rows(url)["dispatches"]
    return [dispatches[0]["delivered_at"], dispatches[-1]["delivered_at"]]


def park(url: str) -> None:
    """Park a notification that is due, and create its dispatch."""
    world.fill(url)
    with serving(url) as server:
        assert server.post(MISSING).body == b"Engine::Dispatch not found"
    columns = "(provider_message_id, subscriber_id)"
    run(url, f"INSERT INTO hookrow_dispatches {columns} VALUES ('m-1', 1)")
    run(url, "UPDATE hookrow_notifications SET retry_at = '2000-01-01 00:00:00.000000'")


def test_sweep(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The sweep records a notification that arrived before its dispatch, unless it is disabled.

    The log then says so, except to a host that has also disabled the log.
    """
    park(sqlite_url)
    with serving(sqlite_url, sweep=False, schema=Schema(log=None)):
        assert "August 2026" not in caplog.text
    with serving(sqlite_url, sweep=False) as server:
        assert server.post().status == 200
        assert "turn on the sweep: `sweep = true`" in caplog.text
    assert times(sqlite_url) == [AT, None]
    caplog.clear()
    with serving(sqlite_url):
        wire.eventually(lambda: times(sqlite_url) == [AT, AT])
        assert "August 2026" not in caplog.text


def test_retention(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Old entries and bodies are deleted at the start; without bodies, nothing is parked."""
    park(sqlite_url)
    entry = own_tables.notifications.c

    def kept() -> list[object]:
        with opened(sqlite_url) as engine, engine.connect() as connection:
            found = connection.execute(own_tables.notifications.select())
            return [(row.body is not None, row.retry_at is not None) for row in found]

    old = {entry.last_received_at: datetime.now(UTC) - timedelta(days=91), entry.retry_at: None}
    with opened(sqlite_url) as engine, engine.begin() as connection:
        connection.execute(own_tables.notifications.update().values(old))
    with serving(sqlite_url, keep=None, sweep=False) as server:
        assert server.post().status == 200
    assert kept() == [(True, False)] * 2
    with serving(sqlite_url, keep_bodies=timedelta(0)) as server:
        assert server.post(MISSING.replace(b"m-1", b"m-2")).status == 404
        wire.eventually(lambda: "Pruned from the log: 2." in caplog.text)
    assert "The log keeps no bodies" in caplog.text
    assert kept() == [(False, False)] * 2


def test_retention_if_the_clock_may_be_wrong(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A start with a fast clock deletes nothing, and says why."""
    park(sqlite_url)
    entries = own_tables.notifications
    old = {entries.c.last_received_at: datetime.now(UTC) - timedelta(days=120)}
    old[entries.c.received_at] = old[entries.c.ended_at] = old[entries.c.last_received_at]
    with opened(sqlite_url) as engine, engine.begin() as connection:
        connection.execute(entries.update().values(old))
    with serving(sqlite_url, sweep=False):
        wire.eventually(lambda: "run `hookrow prune --yes`" in caplog.text)
    assert len(run(sqlite_url, "SELECT 1 FROM hookrow_notifications")) == 1
