"""ASGI: mounts a handler in Starlette, FastAPI, Litestar, Quart or a bare server.

The specification is https://asgi.readthedocs.io/en/latest/specs/www.html. The event loop is
asyncio's or uvloop's. Lifespan events are optional: mounted applications do not receive them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from hookrow._concurrency import reset_after_fork
from hookrow._core.notification import Refusal
from hookrow._http import (
    ADMITTED,
    BODY_TIMEOUT,
    REQUEST_ID_NAME,
    BodyReader,
    Handler,
    LoopHandler,
    Request,
    RequestHead,
    Response,
    check_handler,
    plain,
    refuse,
    request_id,
)

Scope: TypeAlias = MutableMapping[str, Any]
"""The data of a connection, such as the path and the headers of a request."""

Message: TypeAlias = MutableMapping[str, Any]
"""An event from the server or to it, such as a part of a body."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
"""Returns the next event from the server."""

Send: TypeAlias = Callable[[Message], Awaitable[None]]
"""Sends an event to the server."""

_MAX_DISCARDED = 16 * 1024 * 1024
"""The most bytes of a refused body that are read and discarded after the response."""

_DISCARD_TIMEOUT = 5.0
"""Seconds for which this rest of the body is read."""

_THREADS = 8
"""The maximum number of concurrent calls of a blocking handler."""

_CALL_TIMEOUT = 5.0
"""Seconds that such a call may take, including the wait for a thread."""

_CALL_TIMED_OUT = plain(
    503, "The request took too long; it may still be processed.", {"Retry-After": "30"}
)

_T = TypeVar("_T")
_R = TypeVar("_R")

logger: logging.Logger = logging.getLogger("hookrow")


class ASGI:
    """An ASGI application that passes requests to a handler: `app.mount("/mail", ASGI(receiver))`.

    A receiver is called in the event loop; any other handler is called in threads of the
    application.
    """

    _threads: ThreadPoolExecutor

    def __init__(self, handler: Handler) -> None:
        check_handler("ASGI", handler)
        self.handler = handler
        self._loop_handler = handler if isinstance(handler, LoopHandler) else None
        self.reset()
        reset_after_fork(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request; accept lifespan events, and close websockets.

        Raises `ValueError` for any other type of scope, as the specification asks.
        """
        match scope["type"]:
            case "http":
                head = _request_head(scope)
                extension = scope.get("extensions", {}).get(ADMITTED)
                response = await self._respond(head, receive, extension)
                if response.stream is not None:
                    await self._send_stream(response, response.stream, head, receive, send)
                else:
                    await _send(response, head, receive, send)
            case "lifespan":
                await _accept_lifespan(receive, send)
            case "websocket":
                await send({"type": "websocket.close"})
            case other:
                raise ValueError(
                    f"hookrow.asgi does not support ASGI scopes of the type {other!r}."
                )

    def reset(self) -> None:
        """Create the thread pool for a blocking handler; its threads start when they are needed."""
        self._threads = ThreadPoolExecutor(_THREADS, "hookrow-call")

    async def _respond(
        self, head: RequestHead, receive: Receive, extension: Mapping[str, Any] | None
    ) -> Response:
        handler = self._loop_handler
        if handler is None:
            refusal = await self._call(self.handler.admit, head, head)
        else:
            refusal = handler.admit(head)
        if refusal is not None:
            return refusal
        body = await _read_body(BodyReader(head, self.handler.max_body(head)), receive)
        if isinstance(body, Refusal):
            return self.handler.refuse(head, body)
        if extension is not None:
            extension["call"]()
        request = Request(head, body)
        if handler is None:
            return await self._call(self.handler, request, head)
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Response] = loop.create_future()
        handler.submit(request, loop, partial(_set_result, response))
        return await response

    async def _call(
        self, function: Callable[[_T], _R], argument: _T, head: RequestHead
    ) -> _R | Response:
        """Call a blocking handler in a thread; drop the call if it waits too long for one."""
        loop = asyncio.get_running_loop()
        try:
            call = loop.run_in_executor(self._threads, function, argument)
        except RuntimeError:  # the system cannot start another thread
            _log_unavailable("no thread could be started", head)
            return refuse(Refusal.UNAVAILABLE)
        try:
            async with asyncio.timeout(_CALL_TIMEOUT) as limit:
                return await call
        except TimeoutError:
            if not limit.expired():
                raise
            _log_unavailable(f"the request took longer than {_CALL_TIMEOUT} s", head)
            return _CALL_TIMED_OUT

    async def _send_stream(
        self,
        response: Response,
        stream: Iterator[bytes],
        head: RequestHead,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a response with a stream, each chunk of which a thread takes."""
        loop = asyncio.get_running_loop()
        disconnected = asyncio.ensure_future(receive())  # the body has been read
        try:
            with suppress(OSError):  # as in `_send`
                await send(_start(response, head.request_id))
                while head.method != "HEAD" and not disconnected.done():
                    chunk = await loop.run_in_executor(self._threads, next, stream, None)
                    if chunk is None:
                        break
                    if chunk:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body"})
        finally:
            disconnected.cancel()


def _log_unavailable(why: str, head: RequestHead) -> None:
    id_ = head.request_id
    logger.warning(f"Returned 503: {why} (request %s).", id_, extra={"request_id": id_})


def _set_result(future: asyncio.Future[_R], result: _R) -> None:
    if not future.done():  # the server or the framework may have cancelled the request
        future.set_result(result)


def _request_head(scope: Scope) -> RequestHead:
    headers = scope["headers"]
    path, root = scope["path"], scope.get("root_path", "")
    if path.endswith("/"):
        path, root = _undo_slash(scope, path, root)
    return RequestHead(
        scope["method"],
        path,
        headers,
        root,
        scope.get("query_string", b"").decode("latin-1"),
        request_id=request_id(headers),
    )


def _undo_slash(scope: Scope, path: str, root: str) -> tuple[str, str]:
    """Return the path and the root as if the host had not added a slash to the path.

    Litestar also removes its mount from the path, so that becomes the root. Relative links depend
    on whether the path that the client requested has a slash.
    """
    requested = unquote((scope.get("raw_path") or b"").partition(b"?")[0])
    rest = path.removesuffix("/")
    if requested.endswith("/") or not requested.endswith(rest):
        return path, root
    return requested, requested.removesuffix(rest) or root


async def _read_body(body: BodyReader, receive: Receive) -> bytes | Refusal:
    """Read a body to its end; return it, or the reason to refuse it.

    If a middleware has read the body, some servers wait for the client to disconnect, and others
    report a disconnect at once. Therefore, a disconnect gets a response as well.
    """
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while body.refusal is None:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Refusal.TIMED_OUT
                body.add(message.get("body", b""))
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        return Refusal.TIMED_OUT
    return body.end()


async def _send(response: Response, head: RequestHead, receive: Receive, send: Send) -> None:
    """Send a response with the id of its request; that to HEAD has no body."""
    length = (b"content-length", b"%d" % len(response.body))
    rest = response.status == Refusal.TOO_LARGE.status
    content = b"" if head.method == "HEAD" else response.body
    body = {"type": "http.response.body", "body": content, "more_body": rest}
    with suppress(OSError):  # servers raise it if the client has disconnected
        await send(_start(response, head.request_id, length))
        await send(body)
        if rest:
            await _discard_rest(receive)
            await send({"type": "http.response.body"})


def _start(response: Response, id_: str, *more: tuple[bytes, bytes]) -> Message:
    """Return the message that begins a response to the request with an id."""
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
    headers += [*more, (REQUEST_ID_NAME, id_.encode())]
    return {"type": "http.response.start", "status": response.status, "headers": headers}


async def _discard_rest(receive: Receive) -> None:
    """Read the rest of a body, because closing the connection too early would reset it.

    A proxy that is still sending the body would then respond with 502 (RFC 9112, section 9.6).
    """
    left = _MAX_DISCARDED
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_TIMEOUT):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _accept_lifespan(receive: Receive, send: Send) -> None:
    """Accept all lifespan events."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
