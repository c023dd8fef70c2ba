"""The admin in a real browser: its pages, forms and actions, on the example's project."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from look import Look, chromium

from django_project.manage import Manage
from hookrow import testing
from wire import ENDPOINT, SECRET

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ADA = "ada@example.com"
PASSWORD = "of-the-tests"

ROWS = f"""
from django.contrib.auth.models import User
from hookrow.django.tables.models import Dispatch, Subscriber
User.objects.create_superuser("root", password={PASSWORD!r})
Dispatch.objects.create(subscriber=Subscriber.objects.create(email={ADA!r}))
"""
"""A user, and a dispatch that the provider has not given an id yet."""


class Admin(Look):
    """The admin's pages as a user sees and uses them."""

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
    """Run the example, which is about to send a mail, and log in."""
    manage = Manage(tmp_path, f"sqlite:///{tmp_path}/hookrow.db")
    assert manage.run("migrate", "-v0").returncode == 0
    manage.script(ROWS)
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


def test_replay_and_suppression(admin: Admin) -> None:
    """An early delivery is replayed, and a subscriber suppressed for a reason that is asked for."""
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
    admin.open("hookrow_tables/subscriber/")
    admin.act(ADA, "suppress")
    admin.shows("get no more mail")
    admin.type(reason="asked by <letter>")
    admin.shows("1 suppression set.")
    admin.shows("asked by <letter>")
    admin.open("hookrow/notification/")
    admin.page.click("#result_list tbody tr:first-child th a")
    admin.shows('"ChangedBy": "root"')
