"""The 150 cases: each on a fresh world, through a receiver, in every store.

`hosts/test_host_contract.py` sends them over each protocol.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

import django_host
import world
from case_model import ALL, NOW, body_of, expect
from databases import IN_MEMORY, NAMES, places
from django_project.site import post
from engines import MEMORY, engine_of, opened
from hookrow import Postmark, Receiver, Request, RequestHead, Schema, testing
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, AT, SECRET, post_together
from world import World

pytestmark = pytest.mark.unmeasured

HEAD = RequestHead(
    "POST", "/mail/provider/webhooks", [(b"x-provider-secret", SECRET.encode())], "/mail"
)

HALF = "\ud83d"


class Site:
    """A receiver, or Django's view on the same database, and the rows behind it."""

    def __init__(self, receiver: Receiver | None, where: Engine) -> None:
        self.receiver, self._where = receiver, where
        self._present: World = {}

    def fill(self) -> World:
        """Start with a fresh world: most cases leave it as it is."""
        start, before = world.start(), self._present
        self._present = {}
        return start if before == start else world.fill(self._where)

    def rows(self) -> World:
        self._present = deepcopy(world.rows(self._where))
        return self._present

    def post(self, body: bytes) -> tuple[int, str]:
        """Post a body; return the status and the text of the response."""
        if self.receiver is None:
            response = post(body)
            return response.status_code, response.content.decode()
        answer = self.receiver.record_directly(Request(HEAD, body))
        return answer.status, answer.body.decode()


STORES = (IN_MEMORY, *NAMES)


@pytest.fixture(scope="module", params=[*STORES, *places("django")])
def site(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Site]:
    django, _, place = request.param.rpartition("-")
    with ExitStack() as stack:
        if place == IN_MEMORY:
            store = stack.enter_context(closing(SQLStore(MEMORY)))
            where = engine_of(store)
        else:
            url = new_database(place)
            where = stack.enter_context(opened(url))
            upgrade(where, Schema())
            if django:
                stack.enter_context(django_host.project(url))
                yield Site(None, where)
                return
            store = stack.enter_context(closing(SQLStore(url)))
        yield Site(stack.enter_context(closing(Receiver(Postmark(SECRET), store))), where)


def _with_arrival(rows: World, begun: datetime, ended: datetime) -> World:
    """Replace every time of a suppression that lies within the arrival by `NOW`."""
    for row in (row for table in rows.values() for row in table):
        for column, value in row.items():
            if column.startswith("suppress") and isinstance(value, datetime):
                row[column] = NOW if begun <= value <= ended else value
    return rows


@pytest.mark.parametrize("case", ALL, ids=[case["name"] for case in ALL])
def test_case(site: Site, case: dict[str, Any]) -> None:
    """The status is one of the allowed ones, and the text and all rows equal the model's."""
    status, text, after = expect(site.fill(), body_of(case))
    begun = datetime.now(UTC)
    response = site.post(body_of(case))
    rows = _with_arrival(deepcopy(site.rows()), begun, datetime.now(UTC))
    assert response == (status, text)
    assert rows == after
    assert status in case["accept"]


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (200, testing.delivery(ADA, ADAS, at=AT) | {"Tag": HALF, "Metadata": {HALF: HALF}}),
        (404, testing.delivery(ADA, HALF, at=AT)),
        (404, testing.opening(f"a{HALF}@example.com", ADAS, at=AT)),
        (200, testing.suppression(ADA, HALF, at=AT, reason=f"Spam{HALF}{HALF}") | {HALF: HALF}),
        (200, testing.suppression(ADA, ADAS, at=AT) | {"ChangedAt": HALF}),
        (200, testing.reactivation(ADA, ADAS, at=AT) | {"SuppressionReason": HALF}),
        (422, testing.delivery(ADA, ADAS, at=AT) | {"DeliveredAt": HALF}),
    ],
)
def test_unpaired_surrogates(site: Site, status: int, payload: dict[str, Any]) -> None:
    """They cause no refusal, and no database receives them."""
    test_case(site, {"body": json.dumps(payload), "accept": [status]})


@pytest.mark.parametrize("site", STORES, indirect=True)
def test_all_cases_at_once(site: Site) -> None:
    """All cases in one queue have the same responses, and the receiver continues after them."""
    assert len({case["name"] for case in ALL}) == 150
    assert site.receiver is not None
    start = site.fill()
    bodies = [body_of(case) for case in [*ALL, ALL[0]]]
    responses = post_together(site.receiver, [Request(HEAD, body) for body in bodies])
    assert [each.status for each in responses] == [expect(start, body)[0] for body in bodies]
