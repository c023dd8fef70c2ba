"""How a time and an email are stored: the same instant, the same text, whoever writes them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
from homes import connect
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, insert, literal, make_url, select
from sqlalchemy.dialects import sqlite

from hookrow.stores.tables import UTCDateTime, folded, metadata, subscribers
from postgres import Server

NEPAL = timezone(timedelta(hours=5, minutes=45))

TIMES = {
    "2026-03-04 05:06:07.000000": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    "2026-03-04 05:06:07.000001": datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=UTC),
    "2026-03-04 05:06:07.100000": datetime(2026, 3, 4, 5, 6, 7, 100_000, tzinfo=UTC),
    "2026-03-03 23:21:07.999999": datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=NEPAL),
    "0001-01-01 00:00:00.000000": datetime.min.replace(tzinfo=UTC),
    "9999-12-31 23:59:59.999999": datetime.max.replace(tzinfo=UTC),
}
"""By the text that SQLite must hold."""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Open a database with our tables."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


def _store(engine: Engine, times: list[datetime | None]) -> list[datetime | None]:
    """Store the times of subscribers; return them as they are read back."""
    with engine.begin() as connection:
        connection.execute(
            insert(subscribers),
            [{"email": f"{n}@example.com", "suppressed_at": at} for n, at in enumerate(times)],
        )
        return list(connection.scalars(select(subscribers.c.suppressed_at).order_by("id")))


class TestTimes:
    def test_an_instant_comes_back(self, engine: Engine) -> None:
        """To the microsecond, in UTC, and null as None."""
        found = _store(engine, [*TIMES.values(), None])
        assert found == [*TIMES.values(), None]
        assert {at.tzinfo for at in found if at is not None} == {UTC}

    def test_sqlite_holds_utc_with_six_digits(self, sqlite_url: str) -> None:
        """Whatever the offset and however many digits: equal times are equal text."""
        engine = connect(sqlite_url)
        _store(engine, list(TIMES.values()))
        with closing(sqlite3.connect(make_url(sqlite_url).database or "")) as other:
            found = other.execute("SELECT suppressed_at FROM hookrow_subscribers ORDER BY id")
            assert [at for (at,) in found] == list(TIMES)
        engine.dispose()

    def test_postgresql_holds_the_instant(self, postgres_url: str) -> None:
        """Also where the session's time zone is another."""
        engine = connect(postgres_url, connect_args={"options": "-c timezone=Asia/Kathmandu"})
        at = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=NEPAL)
        assert _store(engine, [at]) == [at]
        with psycopg.connect(postgres_url) as other:
            [(found,)] = other.execute(
                "SELECT suppressed_at AT TIME ZONE 'UTC' FROM hookrow_subscribers"
            )
        assert found == datetime(2026, 3, 3, 23, 21, 7, 123456)  # noqa: DTZ001 - as asked for
        engine.dispose()

    def test_the_databases_own_now_is_an_instant(self, engine: Engine) -> None:
        """`created_at` reads as UTC, and is now."""
        _store(engine, [None])
        with engine.connect() as connection:
            made = connection.scalar(select(subscribers.c.created_at))
        assert made is not None
        assert made.tzinfo is UTC
        assert abs(datetime.now(UTC) - made) < timedelta(minutes=1)


def test_sqlites_own_now_has_six_digits(tmp_path: Path) -> None:
    """The default of `created_at` is the very text that we would write ourselves."""
    engine = connect(f"sqlite:///{tmp_path}/made.db")
    metadata.create_all(engine)
    with closing(sqlite3.connect(tmp_path / "made.db")) as other:
        other.execute("INSERT INTO hookrow_subscribers (email) VALUES ('ada@example.com')")
        [(made,)] = other.execute("SELECT created_at FROM hookrow_subscribers")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", made)
    engine.dispose()


@given(
    st.lists(
        st.datetimes(timezones=st.sampled_from([UTC, NEPAL]), min_value=datetime(1, 1, 2)),  # noqa: DTZ001 - hypothesis adds the zone
        min_size=2,
    )
)
def test_on_sqlite_the_order_of_texts_is_the_order_of_times(times: list[datetime]) -> None:
    """A guard compares text there."""
    process = UTCDateTime().bind_processor(sqlite.dialect())
    assert process is not None
    texts = [process(at) for at in times]
    assert sorted(texts) == [process(at) for at in sorted(times)]


class TestFolded:
    @pytest.mark.parametrize(
        ("backend", "expression"),
        [
            ("sqlite", "lower(hookrow_subscribers.email)"),
            ("postgresql+psycopg", 'lower(hookrow_subscribers.email COLLATE "C")'),
        ],
    )
    def test_it_is_the_expression_of_the_index(self, backend: str, expression: str) -> None:
        """Each database has its own way to lower ASCII letters and no others."""
        dialect = make_url(f"{backend}://").get_dialect()()
        assert str(folded(subscribers.c.email).compile(dialect=dialect)) == expression

    def test_the_database_folds_as_we_do(self, engine: Engine) -> None:
        """ASCII letters are lowered, Ë, İ and the Kelvin sign K are not."""
        letters = "ABC.XYZ@Ëİ\N{KELVIN SIGN}ß"
        with engine.connect() as connection:
            found = connection.scalar(select(folded(literal(letters))))
        assert found == "abc.xyz@Ëİ\N{KELVIN SIGN}ß"

    def test_the_index_folds_beyond_no_locale(self, postgres: Server) -> None:
        """Even in a database whose own lower() folds Ë, two such emails are two rows."""
        assert postgres.execute("SELECT lower('Ë')") == [("ë",)]
        engine = connect(postgres.create())
        metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(
                insert(subscribers), [{"email": "Ë@example.com"}, {"email": "ë@example.com"}]
            )
        engine.dispose()
