"""The contract of a host, on ASGI alone under uvicorn."""

from __future__ import annotations

from contextlib import AbstractContextManager

from host import HostContract

from hookrow import Handler
from hookrow.asgi import ASGI
from wire import uvicorn_serving


class TestUvicorn(HostContract):
    mount = ""
    slowest_body = "hookrow.asgi.SLOWEST_BODY"

    @classmethod
    def serve(cls, handler: Handler) -> AbstractContextManager[int]:
        """Serve the handler as an application of its own."""
        return uvicorn_serving(ASGI(handler))
