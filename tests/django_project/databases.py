"""Fixtures: databases with the tables of the project, Django's, hookrow's and those of `crm`.

A test module loads them with `pytest_plugins = ["django_project.databases"]`.
"""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from django.core.management import call_command

import django_host
from databases import NAMES, kind_of
from django_project.site import Site, site


@pytest.fixture(scope="session")
def new_project(
    request: pytest.FixtureRequest,
    new_database: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], str]:
    """Return a function that creates a migrated database of a kind."""

    @cache
    def template(name: str) -> str:
        url = new_database(name)
        with django_host.default(url):
            call_command("migrate", run_syncdb=True, verbosity=0)
        return url

    def make(name: str) -> str:
        return kind_of(name).copy(request, template(name), tmp_path_factory.mktemp("project"))

    return make


@pytest.fixture
def sqlite_site(new_project: Callable[[str], str]) -> Iterator[Site]:
    with site(new_project("sqlite")) as project:
        yield project


@pytest.fixture(params=NAMES)
def any_site(request: pytest.FixtureRequest, new_project: Callable[[str], str]) -> Iterator[Site]:
    with site(new_project(request.param)) as project:
        yield project
