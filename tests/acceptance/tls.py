"""A certificate for this machine, and connections to a server that has it."""

import ssl
import subprocess
from pathlib import Path

from nginx import installed
from wire import Connection

_REQUEST = (
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=127.0.0.1 "
    "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout privkey.pem -out fullchain.pem"
)


class Secured(Connection):
    """A TLS connection to a server whose certificate is in the file, by one of its names."""

    def __init__(self, certificate: Path, port: int, *, name: str = "127.0.0.1") -> None:
        super().__init__(port)
        context = ssl.create_default_context(cafile=certificate)
        self._socket = context.wrap_socket(self._socket, server_hostname=name)
        self._file = self._socket.makefile("rb")


def certify(folder: Path) -> Path:
    """Write fullchain.pem and privkey.pem to a folder; return the path of the former."""
    command = [installed("openssl", "openssl"), *_REQUEST.split()]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "fullchain.pem"
