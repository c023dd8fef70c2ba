"""hookrow in plain WSGI: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' gunicorn
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
gunicorn --threads 64 wsgi_app:app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import json
import os
from collections.abc import Iterable
from urllib.parse import parse_qsl
from wsgiref.types import StartResponse, WSGIEnvironment

from sqlalchemy import create_engine, insert, select

from hookrow import Postmark, Receiver, Schema
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers
from hookrow.wsgi import WSGI

engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
upgrade(engine, Schema())  # creates the tables, because this application has none
secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine), mount_path="/mail")
webhook = WSGI(receiver)


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Respond at /dispatches, and pass all other paths to POST /mail/provider/webhooks."""
    if not environ["PATH_INFO"].startswith("/dispatches"):
        return webhook(environ, start_response)
    if environ["REQUEST_METHOD"] == "POST":
        save(**dict(parse_qsl(environ["QUERY_STRING"])))
        start_response("201 Created", [("Content-Length", "0")])
        return []
    text = find(environ["PATH_INFO"].removeprefix("/dispatches/"))
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
    start_response("200 OK" if text else "404 Not Found", headers)
    return [text]


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
