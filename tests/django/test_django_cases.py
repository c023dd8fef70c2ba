"""The 150 cases through Django's view, under WSGI and ASGI, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

import django_host
from test_cases import ALL, Case, SQLSite, _with_arrival, expect
from wire import SECRET

PATH = "/mail/provider/webhooks"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[SQLSite]:
    """Make one database for all cases, and have Django record in it."""
    url = new_database(request.param)
    with closing(SQLSite(url)) as site, django_host.project(url):
        yield site


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_case_ends_as_the_contract_says(site: SQLSite, case: Case) -> None:
    """The status is one of those allowed, the text and all rows are what the model tells."""
    status, text, after = expect(site.fill(), case.body)
    begun = datetime.now(UTC)
    headers = {"X-Provider-Secret": SECRET}
    response: Any = Client(headers=headers).post(PATH, case.body, "application/json")
    rows = _with_arrival(site.rows(), begun, datetime.now(UTC))
    assert response.status_code in case.accept
    assert (response.status_code, response.content.decode()) == (status, text)
    assert rows == after
