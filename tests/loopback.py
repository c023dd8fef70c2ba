"""A web server for tests: a WSGI application on the loopback interface, in threads."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from wsgiref.types import WSGIApplication

from werkzeug.serving import WSGIRequestHandler, make_server


class _Handler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, ANN401 - the parent's
        """Log nothing."""


@contextmanager
def loopback(
    app: WSGIApplication, context: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[int]:
    """Serve an application until the block ends, with TLS if there is a context; yield the port."""
    server = make_server(
        "127.0.0.1", port, app, threaded=True, request_handler=_Handler, ssl_context=context
    )
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
