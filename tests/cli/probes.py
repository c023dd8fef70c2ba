"""Applications that `hookrow check URL` looks at, and what it finds."""

from __future__ import annotations

from wsgiref.types import WSGIApplication

from werkzeug import Response

from hookrow import Postmark, Receiver
from hookrow.finding import Explained, Finding, Level
from hookrow.outside import look
from hookrow.stores.memory import MemoryStore
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ENDPOINT, SECRET

PATH = f"/mail{ENDPOINT}"
HEADER = "HTTP_X_PROVIDER_SECRET"

HOOKROW = WSGI(Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail"))
UNVERIFIED = Response("Cannot verify webhook", 401)
UNKNOWN = Response("Engine::Subscriber not found", 404)


def findings(url: str, secret: str | None = SECRET, patience: float = 20.0) -> list[Finding]:
    """Check a URL; assert that no fault lacks a meaning or a remedy, and nothing is secret."""
    found = list(look(url, secret, patience=patience))
    for each in found:
        assert not secret or secret not in repr(each)
        if isinstance(each, Explained) and each.level is not Level.OK:
            assert each.means
            assert each.change
    return found


def faults(url: str, secret: str | None = SECRET, patience: float = 20.0) -> list[str]:
    """Check a URL; return the texts of all faults except that this machine is not public."""
    return [
        f"{each.level.value} {each.about}: {each.text} {each.means} {each.change}"
        for each in findings(url, secret, patience)
        if isinstance(each, Explained) and each.level is not Level.OK and each.about != "dns"
    ]


def served(app: WSGIApplication) -> list[str]:
    """Serve an application; return the faults that are found at hookrow's path."""
    with loopback(app) as port:
        found = faults(f"http://127.0.0.1:{port}{PATH}")
    return [fault.replace(f":{port}", ":80") for fault in found]


def to(location: str, status: int = 307) -> Response:
    """Return a redirect."""
    return Response("", status, {"Location": location})
