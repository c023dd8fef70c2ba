"""What surrounds the receiver fails: a hook, the log, a trigger, the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import func, select, text
from starlette.applications import Starlette
from starlette.routing import Mount
from traffic import NEW_YEAR, Load, fill, report, spooled

from command import Command
from hookrow import Arrival, Outcome, Postmark, Receiver, testing
from hookrow.asgi import ASGI
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import notifications, subscribers
from wire import SECRET, ask, request, uvicorn_serving


@contextmanager
def mounted(url: str, **options: Any) -> Iterator[int]:  # noqa: ANN401 - the receiver's own
    """Serve an application with a receiver mounted at its root, in a thread; yield the port."""
    store = SQLStore(url)
    receiver = Receiver(Postmark(SECRET), store, **options)
    with uvicorn_serving(Starlette(routes=[Mount("/", app=ASGI(receiver))])) as port:
        yield port
    receiver.close(5)
    store.close()


def _execute(url: str, statement: str) -> None:
    with opened(url) as engine, engine.begin() as database:
        database.execute(text(statement))


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
    with command.serving("--database-url", database_url, "--spool", spool) as serving:
        with load.on(serving.port):
            load.wait_for(100, 200)
            _execute(database_url, "ALTER TABLE hookrow_notifications RENAME TO gone")
            load.wait_for(100, 503)
            unsupported = ask(serving.port, request(b'{"RecordType": "Click"}'))
            assert (unsupported.status, unsupported.body) == (422, b"Webhook payload not supported")
            _execute(database_url, "ALTER TABLE gone RENAME TO hookrow_notifications")
            load.wait_until_well()
        # One that failed just before the table was there again is parked in the log.
        replayed = command.call("replay", "--outcome", "failed", "--database-url", database_url)
        assert replayed.returncode == 0, replayed.stdout
        load.see_through(spool)
    assert "a fault to be reported" not in serving.log


_RAISE = """
    CREATE FUNCTION raise_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE 'no more mail to %', NEW.email USING ERRCODE = OLD.suppression_reason;
    END $$;
    CREATE TRIGGER raise_state BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW
    WHEN (OLD.suppression_reason IN ('AB001', 'XX000')) EXECUTE FUNCTION raise_state()
"""


def test_a_trigger_that_raises(postgres_url: str, tmp_path: Path) -> None:
    """Notifications for two rows fail; those for others are recorded.

    If the state is the host's own, they are logged as failed. If it looks like an error of the
    database, which may pass, they stay in the spool for a minute.
    """
    load, spool = Load(postgres_url, pause=0.005), tmp_path / "spool"
    fill(postgres_url, [1000, 1001])
    poison = "UPDATE hookrow_subscribers SET suppression_reason = '{}' WHERE id = {}"
    for statement in (poison.format("AB001", 1000), poison.format("XX000", 1001), _RAISE):
        _execute(postgres_url, statement)
    with Command(tmp_path).serving("--database-url", postgres_url, "--spool", spool) as serving:
        with load.on(serving.port):
            for number in range(16):
                email = f"s{1000 + number % 2}@example.com"
                poisoned = testing.suppression(email, None, at=NEW_YEAR)
                body = json.dumps({**poisoned, "Tag": str(number)}).encode()
                assert ask(serving.port, request(body)).status == 503
                time.sleep(0.2)
        load.wait_until_recorded()
        assert spooled(spool) == 8
        log = serving.log
    statuses = load.statuses()
    report(load, "16 answers of 503")
    assert statuses[200] >= 0.98 * sum(statuses.values()), str(load)
    column = notifications.c
    outcomes = select(column.recipient, column.outcome).where(
        column.recipient.in_(["s1000@example.com", "s1001@example.com"])
    )
    with opened(postgres_url) as engine, engine.connect() as database:
        assert database.execute(outcomes).all() == [("s1000@example.com", "failed")] * 8
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
    payload = testing.suppression("s999@example.com", "m999", at=NEW_YEAR)
    del payload["ChangedAt"]  # then its time is that of its arrival
    with mounted(database_url) as port, load.on(port):
        load.wait_for(200, 200)
        earlier = ask(port, request(json.dumps({**payload, "Tag": "earlier"}).encode()))
        monkeypatch.setattr(_Clock, "ahead", timedelta(hours=-1))
        later = ask(port, request(json.dumps(payload).encode()))
        load.wait_for(200, 200)
    report(load)
    assert earlier.status == later.status == 200
    load.check(200)
    assert load.miscounted() == []
    column = notifications.c
    disorder = select(func.count()).where(column.last_received_at < column.received_at)
    newest = select(func.max(column.received_at)).where(column.recipient == "s999@example.com")
    suppressed = select(subscribers.c.suppressed_at).where(subscribers.c.id == 999)
    with opened(database_url) as engine, engine.connect() as database:
        assert database.scalar(disorder) == 0
        assert database.scalar(suppressed) == database.scalar(newest) is not None
