"""FastAPI's router: what its OpenAPI page shows. What it answers is in `hosts/host.py`."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI

from hookrow import Postmark, Receiver, Refusal
from hookrow.fastapi import router
from hookrow.stores.memory import MemoryStore
from wire import ENDPOINT, SECRET, ask, request, uvicorn_serving


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
        assert ask(port, request(b"{", f"/mail{ENDPOINT}")).status == 422
    assert called == ["before", "after"]
