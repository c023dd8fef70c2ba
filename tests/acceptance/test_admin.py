"""The admin in a real browser: its pages, forms and actions, in the example project."""

from datetime import UTC, datetime
from pathlib import Path

from browser import Visitor, chromium

from django_project.manage import Manage
from hookrow import testing
from wire import ADA, ENDPOINT, SECRET

ROWS = f"""
from django.contrib.auth.models import User
from hookrow.django.tables.models import Dispatch, Subscriber
User.objects.create_superuser("root", password="of-the-tests")
Dispatch.objects.create(subscriber=Subscriber.objects.create(email={ADA!r}))
"""
"""A user, and a dispatch without a message id."""


class Admin(Visitor):
    """A visitor of the admin's pages."""

    def type(self, **fields: str) -> None:
        """Fill in fields, and submit their form."""
        for name, text in fields.items():
            self.page.fill(f"[name={name}]", text)
        self.page.press(f"[name={name}]", "Enter")

    def act(self, row: str, action: str) -> None:
        """Select the row that contains the text, and run the action."""
        selected = self.page.locator("#result_list tbody tr", has_text=row)
        selected.locator("input.action-select").check()
        self.page.select_option("select[name=action]", action)
        self.page.click("button[name=index]")


def test_replay_and_suppression(tmp_path: Path) -> None:
    """An early delivery is replayed, and a subscriber is suppressed for a reason."""
    manage = Manage(tmp_path, f"sqlite:///{tmp_path}/hookrow.db")
    assert manage.run("migrate", "-v0").returncode == 0
    manage.script(ROWS)
    with (
        manage.runserver() as port,
        chromium() as browser,
        Admin.at(browser, f"http://127.0.0.1:{port}/admin/") as admin,
    ):
        admin.open("")
        admin.type(username="root", password="of-the-tests")
        assert admin.shows("Site administration")
        early = testing.delivery(ADA, "m-1", at=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))
        posted = testing.post(f"http://127.0.0.1:{port}/mail{ENDPOINT}", early, secret=SECRET)
        assert posted == (404, "Engine::Dispatch not found")
        admin.open("hookrow_tables/dispatch/1/change/")
        admin.type(provider_message_id="m-1")
        assert admin.shows("was changed successfully")
        admin.open("hookrow/notification/")
        assert admin.shows("dispatch not found, 404")
        admin.act("m-1", "replay")
        assert admin.shows("1 notification replayed: 1 recorded.")
        admin.open("hookrow_tables/dispatch/1/change/")
        assert admin.shows("March 4, 2026, 5:06 a.m.")
        admin.open("hookrow_tables/subscriber/")
        admin.act(ADA, "suppress")
        assert admin.shows("no longer get mail")
        admin.type(reason="asked by <letter>")
        assert admin.shows("1 subscriber suppressed.")
        assert admin.shows("asked by <letter>")
        admin.open("hookrow/notification/")
        admin.page.click("#result_list tbody tr:first-child th a")
        assert admin.shows('"ChangedBy": "root"')
        admin.ignore("404")  # the site has no icon
