"""The page on versions: it states what the metadata and the code state."""

import re

import pytest

import hookrow
from hookrow.stores.sql._dialects import mariadb, postgresql, sqlite
from requirements import ROOT, requirements

PAGE = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|", PAGE, re.MULTILINE))
"""What is supported of each product."""

LOWEST = {each.name: each.lowest for each in requirements()}


@pytest.mark.parametrize("product", ["Python", "Django"])
def test_versions_in_the_metadata(product: str) -> None:
    """The classifiers list all supported versions, which include the lowest and the upper bound."""
    pattern = rf'"(?:Framework|Programming Language) :: {product} :: (\d+\.\d+)"'
    classified = re.findall(pattern, PYPROJECT)
    assert re.findall(r"\d+\.\d+", ROWS[product]) == classified
    if product == "Django":
        assert LOWEST["django"] == classified[0]


def test_lowest_versions() -> None:
    assert ROWS["SQLAlchemy"] == f"{LOWEST['sqlalchemy']} and later"
    oldest = {
        name: ".".join(map(str, version))
        for dialect in (mariadb.MARIADB, postgresql.POSTGRESQL, sqlite.SQLITE)
        for name, version in dialect.oldest.items()
    }
    assert {name: ROWS[name] for name in oldest} == {
        name: f"{version} and later" for name, version in oldest.items()
    }


def test_packages_with_an_upper_bound() -> None:
    """By the names in their own documentation."""
    named = re.search(r"those with one \(([\w, ]+)\)", PAGE)
    assert named is not None
    bounded = {each.name for each in requirements() if each.below is not None}
    assert {*named[1].lower().split(", ")} == bounded


def test_the_changelog_describes_this_version() -> None:
    """Under its date, as the newest."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(hookrow.__version__)} - \d{{4}}-\d\d-\d\d", versions[0])
