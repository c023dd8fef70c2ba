"""hookrow in FastAPI: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' fastapi
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
hookrow db upgrade
uvicorn --factory fastapi_app:create_app &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from fastapi import FastAPI, HTTPException
from sqlalchemy import create_engine, insert, select

from hookrow import Postmark, Receiver
from hookrow.fastapi import router
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers


def create_receiver() -> Receiver:
    """Return the receiver of a new application, for `hookrow --app fastapi_app:create_receiver`."""
    receiver: Receiver = create_app().state.receiver
    return receiver


def create_app() -> FastAPI:
    """Create the application. Nothing is read from the database, whose tables may not exist yet."""
    engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
    secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
    receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(receiver.close, timeout=10)  # in seconds; records its queue
        engine.dispose()

    app = FastAPI(lifespan=lifespan)
    app.state.receiver = receiver
    app.include_router(router(receiver), prefix="/mail")  # POST /mail/provider/webhooks

    @app.post("/dispatches", status_code=201)
    def send(email: str, message_id: str) -> None:
        """Save the subscriber and the dispatch of a message."""
        with engine.begin() as connection:
            same = folded(subscribers.c.email) == folded(email)  # Ada@ is ada@, as in hookrow
            known = select(subscribers.c.id).where(same)
            new = insert(subscribers).values(email=email).returning(subscribers.c.id)
            owner = connection.scalar(known) or connection.scalar(new)
            row = {"provider_message_id": message_id, "subscriber_id": owner}
            connection.execute(insert(dispatches).values(row))

    @app.get("/dispatches/{message_id}")
    def show(message_id: str) -> dict[str, datetime | None]:
        """Return when a message was delivered and opened."""
        matches = dispatches.c.provider_message_id == message_id
        with engine.connect() as connection:
            times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
            row = connection.execute(times).first()
        if row is None:
            raise HTTPException(404)
        return row._asdict()

    return app
