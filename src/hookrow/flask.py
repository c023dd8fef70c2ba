"""Flask: the endpoint as a blueprint, for `app.register_blueprint`."""

from __future__ import annotations

from http import HTTPMethod

from hookrow.errors import ConfigurationError
from hookrow.http import Handler
from hookrow.receiver import ENDPOINT
from hookrow.wsgi import WSGI

try:
    from flask import Blueprint, request
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
        return Response.from_app(webhook, {**request.environ, "PATH_INFO": ENDPOINT})

    return made
