"""The pytest plugin: two fixtures, and nothing that a run without them would notice.

What they need is imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hookrow.receiver.receiver import Receiver
    from hookrow.stores.memory import MemoryStore


@pytest.fixture
def hookrow_store() -> MemoryStore:
    """Return a store in memory: its rows are dicts, to fill and to read."""
    from hookrow.stores.memory import MemoryStore  # noqa: PLC0415 - not at the start of every run

    return MemoryStore()


@pytest.fixture
def hookrow_receiver(hookrow_store: MemoryStore) -> Iterator[Receiver]:
    """Receive into `hookrow_store` what `hookrow.testing.post` posts."""
    from hookrow.testing.memory import memory_receiver  # noqa: PLC0415 - as above

    with memory_receiver(hookrow_store) as receiver:
        yield receiver
