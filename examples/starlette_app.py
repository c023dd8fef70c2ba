"""hookrow in Starlette: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' starlette
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
uvicorn starlette_app:app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import os

from sqlalchemy import create_engine, insert, select
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from hookrow import Postmark, Receiver, Schema
from hookrow.asgi import ASGI
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers

engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
upgrade(engine, Schema())  # creates the tables, because this application has none
secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine))


def send(request: Request) -> Response:
    """Save the subscriber and the dispatch of a message."""
    email, message_id = request.query_params["email"], request.query_params["message_id"]
    with engine.begin() as connection:
        same = folded(subscribers.c.email) == folded(email)  # Ada@ is ada@, as in hookrow
        known = select(subscribers.c.id).where(same)
        new = insert(subscribers).values(email=email).returning(subscribers.c.id)
        owner = connection.scalar(known) or connection.scalar(new)
        row = {"provider_message_id": message_id, "subscriber_id": owner}
        connection.execute(insert(dispatches).values(row))
    return Response(status_code=201)


def show(request: Request) -> Response:
    """Return when a message was delivered and opened."""
    message_id = request.path_params["message_id"]
    matches = dispatches.c.provider_message_id == message_id
    with engine.connect() as connection:
        times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
        row = connection.execute(times).first()
    if row is None:
        raise HTTPException(404)
    return JSONResponse({name: at and at.isoformat() for name, at in row._asdict().items()})


app = Starlette(
    routes=[
        Route("/dispatches", send, methods=["POST"]),
        Route("/dispatches/{message_id}", show),
        Mount("/mail", ASGI(receiver)),  # POST /mail/provider/webhooks
    ]
)
