"""The pytest plugin: it adds two fixtures, and changes nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import entry_points

import pytest

from command import run_script
from hookrow import Head, Receiver, Request, Response, testing
from hookrow.stores.memory import MemoryStore

AT = datetime(2026, 3, 4, tzinfo=UTC)
OPENING = testing.opening("ada@example.com", "m-1", at=AT)


@pytest.fixture
def receivers() -> Iterator[list[Receiver]]:
    """Return a list for receivers; they have to be closed when the test has ended."""
    kept: list[Receiver] = []
    yield kept
    head = Head("POST", "/", [])
    responses = [receiver(Request(head, json.dumps(OPENING).encode())) for receiver in kept]
    assert [each.status for each in responses if isinstance(each, Response)] == [503]


def test_fixtures(
    receivers: list[Receiver], hookrow_store: MemoryStore, hookrow_receiver: Receiver
) -> None:
    """The receiver records in the store, and is closed after the test."""
    receivers.append(hookrow_receiver)
    assert not hookrow_store.subscribers
    hookrow_store.subscribers[1] = {"email": "ada@example.com"}
    row = {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None}
    hookrow_store.dispatches[1] = row
    assert testing.post(hookrow_receiver, OPENING) == (200, "")
    assert row["opened_at"] == AT


def test_nothing_else(pytestconfig: pytest.Config) -> None:
    """The plugin's name is `hookrow`; it has two fixtures and no hook."""
    (entry_point,) = entry_points(group="pytest11", name="hookrow")
    plugin = pytestconfig.pluginmanager.get_plugin("hookrow")
    assert entry_point.load() is plugin
    assert not pytestconfig.pluginmanager.get_hookcallers(plugin)
    fixtures = {name for name in vars(plugin) if name.startswith("hookrow")}
    assert fixtures == {"hookrow_store", "hookrow_receiver"}


def test_imports() -> None:
    """The plugin and its fixtures need no extra."""
    run_script("""
        import sys

        for extra in ("sqlalchemy", "alembic", "click", "uvicorn", "django"):
            sys.modules[extra] = None
        import hookrow.pytest_plugin
        from hookrow.stores.memory import MemoryStore
        from hookrow.testing import memory_receiver, post

        with memory_receiver(MemoryStore()) as receiver:
            assert post(receiver, {}) == (422, "Webhook payload not supported")
    """)
