"""The end of a server: it accepts the connections that clients have made already.

The kernel completes the handshake of a connection before the process accepts it. When the last copy
of a listening socket is closed, the kernel resets the connections in its queue, although their
clients may have sent a request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn

from hookrow._server.budgets import MAX_CONNECTIONS


class DrainingServer(uvicorn.Server):
    """uvicorn's server, which accepts the connections in the kernel's queue before it stops."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, respond to the requests in progress, and close all connections."""
        listeners = sockets or []
        waiting = [each for listener in listeners[:1] for each in _waiting(listener)]
        # In the same turn of the event loop, so that hardly any can follow.
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.close()
        loop = asyncio.get_running_loop()
        protocol: Any = partial(
            cast("Any", self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        for connection in waiting:
            with suppress(OSError):  # the client has closed it
                await loop.connect_accepted_socket(protocol, connection)
        await super().shutdown(sockets)


def _waiting(listener: socket.socket) -> Iterator[socket.socket]:
    """Accept the connections in the queue of a listening socket, without waiting for others."""
    for _ in range(MAX_CONNECTIONS):
        try:
            connection, _ = listener.accept()
        except OSError:  # there is none, or no descriptor is left for it
            return
        connection.setblocking(False)  # noqa: FBT003 - positional only
        yield connection
