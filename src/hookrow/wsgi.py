"""WSGI: mounts a handler in Flask, Pyramid, Bottle or a bare server.

The specification is https://peps.python.org/pep-3333/. A request waits in its server's thread;
the notifications of all threads share their commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIEnvironment

from hookrow._core.notification import Refusal
from hookrow._environ import read_input, request_head
from hookrow._http import (
    REQUEST_ID_HEADER,
    BodyReader,
    Handler,
    Request,
    RequestHead,
    Response,
    check_handler,
)
from hookrow.errors import ConfigurationError


class WSGI:
    """A WSGI application that passes requests to a handler.

    To mount it in another application: `DispatcherMiddleware(app, {"/mail": WSGI(receiver)})`.
    """

    def __init__(self, handler: Handler) -> None:
        check_handler("WSGI", handler)
        self.handler = handler

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse, *others: object
    ) -> Iterable[bytes]:
        """Respond to one request."""
        if others:
            raise ConfigurationError(
                "This is an application for WSGI, but the host is for ASGI: mount ASGI(receiver), "
                "with `from hookrow.asgi import ASGI`."
            )
        head = request_head(environ)
        response = self._respond(head, environ)
        headers = [*response.headers.items(), (REQUEST_ID_HEADER, head.request_id)]
        if response.stream is None:
            headers.append(("Content-Length", str(len(response.body))))
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", headers)
        if head.method == "HEAD":
            return []
        return [response.body] if response.stream is None else filter(None, response.stream)

    def _respond(self, head: RequestHead, environ: WSGIEnvironment) -> Response:
        refusal = self.handler.admit(head)
        if refusal is not None:
            return refusal
        body = read_input(BodyReader(head, self.handler.max_body(head)), environ)
        if isinstance(body, Refusal):
            return self.handler.refuse(head, body)
        return self.handler(Request(head, body))
