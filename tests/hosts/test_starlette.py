"""The contract of a host, mounted in Starlette, which passes no lifespan on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from host import HostContract
from starlette.applications import Starlette

from hookrow import Handler
from hookrow.asgi import ASGI
from wire import uvicorn_serving


class TestStarlette(HostContract):
    mount = "/mail"
    slowest_body = "hookrow.asgi.SLOWEST_BODY"

    @classmethod
    def serve(cls, handler: Handler) -> AbstractContextManager[int]:
        """Mount the handler beside the pages of a host."""
        app = Starlette()
        app.mount("/mail", ASGI(handler))
        return uvicorn_serving(app)
