"""The admin in a real browser: what came too early is seen in the log, and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from look import Look, chromium

from django_project.manage import Manage
from hookrow import testing
from wire import ENDPOINT, SECRET

pytestmark = pytest.mark.browser

PROJECT = Path(__file__).parents[2] / "examples/django_project"

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ADA = "ada@example.com"
PASSWORD = "of-the-tests"

UNSENT = f"""
from hookrow.django.tables.models import Dispatch, Subscriber
Dispatch.objects.create(subscriber=Subscriber.objects.create(email={ADA!r}))
"""
"""A dispatch that the provider has not given an id yet."""


SETTINGS = """
from project.settings import *
DATABASES["default"]["NAME"] = "hookrow.db"
"""
"""The example's own, but for the file of its database, which is in the folder of the test."""


class Example(Manage):
    """Runs the commands of `examples/django_project`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "")
        (folder / "settings_of_the_test.py").write_text(SETTINGS)
        self._variables = {
            "PYTHONPATH": f".:{PROJECT}",
            "DJANGO_SETTINGS_MODULE": "settings_of_the_test",
            "HOOKROW_SECRET": SECRET,
        }


class Admin(Look):
    """The admin's pages as somebody sees and uses them."""

    def type(self, **fields: str) -> None:
        """Fill in fields, and submit their form."""
        for name, text in fields.items():
            self.page.fill(f"[name={name}]", text)
        self.page.press(f"[name={name}]", "Enter")

    def act(self, row: str, action: str) -> None:
        """Select the row that has the text, choose the action, and go."""
        found = self.page.locator("#result_list tbody tr", has_text=row)
        found.locator("input.action-select").check()
        self.page.select_option("select[name=action]", action)
        self.page.click("button[name=index]")


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    """Run the example, in which somebody is to be sent a mail, and log in."""
    manage = Example(tmp_path)
    _done(manage, "migrate", "-v0")
    names = {"DJANGO_SUPERUSER_USERNAME": "root", "DJANGO_SUPERUSER_EMAIL": ADA}
    new = ("createsuperuser", "--noinput")
    _done(manage, *new, DJANGO_SUPERUSER_PASSWORD=PASSWORD, **names)
    manage.script(UNSENT)
    with (
        manage.runserver() as port,
        chromium() as browser,
        Admin.at(browser, f"http://127.0.0.1:{port}/admin/") as admin,
    ):
        admin.open("")
        admin.type(username="root", password=PASSWORD)
        admin.shows("Site administration")
        yield admin
        admin.wrong[:] = [each for each in admin.wrong if "404" not in each]  # it has no icon


def _done(manage: Manage, *typed: str, **variables: str) -> None:
    done = manage.run(*typed, **variables)
    assert done.returncode == 0, done.stderr


def test_what_came_too_early_is_replayed(admin: Admin) -> None:
    """It is parked; once the dispatch has its id, a replay sets when it was delivered."""
    early = testing.delivery(ADA, "m-1", at=AT)
    answer = testing.post(admin.mount.replace("/admin/", f"/mail{ENDPOINT}"), early, secret=SECRET)
    assert answer == (404, "Engine::Dispatch not found")
    admin.open("hookrow/notification/")
    admin.shows("dispatch not found, 404")
    admin.open("hookrow_tables/dispatch/1/change/")
    admin.type(provider_message_id="m-1")
    admin.shows("was changed successfully")
    admin.open("hookrow/notification/")
    admin.act("m-1", "replay")
    admin.shows("1 notification replayed: 1 recorded.")
    admin.shows("recorded, 200")
    admin.open("hookrow_tables/dispatch/1/change/")
    admin.shows("March 4, 2026, 5:06 a.m.")


def test_a_subscriber_is_suppressed_by_hand(admin: Admin) -> None:
    """The page between asks why, and the log has it."""
    admin.open("hookrow_tables/subscriber/")
    admin.act(ADA, "suppress")
    admin.shows("get no more mail")
    admin.type(reason="asked by <letter>")
    admin.shows("1 suppression set.")
    admin.shows("asked by <letter>")
    admin.open("hookrow/notification/1/change/")
    admin.shows('"ChangedBy": "root"')
