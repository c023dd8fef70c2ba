"""What surrounds the receiver fails: a hook, the log, a trigger, the clock."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from homes import connect, run
from sqlalchemy import func, select
from starlette.applications import Starlette
from starlette.routing import Mount
from traffic import NEW_YEAR, Load, fill, report, spooled

from command import Command
from hookrow import Arrival, Outcome, Postmark, Receiver, testing
from hookrow.asgi import ASGI
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import notifications, subscribers
from postgres import Databases
from wire import PATIENCE, SECRET, Answer, ask, request, uvicorn_serving

LOG = notifications.c


@contextmanager
def mounted(url: str, **options: Any) -> Iterator[int]:  # noqa: ANN401 - the receiver's own
    """Serve an application with a receiver mounted at its root, in a thread; yield the port."""
    store = SQLStore(url)
    receiver = Receiver(Postmark(SECRET), store, **options)
    with uvicorn_serving(Starlette(routes=[Mount("/", app=ASGI(receiver))])) as port:
        yield port
    receiver.close(PATIENCE)
    store.close()


def post(port: int, payload: object) -> Answer:
    """Post a notification that is not of the load."""
    return ask(port, request(json.dumps(payload).encode()))


def suppression(row: int) -> testing.Payload:
    """Return a suppression of a row's subscriber."""
    return testing.suppression(f"s{row}@example.com", None, at=NEW_YEAR)


def test_a_hook_that_sleeps(sqlite_url: str) -> None:
    """Responses do not wait for it, and the calls that wait for it are made afterwards."""
    called: list[Arrival] = []
    over = Event()

    def sleep(arrival: Arrival, _: Outcome) -> None:
        called.append(arrival)
        over.wait()

    load = Load(sqlite_url)
    with mounted(sqlite_url, on_recorded=sleep) as port:
        with load.on(port):
            load.wait_for(500, 200)
        assert len(called) == 1
        over.set()
    report(load, f"{len(called)} calls")
    load.check(200)
    assert load.slowest < 5
    assert len(called) == len(load.notes)


def test_a_log_that_cannot_be_written(database_url: str, tmp_path: Path) -> None:
    """Without its log nothing is recorded and everything spooled; an unsupported one stays 422."""
    load, command, spool = Load(database_url, pause=0.02), Command(tmp_path), tmp_path / "spool"
    engine = connect(database_url)
    with command.serving("--database-url", database_url, "--spool", spool) as serving:
        with load.on(serving.port):
            load.wait_for(100, 200)
            run(engine, "ALTER TABLE hookrow_notifications RENAME TO gone")
            load.wait_for(100, 503)
            unsupported = post(serving.port, {"RecordType": "Click"})
            assert (unsupported.status, unsupported.body) == (422, b"Webhook payload not supported")
            run(engine, "ALTER TABLE gone RENAME TO hookrow_notifications")
            load.wait_until_well()
        # One that failed just before the table was there again is parked in the log.
        replayed = command.call("replay", "--outcome", "failed", "--database-url", database_url)
        assert replayed.returncode == 0, replayed.stdout
        load.see_through(spool)
    assert "a fault to be reported" not in serving.log
    engine.dispose()


RAISING = """
    CREATE FUNCTION raise_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE 'no more mail to %', NEW.email USING ERRCODE = OLD.suppression_reason;
    END $$;
    CREATE TRIGGER raise_state BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW
    WHEN (OLD.suppression_reason IN ('AB001', 'XX000')) EXECUTE FUNCTION raise_state();
    UPDATE hookrow_subscribers SET suppression_reason = 'AB001' WHERE id = 1000;
    UPDATE hookrow_subscribers SET suppression_reason = 'XX000' WHERE id = 1001;
"""


def test_a_trigger_that_raises(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """Notifications for two rows fail; those for others are recorded.

    If the state is the host's own, they are logged as failed. If it looks like an error of the
    database, which may pass, they stay in the spool for a minute.
    """
    load, spool = Load(postgres_url, pause=0.005), tmp_path / "spool"
    fill(postgres_url, [1000, 1001])
    postgres.execute(RAISING, url=postgres_url)
    with Command(tmp_path).serving("--database-url", postgres_url, "--spool", spool) as serving:
        with load.on(serving.port):
            for number in range(16):
                poisoned = {**suppression(1000 + number % 2), "Tag": str(number)}
                assert post(serving.port, poisoned).status == 503
                time.sleep(0.2)
        load.wait_until_recorded()
        assert spooled(spool) == 8
        log = serving.log
    statuses = load.statuses()
    report(load, "16 answers of 503")
    assert statuses[200] >= 0.98 * sum(statuses.values()), str(load)
    failed = "SELECT recipient FROM hookrow_notifications WHERE outcome = 'failed'"
    assert postgres.execute(failed, url=postgres_url) == [("s1000@example.com",)] * 8
    assert all(state in log for state in ("AB001", "XX000"))
    assert not any(email in log for email in ("s1000@", "s1001@"))


class _Clock:
    """A clock that can be set."""

    ahead = timedelta()

    @classmethod
    def now(cls, zone: tzinfo) -> datetime:
        """Return its time."""
        return datetime.now(zone) + cls.ahead


def test_a_clock_that_jumps_back(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back in the middle loses nothing, and no entry ends before it began."""
    for module in ("receiver", "recording", "parked"):
        monkeypatch.setattr(f"hookrow.{module}.datetime", _Clock)
    monkeypatch.setattr(_Clock, "ahead", timedelta())
    load = Load(database_url)
    fill(database_url, [999])
    undated = suppression(999)
    del undated["ChangedAt"]  # then its time is that of its arrival
    with mounted(database_url) as port, load.on(port):
        load.wait_for(200, 200)
        assert post(port, {**undated, "Tag": "earlier"}).status == 200
        monkeypatch.setattr(_Clock, "ahead", timedelta(hours=-1))
        assert post(port, undated).status == 200
        load.wait_for(200, 200)
    report(load)
    load.check(200)
    assert load.miscounted() == []
    disorder = select(func.count()).where(LOG.last_received_at < LOG.received_at)
    newest = select(func.max(LOG.received_at)).where(LOG.recipient == "s999@example.com")
    suppressed = select(subscribers.c.suppressed_at).where(subscribers.c.id == 999)
    with opened(database_url) as engine, engine.connect() as database:
        assert database.scalar(disorder) == 0
        assert database.scalar(suppressed) == database.scalar(newest) is not None
