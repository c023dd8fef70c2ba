"""hookrow in plain ASGI: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]'
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
uvicorn asgi_app:app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import json
import os
from asyncio import to_thread
from urllib.parse import parse_qsl

from sqlalchemy import create_engine, insert, select

from hookrow import Postmark, Receiver, Schema
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers

engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
upgrade(engine, Schema())  # creates the tables, because this application has none
secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine), mount_path="/mail")
webhook = ASGI(receiver)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond at /dispatches, and pass all other paths to POST /mail/provider/webhooks."""
    if scope["type"] != "http" or not scope["path"].startswith("/dispatches"):
        await webhook(scope, receive, send)
        return
    if scope["method"] == "POST":
        await to_thread(save, **dict(parse_qsl(scope["query_string"].decode())))
        status, text = 201, b""
    else:
        text = await to_thread(find, scope["path"].removeprefix("/dispatches/"))
        status = 200 if text else 404
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def save(email: str, message_id: str) -> None:
    """Save the subscriber and the dispatch of a message."""
    with engine.begin() as connection:
        same = folded(subscribers.c.email) == folded(email)  # Ada@ is ada@, as in hookrow
        known = select(subscribers.c.id).where(same)
        new = insert(subscribers).values(email=email).returning(subscribers.c.id)
        owner = connection.scalar(known) or connection.scalar(new)
        row = {"provider_message_id": message_id, "subscriber_id": owner}
        connection.execute(insert(dispatches).values(row))


def find(message_id: str) -> bytes:
    """Return when a message was delivered and opened, or nothing if it does not exist."""
    matches = dispatches.c.provider_message_id == message_id
    with engine.connect() as connection:
        times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
        row = connection.execute(times).first()
    return json.dumps(row._asdict(), default=str).encode() if row else b""
