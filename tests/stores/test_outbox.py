"""The changes of rows that a consumer reads after a cursor: it misses none of them."""

import pickle
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from homes import Home
from locations import PLACES, own_home
from log_contract import entry, keep, parked, reader

from databases import KINDS, NAMES
from engines import MEMORY
from hookrow import ConfigurationError, Schema, SchemaMismatch
from hookrow._core.log_entry import LogEntry
from hookrow._core.result import Result
from hookrow.stores import MissingChanges
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._change_numbers import ChangeNumbers
from hookrow.stores.sql._dialects import DIALECTS
from times import DAY, NOON

home = pytest.fixture(own_home, params=NAMES)
IN_EVERY_PLACE = pytest.mark.parametrize("home", PLACES, indirect=True)
ON_SERVERS = pytest.mark.parametrize(
    "home", [each.name for each in KINDS if DIALECTS[each.dialect].is_server], indirect=True
)


@pytest.fixture
def other(home: Home) -> Iterator[SQLStore]:
    """Open the store of another process."""
    with closing(SQLStore(home.url)) as store:
        yield store


def numbers(home: Home, after: int = 0) -> list[int]:
    """Return which entries the changes after a cursor are, by the number in their fingerprint."""
    return [int.from_bytes(each.fingerprint) for _, each in home.store.changes(after)]


def prune(home: Home, *, last: int) -> int:
    """Delete the entries that arrived on the first days."""
    until = NOON + last * DAY + timedelta(hours=1)
    return sum(reader(home).prune(before=until, parked_before=until, bodies_only=False))


def on_day(number: int) -> LogEntry:
    at = NOON + number * DAY
    return entry(number, received_at=at, last_received_at=at)


@IN_EVERY_PLACE
def test_pages_of_changes(home: Home) -> None:
    """A page follows a cursor; an entry without a change is none."""
    assert home.store.changes() == ()
    keep(home, entry(1), parked(2, minutes=1), entry(3))
    keep(home, entry(4))
    first = home.store.changes(limit=2)
    assert [each.entry.message_id for each in first] == ["m-1", "m-3"]
    assert [each.cursor for each in first] == [each.entry.change_number for each in first]
    [second] = home.store.changes(first[-1].cursor, limit=2**70)
    assert (second.entry.message_id, second.entry.body) == ("m-4", '{"n": 4}')
    assert home.store.changes(second.cursor) == ()


@IN_EVERY_PLACE
def test_an_entry_that_is_recorded_later_or_again_is_a_new_change(home: Home) -> None:
    """It comes after all changes before it, with the new state, and without its old place."""
    keep(home, parked(1, minutes=1), entry(2), entry(3))
    cursor = home.store.changes()[-1].cursor
    keep(home, entry(1))  # a retry
    keep(home, entry(2, attempts=0))  # a replay
    keep(home, parked(3, minutes=1))  # a repetition that is refused changes nothing
    assert numbers(home, cursor) == [1, 2]
    assert numbers(home) == [3, 1, 2]
    refused = home.store.changes(limit=1)[0].entry
    assert (refused.outcome, refused.attempts) == (Result.DISPATCH_NOT_FOUND, 2)


@ON_SERVERS
def test_a_lower_id_that_is_committed_later_is_a_later_change(home: Home, other: SQLStore) -> None:
    with other.transaction() as transaction:
        transaction.write((), [entry(1)])
        keep(home, entry(2))
        first = home.store.changes()
        assert [each.entry.message_id for each in first] == ["m-2"]
        assert home.store.changes(first[-1].cursor) == ()
    [late] = home.store.changes(first[-1].cursor)
    assert late.entry.message_id == "m-1"
    assert late.entry.id < first[0].entry.id


@ON_SERVERS
def test_an_entry_that_is_being_recorded_again_is_a_later_change(
    home: Home, other: SQLStore
) -> None:
    """A reader does not wait for the transaction, and neither numbers nor skips the entry."""
    keep(home, entry(1), entry(2))
    with other.transaction() as transaction:
        transaction.write((), [entry(1)])
        [first] = home.store.changes()
        assert first.entry.message_id == "m-2"
    [late] = home.store.changes(first.cursor)
    assert (late.entry.message_id, late.entry.attempts) == ("m-1", 2)


def test_changes_that_were_pruned_are_reported(home: Home) -> None:
    """A consumer that has read them all continues, and others learn after which cursor to."""
    keep(home, *map(on_day, range(1, 6)))
    first, *_, last = home.store.changes()
    assert prune(home, last=3) == 3
    third = last.cursor - 2
    assert numbers(home, third) == [4, 5]
    for cursor, since in {
        first.cursor: f"after the cursor {first.cursor}",
        0: "from before the first cursor",
    }.items():
        with pytest.raises(MissingChanges) as caught:
            home.store.changes(cursor)
        assert caught.value.continue_after == third
        assert str(caught.value) == (
            f"Changes {since} have been deleted from the log: compare all rows once, and continue "
            f"after the cursor {third}."
        )


def test_changes_without_a_number_that_were_pruned(home: Home) -> None:
    """A consumer learns of them, also if it has read all that had a number."""
    keep(home, on_day(1))
    [first] = home.store.changes()
    keep(home, *map(on_day, (2, 3, 4)))
    assert prune(home, last=3) == 3
    with pytest.raises(MissingChanges) as caught:
        home.store.changes(first.cursor)
    assert numbers(home, caught.value.continue_after) == [4]


def test_a_consumer_that_never_read_anything(home: Home) -> None:
    """It learns of what was pruned before its first change, whenever it began."""
    assert numbers(home) == []
    keep(home, *map(on_day, (1, 2, 3, 4)))
    assert prune(home, last=1) == 1
    assert home.run("SELECT DISTINCT change_number FROM hookrow_notifications") == [(0,)]
    with pytest.raises(MissingChanges) as caught:
        home.store.changes()
    begun = caught.value.continue_after
    assert prune(home, last=2) == 1  # before it has read after that cursor
    with pytest.raises(MissingChanges) as caught:
        home.store.changes(begun)
    assert numbers(home, caught.value.continue_after) == [3, 4]


def test_pruning_what_is_no_change(home: Home) -> None:
    keep(home, parked(1, minutes=1), on_day(9))
    assert prune(home, last=3) == 1
    assert numbers(home) == [9]


@ON_SERVERS
def test_a_change_that_is_made_while_it_is_pruned(home: Home, other: SQLStore) -> None:
    """It stays, because the transaction that prunes has not recorded that it was deleted."""
    keep(home, on_day(1), on_day(9))
    first, last = home.store.changes()
    log, numbering = reader(home), ChangeNumbers(home.store.database.dialect, home.store.schema)
    with log._database.transaction() as connection:
        where = numbering.note_deletion(connection, "id = %s", [first.entry.id])
        with other.transaction() as transaction:
            transaction.write((), [on_day(1)])
        assert (
            connection.execute(f"DELETE FROM hookrow_notifications WHERE {where}", [first.entry.id])
            == 0
        )
    assert numbers(home, last.cursor) == [1]


def test_the_error_survives_pickling() -> None:
    """Celery sends it to another process."""
    error = pickle.loads(pickle.dumps(MissingChanges("Gone.", 7)))
    assert (str(error), error.continue_after) == ("Gone.", 7)


def test_an_erased_person_leaves_the_change(home: Home) -> None:
    keep(home, entry(1), entry(2))
    home.store.forget("s1@example.com")
    erased, _ = home.store.changes()
    assert (erased.entry.recipient, erased.entry.body) == (None, None)


def test_a_cursor_of_another_log(home: Home) -> None:
    keep(home, entry(1))
    [change] = home.store.changes()
    with pytest.raises(MissingChanges, match="later than the last change") as caught:
        home.store.changes(change.cursor + 1)
    assert numbers(home, caught.value.continue_after) == [1]


def test_a_log_without_its_table_of_values(home: Home) -> None:
    keep(home, entry(1))
    home.run("DROP TABLE hookrow_meta")
    with pytest.raises(SchemaMismatch, match="'hookrow_meta' is missing"):
        home.store.changes()
    assert prune(home, last=1) == 1


@pytest.mark.parametrize("after", [-1, True, "1", None, 2**63])
def test_an_invalid_cursor(after: int) -> None:
    with (
        closing(SQLStore(MEMORY)) as store,
        pytest.raises(ConfigurationError, match="after must be an integer from 0 to 9"),
    ):
        store.changes(after)


def test_a_store_without_a_log() -> None:
    with (
        closing(SQLStore(MEMORY, Schema(log=None))) as store,
        pytest.raises(ConfigurationError, match="no log"),
    ):
        store.changes()
