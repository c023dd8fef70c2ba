"""The tutorials work step by step in an empty folder, with real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres import Databases
from tutorial import follow

NO_CREATEDB = {"createdb": "true"}
"""The databases exist already, because the server's programs may not be in the path."""

PYTEST = {"python -m pytest": "python -m pytest -p no:cacheprovider -W 'ignore:Using `httpx`'"}
"""Without the warning of Starlette if `httpx2` is not installed."""


def test_first_ten_minutes(tmp_path: Path) -> None:
    follow("docs/tutorials/first-ten-minutes.md", tmp_path)


@pytest.fixture
def databases(postgres: Databases) -> Iterator[dict[str, str]]:
    """Return the URLs of two empty databases in place of those that a page creates."""
    urls = {name: postgres.create() for name in ("newsletter_test", "newsletter")}
    yield {f"//localhost/{name}": url.partition(":")[2] for name, url in urls.items()}
    for url in urls.values():
        postgres.drop(url)


def test_fastapi_asyncpg_alembic(tmp_path: Path, databases: dict[str, str]) -> None:
    page = "docs/tutorials/fastapi-asyncpg-alembic.md"
    follow(page, tmp_path, NO_CREATEDB | PYTEST | databases)


def test_flask_factory(tmp_path: Path) -> None:
    follow("docs/tutorials/flask-factory.md", tmp_path, PYTEST)


def test_django(tmp_path: Path) -> None:
    follow("docs/tutorials/django.md", tmp_path)
