"""The admin in a real browser: what came too early is seen in the log, and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from django_project.manage import Manage
from hookrow import testing
from wire import ENDPOINT, SECRET, eventually

pytestmark = pytest.mark.browser

BROWSER = Path("/usr/bin/chromium")
DRIVER = Path("/usr/bin/chromedriver")

PROJECT = Path(__file__).parents[2] / "examples/django_project"

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1400,1000",
)

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


class Admin:
    """The admin's pages as somebody sees and uses them."""

    def __init__(self, browser: Chrome, server: str) -> None:
        self._browser = browser
        self.server = server

    def open(self, path: str) -> None:
        """Go to a page of the admin."""
        self._browser.get(f"{self.server}/admin/{path}")

    def shows(self, text: str) -> None:
        """Wait until the page has the text."""
        eventually(lambda: text in self._text())

    def type(self, **fields: str) -> None:
        """Fill in fields, and submit their form."""
        for name, text in fields.items():
            field = self._one(f"[name={name}]")
            field.clear()
            field.send_keys(text)
        field.submit()

    def act(self, row: str, action: str) -> None:
        """Select the row that has the text, choose the action, and go."""
        [found] = [each for each in self._all("#result_list tbody tr") if row in each.text]
        found.find_element(By.CSS_SELECTOR, "input.action-select").click()
        Select(self._one("select[name=action]")).select_by_value(action)
        self._one("button[name=index]").click()

    def complaints(self) -> list[str]:
        """Return what the browser's console has against the pages."""
        found = [entry["message"] for entry in self._browser.get_log("browser")]  # type: ignore[no-untyped-call] # as it is
        return [message for message in found if "favicon.ico" not in message]

    def _text(self) -> str:
        with suppress(StaleElementReferenceException):  # the next page comes just now
            return self._one("body").text
        return ""

    def _one(self, selector: str) -> WebElement:
        return self._browser.find_element(By.CSS_SELECTOR, selector)

    def _all(self, selector: str) -> list[WebElement]:
        return self._browser.find_elements(By.CSS_SELECTOR, selector)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """Run a browser that nobody has used before."""
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path}/browser"):
        options.add_argument(argument)
    browser = Chrome(options, ChromeService(str(DRIVER)))
    browser.implicitly_wait(5)
    yield browser
    browser.quit()


@pytest.fixture
def admin(browser: Chrome, tmp_path: Path) -> Iterator[Admin]:
    """Run the example, in which somebody is to be sent a mail, and log in."""
    manage = Example(tmp_path)
    _done(manage, "migrate", "-v0")
    names = {"DJANGO_SUPERUSER_USERNAME": "root", "DJANGO_SUPERUSER_EMAIL": ADA}
    new = ("createsuperuser", "--noinput")
    _done(manage, *new, DJANGO_SUPERUSER_PASSWORD=PASSWORD, **names)
    manage.script(UNSENT)
    with manage.runserver() as port:
        admin = Admin(browser, f"http://127.0.0.1:{port}")
        admin.open("")
        admin.type(username="root", password=PASSWORD)
        admin.shows("Site administration")
        yield admin
        assert not admin.complaints()


def _done(manage: Manage, *typed: str, **variables: str) -> None:
    done = manage.run(*typed, **variables)
    assert done.returncode == 0, done.stderr


def test_what_came_too_early_is_replayed(admin: Admin) -> None:
    """It is parked; once the dispatch has its id, a replay sets when it was delivered."""
    early = testing.delivery(ADA, "m-1", at=AT)
    answer = testing.post(f"{admin.server}/mail{ENDPOINT}", early, secret=SECRET)
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
