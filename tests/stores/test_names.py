"""Names of a host's tables and columns: any text that the database accepts."""

from collections.abc import Sequence
from contextlib import closing
from itertools import cycle

import pytest
from contract import ADA, NOON, arrival, fill, opens, statuses
from homes import COLUMNS, SQLHome

from hookrow import Role, Schema, Suppressed
from hookrow.core.notification import Suppressible
from hookrow.diagnostics.advice import missing_indexes
from hookrow.receiver.recorder import record
from hookrow.stores.sql.verify import verify

NAMES = [
    *("order", "Mixed Case", " ", "naïve ß 名前", "😀", "1st", "a-b", "tab\there", "line\nbreak"),
    *('"', '""', "'", "''", "`", "[x]", "\\", "\\'", "/* */", "--", ";", "a;b"),
    *("%", "%s", "%%", "%(x", ":x", "::x", "$1", "?", "{}", "{0}", "@x", "#"),
    *("s", "d", "b", "m", "o", "given", "key_0", "new_at", "kept", "excluded", "value", "name"),
    *("hookrow_part_0", "SELECT", "x ORDER BY y", " WHERE true", "), ("),
]


def named(first: int) -> Schema:
    """Return a schema with names from the list, from that place on."""
    names = cycle(NAMES[first:] + NAMES[:first])

    def role(columns: Sequence[str]) -> Role:
        return Role(f"{next(names)} table", {column: next(names) for column in columns})

    return Schema(
        subscribers=role(COLUMNS["subscribers"]),
        dispatches=role(COLUMNS["dispatches"]),
        subscriptions=role(COLUMNS["subscriptions"]),
        log=next(names),
    )


@pytest.mark.parametrize("lent", [False, True], ids=["own", "supplied"])
@pytest.mark.parametrize("first", range(0, len(NAMES), 7))
def test_every_name(empty_database_url: str, first: int, *, lent: bool) -> None:
    with closing(SQLHome(empty_database_url, named(first), lent=lent)) as home:
        fill(home)
        suppressed = Suppressed(ADA, "m-ada", NOON, "HardBounce")
        arrivals = [arrival(opens(ADA, "m-ada")), arrival(suppressed)]
        assert statuses(record(home.store, arrivals)) == [200, 200]
        rows = home.rows()
        assert rows["dispatches"][0]["opened_at"] == NOON
        changed = [rows[kind.value][0]["suppression_reason"] for kind in Suppressible]
        assert changed == ["HardBounce"] * 3
        assert [entry["attempts"] for entry in home.logged()] == [2]  # of one body
        database = home.store.database
        missing = [*missing_indexes(database, verify(database, home.schema))]
        assert missing
        for warning in missing:
            statement = warning.partition("Run: ")[2].replace("CONCURRENTLY ", "")
            with database.transaction() as connection:
                connection.execute(statement.replace("%", "%%"))
