"""Faults in the database apart from the rows: the log cannot be written, a trigger raises."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from traffic import NEW_YEAR, Load, fill, spooled

from command import Command
from engines import connect, run
from hookrow import testing
from postgres import Databases
from wire import Answer, ask, request

pytestmark = pytest.mark.never_flaky


def post(port: int, payload: object) -> Answer:
    """Post a notification that is not part of the load."""
    return ask(port, request(json.dumps(payload).encode()))


def test_a_log_that_cannot_be_written(database_url: str, tmp_path: Path) -> None:
    """All notifications are spooled and none is recorded; an unsupported one still gets a 422."""
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
            load.wait_until_healthy()
        # A notification that failed just before the table was restored is parked in the log.
        replayed = command.call("replay", "--outcome", "failed", "--database-url", database_url)
        assert replayed.returncode == 0, replayed.stdout
        load.check_recovery(spool)
    assert "a bug raised" not in serving.log
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
    """Notifications for two rows fail; those for other rows are recorded.

    If the SQLSTATE is the host's own, they are logged as failed. If it looks like an outage, they
    stay in the spool for a minute.
    """
    load, spool = Load(postgres_url, pause=0.005), tmp_path / "spool"
    fill(postgres_url, [1000, 1001])
    postgres.execute(RAISING, url=postgres_url)
    with Command(tmp_path).serving("--database-url", postgres_url, "--spool", spool) as serving:
        with load.on(serving.port):
            for number in range(16):
                email = f"s{1000 + number % 2}@example.com"
                poisoned = testing.suppression(email, None, at=NEW_YEAR)
                assert post(serving.port, {**poisoned, "Tag": str(number)}).status == 503
                time.sleep(0.2)
        load.wait_until_recorded()
        waiting = spooled(spool)
        log = serving.log
    statuses = load.statuses()
    print(load, "16 answers of 503")
    assert statuses[200] >= 0.98 * sum(statuses.values()), str(load)
    failed = "SELECT recipient FROM hookrow_notifications WHERE outcome = 'failed'"
    logged = Counter(recipient for (recipient,) in postgres.execute(failed, url=postgres_url))
    print(waiting, logged, log)
    assert logged["s1000@example.com"] == 8
    assert waiting + logged["s1001@example.com"] == 8
    assert all(state in log for state in ("AB001", "XX000"))
    assert not any(email in log for email in ("s1000@", "s1001@"))
