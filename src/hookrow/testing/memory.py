"""A receiver with a store in memory, for tests of a host's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hookrow.core.notification import Arrival, Recorded, Refused
from hookrow.providers.postmark import Postmark
from hookrow.receiver.receiver import Receiver
from hookrow.stores.memory import MemoryStore
from hookrow.testing.posting import SECRET


@contextmanager
def memory_receiver(
    store: MemoryStore,
    *,
    on_recorded: Callable[[Arrival, Recorded], object] | None = None,
    on_refused: Callable[[Arrival, Refused], object] | None = None,
) -> Iterator[Receiver]:
    """Build a receiver that accepts the secret of `post` and records in the store's dicts.

    At the end of the block, all hooks have been called for the notifications posted in it.
    """
    receiver = Receiver(Postmark(SECRET), store, on_recorded=on_recorded, on_refused=on_refused)
    try:
        yield receiver
    finally:
        receiver.close()
