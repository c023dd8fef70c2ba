"""hookrow in Flask: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[serve,sqlalchemy]' flask gunicorn
cd examples
export HOOKROW_SECRET=the-secret-of-this-example
hookrow db upgrade
gunicorn --threads 64 'flask_app:create_app()' &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
hookrow simulate delivery ada@example.com m-1 --url http://127.0.0.1:8000/mail/provider/webhooks
curl http://127.0.0.1:8000/dispatches/m-1
"""

import os

from flask import Flask, abort, request
from sqlalchemy import create_engine, insert, select

from hookrow import Postmark, Receiver
from hookrow.flask import blueprint
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, folded, subscribers


def create_receiver() -> Receiver:
    """Return the receiver of a new application, for `hookrow --app flask_app:create_receiver`."""
    receiver: Receiver = create_app().extensions["hookrow"]
    return receiver


def create_app() -> Flask:
    """Create the application. Nothing is read from the database, whose tables may not exist yet."""
    engine = create_engine(os.environ.get("HOOKROW_DATABASE_URL", "sqlite:///hookrow.db"))
    secrets = map(os.environ.get, ("HOOKROW_SECRET", "HOOKROW_PREVIOUS_SECRET"))
    receiver = Receiver(Postmark(*filter(None, secrets)), SQLStore(engine))

    app = Flask(__name__)
    app.register_blueprint(blueprint(receiver), url_prefix="/mail")  # POST /mail/provider/webhooks
    app.extensions |= {"engine": engine, "hookrow": receiver}  # for tests, which close them

    @app.post("/dispatches")
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

    @app.get("/dispatches/<message_id>")
    def show(message_id: str) -> dict[str, str | None]:
        """Return when a message was delivered and opened."""
        matches = dispatches.c.provider_message_id == message_id
        with engine.connect() as connection:
            times = select(dispatches.c.delivered_at, dispatches.c.opened_at).where(matches)
            row = connection.execute(times).first()
        if row is None:
            abort(404)
        return {name: at and at.isoformat() for name, at in row._asdict().items()}

    return app
