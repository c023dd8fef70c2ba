"""What is around the receiver does not do its part: a hook, the log, the clock.

The receiver is mounted in an application of ours that uvicorn serves in a thread.
"""

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
from traffic import NEW_YEAR, Load, fill, is_well, report, see_through, spooled

from command import Command
from hookrow import Arrival, Outcome, Postmark, Receiver, testing
from hookrow.asgi import ASGI
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import notifications, subscribers
from wire import SECRET, ask, eventually, request, uvicorn_serving


@contextmanager
def mounted(url: str, **options: Any) -> Iterator[int]:  # noqa: ANN401 - the receiver's own
    """Serve an application in which a receiver is mounted at its root; yield the port."""
    store = SQLStore(url)
    receiver = Receiver(Postmark(SECRET), store, **options)
    with uvicorn_serving(Starlette(routes=[Mount("/", app=ASGI(receiver))])) as port:
        yield port
    receiver.close(5)
    store.close()


def test_a_hook_that_sleeps(database_url: str) -> None:
    """Answers do not wait for it, and the calls that wait for it are made once it wakes up."""
    called: list[Arrival] = []

    def sleeps(arrival: Arrival, _: Outcome) -> None:
        called.append(arrival)
        over.wait()

    over = Event()
    load = Load(database_url)
    with mounted(database_url, on_recorded=sleeps) as port:
        with load.on(port):
            time.sleep(3)
        assert len(called) == 1
        over.set()
    report(load.told(), f"{len(called)} calls")
    assert set(load.statuses()) == {200}, load.told()
    assert load.slowest < 5
    assert load.lost() == []
    assert len(called) == len(load.notes)


def test_a_log_that_cannot_be_written(database_url: str, tmp_path: Path) -> None:
    """Without its log nothing is recorded and all is spooled; what is unsupported stays 422."""
    load = Load(database_url, pause=0.02)
    spool, command = tmp_path / "spool", Command(tmp_path)
    with command.serving("--database-url", database_url, "--spool", spool) as serving:
        with load.on(serving.port):
            time.sleep(1)
            _execute(database_url, "ALTER TABLE hookrow_notifications RENAME TO gone")
            eventually(lambda: load.statuses()[503] > 300, seconds=30)
            unsupported = ask(serving.port, request(b'{"RecordType": "Click"}'))
            assert (unsupported.status, unsupported.body) == (422, b"Webhook payload not supported")
            _execute(database_url, "ALTER TABLE gone RENAME TO hookrow_notifications")
            eventually(lambda: is_well(load), seconds=20)
        # One whose work failed just before the table was there again is parked in it.
        replayed = command.call("replay", "--outcome", "failed", "--database-url", database_url)
        assert replayed.returncode == 0, replayed.stdout
        see_through(load, spool)
    assert "a fault to be reported" not in serving.log


@pytest.mark.parametrize(("state", "logged", "left"), [("AB001", 8, 0), ("XX000", 0, 8)])
def test_a_trigger_that_raises(
    postgres_url: str, tmp_path: Path, state: str, logged: int, left: int
) -> None:
    """Notifications for one row fail; those for others are recorded.

    With a state of the host's own they are logged as failed. With that of an error within the
    database, which may pass, they stay in the spool for a minute.
    """
    load = Load(postgres_url, pause=0.005)
    fill(postgres_url, [1000])
    _execute(postgres_url, _RAISE.replace("AB001", state))
    poisoned = testing.suppression("s1000@example.com", None, at=NEW_YEAR)
    answers = []
    spool, command = tmp_path / "spool", Command(tmp_path)
    with command.serving("--database-url", postgres_url, "--spool", spool) as serving:
        with load.on(serving.port):
            for number in range(8):
                body = json.dumps({**poisoned, "Tag": str(number)}).encode()
                answers.append(ask(serving.port, request(body)).status)
                time.sleep(0.5)
        load.wait_until_recorded(15)
        assert spooled(spool) == left
        log = serving.log
    statuses = load.statuses()
    report(load.told(), f"{len(answers)} answers of 503")
    assert answers == [503] * 8
    assert statuses[200] >= 0.98 * sum(statuses.values()), load.told()
    with opened(postgres_url) as engine, engine.connect() as database:
        outcomes = select(notifications.c.outcome).where(
            notifications.c.recipient == "s1000@example.com"
        )
        assert list(database.scalars(outcomes)) == ["failed"] * logged
    assert state in log
    assert "s1000@" not in log


_RAISE = """
    CREATE FUNCTION raise_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE 'no more mail to %', NEW.email USING ERRCODE = 'AB001';
    END $$;
    CREATE TRIGGER raise_state BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW
    WHEN (OLD.email = 's1000@example.com') EXECUTE FUNCTION raise_state()
"""


def _disordered(url: str) -> int:
    """Count the entries of the log that came last before they came first."""
    disorder = notifications.c.last_received_at < notifications.c.received_at
    with opened(url) as engine, engine.connect() as database:
        return int(database.scalar(select(func.count()).where(disorder)) or 0)


def _suppressed_as_it_came(url: str, email: str) -> bool:
    """Tell whether a suppression has the time of its newest arrival, by the clock."""
    at = select(subscribers.c.suppressed_at).where(subscribers.c.email == email)
    newest = select(func.max(notifications.c.received_at))
    with opened(url) as engine, engine.connect() as database:
        arrived = database.scalar(newest.where(notifications.c.recipient == email))
        return arrived is not None and database.scalar(at) == arrived


def _execute(url: str, statement: str) -> None:
    with opened(url) as engine, engine.begin() as database:
        database.execute(text(statement))


class _Clock:
    """A clock that can be set."""

    ahead = timedelta()

    @classmethod
    def now(cls, zone: tzinfo) -> datetime:
        """Return what it shows."""
        return datetime.now(zone) + cls.ahead


def test_a_clock_that_jumps_back(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back in the middle changes nothing that is recorded, and no entry ends in disorder.

    The clock is that of the modules that ask for the time: the system's is not for a
    test to set. Waiting and time limits go by another, which cannot jump.
    """
    monkeypatch.setattr("hookrow.receiver.datetime", _Clock)
    monkeypatch.setattr("hookrow.recording.datetime", _Clock)
    monkeypatch.setattr("hookrow.parked.datetime", _Clock)
    monkeypatch.setattr(_Clock, "ahead", timedelta())
    load = Load(database_url)
    payload = testing.suppression("s999@example.com", "m999", at=NEW_YEAR)
    del payload["ChangedAt"]  # then its time is that of its arrival
    fill(database_url, [999])
    with mounted(database_url) as port, load.on(port):
        time.sleep(1)
        earlier = ask(port, request(json.dumps({**payload, "Tag": "earlier"}).encode()))
        monkeypatch.setattr(_Clock, "ahead", timedelta(hours=-1))
        later = ask(port, request(json.dumps(payload).encode()))
        time.sleep(1)
    report(load.told())
    assert set(load.statuses()) == {earlier.status, later.status} == {200}, load.told()
    assert load.lost() == []
    assert load.miscounted() == []
    assert _disordered(database_url) == 0
    assert _suppressed_as_it_came(database_url, "s999@example.com")
