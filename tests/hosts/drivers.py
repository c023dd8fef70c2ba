"""Support for the tests of hosts: a store that waits, its receiver, and the examples' servers."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from threading import Event

import pytest
from fastapi import FastAPI
from flask import Flask
from sqlalchemy import make_url
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import world
from databases import kind_of
from engines import MEMORY, engine_of
from hookrow import Postmark, Receiver
from hookrow._server import RECEIVER
from hookrow._server.protocol import NotificationProtocol
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._transaction import SQLTransaction
from hookrow.testing import Tables
from hookrow.wsgi import WSGI
from loopback import loopback
from process import EXAMPLES
from wire import ADAS, PATIENCE, SECRET, uvicorn_serving

MOUNT = "/mail"
HOSTS = ["asgi", "fastapi", "wsgi", "flask", "direct"]


class GatedStore(SQLStore):
    """The world of the cases in memory; transactions wait until `gate` is set, as it is at first.

    `entered` is set when a transaction begins.
    """

    def __init__(self) -> None:
        super().__init__(MEMORY)
        self.gate, self.entered = Event(), Event()
        self._engine = engine_of(self)
        self.reset()

    def reset(self) -> None:
        """Restore the rows, empty the log and open the gate."""
        with self.database.reading():  # no other thread may use its connection meanwhile
            world.fill(self._engine)
        self.gate.set()
        self.entered.clear()

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[SQLTransaction]:
        self.entered.set()
        assert self.gate.wait(PATIENCE)
        with super().transaction(skip_locked=skip_locked, checked=checked) as transaction:
            yield transaction

    @contextmanager
    def recording(self, *, checked: bool = False) -> Iterator[SQLTransaction]:
        with self.transaction(checked=checked) as transaction:
            yield transaction

    @property
    def delivered_at(self) -> object:
        """The delivery time of the first dispatch."""
        return Tables(self).dispatch(ADAS).delivered_at


@contextmanager
def receiving(store: GatedStore) -> Iterator[Receiver]:
    """Open a receiver whose requests may wait for a long time."""
    receiver = Receiver(Postmark(SECRET), store, deadline=60)
    try:
        yield receiver
    finally:
        store.gate.set()
        receiver.close(PATIENCE)


class Webhook(ASGI):
    """An application in which the protocol of `hookrow serve` finds the receiver."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope["state"][RECEIVER] = self.handler
        await super().__call__(scope, receive, send)


def mounted(kind: str, receiver: Receiver) -> AbstractContextManager[int]:
    """Serve a receiver below the mount; "direct" is the protocol of `hookrow serve`."""
    match kind:
        case "asgi":
            return uvicorn_serving(Starlette(routes=[Mount(MOUNT, ASGI(receiver))]))
        case "fastapi":
            fastapi = FastAPI()
            fastapi.include_router(router(receiver), prefix=MOUNT)
            return uvicorn_serving(fastapi)
        case "wsgi":
            return loopback(DispatcherMiddleware(NotFound(), {MOUNT: WSGI(receiver)}))
        case "flask":
            flask = Flask(__name__)
            flask.register_blueprint(blueprint(receiver), url_prefix=MOUNT)
            return loopback(flask)
        case _:
            return uvicorn_serving(Webhook(receiver), http=NotificationProtocol)


def _for_sqlalchemy(url: str) -> str:
    """Return a URL that names a driver: SQLAlchemy's own choice may not be installed."""
    named = make_url(url).set(drivername=kind_of(url).drivers[0])
    return str(named.render_as_string(hide_password=False))


@contextmanager
def example_serving(host: str, url: str) -> Iterator[int]:
    """Serve the example of a host, with a database; yield the port."""
    name = f"{host}_app"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setenv("HOOKROW_SECRET", SECRET)
        patch.delenv("HOOKROW_PREVIOUS_SECRET", raising=False)
        patch.setenv("HOOKROW_DATABASE_URL", _for_sqlalchemy(url))
        example = import_module(name)
        app = example.create_app() if hasattr(example, "create_app") else example.app
        with loopback(app) if host in {"wsgi", "flask"} else uvicorn_serving(app) as port:
            yield port
    sys.modules.pop(name, None)
    if host == "fastapi":
        return  # it closes its receiver and its engine at the end of its lifespan
    if host == "flask":
        receiver, engine = app.extensions["hookrow"], app.extensions["engine"]
    else:
        receiver, engine = example.receiver, example.engine
    receiver.close(PATIENCE)
    engine.dispose()
