"""PostgreSQL sessions of the store's own: what they may lose, and that no notification fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from threading import Barrier, Thread

import pytest
from contract import ADA, arrival, fill, insistent, opens, statuses
from homes import OURS, SQLHome

from hookrow.recording import record
from hookrow.stores.autocommit import PREPARED_AFTER
from hookrow.stores.sql import SQLStore
from postgres import Databases

OPENED = arrival(opens(ADA, "m-ada"))


@pytest.fixture
def store(postgres_url: str) -> Iterator[SQLStore]:
    """Open a store with a few rows."""
    with closing(SQLHome(postgres_url, OURS)) as home:
        fill(home)
    with closing(SQLStore(postgres_url)) as store:
        yield store


def test_terminated(store: SQLStore, postgres: Databases, postgres_url: str) -> None:
    """Idle sessions that the server has terminated are replaced, and none is left open."""
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    together = Barrier(4)

    def work() -> None:
        with store.transaction() as transaction:
            together.wait(30)
            transaction.write([])

    for _ in range(3):
        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert postgres.execute(count, url=postgres_url) == [(4 + 1,)]
        assert postgres.terminate(postgres_url) == 4
        assert statuses(record(store, [OPENED])) == [200]


def test_prepared_statements(store: SQLStore, postgres: Databases, postgres_url: str) -> None:
    """Statements are prepared again after a column's type or the number of columns changed."""
    retry = insistent(store)
    changes = {
        PREPARED_AFTER + 1: "ALTER TABLE hookrow_subscribers ALTER COLUMN email TYPE text",
        2 * PREPARED_AFTER: "ALTER TABLE hookrow_notifications ADD motto text",
    }
    for number in range(3 * PREPARED_AFTER):
        assert statuses(retry([replace(OPENED, body=b"%d" % number)])) == [200]
        if number in changes:
            postgres.execute(changes[number], url=postgres_url)
