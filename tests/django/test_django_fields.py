"""How Django stores a time and folds an email: as SQLAlchemy does in the very same tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, make_url, select

from django_project.manage import Manage
from django_project.settings import database
from hookrow.stores.engines import opened
from hookrow.stores.tables import subscribers

KATHMANDU = "Asia/Kathmandu"
NEPAL = timezone(timedelta(hours=5, minutes=45))

TIMES = {
    "2026-03-04 05:06:07.000000": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    "2026-03-03 23:21:07.999999": datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=NEPAL),
    "2026-10-25 00:30:00.100000": datetime(2026, 10, 25, 0, 30, 0, 100_000, tzinfo=UTC),
    "2026-10-25 01:30:00.000000": datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    "0001-01-02 00:00:00.000000": datetime(1, 1, 2, tzinfo=UTC),
    "9999-12-30 23:59:59.999999": datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
}
"""By the text that SQLite must hold; in Berlin two of them are half past two on one day."""

ZONES: dict[str, dict[str, Any]] = {
    "as-usual": {},
    "another-zone": {"TIME_ZONE": KATHMANDU},
    "without-zones": {"USE_TZ": False, "TIME_ZONE": "Europe/Berlin"},
    "zone-of-the-database": {"DATABASE_ZONE": KATHMANDU},
}

READ = """
import json
from datetime import UTC
from django.db.models import Max
from hookrow.django.tables.models import Subscriber
times = [row.suppressed_at for row in Subscriber.objects.order_by("id")]
assert all(at is None or at.tzinfo is UTC for at in times)
last = Subscriber.objects.aggregate(last=Max("suppressed_at"))["last"]
assert last == max(filter(None, times)), last
print(json.dumps([at and at.isoformat() for at in times]))
"""

WRITE = """
import json, sys
from datetime import UTC, datetime, timedelta
from hookrow.django.tables.models import Subscriber
times = [at and datetime.fromisoformat(at) for at in json.loads(sys.argv[1])]
for n, at in enumerate(times):
    row = Subscriber.objects.create(email=f"{n}@example.com", suppressed_at=at)
    assert abs(datetime.now(UTC) - row.created_at) < timedelta(minutes=1), row.created_at
    row.refresh_from_db()
    assert row.created_at.tzinfo is UTC
rows = Subscriber.objects.filter(suppressed_at__isnull=False)
for at in filter(None, times):
    assert rows.get(suppressed_at=at).suppressed_at == at
    assert rows.filter(suppressed_at__lt=at).count() == sum(each < at for each in times if each)
    assert rows.filter(suppressed_at__range=(at, at)).count() == 1
    assert rows.filter(suppressed_at__in=[at]).count() == 1
    assert rows.get(suppressed_at=at.astimezone(UTC).replace(tzinfo=None)).suppressed_at == at
ordered = rows.order_by("suppressed_at").values_list("suppressed_at", flat=True)
assert list(ordered) == sorted(filter(None, times))
rows.filter(suppressed_at=times[0]).update(suppressed_at=times[0])
"""

DAYS = """
from datetime import UTC, date, datetime
from django.db.models.functions import TruncDay
from hookrow.django.tables.models import Subscriber
at = datetime(2026, 3, 4, 20, tzinfo=UTC)
Subscriber.objects.create(email="ada@example.com", suppressed_at=at)
rows = Subscriber.objects.all()
print(rows.datetimes("suppressed_at", "day")[0].date(), end=" ")
print(rows.filter(suppressed_at__year=2026, suppressed_at__date=date(2026, 3, 5)).count(), end=" ")
print(rows.annotate(day=TruncDay("suppressed_at")).get().day.isoformat())
"""


@pytest.fixture(params=ZONES.values(), ids=list(ZONES))
def manage(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Manage:
    """Return a project on a database with our tables, with settings for time zones."""
    settings = dict(request.param)
    zone = settings.pop("DATABASE_ZONE", None)
    databases = {"default": {**database(database_url), "TIME_ZONE": zone}}
    return Manage(tmp_path, database_url, DATABASES=databases, **settings)


class TestTimes:
    def test_what_sqlalchemy_writes_django_reads(self, manage: Manage, database_url: str) -> None:
        """To the microsecond, in UTC, and null as None."""
        times = [*TIMES.values(), None]
        with opened(database_url) as engine, engine.begin() as connection:
            connection.execute(
                insert(subscribers),
                [{"email": f"{n}@example.com", "suppressed_at": at} for n, at in enumerate(times)],
            )
        found = [at and datetime.fromisoformat(at) for at in json.loads(manage.script(READ))]
        assert found == times

    def test_what_django_writes_sqlalchemy_reads(self, manage: Manage, database_url: str) -> None:
        """And Django finds and orders it, by an instant of any zone or UTC without one."""
        times = [*TIMES.values(), None]
        manage.script(WRITE, json.dumps([at and at.isoformat() for at in times]))
        with opened(database_url) as engine, engine.connect() as connection:
            found = connection.scalars(select(subscribers.c.suppressed_at).order_by("id")).all()
        assert found == times
        if database_url.startswith("sqlite"):
            with closing(sqlite3.connect(make_url(database_url).database or "")) as file:
                texts = file.execute("SELECT suppressed_at, created_at FROM hookrow_subscribers")
                suppressed, created = zip(*texts, strict=True)
            assert suppressed == (*TIMES, None)
            assert {len(text) for text in created} == {len("2026-03-04 05:06:07.000000")}

    def test_a_day_is_one_of_the_projects_zone(self, database_url: str, tmp_path: Path) -> None:
        """As the admin's date hierarchy and `__date` ask for it: 20 h UTC is the next day there."""
        shown = Manage(tmp_path, database_url, TIME_ZONE=KATHMANDU).script(DAYS)
        assert shown == "2026-03-05 1 2026-03-04T18:15:00+00:00\n"


class TestFolded:
    CODE = """
from django.db import IntegrityError, connection
from django.core.exceptions import ValidationError
from hookrow.django.fields import Folded
from hookrow.django.tables.models import Subscriber
Subscriber.objects.create(email="Ada@Example.com")
Subscriber.objects.create(email="ZOË@example.com")
Subscriber(email="zoë@example.com").full_clean()
try:
    Subscriber(email="ADA@example.com").full_clean()
except ValidationError as error:
    print(*error.messages)
try:
    Subscriber.objects.create(email="ADA@example.com")
except IntegrityError:
    print("refused")
found = Subscriber.objects.alias(folded=Folded("email")).filter(folded="ada@example.com")
zoe = Subscriber.objects.alias(folded=Folded("email")).filter(folded="zoë@example.com")
print(found.get(), zoe)
if connection.vendor == "postgresql":
    connection.cursor().execute("SET enable_seqscan = off")
print("hookrow_subscribers_email" in found.explain())
"""

    def test_it_is_the_expression_of_the_index(self, database_url: str, tmp_path: Path) -> None:
        """ASCII letters are folded and no others, in the query, the index and a form's check."""
        assert Manage(tmp_path, database_url).script(self.CODE).splitlines() == [
            "There is a subscriber with this email.",
            "refused",
            "Ada@Example.com <QuerySet []>",
            "True",
        ]
