"""hookrow in Litestar: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' litestar granian
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
granian --interface asgi litestar_app:app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import os
from datetime import datetime

from litestar import Litestar, asgi, get, post
from litestar.exceptions import NotFoundException
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


@post("/dispatches", sync_to_thread=True)
def send(email: str, message_id: str) -> None:
    """Save the subscriber and the dispatch of a message."""
    with engine.begin() as connection:
        same = folded(subscribers.c.email) == folded(email)  # Ada@ is ada@, as in hookrow
        known = select(subscribers.c.id).where(same)
        new = insert(subscribers).values(email=email).returning(subscribers.c.id)
        owner = connection.scalar(known) or connection.scalar(new)
        row = {"provider_message_id": message_id, "subscriber_id": owner}
        connection.execute(insert(dispatches).values(row))


@get("/dispatches/{message_id:str}", sync_to_thread=True)
def show(message_id: str) -> dict[str, datetime | None]:
    """Return when a message was delivered and opened."""
    matches = dispatches.c.provider_message_id == message_id
    with engine.connect() as connection:
        times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
        row = connection.execute(times).first()
    if row is None:
        raise NotFoundException
    return row._asdict()


webhook = asgi("/mail", is_mount=True, copy_scope=True)(ASGI(receiver))
app = Litestar([send, show, webhook])  # POST /mail/provider/webhooks
