"""What a project tests within Django's own `TestCase`."""

from __future__ import annotations

from pathlib import Path

from django_project import settings
from django_project.manage import Manage
from hookrow.testing import StoreContract


def test_a_project_proves_its_mapping(tmp_path: Path, database_url: str) -> None:
    """`manage.py test` passes for our models and for a host's, and rolls all of it back."""
    installed = [*settings.INSTALLED_APPS, "crm"]
    project = Manage(tmp_path, database_url, INSTALLED_APPS=installed)
    done = project.run("test", "django_project.mappings")
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"Ran {2 * len(contract)} tests" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_a_project_posts(tmp_path: Path, database_url: str) -> None:
    """By the client and to the receiver, and then its test database can be dropped."""
    done = Manage(tmp_path, database_url).run("test", "django_project.webhooks")
    assert "Ran 4 tests" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
