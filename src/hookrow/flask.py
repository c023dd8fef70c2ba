"""Flask: the endpoint as a blueprint, for `app.register_blueprint`."""

from __future__ import annotations

from http import HTTPMethod
from io import BytesIO
from wsgiref.types import InputStream

from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT, Handler
from hookrow.wsgi import WSGI

try:
    from flask import Blueprint, Request, request
    from werkzeug.wrappers import Response
except ModuleNotFoundError as error:
    raise ConfigurationError("hookrow.flask needs Flask: pip install flask") from error


def blueprint(receiver: Handler) -> Blueprint:
    """Return what `app.register_blueprint(blueprint(receiver), url_prefix="/mail")` takes.

    The prefix is the mount: the receiver has no `mount_path`. All answers are the
    receiver's own. An extension that looks at a form before the view does, as CSRF
    protection, has to be told to leave the blueprint alone.
    """
    webhook = WSGI(receiver)
    made = Blueprint("hookrow", __name__)

    @made.route(
        ENDPOINT,
        methods=list(HTTPMethod),
        strict_slashes=False,
        provide_automatic_options=False,
    )
    def notification() -> Response:
        """Let the receiver answer, as if it were mounted at the prefix."""
        body = _Body(request)
        answer = Response.from_app(
            webhook, {**request.environ, "PATH_INFO": ENDPOINT, "wsgi.input": body}
        )
        body.leave()
        return answer

    return made


class _Body:
    """The body that functions of the host may read, too, before the view and after it.

    `Request.get_data` keeps what it has read in `_cached_data`, and returns what is there:
    nothing public tells whether it has read, or keeps what somebody else read.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        cached: bytes | None = getattr(request, "_cached_data", None)
        self._input: InputStream = (
            request.environ["wsgi.input"] if cached is None else BytesIO(cached)
        )
        self._read = bytearray()

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes, of what the host has read or else from the server."""
        piece = self._input.read(size)
        self._read += piece
        return piece

    def leave(self) -> None:
        """Leave to the host what was read. Where nothing was, it may still read for itself."""
        if self._read:
            self._request._cached_data = bytes(self._read)  # noqa: SLF001 - as said above
