"""The page on OpenAPI: one application describes the endpoint, and the other one hides it."""

from typing import Any

import pytest
from fastapi import FastAPI

from session import execute, read_files


def test_the_endpoint_is_described_or_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKROW_SECRET", "a-secret-for-the-page")
    names = execute(read_files("docs/how-to/openapi.md")["main.py"])
    described, hidden = paths(names["described"]), paths(names["hidden"])
    assert described["/mail/provider/webhooks"]["post"]["tags"] == ["webhooks"]
    assert hidden == {}
    assert "a-secret" not in str(names["described"].openapi())


def paths(app: FastAPI) -> dict[str, Any]:
    found: dict[str, Any] = app.openapi()["paths"]
    return found
