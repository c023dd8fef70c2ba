"""ASGI: carries a handler into Starlette, FastAPI, Litestar, Quart or a bare server.

https://asgi.readthedocs.io/en/latest/specs/www.html is the specification. It
needs asyncio (or uvloop), and no lifespan event: mounted applications get none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from hookrow.core.notification import Refusal
from hookrow.http import (
    LARGEST_BODY,
    SLOWEST_BODY,
    Handler,
    Request,
    RequestHead,
    Response,
    oversized,
    plain,
    refuse_body,
)
from hookrow.promise import Promise
from hookrow.request_id import HEADER, request_id
from hookrow.threads import Threads
from hookrow.within import within

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

log = logging.getLogger("hookrow")

LARGEST_REST = 16 * 1024 * 1024
"""In bytes; so much of a body that is too large is read behind the answer, and thrown away."""

SLOWEST_REST = 5.0
"""In seconds; so long does that last."""

THREADS = 8
"""How many calls of a handler that blocks are at work at a time."""

SLOWEST_CALL = 5.0
"""In seconds; how long such a call may take, with its wait for a thread: a request makes two."""

_LATE = plain(503, "This takes too long, and may yet be done.\n", {"Retry-After": "30"})

_REQUEST_ID = HEADER.lower().encode()

T = TypeVar("T")
R = TypeVar("R")


class ASGI:
    """An ASGI application that lets a handler answer: `app.mount("/mail", ASGI(receiver))`.

    One that blocks is called in threads of its own, and who waits for too long is answered 503.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._threads = Threads(THREADS, seconds=SLOWEST_CALL)
        self._waker: _Waker | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; events that are none of ours are declined politely."""
        match scope["type"]:
            case "http":
                head = _head(scope)
                response = await self._answer(head, receive)
                if response is not None:
                    await _send(response, head.request_id, receive, send)
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await send({"type": "websocket.close"})

    async def _answer(self, head: RequestHead, receive: Receive) -> Response | None:
        """Return the response, or None where the client went away before it said all."""
        refusal = await self._call(self.handler.admit, head, head)
        if refusal is not None:
            return await self._ended(refusal)
        body = Refusal.TOO_LARGE if oversized(head) else await _body(receive)
        if isinstance(body, Refusal):
            return refuse_body(self.handler, head, body)
        if body is None:
            return None
        return await self._ended(await self._call(self.handler, Request(head, body), head))

    async def _call(self, call: Callable[[T], R], argument: T, head: RequestHead) -> R:
        if not self.handler.blocking:
            return call(argument)
        made = partial(call, argument)
        called: Promise[R] = self._threads.submit(made, late=_LATE, request_id=head.request_id)
        return await self._wait(called)

    def tell(self, promise: Promise[R], hear: Callable[[Promise[R]], object]) -> None:
        """Have a promise's end heard of in the loop that runs; what that raises is logged."""
        loop = asyncio.get_running_loop()
        waker = self._waker
        if waker is None or waker.loop is not loop:
            waker = self._waker = _Waker(loop)
        promise.add_done_callback(partial(waker.ended, hear))

    async def _ended(self, answer: Response | Promise[Response]) -> Response:
        return await self._wait(answer) if isinstance(answer, Promise) else answer

    async def _wait(self, promise: Promise[R]) -> R:
        """Wait for the end. Who waits may go away: the promise then ends unheard."""
        waiter: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.tell(promise, partial(_settle, waiter))
        return await waiter


class _Waker:
    """Brings the promises that another thread ends to one event loop.

    Those that end together, as a group's do, wake the loop once and not each by itself.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: deque[tuple[Callable[[Promise[Any]], object], Promise[Any]]] = deque()
        self._woken = False

    def ended(self, hear: Callable[[Promise[Any]], object], promise: Promise[Any]) -> None:
        self._ended.append((hear, promise))
        if not self._woken:
            self._woken = True
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # Before the queue is emptied: what ends from here on wakes the loop anew.
        self._woken = False
        while self._ended:
            hear, promise = self._ended.popleft()
            try:
                hear(promise)
            except Exception as error:  # noqa: BLE001 - it is the fault of who waits
                kind = type(error).__name__  # its text may quote the notification
                log.error("Who waits for an answer raised %s.", kind)


def _settle(waiter: asyncio.Future[R], promise: Promise[R]) -> None:
    if waiter.done():
        return
    try:
        waiter.set_result(promise.result())
    except BaseException as error:  # noqa: BLE001 - it belongs to who waits
        waiter.set_exception(error)


def _head(scope: Scope) -> RequestHead:
    headers = scope["headers"]
    return RequestHead(
        scope["method"],
        scope["path"],
        headers,
        scope.get("root_path", ""),
        scope.get("query_string", b"").decode("latin-1"),
        secure=scope.get("scheme") == "https",
        request_id=request_id(headers),
    )


async def _body(receive: Receive) -> bytes | Refusal | None:
    """Read the body, or return why it is refused; None where the client went away."""
    try:
        body = await within(SLOWEST_BODY, _read(receive))
    except TimeoutError:
        return Refusal.TIMED_OUT
    return Refusal.TOO_LARGE if body is not None and len(body) > LARGEST_BODY else body


async def _read(receive: Receive) -> bytes | None:
    """Read the body, though little more than may be; None where the client went away."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False) or len(body) > LARGEST_BODY:
            return bytes(body)


async def _send(response: Response, request_id: str, receive: Receive, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
    headers.append((b"content-length", b"%d" % len(response.body)))
    headers.append((_REQUEST_ID, request_id.encode()))
    rest = response.status == Refusal.TOO_LARGE.status
    body = {"type": "http.response.body", "body": response.body, "more_body": rest}
    with suppress(OSError):  # what servers raise where the client is gone
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send(body)
        if rest:
            await _throw_away(receive)
            await send({"type": "http.response.body"})


async def _throw_away(receive: Receive) -> None:
    """Read what still comes of a body: a connection that is closed before that is reset.

    A proxy that has not sent all answers 502 then, in our place (RFC 9112, section 9.6).
    """
    left = LARGEST_REST
    with suppress(TimeoutError):
        async with asyncio.timeout(SLOWEST_REST):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _live(receive: Receive, send: Send) -> None:
    """Go along with a server that asks; nothing of ours hangs on it."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
