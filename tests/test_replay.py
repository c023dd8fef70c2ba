"""Replay: what comes from the log, how it is recorded, and what is done where that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import insert, text

from hookrow import Arrival, Postmark, Recorded, Schema, Suppressed
from hookrow.entry import Ending, Logged, entries
from hookrow.notification import Outcome, Refusal
from hookrow.quiet import Quiet
from hookrow.recording import record
from hookrow.replay import arrivals_of, matching, record_late, record_ready, rehearse
from hookrow.stores import Locked, Rejected, Unavailable
from hookrow.stores.engines import opened
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import subscribers
from postgres import Server

ADA, BEA, ZOE = "ada@example.com", "bea@example.com", "zoe@example.com"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
PARSE = Postmark("secret").parse

BODY = (
    b'{"RecordType": "SubscriptionChange", "Recipient": "ada@example.com", '
    b'"SuppressSending": true, "SuppressionReason": "HardBounce"}'
)


def logged(body: bytes) -> Logged:
    """Return what the log holds of a body that came at noon and was refused."""
    store = MemoryStore()
    told = Arrival(PARSE(body), body, NOON)
    with store.transaction() as transaction:
        transaction.write((), entries([told], [Refusal.FAILED.refused()], NOON))
    assert store.log is not None
    [[entry]] = matching(store.log, Query())
    return entry


class TestArrival:
    def test_it_comes_again_as_it_came(self) -> None:
        """With its first time and its fingerprint; not live, and no attempt more."""
        entry = logged(BODY)
        assert arrivals_of([entry], PARSE) == [
            Arrival(
                Suppressed(ADA, None, None, "HardBounce"),
                BODY,
                NOON,
                live=False,
                attempts=0,
                fingerprint=entry.fingerprint,
            )
        ]

    def test_it_keeps_its_fingerprint_where_another_is_read_of_it(self) -> None:
        """A newer version may understand what an older one did not: it is the same row."""
        entry = replace(logged(b'{"RecordType": "Bounce"}'), retry_at=NOON)
        [again] = arrivals_of([entry], lambda _: Suppressed(ADA, None, NOON, "HardBounce"))
        assert again.fingerprint == entry.fingerprint
        assert entry.fingerprint[:4] == bytes(4)

    @pytest.mark.parametrize("body", [b"\xff", b"\0", b'{"Name": "\xe4"}'])
    def test_what_is_escaped_does_not_come_again(self, body: bytes) -> None:
        """It is not what was posted."""
        assert arrivals_of([logged(body)], PARSE) == []

    def test_what_is_erased_does_not_come_again(self) -> None:
        """There is nothing left to read; its neighbours come all the same."""
        erased, kept = replace(logged(BODY), body=None), logged(BODY)
        [again] = arrivals_of([erased, kept, erased], PARSE)
        assert again.body == BODY


def suppressions(*emails: str, reason: str = "HardBounce") -> list[Arrival]:
    """Return suppressions of these people that came some time ago."""
    at = datetime.now(UTC) - timedelta(hours=1)
    told = [Suppressed(email, None, at, reason) for email in emails]
    return [Arrival(each, repr(each).encode(), at, live=False, attempts=0) for each in told]


@pytest.fixture
def store(database_url: str) -> Iterator[SQLStore]:
    """Open a store with three subscribers on each kind of database."""
    with closing(filled(database_url)) as store:
        yield store


def filled(url: str) -> SQLStore:
    """Open a store with three subscribers."""
    with opened(url) as engine, engine.begin() as connection:
        connection.execute(insert(subscribers), [{"email": email} for email in (ADA, BEA, ZOE)])
    return SQLStore(url)


def ends(store: SQLStore) -> dict[str | None, Logged]:
    """Read the log by recipients."""
    assert store.log is not None
    return {entry.recipient: entry for group in matching(store.log, Query()) for entry in group}


def test_a_host_without_lists(database_url: str) -> None:
    """A rehearsal reads the tables that there are."""
    filled(database_url).close()
    with closing(SQLStore(database_url, Schema(subscriptions=None))) as store:
        [told] = suppressions(ADA)
        rehearsal = rehearse(store, told)
    assert [kind.name for kind, _ in rehearsal.after] == ["SUBSCRIBER"]


class TestRecordLate:
    def test_what_the_database_refuses_fails_alone(
        self, store: SQLStore, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is kept as failed; the rest of the group is recorded. No address is logged."""
        _refuse(database_url, "NEW.suppression_reason = 'much too long'")
        told = suppressions(ADA, BEA, ZOE)
        told[1:2] = suppressions(BEA, reason="much too long")
        ended = record_late(store, told, quiet=Quiet())
        assert [type(each) is Recorded for each in ended] == [True, False, True]
        kept = ends(store)
        assert [kept[email].outcome for email in (ADA, BEA, ZOE)] == [
            *(Ending.RECORDED, Ending.FAILED),
            Ending.RECORDED,
        ]
        assert (kept[BEA].attempts, kept[BEA].retry_at is None) == (0, False)
        [logged] = caplog.messages
        assert logged.startswith("Cannot record Suppressed None of 'b***@example.com': ")
        assert "much too long" not in logged

    def test_what_is_held(self, postgres_url: str) -> None:
        """It keeps back none of its group; it is waited for by itself, and then parked again."""
        with closing(filled(postgres_url)) as store, psycopg.connect(postgres_url) as host:
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
            ended = record_late(store, suppressions(ADA, BEA), quiet=Quiet())
            assert ended[0] == Refusal.FAILED.refused()
            assert isinstance(ended[1], Recorded)
            assert ends(store)[ADA].retry_at is not None

    def test_what_is_held_for_a_moment(self, postgres_url: str, postgres: Server) -> None:
        """It is recorded, and counted once."""
        with (
            closing(filled(postgres_url)) as store,
            psycopg.connect(postgres_url) as host,
            ThreadPoolExecutor() as threads,
        ):
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
            late = [replace(each, live=False, attempts=1) for each in suppressions(ADA, BEA)]
            ended = threads.submit(record_late, store, late, quiet=Quiet())
            postgres.wait_for_a_lock(postgres_url)
            host.rollback()
            assert all(isinstance(each, Recorded) for each in ended.result())
            assert (ends(store)[ADA].outcome, ends(store)[ADA].attempts) == (Ending.RECORDED, 1)

    def test_what_the_log_refuses_too_is_kept_by_nothing(
        self, store: SQLStore, database_url: str
    ) -> None:
        """It ends as unavailable, and not as failed; the rest of the group is recorded."""
        _refuse(database_url, f"NEW.recipient = '{BEA}'", "INSERT ON hookrow_notifications")
        ended = record_late(store, suppressions(ADA, BEA, ZOE), quiet=Quiet())
        assert [type(each) is Recorded for each in ended] == [True, False, True]
        assert ended[1] == Refusal.UNAVAILABLE.refused()
        assert ends(store).keys() == {ADA, ZOE}

    def test_the_database_goes_in_the_middle_of_a_split(
        self, store: SQLStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is recorded by then ends so; the rest is unavailable, and nothing raises."""
        told = suppressions(ADA, BEA, ZOE)

        def going(store: SQLStore, arrivals: Sequence[Arrival], **options: Any) -> list[Outcome]:  # noqa: ANN401 - passed on
            if len(arrivals) > 1:
                raise Rejected("poisoned")
            if arrivals[0] is not told[0]:
                raise Unavailable("gone")
            return record(store, arrivals, **options)

        monkeypatch.setattr("hookrow.replay.record", going)
        ended = record_late(store, told, quiet=Quiet())
        assert isinstance(ended[0], Recorded)
        assert ended[1:] == [Refusal.UNAVAILABLE.refused()] * 2
        assert ends(store).keys() == {ADA}

    def test_the_database_is_gone(self, store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where nothing is recorded at all it raises."""

        def gone(*_: object, **__: object) -> list[Outcome]:
            raise Unavailable("gone")

        monkeypatch.setattr("hookrow.replay.record", gone)
        with pytest.raises(Unavailable, match="gone"):
            record_late(store, suppressions(ADA, BEA), quiet=Quiet())

    def test_without_bodies_none_is_kept(self, store: SQLStore, database_url: str) -> None:
        """Neither of what is recorded nor of what is refused."""
        _refuse(database_url, "NEW.suppression_reason = 'HardBounce'")
        told = suppressions(ADA, BEA) + suppressions(ZOE, reason="x")
        record_late(store, told, quiet=Quiet(), bodies=False)
        assert {entry.body for entry in ends(store).values()} == {None}

    def test_nothing_is_no_error(self, store: SQLStore) -> None:
        """No arrivals, no outcomes."""
        assert record_late(store, [], quiet=Quiet()) == []
        assert record_ready(store, [], quiet=Quiet()) == ([], [])


def test_only_the_ready_are_recorded(store: SQLStore) -> None:
    """Each with how it ended; of the others nothing is written."""
    told = suppressions(ADA, "nobody@example.com", BEA)
    ready, outcomes = record_ready(store, told, quiet=Quiet())
    assert ready == [told[0], told[2]]
    assert [type(outcome) for outcome in outcomes] == [Recorded, Recorded]
    assert ends(store).keys() == {ADA, BEA}


def test_a_rehearsal_does_not_wait_for_ever(postgres_url: str) -> None:
    """Where a row is held it says so, after the time limit of every transaction."""
    with closing(filled(postgres_url)) as store, psycopg.connect(postgres_url) as host:
        host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
        with pytest.raises(Locked):
            rehearse(store, suppressions(ADA)[0])


def test_a_rehearsal_leaves_the_connection_to_the_next(store: SQLStore) -> None:
    """What it undid can be recorded right after."""
    [told] = suppressions(ADA)
    for _ in range(3):
        [after] = rehearse(store, told).after.values()
        assert after["suppression_reason"] == "HardBounce"
    assert isinstance(record(store, [told])[0], Recorded)
    rehearsal = rehearse(store, told)
    assert rehearsal.before == rehearsal.after


def _refuse(url: str, refused: str, event: str = "UPDATE ON hookrow_subscribers") -> None:
    """Make the database refuse what is so."""
    head = f"CREATE TRIGGER refuse BEFORE {event} FOR EACH ROW"
    body = f"BEGIN IF {refused} THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END"
    with opened(url) as engine, engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            end = f"WHEN {refused} BEGIN SELECT RAISE(ABORT, 'no'); END"
        else:
            function = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            connection.execute(text(f"{function} $$ {body} $$"))
            end = "EXECUTE FUNCTION refuse()"
        connection.execute(text(f"{head} {end}"))
