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
    person = models.ForeignKey(Person, models.CASCADE, db_column="recipient")
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


def project(folder: Path, tables: dict[str, Any] | str) -> Manage:
    """Return the commands of the project with a mapping, or the path of one."""
    tables = tables if isinstance(tables, str) else tables | REST
    return Manage(
        folder,
        f"sqlite:///{folder}/shop.db",
        HOOKROW={"SECRET": SECRET, "TABLES": tables},
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


def test_tables_behind_the_models(folder: Path) -> None:
    """`hookrow check` names the migrations of the project that are not applied, or not written."""
    columns = {"email": "address", "suppression_reason": None, "suppression_changed_at": None}
    sends: dict[str, Any] = {"provider_message_id": "postmark_id", "subscriber_id": "person"}
    sends |= dict.fromkeys(["suppressed_at", "suppression_reason", "suppression_changed_at"])
    current = project(
        folder,
        {
            "subscribers": {"table": "shop.Person", "columns": columns},
            "dispatches": {"table": "shop.Send", "columns": sends},
        },
    )
    models = folder / "shop" / "models.py"
    models.write_text(MODELS.replace("suppressed_at = models.DateTimeField(null=True)", "x = 1"))
    for command in (("makemigrations", "shop"), ("migrate",)):
        assert current.run(*command).returncode == 0
    models.write_text(MODELS)
    found = current.run("hookrow", "check").stdout
    assert "ok       migrations  All are applied.\n" in found
    assert "error    tables      The table 'shop_person' has no column 'suppressed_at'." in found
    assert "so the tables may differ from them: run manage.py makemigrations and" in found
    assert current.run("makemigrations", "shop").returncode == 0
    found = current.run("hookrow", "check").stdout
    assert "migrations  Not applied: shop.0002_" in found
    assert "Run: manage.py migrate\n" in found


def test_hints_of_a_path(folder: Path) -> None:
    """A schema of models has neither labels nor keys of settings, so no hint explains these."""
    (folder / "shop" / "mapping.py").write_text(
        "from hookrow import Role, Schema\n"
        "from shop.models import Person, Send\n"
        "SCHEMA = Schema(\n"
        "    subscribers=Role.of(Person, email=Person.address),\n"
        "    dispatches=Role.of(\n"
        "        Send, provider_message_id=Send.postmark_id, subscriber_id=Send.person\n"
        "    ),\n"
        "    subscriptions=None,\n"
        ")\n"
    )
    named = project(folder, "shop.mapping.SCHEMA")
    models = folder / "shop" / "models.py"
    models.write_text(MODELS.replace("suppressed_at = models.DateTimeField(null=True)", "x = 1"))
    assert (
        "HINT: docs/how-to/hosts/django.md has an example of a Schema" in named.run("check").stderr
    )
    models.write_text(MODELS.replace("DateTimeField(null=True)", "DateTimeField()", 1))
    assert "HINT: To drop NOT NULL, add null=True to the field" in named.run("check").stderr
    models.write_text(
        MODELS.replace("DateTimeField(null=True)", "DateTimeField()", 1).replace("opened_at", "x")
    )
    found = named.run("check").stderr
    assert "The role 'dispatches' needs opened_at" in found
    assert "The column 'suppressed_at' of 'shop_person' is NOT NULL" in found


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
