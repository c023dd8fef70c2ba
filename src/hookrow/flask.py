"""Flask: the endpoint as a blueprint for `app.register_blueprint`."""

from __future__ import annotations

from http import HTTPMethod
from io import BytesIO
from wsgiref.types import InputStream

from hookrow._http import ENDPOINT
from hookrow._receiver.receiver import Receiver, check_receiver
from hookrow.errors import ConfigurationError
from hookrow.wsgi import WSGI

try:
    from flask import Blueprint, Request, request
    from werkzeug.wrappers import Response
except ModuleNotFoundError as _error:
    if _error.name != "flask":
        raise
    raise ConfigurationError("hookrow.flask needs Flask: pip install flask") from _error


def blueprint(receiver: Receiver) -> Blueprint:
    """Return a blueprint for `app.register_blueprint(blueprint(receiver), url_prefix="/mail")`.

    The prefix is the mount path, so the receiver needs no `mount_path`. All responses are the
    receiver's, also those below the endpoint, where a path has the name of an entry. Exempt the
    blueprint from extensions that check forms before the view is called, such as CSRF protection.

    Raises `ConfigurationError` for anything but a receiver: mount other handlers with `WSGI`.
    """
    check_receiver("blueprint", receiver)
    webhook = WSGI(receiver)
    endpoint = Blueprint("hookrow", __name__)

    def notification(name: str | None = None) -> Response:
        """Return the receiver's response, as if it were mounted at the prefix."""
        body = _Body(request)
        path = ENDPOINT if name is None else f"{ENDPOINT}/{name}"
        response = Response.from_app(
            webhook, {**request.environ, "PATH_INFO": path, "wsgi.input": body}
        )
        body.cache()
        return response

    for rule in (ENDPOINT, f"{ENDPOINT}/<name>"):
        endpoint.add_url_rule(
            rule,
            view_func=notification,
            methods=list(HTTPMethod),
            strict_slashes=False,
            provide_automatic_options=False,
        )
    return endpoint


class _Body:
    """The body, which the host's own functions may read as well, before or after the view.

    `Request.get_data` caches the body in `_cached_data`. No public attribute fills the cache, or
    shows whether it is filled.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        cached: bytes | None = getattr(request, "_cached_data", None)
        self._input: InputStream = (
            request.environ["wsgi.input"] if cached is None else BytesIO(cached)
        )
        self._read = bytearray()

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes, from the cache if the host has read the body."""
        chunk = self._input.read(size)
        self._read += chunk
        return chunk

    def cache(self) -> None:
        """Cache the body if the view has read it; otherwise, the host can still read it."""
        if self._read:
            self._request._cached_data = bytes(self._read)  # noqa: SLF001 - no public attribute
