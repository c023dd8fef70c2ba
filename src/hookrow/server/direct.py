"""Notifications that came whole, taken from the server's protocol without ASGI in between.

A task for each request and the messages of ASGI take a quarter of all that the server does for
a notification. Only what is at once a whole request for the receiver is answered here; all
else is answered through ASGI, and so is that which came in pieces.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from traceback import format_tb
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hookrow.core.notification import Refusal
from hookrow.http import Request, RequestHead, Response, refuse
from hookrow.promise import Promise
from hookrow.request_id import HEADER, request_id
from hookrow.server.protocol import LimitedProtocol

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from hookrow.asgi import ASGI
    from hookrow.receiver.receiver import Receiver

log = logging.getLogger("hookrow")

_REQUEST_ID = HEADER.lower().encode()


class DirectProtocol(LimitedProtocol):
    """One connection to an application whose `webhook` carries a receiver.

    At the most one notification in what is read at once is answered here: `_held`, of which
    neither the receiver nor ASGI has heard. What comes behind it waits for its turn in uvicorn.
    """

    _held: _Notification | None = None

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._webhook = _webhook(config.loaded_app)
        self._receiver: Receiver = self._webhook.handler  # type: ignore[assignment] # what it carries
        self._endpoint = self._receiver.endpoint.encode()

    def data_received(self, data: bytes) -> None:
        """Read on; then answer what came whole, and leave to ASGI what has only begun."""
        super().data_received(data)
        held, self._held = self._held, None
        if held is None:
            return
        if not held.is_whole:
            self._let_go(held)
        elif not self.transport.is_closing():
            self._answer(held)

    def on_headers_complete(self) -> None:
        """Hold what may be answered here."""
        if self._is_notification():
            keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
            self._held = _Notification(self.headers, keep_alive=keep_alive)
            self.headers = []  # for the trailers, which nobody reads
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        if self._held is None or self._held.is_whole:
            super().on_body(body)
        else:
            self._held.parts.append(body)

    def on_message_complete(self) -> None:
        """Take what is held for the request that is at work."""
        if self._held is not None and not self._held.is_whole:
            self._held.is_whole = True
            self.cycle = self._held  # type: ignore[assignment] # all of one that is looked at
        super().on_message_complete()

    def _is_notification(self) -> bool:
        """Tell whether it may be answered here, if it comes whole: nothing else is going on."""
        before: RequestResponseCycle | None = self.cycle  # uvicorn begins with None
        return (
            self.url == self._endpoint
            and self.parser.get_method() == b"POST"
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and self._left >= 0
            and (before is None or before.response_complete)
        )

    def _let_go(self, held: _Notification) -> None:
        """Leave it to ASGI, as it was at the end of its head: a trailer has no say."""
        self.headers, self.expect_100_continue = held.headers, False
        super().on_headers_complete()
        self.cycle.keep_alive = held.keep_alive
        for part in held.parts:
            super().on_body(part)

    def _answer(self, held: _Notification) -> None:
        id_ = request_id(held.headers)
        head = RequestHead("POST", self._receiver.endpoint, held.headers, request_id=id_)
        try:
            answer: Response | Promise[Response] | None = self._receiver.admit(head)
            if answer is None:
                # No loop reads as much at once as a body may have.
                answer = self._receiver(Request(head, b"".join(held.parts)))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is lost by a 503
            answer = _failed(error, id_)
        if isinstance(answer, Promise):
            self._webhook.tell(answer, partial(self._ended, held, id_))
        else:
            self._write(held, id_, answer)

    def _ended(self, held: _Notification, id_: str, promise: Promise[Response]) -> None:
        try:
            response = promise.result()
        except BaseException as error:  # noqa: BLE001 - as above
            response = _failed(error, id_)
        self._write(held, id_, response)

    def _write(self, held: _Notification, id_: str, response: Response) -> None:
        """Write what uvicorn would for the response."""
        if self.transport.is_closing():
            return
        headers = [
            *self.server_state.default_headers,
            *((name.lower().encode(), value.encode()) for name, value in response.headers.items()),
            (b"content-length", b"%d" % len(response.body)),
            (_REQUEST_ID, id_.encode()),
        ]
        if not held.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join([b"%s: %s\r\n" % header for header in headers])
        self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[response.status], lines, response.body))
        held.response_complete = True
        if not held.keep_alive:
            self.transport.close()
        self.on_response_complete()


class _Notification:
    """What is read of one; and, for uvicorn's protocol, all that this looks at in its cycles."""

    message_event = asyncio.Event()
    """That more came of it, for which nobody waits."""

    def __init__(self, headers: list[tuple[bytes, bytes]], *, keep_alive: bool) -> None:
        self.headers = headers
        self.parts: list[bytes] = []
        self.is_whole = False
        self.keep_alive = keep_alive
        self.response_complete = False


def _failed(error: BaseException, id_: str) -> Response:
    place = "".join(format_tb(error.__traceback__))  # its text may quote the notification
    fault = f"{type(error).__name__}, a fault to be reported, at\n{place}"
    log.error("Answering 503, request %s: %s", id_, fault)
    return refuse(Refusal.UNAVAILABLE)


def _webhook(app: Any) -> ASGI:  # noqa: ANN401 - whatever uvicorn puts around the application
    while not hasattr(app, "webhook"):
        app = app.app
    webhook: ASGI = app.webhook
    return webhook
