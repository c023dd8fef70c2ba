"""Behind PgBouncer, several stores share a session."""

import time
from contextlib import closing

import psycopg
import pytest
from contract import arrival, fill, opens, statuses
from homes import OURS, Home
from sqlalchemy import make_url

from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._connections import IDLE
from pgbouncer import pooling
from wire import ADA

pytestmark = pytest.mark.never_flaky


def test_shared_session(postgres_url: str) -> None:
    """Two stores record in transactions, and their time limits do not stay in the session."""
    opening = arrival(opens(ADA, "m-ada"))
    limits = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
    server = make_url(postgres_url)
    with (
        closing(Home(postgres_url, OURS)) as home,
        pooling(f"host={server.query['host']} pool_size=1") as port,
    ):
        fill(home)
        url = f"postgresql://postgres@127.0.0.1:{port}/{server.database}"
        with closing(SQLStore(url)) as one, closing(SQLStore(url)) as other:
            for _ in range(10):  # the driver prepares a statement at its fifth execution
                assert (
                    statuses(record(one, [opening])) == statuses(record(other, [opening])) == [200]
                )
            time.sleep(IDLE + 0.1)  # after this time, a session is checked before it is used
            assert statuses(record(one, [opening])) == [200]
            with psycopg.connect(url, prepare_threshold=None) as another:
                assert another.execute(limits).fetchall() == [("0", "0")]
        assert home.rows()["dispatches"][0]["opened_at"] is not None
