"""What a host's tables forbid one statement for all, and how it is recorded all the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from contract import NOON, arrival, fill, insistent, statuses
from homes import OURS, SQLHome

from hookrow import Role, Schema, Suppressed
from hookrow.stores.sql import SQLStore
from postgres import Server

SUPPRESSED = arrival(Suppressed("ada@example.com", "m-ada", NOON, "HardBounce"))

RULE = """
CREATE TABLE audit (id bigint);
CREATE RULE audited AS ON UPDATE TO hookrow_dispatches DO ALSO INSERT INTO audit VALUES (new.id)
"""

TRIGGER = """
ALTER TABLE hookrow_subscribers ADD seen timestamptz;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE hookrow_subscribers SET seen = now() WHERE id = new.subscriber_id;
    RETURN new;
END $$;
CREATE TRIGGER seen BEFORE UPDATE ON hookrow_dispatches FOR EACH ROW EXECUTE FUNCTION seen()
"""

ONE_TABLE = """
CREATE TABLE people (
    id bigint PRIMARY KEY, email text, list_id bigint,
    suppressed_at timestamptz, unsubscribed_at timestamptz
);
CREATE TABLE sends (
    id bigint PRIMARY KEY, provider_message_id text, subscriber_id bigint, list_id bigint,
    delivered_at timestamptz, opened_at timestamptz
);
CREATE VIEW members AS SELECT * FROM people;
INSERT INTO people VALUES (1, 'ada@example.com', 7);
INSERT INTO sends VALUES (1, 'm-ada', 1, 7)
"""


@pytest.mark.parametrize("host", [RULE, TRIGGER], ids=["rule", "trigger"])
def test_what_cannot_be_in_one_statement(
    host: str, postgres: Server, empty_postgres_url: str
) -> None:
    """It is done one by one from then on, and answered 200 each time."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        fill(home)
        postgres.execute(host, url=empty_postgres_url)
        with closing(SQLStore(empty_postgres_url)) as store:
            record = insistent(store)
            assert statuses(record([SUPPRESSED])) == statuses(record([SUPPRESSED])) == [200]
        assert home.rows()["subscribers"][0]["suppressed_at"] == NOON
        assert home.rows()["dispatches"][0]["suppressed_at"] == NOON


@pytest.mark.parametrize("members", ["people", "public.people", "members"])
def test_a_row_may_have_two_roles(
    members: str, postgres: Server, new_database: Callable[[str], str]
) -> None:
    """Each sets its own columns, be it by the same table or by a view of it."""
    url = new_database("postgres")
    postgres.execute(ONE_TABLE, url=url)
    plain = {"suppression_reason": None, "suppression_changed_at": None}
    schema = Schema(
        subscribers=Role("people", plain),
        subscriptions=Role(
            members, {"subscriber_id": "id", "suppressed_at": "unsubscribed_at", **plain}
        ),
        dispatches=Role("sends", {"suppressed_at": None, **plain}),
        log=None,
    )
    with closing(SQLStore(url, schema)) as store:
        assert statuses(insistent(store)([SUPPRESSED])) == [200]
    times = postgres.execute("SELECT suppressed_at, unsubscribed_at FROM people", url=url)
    assert times == [(NOON, NOON)]
