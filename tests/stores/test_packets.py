"""Groups that are written to MariaDB or MySQL in one packet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pymysql
import pytest
from contract import ADA, NOON, arrival, opens

from engines import run
from hookrow import Delivered, Role, Schema
from hookrow._core.notification import Recorded
from hookrow._core.schema import SUPPRESSION
from hookrow._receiver.recorder import record
from hookrow.stores._errors import Unchanged
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._mariadb import MariaDBSession

GROUP = [arrival(Delivered(ADA, "m-ada", NOON)), arrival(opens(ADA, "m-ada"))]

SENDS = Role("sends", dict.fromkeys((*SUPPRESSION, "list_id")))

STATE = "SELECT delivered_at IS NOT NULL, opened_at IS NOT NULL FROM all_sends"


def create(url: str, type_: str, sends: str) -> None:
    run(
        url,
        f"CREATE TABLE people (id {type_} PRIMARY KEY, email VARCHAR(320), "
        "suppressed_at DATETIME(6), suppression_reason TEXT, suppression_changed_at DATETIME(6))",
        f"CREATE TABLE all_sends (id {type_} PRIMARY KEY, provider_message_id VARCHAR(255) UNIQUE, "
        f"subscriber_id {type_}, delivered_at DATETIME(6), opened_at DATETIME(6), "
        "is_done INT DEFAULT 0)",
        f"INSERT INTO people (id, email) VALUES (1, '{ADA}')",
        "INSERT INTO all_sends (id, provider_message_id, subscriber_id) VALUES (1, 'm-ada', 1)",
        sends,
    )


@pytest.mark.parametrize(
    "type_",
    ["INT UNSIGNED", "BIGINT UNSIGNED", "TINYINT", "DECIMAL(20, 0)", "VARCHAR(9)", "VARBINARY(9)"],
)
def test_types_of_keys(empty_mariadb_url: str, type_: str) -> None:
    """Keys are found, locked and updated, whatever the driver makes of their type."""
    create(empty_mariadb_url, type_, "CREATE VIEW sends AS SELECT * FROM all_sends")
    schema = Schema(subscribers=Role("people"), dispatches=SENDS, subscriptions=None, log=None)
    with closing(SQLStore(empty_mariadb_url, schema, verify=True)) as store:
        assert all(isinstance(each, Recorded) for each in record(store, GROUP))
    assert run(empty_mariadb_url, STATE) == [(1, 1)]


@pytest.mark.parametrize("hidden", ["by a view", "by a trigger"])
def test_row_that_an_update_hides(empty_mariadb_url: str, hidden: str) -> None:
    """If the second UPDATE of a group does not find a row, the first one is rolled back, too."""
    dispatches, sends = SENDS, "CREATE VIEW sends AS SELECT * FROM all_sends WHERE is_done = 0"
    if hidden == "by a trigger":
        dispatches = Role("all_sends", SENDS.columns, where={"is_done": 0})
        sends = "SELECT 1"
    create(empty_mariadb_url, "INT", sends)
    run(
        empty_mariadb_url,
        "CREATE TRIGGER t BEFORE UPDATE ON all_sends FOR EACH ROW SET NEW.is_done = 1",
    )
    schema = Schema(subscribers=Role("people"), dispatches=dispatches, subscriptions=None, log=None)
    with (
        closing(SQLStore(empty_mariadb_url, schema, verify=True)) as store,
        pytest.raises(Unchanged),
    ):
        record(store, GROUP)
    assert run(empty_mariadb_url, STATE) == [(0, 0)]


def test_proxy_that_runs_statements_after_an_error(
    empty_mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets are not used if something in between splits them and goes on after an error."""
    create(empty_mariadb_url, "INT", "CREATE VIEW sends AS SELECT * FROM all_sends")
    execute = MariaDBSession.execute

    def go_on(session: MariaDBSession, sql: str, parameters: Sequence[Any] = ()) -> int:
        failures = []
        for statement in sql.split("; "):
            try:
                execute(session, statement, parameters)
            except pymysql.Error as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return 0

    monkeypatch.setattr(MariaDBSession, "execute", go_on)
    schema = Schema(subscribers=Role("people"), dispatches=SENDS, subscriptions=None, log=None)
    combining = []
    for _ in range(2):
        with closing(SQLStore(empty_mariadb_url, schema)) as store, store.recording() as recording:
            combining.append(recording._statements.combining is not None)
        monkeypatch.undo()
    assert combining == [False, True]
