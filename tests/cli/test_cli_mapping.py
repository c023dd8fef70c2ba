"""`hookrow replay` under a mapping other than the one that the log was written for."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

import world
from command import Command
from engines import run
from hookrow import Refusal, testing
from received import keep
from wire import ADA, ADAS

META = "SELECT value FROM hookrow_meta WHERE name = 'mapping'"
ENTRY = "SELECT attempts, outcome, source FROM hookrow_notifications"


@pytest.fixture
def variables(database_url: str, command: Command) -> Mapping[str, str]:
    """Log a notification, rename the table of subscribers, and map it; return the settings."""
    world.fill(database_url)
    payload = testing.delivery(ADA, ADAS, at=datetime.now(UTC))
    keep(database_url, payload, Refusal.DISPATCH_NOT_FOUND.refused())
    run(database_url, "ALTER TABLE hookrow_subscribers RENAME TO people")
    (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
    return {"HOOKROW_DATABASE_URL": database_url}


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_refusal(
    command: Command, database_url: str, variables: Mapping[str, str], option: tuple[str]
) -> None:
    """Nothing is changed; the error names both tables and what to do."""
    before = run(database_url, META), run(database_url, ENTRY)
    done = command.call("replay", 1, *option, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: The log was written for tables other than those mapped now: subscribers in "
        "hookrow_subscribers; now subscribers in people. A replay would change "
        "the wrong rows. Use the mapping of the application that received the notifications: with "
        "--app, in hookrow.toml or, in Django, in the settings. If you renamed tables, run "
        "the command again with --accept-mapping.\n"
    )
    assert (run(database_url, META), run(database_url, ENTRY)) == before


def test_acceptance(command: Command, database_url: str, variables: Mapping[str, str]) -> None:
    """Accepting replaces the record, and needs no notification; a dry run does not replace it."""
    done = command.call("replay", 1, "--dry-run", "--accept-mapping", **variables)
    assert done.returncode == 0
    assert "hookrow_subscribers" in run(database_url, META)[0][0]
    done = command.call("replay", "--accept-mapping", **variables)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(
        "The log is now associated with these tables: subscribers in people, dispatches"
    )
    assert '"subscribers":{"table":"people"}' in run(database_url, META)[0][0]
    assert run(database_url, ENTRY) == [(1, "dispatch_not_found", "live")]
    assert command.call("replay", 1, **variables).returncode == 0
    assert run(database_url, ENTRY) == [(1, "recorded", "replay")]


def test_acceptance_with_a_replay(
    command: Command, database_url: str, variables: Mapping[str, str]
) -> None:
    assert command.call("replay", 1, "--accept-mapping", **variables).returncode == 0
    assert run(database_url, ENTRY) == [(1, "recorded", "replay")]
    assert command.call("replay", 1, **variables).returncode == 0


def test_no_table_for_the_record(
    command: Command, database_url: str, variables: Mapping[str, str]
) -> None:
    """Without a record, any mapping is right, but none can be accepted."""
    run(database_url, "DROP TABLE hookrow_meta")
    assert command.call("replay", 1, **variables).returncode == 0
    done = command.call("replay", "--accept-mapping", **variables)
    assert done.returncode == 1
    assert "The mapping's record cannot be used: " in done.stderr
    assert "hookrow_meta" in done.stderr
