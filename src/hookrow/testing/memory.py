"""A receiver in memory: for what a host does when a notification has been recorded."""

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
    """Receive into a store whose rows are dicts, with the secret that `post` sends.

    At the end of the block the hooks have been called for all that was posted.
    """
    receiver = Receiver(Postmark(SECRET), store, on_recorded=on_recorded, on_refused=on_refused)
    try:
        yield receiver
    finally:
        receiver.close()
