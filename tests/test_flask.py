"""Flask's blueprint, by itself. What it answers is in `hosts/host.py`."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from flask import Flask, Response, request
from werkzeug.test import TestResponse

from hookrow import Postmark, Receiver
from hookrow.flask import blueprint
from hookrow.http import LARGEST_BODY
from hookrow.stores.memory import MemoryStore
from wire import ENDPOINT, PATIENCE, SECRET

HEADERS = {"X-Provider-Secret": SECRET}


@pytest.fixture
def app() -> Iterator[Flask]:
    """Make an application with the blueprint, which knows nobody."""
    receiver = Receiver(Postmark(SECRET), MemoryStore())
    app = Flask(__name__)
    app.register_blueprint(blueprint(receiver), url_prefix="/mail")
    yield app
    receiver.close(PATIENCE)


@pytest.mark.parametrize("prefix", ["/mail", "/a/b", ""])
def test_prefix(app: Flask, prefix: str) -> None:
    """The prefix is the host's choice, and the application may be mounted itself."""
    receiver = Receiver(Postmark(SECRET), MemoryStore())
    app.register_blueprint(blueprint(receiver), url_prefix=prefix, name="again")
    root = "http://localhost/root"
    answer = app.test_client().post(prefix + ENDPOINT, base_url=root, headers=HEADERS, data=b"{")
    assert (answer.status_code, answer.text) == (422, "Webhook payload not supported")
    receiver.close(PATIENCE)


def test_functions_of_the_host(app: Flask) -> None:
    """The host's functions before and after a request are called, and may change the answer."""
    called = []
    app.before_request(lambda: called.append(request.endpoint))

    @app.after_request
    def mark(response: Response) -> Response:
        response.headers["X-Host"] = "ours"
        return response

    answer = app.test_client().post(f"/mail{ENDPOINT}", headers=HEADERS, data=b"{")
    assert (answer.status_code, answer.headers["X-Host"]) == (422, "ours")
    assert called == ["hookrow.notification"]


@pytest.mark.parametrize("terminated", [{}, {"wsgi.input_terminated": True}])
def test_functions_that_read_the_body(app: Flask, terminated: dict[str, bool]) -> None:
    """The host may read the body before the receiver does, and after it, once or twice."""
    seen = []
    app.before_request(lambda: seen.append(request.data) if request.args else None)
    app.teardown_request(lambda _: seen.append(request.get_data()))
    for query in ({"before": "too"}, {}):
        answer = post(app, b"{", query_string=query, environ_overrides=terminated)
        assert (answer.status_code, answer.text) == (422, "Webhook payload not supported")
    assert seen == [b"{"] * 3


@pytest.mark.parametrize("length", [LARGEST_BODY + 1, None])
def test_body_that_was_read_is_too_large(app: Flask, length: int | None) -> None:
    """What the host has read may still be over 1 MiB."""
    app.before_request(lambda: request.get_data() and None)
    terminated = {"wsgi.input_terminated": True}
    body = b" " * (LARGEST_BODY + 1)
    assert post(app, body, content_length=length, environ_overrides=terminated).status_code == 413


def test_body_that_nobody_read(app: Flask) -> None:
    """The secret is judged before a byte of the body is read, which the host may do then."""
    seen = []
    app.teardown_request(lambda _: seen.append(request.get_data()))
    assert post(app, b"{", headers={}).status_code == 401
    assert seen == [b"{"]


def post(app: Flask, body: bytes, **more: Any) -> TestResponse:  # noqa: ANN401 - Flask's
    """Post a body as a server hands it over."""
    options = {"headers": HEADERS, "content_length": len(body)} | more
    return app.test_client().post(f"/mail{ENDPOINT}", input_stream=BytesIO(body), **options)
