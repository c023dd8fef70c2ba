"""Calls an ASGI or WSGI application of the host in this process, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any, TypeAlias
from urllib.parse import quote
from wsgiref.types import WSGIApplication
from wsgiref.util import setup_testing_defaults

from hookrow.errors import ConfigurationError, HookrowError
from hookrow.http import Request

ASGIApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

Answer: TypeAlias = tuple[int, str]
"""Status and text."""

HOST = "testserver"
"""The `Host` header of requests: the one that Django allows in tests."""


class NotPosted(HookrowError):
    """There was no response: no server is listening, or it does not speak HTTP."""


def call_asgi(application: ASGIApplication, request: Request, timeout: float) -> Answer:
    """Call an ASGI application in an event loop of its own; return its response.

    Raises `NotPosted` if there is no response within `timeout` seconds, and `ConfigurationError`
    in a thread that runs an event loop, because the call would block it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # With a factory, the runner does not replace the thread's event loop, which a test may use.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(_ask(application, request, timeout))
    raise ConfigurationError("An event loop runs here: write `await asyncio.to_thread(post, ...)`.")


def call_wsgi(application: WSGIApplication, request: Request) -> Answer:
    """Call a WSGI application (PEP 3333) in this thread; return its response.

    Raises `NotPosted` if there is none.
    """
    statuses: list[str] = []
    sent = bytearray()

    def start_response(status: str, *_: object) -> Callable[[bytes], object]:
        statuses.append(status)
        return sent.extend

    parts = application(_environ(request), start_response)
    try:
        for part in parts:
            sent.extend(part)
    finally:
        if hasattr(parts, "close"):
            parts.close()
    if not statuses:
        raise NotPosted("The application ended without an answer.")
    return int(statuses[-1].partition(" ")[0]), sent.decode(errors="replace")


async def _ask(application: ASGIApplication, request: Request, timeout: float) -> Answer:  # noqa: ASYNC109 - `post` has it
    """Pass one request to the application, and collect the messages that it sends."""
    messages = iter([{"type": "http.request", "body": request.body, "more_body": False}])
    ended = asyncio.Event()
    statuses: list[int] = []
    sent = bytearray()

    async def receive() -> dict[str, object]:
        for message in messages:
            return message
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            return
        sent.extend(message.get("body", b""))
        if not message.get("more_body", False):
            ended.set()

    try:
        async with asyncio.timeout(timeout) as limit:
            await application(_scope(request), receive, send)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise NotPosted(f"No answer within {timeout} seconds.") from error
    if not statuses:
        raise NotPosted("The application ended without an answer.")
    return statuses[0], sent.decode(errors="replace")


def _scope(request: Request) -> dict[str, Any]:
    """Return the scope of the request, in version 2.4 of the ASGI specification."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.head.method,
        "scheme": "http",
        "path": request.head.path,
        "raw_path": quote(request.head.path).encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", HOST.encode()),
            (b"content-length", b"%d" % len(request.body)),
            *((name.lower(), value) for name, value in request.head.headers),
        ],
        "client": ("127.0.0.1", 50_000),
        "server": (HOST, 80),
    }


def _environ(request: Request) -> dict[str, Any]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.head.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.head.path.encode().decode("latin-1"),
        "QUERY_STRING": "",
        "SERVER_NAME": HOST,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.input": BytesIO(request.body),
        "wsgi.input_terminated": True,
    }
    for name, value in ((b"host", HOST.encode()), *request.head.headers):
        variable = name.decode().upper().replace("-", "_")
        prefix = "" if variable == "CONTENT_TYPE" else "HTTP_"
        environ[prefix + variable] = value.decode("latin-1")
    setup_testing_defaults(environ)
    return environ
