"""Flask's blueprint, by itself. What it answers is in `hosts/host.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask, Response, request

from hookrow import Postmark, Receiver
from hookrow.flask import blueprint
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
