"""Upgrades from each release: nothing that it recorded is lost, and the current version goes on."""

import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from releases import (
    BEA,
    BEAS,
    DORA,
    FILES,
    LATER,
    PLACES,
    RELEASES,
    SPOOLED,
    Place,
    describe_tables,
    dump,
    read_state,
    restore,
    spool,
    use,
)

import hookrow
import postgres
import world
from engines import run
from hookrow import Postmark, Receiver, testing
from wire import ADA, ADAS, SECRET, eventually


@pytest.fixture(params=PLACES)
def empty(request: pytest.FixtureRequest) -> Place:
    """Return an empty database."""
    name: str = request.param
    return Place(name, request.getfixturevalue(f"empty_{name.rpartition('-')[2]}_url"))


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> Path:
    """Return the folder of a release."""
    return FILES / str(request.param)


@pytest.fixture
def place(empty: Place, release: Path) -> Place:
    """Return the database of a release after the upgrade to the current version."""
    restore(empty, release)
    empty.upgrade()
    return empty


@pytest.fixture
def state(place: Place, release: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the state that the release left."""
    return msgspec.json.decode((release / f"{place.name}.json").read_bytes())


def test_nothing_is_lost(place: Place, state: dict[str, Any]) -> None:
    """Every row, entry, cursor and count is as before; the current version may add fields."""
    found = read_state(place)
    assert found["cursors"] == state["cursors"]
    assert sorted(found["counts"][0]) == sorted(state["counts"][0])
    for name in ("subscribers", "lists", "subscriptions", "dispatches"):
        assert _reduced(found["rows"][name], state["rows"][name]) == state["rows"][name]
    assert _reduced(found["log"], state["log"]) == state["log"]


def test_the_tables_are_those_of_a_new_database(
    place: Place, new_database: Callable[[str], str]
) -> None:
    """The scripts and migrations of a release are not changed after it, but followed by others."""
    new = Place(place.name, new_database(place.name.rpartition("-")[2]))
    new.upgrade()
    assert describe_tables(place) == describe_tables(new)


def _reduced(found: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was found, with only the fields that there were before."""
    assert before
    return [{name: row[name] for name in before[0]} for row in found]


def test_the_current_version_goes_on(place: Place, state: dict[str, Any]) -> None:
    """It records, retries, suppresses, erases, and continues after the last cursor."""
    at = datetime.now(UTC)
    with place.store() as store, closing(Receiver(Postmark(SECRET), store, sweep=True)) as receiver:
        body = msgspec.json.encode(testing.opening(BEA, BEAS, at=at))
        assert receiver.record_body(body).status == 200
        _insert_dispatch(place, LATER)
        assert receiver.retry_now(LATER).result() == 1
        receiver.lift(DORA, reason="Asked again", by="ada")
        recorded = [each.entry.record_type for each in store.changes(state["cursors"][-1])]
        assert sorted(map(str, recorded)) == ["Delivery", "Open", "SubscriptionChange"]
        assert store.forget(ADA).entries > 0
    rows = world.rows(place.url)
    dispatches = {row["provider_message_id"]: row for row in rows["dispatches"]}
    assert dispatches[BEAS]["opened_at"] is not None
    assert dispatches[LATER]["delivered_at"] is not None
    [dora] = [row for row in rows["subscribers"] if row["email"] == DORA]
    assert dora["suppressed_at"] is None


def test_the_spool_is_drained(place: Place, release: Path, tmp_path: Path) -> None:
    """Notifications that the release could not record are recorded by the current version."""
    file = tmp_path / "spool.db"
    shutil.copy(release / "spool.db", file)
    _insert_dispatch(place, SPOOLED)
    with place.store() as store:
        receiver = Receiver(Postmark(SECRET), store, sweep=True, spool=file)
        with closing(receiver):
            receiver.start()
            eventually(lambda: _is_empty(receiver))
    [delivered] = [
        row["delivered_at"]
        for row in world.rows(place.url)["dispatches"]
        if row["provider_message_id"] == SPOOLED
    ]
    assert delivered is not None


def _is_empty(receiver: Receiver) -> bool:
    state = receiver.spool_state()
    return state is not None and state.count == 0


def _insert_dispatch(place: Place, message_id: str) -> None:
    """Insert a message to Ada, as the application does after sending it."""
    copied = "subscriber_id, list_id, created_at"
    run(
        place.url,
        f"INSERT INTO hookrow_dispatches (provider_message_id, {copied}) SELECT '{message_id}', "
        f"{copied} FROM hookrow_dispatches WHERE provider_message_id = '{ADAS}'",
    )


def test_the_state_of_this_version(
    request: pytest.FixtureRequest, empty: Place, tmp_path: Path
) -> None:
    """The current version writes the same state; with `--write-release`, it stores it."""
    empty.upgrade()
    world.fill(empty.url)
    at = datetime.now(UTC)
    with empty.store() as store:
        use(store, at)
    state = read_state(empty)
    outcomes = [each["outcome"] for each in state["log"]]
    assert outcomes == [
        *["recorded"] * 5,
        "recipient_mismatch",
        "dispatch_not_found",
        *["recorded"] * 4,
    ]
    if not request.config.getoption("--write-release"):
        return
    folder = FILES / hookrow.__version__
    folder.mkdir(exist_ok=True)
    binaries = postgres.find_binaries()
    assert binaries is not None
    dump(empty, folder, binaries)
    (folder / f"{empty.name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    if not (folder / "spool.db").exists():
        spool(tmp_path / "new.db", at)
        shutil.copy(tmp_path / "new.db", folder / "spool.db")
