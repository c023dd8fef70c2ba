"""All faults of a mapping of models at once, in a real project; migrations are not stopped."""

from pathlib import Path
from typing import Any

import pytest

from django_project.manage import Manage
from wire import SECRET

MODELS = """\
from django.db import models


class Person(models.Model):
    address = models.EmailField()
    suppressed_at = models.DateTimeField(null=True)


class Send(models.Model):
    postmark_id = models.CharField(max_length=64)
    person = models.ForeignKey(Person, models.CASCADE)
    delivered_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)
"""

ORDINARY: dict[str, Any] = {
    "subscribers": {"table": "shop.Person"},
    "dispatches": {"table": "shop.Send"},
}
REST = {"subscriptions": None, "log": None}
APPS = ["django.contrib.contenttypes", "django.contrib.auth", "hookrow.django", "shop"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a project with an app."""
    app = tmp_path / "shop"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "models.py").write_text(MODELS)
    return tmp_path


def project(folder: Path, tables: dict[str, Any]) -> Manage:
    """Return the commands of the project with a mapping."""
    return Manage(
        folder,
        f"sqlite:///{folder}/shop.db",
        HOOKROW={"SECRET": SECRET, "TABLES": tables | REST},
        INSTALLED_APPS=APPS,
        MIDDLEWARE=[],
        ROOT_URLCONF="hookrow.django.urls",
        TEMPLATES=[],
    )


def test_one_run(folder: Path) -> None:
    """`check` finds everything; with the lines that it says, the next one passes."""
    done = project(folder, ORDINARY).run("check")
    assert done.returncode == 1
    assert done.stderr.count("(hookrow.") == 1
    for text in (
        "(hookrow.E002) 8 faults:",
        (
            "- The model 'shop.Person' has no field 'email'. Did you mean 'address'? Write "
            '"email": "address".'
        ),
        (
            "- The model 'shop.Person' has no field 'suppression_reason'. It is optional: with "
            '"suppression_reason": None, no reason is stored.'
        ),
        (
            "- The model 'shop.Send' has no field 'subscriber_id'. Did you mean 'person'? Write "
            '"subscriber_id": "person".'
        ),
        (
            "- The model 'shop.Send' has no field 'provider_message_id'. Did you mean "
            "'postmark_id'? "
            'Write "provider_message_id": "postmark_id".'
        ),
    ):
        assert text in done.stderr
    _, _, rest = done.stderr.partition("To correct the mapping, write in HOOKROW['TABLES']:\n\n")
    lines, _, _ = rest.partition("\tHINT")
    written = eval(f"{{{lines}}}")
    done = project(folder, written).run("check")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


def test_migrations_are_not_stopped(folder: Path) -> None:
    """`makemigrations` and `migrate` only warn, and other commands fail."""
    faulty = project(folder, ORDINARY)
    done = faulty.run("makemigrations", "shop")
    assert done.returncode == 0, done.stderr
    assert "WARNINGS:\n?: (hookrow.E002) 8 faults:" in done.stderr
    done = faulty.run("migrate")
    assert done.returncode == 0, done.stderr
    assert "(hookrow.E002)" in done.stderr
    assert faulty.run("showmigrations").returncode == 1
