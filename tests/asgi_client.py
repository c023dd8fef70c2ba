"""Calls an ASGI application in this process, without a server and without lifespan events."""

import asyncio
from typing import Any

from httpx import ASGITransport, AsyncClient, Response


def request(app: Any, method: str, path: str, **options: Any) -> Response:  # noqa: ANN401 - any ASGI application, HTTPX's options
    """Return the response of the application, which is called in an event loop of its own."""

    async def send() -> Response:
        transport = ASGITransport(app)
        async with AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())
