"""Posts to the webhook in each framework, and prints what Sentry's SDK would send.

A program, because the SDK changes classes of the frameworks for the rest of the process. Its
argument is a module that initializes the SDK; without it, the SDK has its defaults.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, NoReturn
from unittest.mock import patch

import sentry_sdk
import werkzeug.test
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, include, path
from fastapi import Depends, FastAPI
from flask import Flask, request
from httpx import ASGITransport, AsyncClient
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport
from starlette.applications import Starlette
from starlette.routing import Mount

from hookrow import Postmark, Receiver, Schema
from hookrow.asgi import ASGI
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET, delivery, headers

URL = "sqlite:///hookrow.db"

PATHS = ("/mail/provider/webhooks", "/broken/provider/webhooks")
"""The endpoint, and the same behind code of the host that raises an exception."""

POSTED: Mapping[str, Any] = {
    "json": delivery("ada@example.com", "m-1", at=datetime(2026, 3, 4, tzinfo=UTC)),
    "headers": headers(),
}


class BrokenError(Exception):
    """The exception of the host's code."""


class Sent(Transport):
    """Keeps everything that the SDK would send, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[str] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.items += [each.payload.get_bytes().decode() for each in envelope.items]

    def take(self) -> Sequence[str]:
        """Return the items since the last call."""
        sentry_sdk.flush()
        taken, self.items = self.items, []
        return taken


def post_to_fastapi(receiver: Receiver) -> None:
    def fail() -> None:
        raise BrokenError

    app = FastAPI()
    app.include_router(router(receiver), prefix="/mail")
    app.include_router(router(receiver), prefix="/broken", dependencies=[Depends(fail)])
    asyncio.run(_post_to_asgi(app))


def post_to_starlette(receiver: Receiver) -> None:
    async def fail(*_: object) -> NoReturn:
        raise BrokenError

    app = Starlette(routes=[Mount("/mail", ASGI(receiver)), Mount("/broken", fail)])
    asyncio.run(_post_to_asgi(app))


async def _post_to_asgi(app: Any) -> None:  # noqa: ANN401 - HTTPX's type of an application is private
    async with AsyncClient(transport=ASGITransport(app), base_url="http://testserver") as client:
        for each in PATHS:
            with suppress(BrokenError):
                await client.post(each, **POSTED)


def post_to_flask(receiver: Receiver) -> None:
    app = Flask(__name__)
    app.register_blueprint(blueprint(receiver), url_prefix="/mail")

    @app.before_request
    def fail() -> None:
        if request.path == PATHS[1]:
            raise BrokenError

    _post_to_wsgi(app)


def configure_django() -> None:
    """Configure Django, whose settings the SDK reads as soon as it is initialized."""
    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "hookrow.db"}},
        HOOKROW={"SECRET": SECRET},
        INSTALLED_APPS=["hookrow.django", "hookrow.django.tables"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
    )


urlpatterns: list[URLPattern | URLResolver] = []


def post_to_django(_: Receiver) -> None:
    def fail(_: HttpRequest) -> NoReturn:
        raise BrokenError

    urlpatterns.append(path("mail/", include("hookrow.django.urls")))
    urlpatterns.append(path("broken/provider/webhooks", fail))
    _post_to_wsgi(get_wsgi_application())


def _post_to_wsgi(app: Any) -> None:  # noqa: ANN401 - a Flask or a Django application
    client = werkzeug.test.Client(app)
    for each in PATHS:
        client.post(each, **POSTED)


HOSTS = {
    "FastAPI": post_to_fastapi,
    "Starlette": post_to_starlette,
    "Flask": post_to_flask,
    "Django": post_to_django,
}


def main(module: str | None = None) -> None:
    """Write a JSON object with the texts that would be sent from each framework."""
    configure_django()
    os.environ["SENTRY_DSN"] = "https://key@sentry.example/1"
    sent = Sent()
    initialize = partial(sentry_sdk.init, transport=sent, traces_sample_rate=1.0)
    if module is None:
        initialize()
    else:
        with patch.object(sentry_sdk, "init", initialize):
            import_module(module)
    upgrade(URL, Schema())
    texts = {}
    for name, post in HOSTS.items():
        receiver = Receiver(Postmark(SECRET), SQLStore(URL))
        post(receiver)
        receiver.close()
        texts[name] = sent.take()
    sys.stdout.write(json.dumps(texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
