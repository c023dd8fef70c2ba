"""hookrow in Quart: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' quart hypercorn
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
hypercorn quart_app:app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import os

from hypercorn.middleware import DispatcherMiddleware
from quart import Quart, abort, request
from sqlalchemy import create_engine, insert, select

from hookrow import Postmark, Receiver, Schema
from hookrow.asgi import ASGI
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers

engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
upgrade(engine, Schema())  # creates the tables, because this application has none
secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine))

site = Quart(__name__)
mounts = {"/mail": ASGI(receiver), "": site}  # POST /mail/provider/webhooks
app = DispatcherMiddleware(mounts)  # type: ignore[arg-type] # it has its own ASGI types


@site.post("/dispatches")
def send() -> tuple[str, int]:
    """Save the subscriber and the dispatch of a message."""
    email, message_id = request.args["email"], request.args["message_id"]
    with engine.begin() as connection:
        same = folded(subscribers.c.email) == folded(email)  # Ada@ is ada@, as in hookrow
        known = select(subscribers.c.id).where(same)
        new = insert(subscribers).values(email=email).returning(subscribers.c.id)
        owner = connection.scalar(known) or connection.scalar(new)
        row = {"provider_message_id": message_id, "subscriber_id": owner}
        connection.execute(insert(dispatches).values(row))
    return "", 201


@site.get("/dispatches/<message_id>")
def show(message_id: str) -> dict[str, str | None]:
    """Return when a message was delivered and opened."""
    matches = dispatches.c.provider_message_id == message_id
    with engine.connect() as connection:
        times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
        row = connection.execute(times).first()
    if row is None:
        abort(404)
    return {name: at and at.isoformat() for name, at in row._asdict().items()}
