"""A store in memory with one subscriber and one dispatch, and requests about them."""

import json
from datetime import UTC, datetime

from hookrow import Request, RequestHead, testing
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog

SECRET = "a-secret-of-the-tests"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def store(*, log: bool = True) -> MemoryStore:
    """Return a store in which the message m-1 was sent to ada@example.com."""
    return MemoryStore(
        log=MemoryLog() if log else None,
        subscribers={1: {"email": "ada@example.com"}},
        dispatches={1: {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None}},
    )


def head(
    path: str = "/provider/webhooks", method: str = "POST", secret: str = SECRET
) -> RequestHead:
    return RequestHead(method, path, [(b"x-provider-secret", secret.encode())], request_id="r-1")


def request(email: str = "ada@example.com") -> Request:
    """Return a request that reports the delivery of m-1."""
    return Request(head(), json.dumps(testing.delivery(email, "m-1", at=AT)).encode())
