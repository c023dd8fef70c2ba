"""Addresses of database servers that can move, as a virtual IP address or a DNS name does."""

import select
import socket
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Self

from postgres import Databases


class Address:
    """A port on the loopback interface that leads to a server, until the block ends.

    `leads_to` may be changed; connections that are open remain with the former server. If the
    server does not listen, a connection is closed immediately.
    """

    def __init__(self, server: Databases) -> None:
        self.leads_to = server
        address = self

        class Forward(BaseRequestHandler):
            """Copies bytes in both directions until one end closes the connection."""

            def handle(self) -> None:
                with socket.socket(socket.AF_UNIX) as there, suppress(OSError):
                    there.connect(f"{address.leads_to.folder}/.s.PGSQL.5432")
                    other = {self.request: there, there: self.request}
                    while all(copy(end, other[end]) for end in select.select([*other], [], [])[0]):
                        pass

        self._server = ThreadingTCPServer(("127.0.0.1", 0), Forward)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def copy(source: socket.socket, target: socket.socket) -> bool:
    """Copy what has arrived; return False at the end."""
    data = source.recv(65536)
    target.sendall(data)
    return bool(data)
