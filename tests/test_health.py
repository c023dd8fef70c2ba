"""Health checks: what they answer, how soon, and how often the database is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Engine, event, make_url, text

from hookrow import Head, Request, Response, Schema
from hookrow.health import DatabaseProbe, Liveness, Readiness
from hookrow.promise import Promise
from hookrow.stores.engines import opened
from wire import PATIENCE, TEXT

REQUEST = Request(Head("GET", "/readyz", ()), b"")


@contextmanager
def ready(readiness: Readiness) -> Iterator[Readiness]:
    """End the check's thread afterwards."""
    try:
        yield readiness
    finally:
        readiness._commit.close(PATIENCE)


def answer(readiness: Readiness) -> Response:
    """Ask once, and wait."""
    promised = readiness(REQUEST)
    return promised.result(PATIENCE) if isinstance(promised, Promise) else promised


def test_alive() -> None:
    """That the process lives is answered 200, at once, to anybody."""
    liveness = Liveness()
    assert liveness.admit(REQUEST.head) is None
    assert liveness(REQUEST) == Response(200, b"ok\n", {"Content-Type": TEXT})


def test_ready() -> None:
    """Where nothing is in the way the answer is 200, to anybody."""
    with ready(Readiness(lambda: None)) as readiness:
        assert readiness.admit(REQUEST.head) is None
        assert answer(readiness) == Response(200, b"ready\n", {"Content-Type": TEXT})


def test_not_ready() -> None:
    """What is in the way is answered 503, with the reason as text in UTF-8."""
    with ready(Readiness(lambda: "The table 'größe' is missing.")) as readiness:
        assert answer(readiness) == Response(
            503, "The table 'größe' is missing.\n".encode(), {"Content-Type": TEXT}
        )


def test_asked_anew() -> None:
    """What was in the way is looked for at every question: the answer follows the facts."""
    faults = iter(["down", None, "down again"])
    with ready(Readiness(lambda: next(faults))) as readiness:
        assert [answer(readiness).status for _ in range(3)] == [503, 200, 503]


def test_probe_that_hangs() -> None:
    """A database that does not answer is answered 503 when the time is over."""
    go_on = Event()

    def probe() -> None:
        go_on.wait(PATIENCE)

    with ready(Readiness(probe, deadline=0.2)) as readiness:
        began = time.monotonic()
        answers = [readiness(REQUEST) for _ in range(3)]
        for promised in answers:
            assert isinstance(promised, Promise)
            response = promised.result(PATIENCE)
            assert (response.status, response.body) == (503, b"The database does not answer.\n")
        assert time.monotonic() - began < PATIENCE / 2
        go_on.set()
        assert answer(readiness).status == 200


def test_probe_that_fails() -> None:
    """A probe that raises what nobody thought of is answered 503: a handler never raises."""

    def probe() -> None:
        raise LookupError("of all things")

    with ready(Readiness(probe)) as readiness:
        assert answer(readiness).status == 503
        assert answer(readiness).status == 503


def test_many_who_ask() -> None:
    """All that ask while the database is asked share the next question."""
    probes = 0
    go_on = Event()

    def probe() -> None:
        nonlocal probes
        probes += 1
        go_on.wait(PATIENCE)

    with ready(Readiness(probe)) as readiness:
        answers = [readiness(REQUEST) for _ in range(200)]
        go_on.set()
        for promised in answers:
            assert isinstance(promised, Promise)
            assert promised.result(PATIENCE).status == 200
    assert probes <= 2


@pytest.mark.parametrize("closed", [True, False])
def test_more_than_can_wait(*, closed: bool) -> None:
    """Where no more can wait, the answer is 503 at once."""
    go_on = Event()

    def probe() -> None:
        go_on.wait(PATIENCE)

    readiness = Readiness(probe)
    with ready(readiness):
        if closed:
            readiness._commit.close(PATIENCE)
        waiting = [] if closed else [readiness(REQUEST) for _ in range(5000)]
        response = readiness(REQUEST)
        go_on.set()
        assert isinstance(response, Response)
        assert response.status == 503
        for promised in waiting:
            if isinstance(promised, Promise):
                promised.result(PATIENCE)


def test_blocks_nobody() -> None:
    """Neither check blocks its caller: a host runs them on its event loop."""
    assert not Liveness().blocking
    assert not Readiness(lambda: None).blocking


class Database:
    """A database that is probed; `statements` are those of the last probe, `now` is in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = 0.0
        self.statements: list[str] = []
        event.listen(engine, "before_cursor_execute", self._note)
        self._probe = DatabaseProbe(engine, Schema(), clock=lambda: self.now)

    def fault(self, *, after: float = 0.0) -> str | None:
        """Probe it, so many seconds after the last time."""
        self.statements.clear()
        self.now += after
        return self._probe()

    def execute(self, statement: str) -> None:
        """Change it, as somebody else would."""
        with self.engine.begin() as connection:
            connection.execute(text(statement))

    def _note(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        self.statements.append(statement)


class TestDatabaseProbe:
    @pytest.fixture(params=["sqlite", "postgres"])
    def database(self, request: pytest.FixtureRequest) -> Iterator[Database]:
        """Probe each database, with our tables."""
        with opened(request.getfixturevalue(f"{request.param}_url")) as engine:
            yield Database(engine)

    def test_cheap(self, database: Database) -> None:
        """The tables are verified once a minute; in between a probe reads the revision alone."""
        assert database.fault() is None
        assert len(database.statements) > 10
        for _ in range(5):
            assert database.fault(after=10) is None
            assert database.statements == ["VALUES (1)", "SELECT version_num FROM hookrow_version"]
        database.execute("ALTER TABLE hookrow_dispatches RENAME TO sends")
        assert "hookrow_dispatches" in (database.fault(after=10) or "")

    def test_wrong_tables(self, database: Database) -> None:
        """Tables that are wrong are verified at most once a second, and then found to be right."""
        database.execute("ALTER TABLE hookrow_dispatches RENAME TO sends")
        fault = database.fault()
        assert fault is not None
        database.execute("ALTER TABLE sends RENAME TO hookrow_dispatches")
        assert database.fault(after=0.5) == fault
        assert len(database.statements) == 2
        assert database.fault(after=0.5) is None

    def test_another_revision(self, database: Database) -> None:
        """Another revision is noticed at once, in both directions."""
        assert database.fault() is None
        change = "UPDATE hookrow_version SET version_num = '{}' WHERE version_num = '{}'"
        database.execute(change.format("9999", "0001"))
        assert "9999" in (database.fault() or "")
        database.execute(change.format("0001", "9999"))
        assert database.fault() is None

    def test_tables_of_a_host(self, database: Database) -> None:
        """Tables that a host's migrations made have no revision: nothing is read."""
        database.execute("DROP TABLE hookrow_version")
        assert database.fault() is None
        assert database.fault() is None
        assert database.statements == ["VALUES (1)"]

    def test_away(self, sqlite_url: str) -> None:
        """A database that goes away is noticed at once, and so is its return."""
        file = Path(make_url(sqlite_url).database or "")
        with opened(sqlite_url) as engine:
            database = Database(engine)
            assert database.fault() is None
            file.rename(file.with_name("away"))
            assert database.fault() == f"There is no {file}. Run: hookrow db upgrade"
            assert database.fault() is not None
            assert database.statements == []
            file.with_name("away").rename(file)
            assert database.fault() is None
