"""Times and folded emails: Django stores and compares them as SQLAlchemy does."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection
from django.db.transaction import atomic
from django.test import override_settings
from sqlalchemy import make_url, select

import django_host
from engines import opened
from hookrow import Arrival, Schema, Suppressed
from hookrow._receiver.recorder import record
from hookrow.django._store import DjangoStore
from hookrow.django.fields import Folded
from hookrow.django.tables.models import Subscriber
from own_tables import subscribers

KATHMANDU = "Asia/Kathmandu"
NEPAL = timezone(timedelta(hours=5, minutes=45))

TIMES = {
    "2026-03-04 05:06:07.000000": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    "2026-03-03 23:21:07.999999": datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=NEPAL),
    "2026-10-25 00:30:00.100000": datetime(2026, 10, 25, 0, 30, 0, 100_000, tzinfo=UTC),
    "2026-10-25 01:30:00.000000": datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    "9999-12-30 23:59:59.999999": datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
}
"""By the text that SQLite must hold. In Berlin, two of them are half past two on one day."""

ZONES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "another-zone": ({"TIME_ZONE": KATHMANDU}, {}),
    "without-zones": ({"USE_TZ": False, "TIME_ZONE": "Europe/Berlin"}, {}),
    "zone-of-the-database": ({}, {"TIME_ZONE": KATHMANDU}),
}


@pytest.fixture(params=ZONES.values(), ids=list(ZONES))
def url(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    """Use a database in each combination of settings for time zones."""
    settings, of_the_database = request.param
    with override_settings(**settings), django_host.default(database_url, **of_the_database):
        yield database_url


def test_times(url: str) -> None:
    """Django and its store write times as SQLAlchemy does; Django reads and compares them in UTC.

    On SQLite, every time has six digits, including the time of creation.
    """
    times = [*TIMES.values(), None]
    for number, at in enumerate(times):
        row = Subscriber.objects.create(email=f"{number}@example.com", suppressed_at=at)
        row.refresh_from_db()
        assert row.created_at is not None
        assert abs(datetime.now(UTC) - row.created_at) < timedelta(minutes=1)
    assert _stored(url) == times
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            texts = file.execute("SELECT suppressed_at, created_at FROM hookrow_subscribers")
            suppressed, created = zip(*texts, strict=True)
        assert suppressed == (*TIMES, None)
        assert {len(text) for text in created} == {len("2026-03-04 05:06:07.000000")}
    read = [row.suppressed_at for row in Subscriber.objects.order_by("id")]
    assert (read, {at.tzinfo for at in read if at}) == (times, {UTC})
    rows = Subscriber.objects.filter(suppressed_at__isnull=False)
    for at in TIMES.values():
        naive = at.astimezone(UTC).replace(tzinfo=None)
        assert rows.get(suppressed_at=at) == rows.get(suppressed_at=naive)
        earlier = sum(each < at for each in TIMES.values())
        assert rows.filter(suppressed_at__lt=at).count() == earlier
    ordered = rows.order_by("suppressed_at").values_list("suppressed_at", flat=True)
    assert list(ordered) == sorted(TIMES.values())
    for at in sorted(TIMES.values()):
        notification = Suppressed("5@example.com", None, at, "HardBounce")
        record(DjangoStore(Schema(), "default"), [Arrival((notification,), b"{}", at)])
        assert _stored(url)[-1] == at


def _stored(url: str) -> Sequence[datetime | None]:
    """Return the times of all subscribers, read by SQLAlchemy."""
    with opened(url) as engine, engine.connect() as other:
        return other.scalars(select(subscribers.c.suppressed_at).order_by("id")).all()


def test_folded_emails(database_url: str) -> None:
    """`Folded` folds only ASCII letters, in queries, in the index and in the validation."""
    with django_host.default(database_url):
        Subscriber.objects.create(email="Ada@Example.com")
        Subscriber.objects.create(email="ZOË@example.com")
        Subscriber(email="zoë@example.com").full_clean()
        with pytest.raises(ValidationError, match=r"A subscriber with this email already exists\."):
            Subscriber(email="ADA@example.com").full_clean()
        with pytest.raises(IntegrityError), atomic():
            Subscriber.objects.create(email="ADA@example.com")
        rows = Subscriber.objects.alias(folded=Folded("email"))
        subscribers = rows.filter(folded="ada@example.com")
        assert [row.email for row in subscribers] == ["Ada@Example.com"]
        assert not rows.filter(folded="zoë@example.com")
        if connection.vendor == "postgresql":
            connection.cursor().execute("SET enable_seqscan = off")
        names_index = "TEXT" in connection.features.supported_explain_formats
        plan = subscribers.explain(format="TEXT" if names_index else None)
        assert "hookrow_subscribers_email" in plan
