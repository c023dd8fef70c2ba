"""The contract of a host, in `examples/asgi_app.py` under the protocol of `hookrow serve`."""

from __future__ import annotations

from collections.abc import Sequence

from host import HostContract

_SERVING = """
import sys, uvicorn
from hookrow.direct import DirectProtocol
from uvicorn.importer import import_from_string

app = import_from_string(sys.argv[1])
import asgi_app

app.webhook = asgi_app.webhook
uvicorn.run(app, port=int(sys.argv[2]), http=DirectProtocol, ws="none", access_log=False)
"""


def direct(app: str, port: int) -> Sequence[str]:
    """Start uvicorn with that protocol."""
    return "python", "-c", _SERVING, app, str(port)


class TestDirect(HostContract):
    command = staticmethod(direct)
    app = "asgi_app:app"
