"""Fixtures: databases with the tables of the project, Django's, hookrow's and those of `crm`.

A test module loads them with `pytest_plugins = ["django_project.databases"]`.
"""

import shutil
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from django.core.management import call_command
from sqlalchemy import make_url

import django_host
from django_project.site import Site, site


@pytest.fixture(scope="session")
def new_project(
    request: pytest.FixtureRequest,
    new_database: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], str]:
    """Return a function that creates a migrated database, "sqlite" or "postgres"."""

    @cache
    def template(kind: str) -> str:
        url = new_database(kind)
        with django_host.default(url):
            call_command("migrate", run_syncdb=True, verbosity=0)
        return make_url(url).database or ""

    def make(kind: str) -> str:
        if kind == "postgres":
            url: str = request.getfixturevalue("postgres").create(template(kind))
            return url
        file = tmp_path_factory.mktemp("project") / "project.db"
        shutil.copy(template(kind), file)
        return f"sqlite:///{file}"

    return make


@pytest.fixture
def sqlite_site(new_project: Callable[[str], str]) -> Iterator[Site]:
    with site(new_project("sqlite")) as project:
        yield project


@pytest.fixture(params=["sqlite", "postgres"])
def any_site(request: pytest.FixtureRequest, new_project: Callable[[str], str]) -> Iterator[Site]:
    with site(new_project(request.param)) as project:
        yield project
