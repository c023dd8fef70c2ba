"""A web server for tests: a WSGI application on the loopback interface, in a thread."""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Log nothing."""


@contextmanager
def loopback(
    app: WSGIApplication, context: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[int]:
    """Serve an application until the block ends, with TLS if there is a context; yield the port.

    The application is called after the whole body has been received.
    """

    def buffered(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return app({**environ, "wsgi.input": BytesIO(body)}, start)

    with _Server(("127.0.0.1", port), _Handler) as server:
        server.set_app(buffered)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
