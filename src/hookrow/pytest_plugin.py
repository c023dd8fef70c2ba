"""The pytest plugin: two fixtures, which import hookrow's modules only if a test uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hookrow.receiver.receiver import Receiver
    from hookrow.stores.memory import MemoryStore


@pytest.fixture
def hookrow_store() -> MemoryStore:
    """Return an empty store in memory, whose rows are dicts."""
    from hookrow.stores.memory import MemoryStore  # noqa: PLC0415 - see the module's docstring

    return MemoryStore()


@pytest.fixture
def hookrow_receiver(hookrow_store: MemoryStore) -> Iterator[Receiver]:
    """Return a receiver that records in `hookrow_store`, for `hookrow.testing.post`."""
    from hookrow.testing import memory_receiver  # noqa: PLC0415 - see the module's docstring

    with memory_receiver(hookrow_store) as receiver:
        yield receiver
