"""Flask's blueprint among the host's own functions."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from drivers import GatedStore, receiving
from flask import Flask, Response, request
from werkzeug.test import TestResponse

from hookrow.flask import blueprint
from hookrow.http import LARGEST_BODY
from wire import ENDPOINT, SECRET

TERMINATED = {"wsgi.input_terminated": True}


@pytest.fixture
def app() -> Iterator[Flask]:
    """Return an application with the blueprint at several prefixes."""
    app = Flask(__name__)
    with receiving(GatedStore()) as receiver:
        for number, prefix in enumerate(("/mail", "/a/b", "")):
            app.register_blueprint(blueprint(receiver), url_prefix=prefix, name=f"hookrow{number}")
        yield app


def post(app: Flask, body: bytes, path: str = "/mail", **more: Any) -> TestResponse:  # noqa: ANN401 - Flask's
    """Post a body as a server passes it on."""
    options = {"headers": {"X-Provider-Secret": SECRET}, "content_length": len(body)} | more
    return app.test_client().post(path + ENDPOINT, input_stream=BytesIO(body), **options)


@pytest.mark.parametrize("prefix", ["/a/b", ""])
def test_prefix(app: Flask, prefix: str) -> None:
    """The prefix is the host's choice, and the application may itself be mounted."""
    answer = post(app, b"{", prefix, base_url="http://localhost/root")
    assert (answer.status_code, answer.text) == (422, "Webhook payload not supported")


def test_functions_of_the_host(app: Flask) -> None:
    """The host's functions before and after a request are called, and may change the response."""
    called = []
    app.before_request(lambda: called.append(request.endpoint))

    @app.after_request
    def mark(response: Response) -> Response:
        response.headers["X-Host"] = "ours"
        return response

    answer = post(app, b"{")
    assert (answer.status_code, answer.headers["X-Host"]) == (422, "ours")
    assert called == ["hookrow0.notification"]


@pytest.mark.parametrize("terminated", [{}, TERMINATED])
def test_functions_that_read_the_body(app: Flask, terminated: dict[str, bool]) -> None:
    """The host may read the body before the receiver does, after it, or though it is refused."""
    seen = []
    app.before_request(lambda: seen.append(request.data) if request.args else None)
    app.teardown_request(lambda _: seen.append(request.get_data()))
    for query in ({"before": "too"}, {}):
        answer = post(app, b"{", query_string=query, environ_overrides=terminated)
        assert (answer.status_code, answer.text) == (422, "Webhook payload not supported")
    assert post(app, b"{", headers={}, environ_overrides=terminated).status_code == 401
    assert seen == [b"{"] * 4


@pytest.mark.parametrize("length", [LARGEST_BODY + 1, None])
def test_large_body_that_the_host_read(app: Flask, length: int | None) -> None:
    """A body over 1 MiB is answered 413 though the host has read it."""
    app.before_request(lambda: request.get_data() and None)
    body = b" " * (LARGEST_BODY + 1)
    assert post(app, body, content_length=length, environ_overrides=TERMINATED).status_code == 413
