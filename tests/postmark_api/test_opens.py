"""The list of opens, which may be longer than the API returns, or change while it is read."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from providing import client

from hookrow._postmark_api import reconcile
from hookrow._postmark_api.client import PostmarkAPI
from stand_in import PostmarkStandIn

START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)


def send_and_open(api: PostmarkStandIn) -> str:
    message = api.send("bea@example.com")
    api.open(message)
    return message


def read(api: PostmarkStandIn) -> tuple[list[str], bool]:
    """Return the messages of all opens, and whether the list is incomplete."""
    incomplete: list[str] = []
    note = partial(incomplete.append, "incomplete")
    pages = reconcile.read_opens(client(api), "outbound", START, api.now, note)
    return [row["MessageID"] for rows in pages for row in rows], bool(incomplete)


@pytest.mark.parametrize("ignored", [True, False])
def test_windows_with_more_rows_than_the_api_returns(
    monkeypatch: pytest.MonkeyPatch, *, ignored: bool
) -> None:
    """They are split, unless the API ignores them."""
    monkeypatch.setattr(reconcile, "MAX_OPENS_PER_WINDOW", 10)
    monkeypatch.setattr(reconcile, "MAX_OPENS_PER_PAGE", 4)
    get = PostmarkAPI.get

    def ignore(self: PostmarkAPI, path: str, **query: object) -> dict[str, Any]:
        return get(self, path, **{key: query[key] for key in query if "date" not in key})

    if ignored:
        monkeypatch.setattr(PostmarkAPI, "get", ignore)
    with PostmarkStandIn(now=START) as api:
        ids = []
        for _ in range(35):
            ids.append(send_and_open(api))
            api.state.now += timedelta(minutes=7)
        expected = ids[-10:] if ignored else ids
        assert read(api) == (expected, ignored), "oldest first"


def test_opens_while_the_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They shift the older rows to later pages, which are read as well."""
    monkeypatch.setattr(reconcile, "MAX_OPENS_PER_PAGE", 4)
    get = PostmarkAPI.get

    def get_late(self: PostmarkAPI, path: str, **query: object) -> dict[str, Any]:
        found = get(self, path, **query)
        if query["offset"] == 0:
            api.state.now += timedelta(seconds=1)
            for _ in range(3):
                send_and_open(api)
        return found

    monkeypatch.setattr(PostmarkAPI, "get", get_late)
    with PostmarkStandIn(now=START) as api:
        ids = [send_and_open(api) for _ in range(8)]
        assert {*ids} <= {*read(api)[0]}
