"""Records a delivery over WSGI and one over ASGI, in an SQLite file; prints the responses."""

import asyncio
import json
from collections.abc import Callable, MutableMapping
from contextlib import closing
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from wsgiref.util import setup_testing_defaults

from hookrow import Postmark, Receiver, Schema, testing
from hookrow.asgi import ASGI
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI

PATH = "/provider/webhooks"
URL = "sqlite:///mail.db"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def post_wsgi(receiver: Receiver, body: bytes) -> str:
    statuses: list[str] = []

    def start_response(status: str, _headers: object, *_: object) -> Callable[[bytes], object]:
        statuses.append(status)
        return BytesIO().write

    environ: dict[str, Any] = {"PATH_INFO": PATH, "REQUEST_METHOD": "POST"}
    environ |= {"CONTENT_LENGTH": str(len(body)), "wsgi.input": BytesIO(body)}
    environ["HTTP_X_PROVIDER_SECRET"] = testing.SECRET
    setup_testing_defaults(environ)
    assert [*WSGI(receiver)(environ, start_response)] == [b""]
    return statuses[0]


def post_asgi(receiver: Receiver, body: bytes) -> str:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"x-provider-secret", testing.SECRET.encode())]
    scope = {"type": "http", "method": "POST", "path": PATH, "root_path": "", "headers": headers}
    asyncio.run(ASGI(receiver)(scope | {"query_string": b""}, receive, send))
    return str(sent[0]["status"])


upgrade(URL, Schema())
with (
    closing(SQLStore(URL)) as store,
    closing(Receiver(Postmark(testing.SECRET), store)) as receiver,
):
    tables = testing.Tables(store)
    ada = tables.add_subscriber("ada@example.com")
    for post in (post_wsgi, post_asgi):
        dispatch = post.__name__
        tables.add_dispatch(dispatch, ada)
        payload = testing.delivery("ada@example.com", dispatch, at=NOON)
        print(post(receiver, json.dumps(payload).encode()))
        assert tables.dispatch(dispatch).delivered_at == NOON
