"""Mistakes of configuration: who catches which, and what their text says to do."""

from __future__ import annotations

import pytest

from command import run_script
from hookrow.errors import ConfigurationError, HookrowError, MissingExtra, SchemaMismatch
from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable


@pytest.mark.parametrize(
    "kind",
    [
        ConfigurationError,
        SchemaMismatch,
        MissingExtra,
        StoreError,
        Conflict,
        Locked,
        Rejected,
        Unavailable,
    ],
)
def test_one_ancestor(kind: type[Exception]) -> None:
    """Whatever hookrow raises on purpose can be caught as one."""
    assert issubclass(kind, HookrowError)


@pytest.mark.parametrize("kind", [SchemaMismatch, MissingExtra])
def test_configuration(kind: type[Exception]) -> None:
    """What the database or the installation lacks is a mistake of configuration."""
    assert issubclass(kind, ConfigurationError)


@pytest.mark.parametrize("kind", [StoreError, Conflict, Locked, Rejected, Unavailable])
def test_a_failed_transaction_is_no_configuration(kind: type[Exception]) -> None:
    """A transaction that fails is nobody's mistake of configuration."""
    assert not issubclass(kind, ConfigurationError)


def test_missing_extra_says_what_to_type() -> None:
    """The message of a missing extra holds the exact line that installs it."""
    error = MissingExtra("A database", "sql")
    assert str(error) == "A database needs an extra: pip install 'hookrow[sql]'"


def test_missing_extra_is_an_import_error() -> None:
    """A missing extra is caught where a missing module is expected."""
    with pytest.raises(ImportError, match=r"pip install 'hookrow\[postgres\]'"):
        raise MissingExtra("PostgreSQL", "postgres")


@pytest.mark.parametrize("framework", ["FastAPI", "Flask"])
def test_a_framework_is_missing(framework: str) -> None:
    """It is no extra of ours: the line that installs the framework itself is said."""
    module = framework.lower()
    said = run_script(f"""
        import sys
        sys.modules["{module}"] = None
        from hookrow import ConfigurationError
        try:
            import hookrow.{module}
        except ConfigurationError as error:
            print(error)
    """)
    assert said == f"hookrow.{module} needs {framework}: pip install {module}\n"
