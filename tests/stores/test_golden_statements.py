"""Every statement that a store sends, as text that a reader can read and a review can compare.

The files in `statements` have one statement after another, by database and schema. If a change
of a statement is intended, `pytest tests/stores/test_golden_statements.py --write-statements`
writes them anew.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from golden_schemas import SCHEMAS, columns

from hookrow.core.notification import EventTime, Suppressible
from hookrow.stores.sql.dialects import DIALECTS
from hookrow.stores.sql.role_tables import RoleTables
from hookrow.stores.sql.statements import STATEMENTS, Statement, Statements

FOLDER = Path(__file__).parent / "statements"


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_statements_on_rows(dialect: str, schema: str, request: pytest.FixtureRequest) -> None:
    """The statements that find, lock and change rows, and add entries to the log."""
    golden = SCHEMAS[schema]
    tables = RoleTables(golden.schema, columns(golden, dialect), DIALECTS[dialect])
    statements = STATEMENTS[dialect](tables)
    compare(FOLDER / dialect / f"{schema}.sql", on_rows(statements), request)


def compare(path: Path, titled: Iterable[tuple[str, str]], request: pytest.FixtureRequest) -> None:
    """Compare statements, each after its title, with those of a file."""
    text = "\n".join(f"-- {title}\n{sql};\n" for title, sql in titled)
    if request.config.getoption("--write-statements"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def on_rows(statements: Statements) -> Iterator[tuple[str, str]]:
    """Yield each statement on rows with a title."""
    tables = statements.tables
    yield "find", statements.find
    if tables.has("subscriptions"):
        yield "find pairs of subscriptions", statements.select(Suppressible.SUBSCRIPTION)
    for kind in tables.written:
        yield f"read {kind.value}", statements.state(kind)
        for title, skip in (("", False), (", skipping locked rows", True)):
            if lock := statements.lock(kind, skip_locked=skip):
                yield f"lock {kind.value}{title}", lock.text
    changes = dict(on_changes(statements))
    yield from ((title, each.text) for title, each in changes.items())
    for kind in tables.dated_beside_log:
        yield f"read the dates of {kind.value}", statements.dates(kind)
    if statements.add_entries is not None:
        yield "add entries to the log", statements.add_entries.text
        yield "the condition of entries `n` that can be recorded", statements.is_hopeful
    for number, sql in enumerate(statements.probes(), 1):
        yield f"probe {number}", sql
    if statements.combined is not None:
        yield from combined(statements, changes)


def on_changes(statements: Statements) -> Iterator[tuple[str, Statement]]:
    """Yield each statement that changes rows with a title."""
    tables = statements.tables
    for time in EventTime:
        if tables.has("dispatches", time.value):
            for title, guarded in (("", False), (" late", True)):
                for each in statements.set_time(time, guarded=guarded):
                    yield f"set {time.value}{title}", each
    for kind in tables.written:
        guards = (False, True) if tables.has(kind.value, "suppression_changed_at") else (False,)
        for guarded in guards:
            title = " late" if guarded else ""
            for each in statements.set_suppression(kind, guarded=guarded):
                dates = "date" if each.kind is None else "set"
                yield f"{dates} the suppression of {kind.value}{title}", each


def combined(statements: Statements, changes: dict[str, Statement]) -> Iterator[tuple[str, str]]:
    """Yield the statements that write whole groups, with a title."""
    assert statements.combined is not None
    suppressions = [each for title, each in changes.items() if "suppression" in title]
    newest = {each.kind: each for each in suppressions if each.kind is not None}
    dates = [each for each in suppressions if each.kind is None]
    groups = {
        "deliveries": [changes["set delivered_at"]],
        "late deliveries": [changes["set delivered_at late"]],
        "suppressions": [*dates, *newest.values()],
        "opens and suppressions": [*dates, *newest.values(), changes["set opened_at"]],
    }
    entries = [statements.add_entries] if statements.add_entries else []
    for title, group in groups.items():
        parts = (*sorted(group, key=lambda each: each.text), *entries)
        yield f"a group of {title}", statements.combined(parts, skip_locked=False).text
