"""Errors: which ones a caller catches together, and what they say to do."""

from __future__ import annotations

import importlib
import sys

import pytest

from hookrow import ConfigurationError, HookrowError, MissingExtra, SchemaMismatch
from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable

CONFIGURATION = (ConfigurationError, SchemaMismatch, MissingExtra)


@pytest.mark.parametrize(
    "kind", [*CONFIGURATION, StoreError, Conflict, Locked, Rejected, Unavailable]
)
def test_ancestors(kind: type[Exception]) -> None:
    """All errors are hookrow's, and either the configuration's or a store's."""
    assert issubclass(kind, HookrowError)
    assert issubclass(kind, ConfigurationError) is (kind in CONFIGURATION)
    assert issubclass(kind, StoreError) is (kind not in CONFIGURATION)


def test_missing_extra() -> None:
    """The message is the line that installs the extra; it is an `ImportError`, too."""
    with pytest.raises(
        ImportError, match=r"^PostgreSQL needs an extra: pip install 'hookrow\[pg\]'"
    ):
        raise MissingExtra("PostgreSQL", "pg")


@pytest.mark.parametrize(
    ("module", "missing", "install"),
    [
        ("fastapi", "fastapi", "fastapi"),
        ("flask", "flask", "flask"),
        ("django", "django", r"'hookrow\[django\]'"),
        ("dashboard", "jinja2", r"'hookrow\[dashboard\]'"),
        ("stores.sql", "sqlalchemy", r"'hookrow\[sql\]'"),
        ("cli", "click", r"'hookrow\[serve\]'"),
        ("metrics", "prometheus_client", r"'hookrow\[metrics\]'"),
        ("exposition", "prometheus_client", r"'hookrow\[metrics\]'"),
        ("tracing", "opentelemetry", r"'hookrow\[tracing\]'"),
    ],
)
def test_missing_package(
    module: str, missing: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module whose package is not installed says how to install it."""
    for name in [*sys.modules]:
        if f"{name}.".startswith((f"{missing}.", f"hookrow.{module}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError, match=f"pip install {install}$"):
        importlib.import_module(f"hookrow.{module}")
