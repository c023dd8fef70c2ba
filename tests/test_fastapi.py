"""FastAPI's router: what its OpenAPI page shows. What it answers is in `hosts/host.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from hookrow import Postmark, Receiver, Refusal, testing
from hookrow.fastapi import router
from hookrow.http import LARGEST_BODY
from hookrow.stores.memory import MemoryStore
from wire import ENDPOINT, SECRET, ask, uvicorn_serving
from wire import request as post

STRANGER = msgspec.json.encode(testing.opening("eve@example.com", "m-1", at=datetime.now(UTC)))


@pytest.fixture
def receiver() -> Receiver:
    """Make a receiver that knows nobody."""
    return Receiver(Postmark(SECRET), MemoryStore())


def paths(receiver: Receiver) -> dict[str, Any]:
    """Return what the page shows, by path."""
    app = FastAPI()
    app.include_router(router(receiver), prefix="/mail")
    shown: dict[str, Any] = app.openapi()["paths"]
    return shown


def test_one_operation(receiver: Receiver) -> None:
    """The page shows the endpoint once, with the only method that is taken."""
    assert {path: list(shown) for path, shown in paths(receiver).items()} == {
        f"/mail{ENDPOINT}": ["post"]
    }


def test_answers(receiver: Receiver) -> None:
    """Each answer that a notification can have is there, with its text, which is plain."""
    answers = paths(receiver)[f"/mail{ENDPOINT}"]["post"]["responses"]
    assert list(answers) == ["200", "400", "401", "404", "408", "413", "422", "503"]
    elsewhere = {Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.LENGTH_REQUIRED}
    for refusal in {*Refusal} - elsewhere:
        assert refusal.text in answers[str(refusal.status)]["description"]
    assert {kind for answer in answers.values() for kind in answer["content"]} == {"text/plain"}


def test_request(receiver: Receiver) -> None:
    """The header and the body are described, and both are needed."""
    operation = paths(receiver)[f"/mail{ENDPOINT}"]["post"]
    [header] = operation["parameters"]
    assert (header["name"], header["in"], header["required"]) == (
        "X-Provider-Secret",
        "header",
        True,
    )
    assert operation["requestBody"]["required"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert {"RecordType", "MessageID", "Recipient"} <= set(schema["properties"])


def test_dependencies_of_the_host(receiver: Receiver) -> None:
    """What the host hangs on the router is called before the receiver is, and its tasks after."""
    called = []

    async def note(tasks: BackgroundTasks) -> None:
        called.append("before")
        tasks.add_task(called.append, "after")

    app = FastAPI()
    app.include_router(router(receiver), prefix="/mail", dependencies=[Depends(note)])
    with uvicorn_serving(app) as port:
        assert ask(port, post(b"{", f"/mail{ENDPOINT}")).status == 422
    assert called == ["before", "after"]


@pytest.mark.parametrize("reads", [{"dependency"}, {"middleware"}, {"dependency", "middleware"}])
def test_body_that_the_host_reads(receiver: Receiver, reads: set[str]) -> None:
    """A dependency or a middleware may read the body first; all is answered as if none had."""

    async def read(request: Request) -> None:
        await request.body()

    async def pass_on(request: Request, call_next: RequestResponseEndpoint) -> Response:
        await request.body()
        return await call_next(request)

    app = FastAPI()
    if "middleware" in reads:
        app.middleware("http")(pass_on)
    dependencies = [Depends(read)] if "dependency" in reads else []
    app.include_router(router(receiver), prefix="/mail", dependencies=dependencies)
    with uvicorn_serving(app) as port:
        for body, secret, status in (
            (STRANGER, SECRET, 404),
            (STRANGER, "wrong", 401),
            (b"", SECRET, 422),
            (b" " * (LARGEST_BODY + 1), SECRET, 413),
        ):
            assert ask(port, post(body, f"/mail{ENDPOINT}", secret=secret)).status == status
