"""FastAPI's router: its OpenAPI page, and the host's dependencies and middleware around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from drivers import ASGIHost, GatedStore, receiving
from fastapi import BackgroundTasks, Depends, FastAPI, Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from hookrow import Receiver, Refusal
from hookrow.fastapi import router
from hookrow.http import LARGEST_BODY
from wire import ENDPOINT, SECRET, STRANGER


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver."""
    with receiving(GatedStore()) as receiver:
        yield receiver


def test_page(receiver: Receiver) -> None:
    """The page shows the endpoint once, its method, what it needs, and each text it answers."""
    app = FastAPI()
    app.include_router(router(receiver), prefix="/mail")
    paths: dict[str, Any] = app.openapi()["paths"]
    assert {path: list(shown) for path, shown in paths.items()} == {f"/mail{ENDPOINT}": ["post"]}
    operation = paths[f"/mail{ENDPOINT}"]["post"]
    (header,) = operation["parameters"]
    assert (header["name"], header["required"]) == ("X-Provider-Secret", True)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert {"RecordType", "MessageID", "Recipient"} <= set(schema["properties"])
    answers = operation["responses"]
    elsewhere = {Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.LENGTH_REQUIRED}
    for refusal in {*Refusal} - elsewhere:
        assert refusal.text in answers[str(refusal.status)]["description"]


def test_dependencies(receiver: Receiver) -> None:
    """The host's dependencies are called before the receiver, their background tasks after it."""
    called = []

    async def note(tasks: BackgroundTasks) -> None:
        called.append("before")
        tasks.add_task(called.append, "after")

    app = FastAPI()
    app.include_router(router(receiver), prefix="/mail", dependencies=[Depends(note)])
    assert ASGIHost(app).ask(b"{").status == 422
    assert called == ["before", "after"]


@pytest.mark.parametrize("reads", [{"dependency"}, {"middleware"}, {"dependency", "middleware"}])
def test_host_reads_the_body(receiver: Receiver, reads: set[str]) -> None:
    """A dependency or a middleware may read the body first; the responses are the same."""

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
    host = ASGIHost(app)
    for body, secret, status in (
        (STRANGER, SECRET, 404),
        (b"{}", "wrong", 401),
        (b"", SECRET, 422),
        (b" " * (LARGEST_BODY + 1), SECRET, 413),
    ):
        assert host.ask(body, secret=secret).status == status
