"""Times and folded emails: Django stores and compares them as SQLAlchemy does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection
from django.db.models import Max
from django.db.models.functions import TruncDay
from django.db.transaction import atomic
from django.test import override_settings
from sqlalchemy import insert, make_url, select

import django_host
from engines import opened
from hookrow import Arrival, Suppressed
from hookrow.django.fields import Folded
from hookrow.django.store import DjangoStore
from hookrow.django.tables.models import Subscriber
from hookrow.receiver.recorder import record
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


def test_notifications_store_the_same_times(url: str) -> None:
    """The Django store writes times as SQLAlchemy does."""
    Subscriber.objects.create(email="ada@example.com")
    for at in sorted(TIMES.values()):
        notification = Suppressed("ada@example.com", None, at, "HardBounce")
        record(DjangoStore(), [Arrival(notification, b"{}", at)])
        with opened(url) as engine, engine.connect() as other:
            assert other.scalar(select(subscribers.c.suppressed_at)) == at


def test_django_reads_what_sqlalchemy_writes(url: str) -> None:
    """Django also filters and orders by these times; a time without a zone is in UTC."""
    times = [*TIMES.values(), None]
    with opened(url) as engine, engine.begin() as other:
        other.execute(
            insert(subscribers),
            [{"email": f"{n}@example.com", "suppressed_at": at} for n, at in enumerate(times)],
        )
    stored = [row.suppressed_at for row in Subscriber.objects.order_by("id")]
    assert stored == times
    assert {at.tzinfo for at in stored if at} == {UTC}
    newest = Subscriber.objects.aggregate(last=Max("suppressed_at"))["last"]
    assert newest == max(TIMES.values())
    rows = Subscriber.objects.filter(suppressed_at__isnull=False)
    for at in TIMES.values():
        naive = at.astimezone(UTC).replace(tzinfo=None)
        assert rows.get(suppressed_at=at) == rows.get(suppressed_at=naive)
        earlier = sum(each < at for each in TIMES.values())
        assert rows.filter(suppressed_at__lt=at).count() == earlier
        assert rows.filter(suppressed_at__range=(at, at), suppressed_at__in=[at]).count() == 1
    ordered = rows.order_by("suppressed_at").values_list("suppressed_at", flat=True)
    assert list(ordered) == sorted(TIMES.values())


def test_sqlalchemy_reads_what_django_writes(url: str) -> None:
    """On SQLite, every time has six digits, including the time of creation."""
    times = [*TIMES.values(), None]
    for number, at in enumerate(times):
        row = Subscriber.objects.create(email=f"{number}@example.com", suppressed_at=at)
        row.refresh_from_db()
        assert row.created_at is not None
        assert abs(datetime.now(UTC) - row.created_at) < timedelta(minutes=1)
    with opened(url) as engine, engine.connect() as other:
        stored = other.scalars(select(subscribers.c.suppressed_at).order_by("id")).all()
    assert stored == times
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            texts = file.execute("SELECT suppressed_at, created_at FROM hookrow_subscribers")
            suppressed, created = zip(*texts, strict=True)
        assert suppressed == (*TIMES, None)
        assert {len(text) for text in created} == {len("2026-03-04 05:06:07.000000")}


def test_days_in_the_projects_zone(database_url: str) -> None:
    """`__date`, `TruncDay` and date hierarchies use days of the project's zone."""
    with override_settings(TIME_ZONE=KATHMANDU), django_host.default(database_url):
        at = datetime(2026, 3, 4, 20, tzinfo=UTC)
        Subscriber.objects.create(email="ada@example.com", suppressed_at=at)
        rows = Subscriber.objects.all()
        [day] = rows.datetimes("suppressed_at", "day")
        assert day.date() == date(2026, 3, 5)
        on_day = {"suppressed_at__year": 2026, "suppressed_at__date": date(2026, 3, 5)}
        assert rows.filter(**on_day).count() == 1
        [truncated] = rows.annotate(day=TruncDay("suppressed_at")).values_list("day", flat=True)
        assert truncated.isoformat() == "2026-03-04T18:15:00+00:00"


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
        assert "hookrow_subscribers_email" in subscribers.explain()
