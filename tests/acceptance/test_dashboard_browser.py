"""The dashboard in a real browser: drawing, mouse, keyboard, and hostile content."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import pytest
from flask import Flask
from litestar import Litestar, asgi
from look import Look, chromium
from playwright.sync_api import Browser
from sqlalchemy import delete, insert, select
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

from command import Command
from django_project.manage import Manage
from hookrow import Arrival, Postmark, Receiver, testing
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, basic
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores import tables
from hookrow.stores.engines import open_engine
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from wire import ENDPOINT, PATIENCE, SECRET, eventually, uvicorn_serving

ADA = "ada@example.com"
USER = "hookrow"
PASSWORD = "of-the-tests"
EARLY = "saved-too-late"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e" + "W" * 70

PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
DESK = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
LOGIN = {"http_credentials": {"username": USER, "password": PASSWORD}}

PAGES = {
    "overview": "?period=day",
    "notifications": "notifications",
    "notification": "notification?id=121",
    "subscriber": f"subscriber?email={ADA}",
    "dispatch": "dispatch?message_id=m-1",
    "lists": "lists",
}

HARMLESS = {
    "hostile": "notification?id=123",
    "hostile-overview": "",
    "hostile-notifications": "notifications",
    "mistake": f"notifications?before={'x' * 80}",
}
"""Pages that show hostile content."""

Host: TypeAlias = Callable[[Path, str], AbstractContextManager[str]]
"""Serves the dashboard of a database from a folder; yields the server's address."""


def fill(url: str) -> None:
    """Insert subscribers, dispatches, and a day's notifications of each kind."""
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(insert(tables.lists), [{"name": "news"}, {"name": "offers"}])
        for n in range(1, 21):
            email = ADA if n == 1 else f"person{n}@example.com"
            connection.execute(insert(tables.subscribers), {"email": email})
            ids = {"subscriber_id": n, "list_id": 1 + n % 2}
            connection.execute(insert(tables.subscriptions), ids)
            connection.execute(insert(tables.dispatches), ids | {"provider_message_id": f"m-{n}"})
    engine.dispose()
    now = datetime.now(UTC)
    times = {n: now - timedelta(minutes=11 * (120 - n)) for n in range(1, 121)}
    early, opened = testing.delivery(ADA, EARLY, at=now), testing.opening(ADA, "m-1", at=now)
    keep(url, *((_payload(n, at), at) for n, at in times.items()), (early, now), (opened, now))


def _payload(n: int, at: datetime) -> Any:  # noqa: ANN401 - any JSON
    person = 1 + n * 7 % 20
    email, message = ADA if person == 1 else f"person{person}@example.com", f"m-{person}"
    if n % 10 == 0:
        return testing.suppression(email, message, at=at, reason="SpamComplaint")
    if n % 10 < 4:
        return testing.opening(email, message, at=at)
    return testing.delivery("eve@example.com" if n % 10 == 4 else email, message, at=at)


def keep(url: str, *payloads: tuple[Any, datetime]) -> None:
    """Record payloads as if they had arrived at these times."""
    with closing(SQLStore(url)) as store:
        for payload, at in payloads:
            body = json.dumps(payload).encode()
            unsupported = Postmark(SECRET).describe(body)
            record(store, [Arrival(parse(body), body, at, unsupported=unsupported)])


def send(url: str, message_id: str) -> None:
    """Save the dispatch of a notification that came too early."""
    engine = open_engine(url)
    with engine.begin() as connection:
        row = {"provider_message_id": message_id, "subscriber_id": 1}
        connection.execute(insert(tables.dispatches), row)
    engine.dispose()


@contextmanager
def _dashboard(url: str) -> Iterator[tuple[Dashboard, Receiver]]:
    fill(url)
    store = SQLStore(url)
    dashboard = Dashboard(store, authorize=basic(USER, PASSWORD))
    receiver = Receiver(Postmark(SECRET), store)
    yield dashboard, receiver
    dashboard.close(PATIENCE)
    receiver.close(PATIENCE)
    store.close()


def in_asgi(mount: Callable[[ASGI, ASGI], Any]) -> Host:
    """Return an ASGI host with dashboard and receiver."""

    @contextmanager
    def host(_: Path, url: str) -> Iterator[str]:
        with (
            _dashboard(url) as (dashboard, receiver),
            uvicorn_serving(mount(ASGI(dashboard), ASGI(receiver))) as port,
        ):
            yield f"http://127.0.0.1:{port}"

    return host


def starlette(dashboard: ASGI, receiver: ASGI) -> Starlette:
    """Mount both in Starlette."""
    return Starlette(routes=[Mount("/mail/dashboard", dashboard), Mount("/mail", receiver)])


def litestar(dashboard: ASGI, _: ASGI) -> Litestar:
    """Mount the dashboard in Litestar, which removes the mount path and adds a slash."""
    return Litestar([asgi("/mail/dashboard", is_mount=True, copy_scope=True)(dashboard)])


@contextmanager
def in_serve(folder: Path, url: str) -> Iterator[str]:
    """Run `hookrow serve` with its dashboard."""
    fill(url)
    options = ("--dashboard", "--mount-path", "/mail", "--database-url", url)
    with Command(folder).serving(*options, HOOKROW_DASHBOARD_PASSWORD=PASSWORD) as serving:
        yield f"http://127.0.0.1:{serving.port}"


@contextmanager
def in_flask(folder: Path, url: str) -> Iterator[str]:
    """Mount the dashboard beside a Flask application."""
    del folder
    with _dashboard(url) as (dashboard, _):
        app = DispatcherMiddleware(Flask("host"), {"/mail/dashboard": WSGI(dashboard)})
        server = make_server("127.0.0.1", 0, app, threaded=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(PATIENCE)


@contextmanager
def in_django(folder: Path, url: str) -> Iterator[str]:
    """Run a Django project that includes the dashboard's URLs."""
    (folder / "hookrow.db").unlink()  # Django's own migrations make it
    manage = Manage(folder, url)
    names = {"DJANGO_SUPERUSER_USERNAME": USER, "DJANGO_SUPERUSER_EMAIL": ADA}
    variables = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD, **names}
    for typed in (("migrate", "-v0"), ("createsuperuser", "--noinput")):
        done = manage.run(*typed, **variables)
        assert done.returncode == 0, done.stderr
    fill(url)
    with manage.runserver() as port:
        yield f"http://127.0.0.1:{port}"


in_starlette = in_asgi(starlette)

HOSTS: dict[str, Host] = {
    "starlette": in_starlette,
    "litestar": in_asgi(litestar),
    "flask": in_flask,
    "django": in_django,
    "serve": in_serve,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run the browser."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def site(browser: Browser, tmp_path: Path, sqlite_url: str) -> Iterator[Look]:
    """Open the dashboard in Starlette."""
    with (
        in_starlette(tmp_path, sqlite_url) as server,
        Look.at(browser, f"{server}/mail/dashboard/", **DESK, **LOGIN) as look,
    ):
        yield look


@contextmanager
def looking(browser: Browser, host: str, server: str, **options: Any) -> Iterator[Look]:  # noqa: ANN401 - the browser's own
    """Open the dashboard of a host, logged in."""
    login = {} if host == "django" else LOGIN
    with Look.at(browser, f"{server}/mail/dashboard/", **options, **login) as look:
        if host == "django":
            look.open("")
            look.page.fill("[name=username]", USER)
            look.page.fill("[name=password]", PASSWORD)
            look.page.press("[name=password]", "Enter")
            look.shows("Overview")
            look.wrong.clear()  # of the admin's login, which has no icon
        yield look


@pytest.mark.parametrize(("window", "options"), [("desk", DESK), ("phone", PHONE)])
def test_each_page(
    browser: Browser, tmp_path: Path, sqlite_url: str, window: str, options: dict[str, Any]
) -> None:
    """Pages are accessible and fit the window, light and dark, also with hostile content."""
    with in_starlette(tmp_path, sqlite_url) as server:
        for pages in (PAGES, HARMLESS):
            with looking(browser, "starlette", server, **options) as look:
                for page, place in pages.items():
                    look.open(place)
                    look.page.locator("h1").wait_for()
                    if page == "overview":  # it refreshes itself when the statistics are ready
                        look.page.locator("dd", has_text="%").first.wait_for()
                    assert not look.overflows(), page
                    assert not look.violations(), page
                    if pages is PAGES:
                        look.shoot(f"{page}-{window}")
                look.wrong[:] = [each for each in look.wrong if "400" not in each]  # the mistake
            hostile = dict.fromkeys(("RecordType", "MessageID", "Recipient"), HOSTILE)
            keep(sqlite_url, (hostile, datetime.now(UTC)))


def test_charts(site: Look, sqlite_url: str) -> None:
    """Charts are drawn, and their tables contain what is in the database."""
    site.open("?period=day")
    assert [colours > 3 for colours in site.colours()] == [True, True]
    since = site.page.locator("table[data-chart=type] time").first.get_attribute("datetime")
    with closing(SQLStore(sqlite_url)) as store:
        assert store.log is not None
        entries = store.log.newest(Query(since=datetime.fromisoformat(since or "")), limit=1000)
    for kind, names in (
        ("type", [each.record_type for each in entries]),
        ("outcome", [each.outcome.value.replace("_", " ") for each in entries]),
    ):
        figures = {name: sum(counts) for name, counts in site.table(kind).items()}
        assert {name: count for name, count in figures.items() if count} == Counter(names)
        legend = site.page.locator(f"section[aria-labelledby=by-{kind}] .legend").inner_text()
        for name, count in figures.items():
            assert f"{name} {count}" in legend.replace("\n", " ")


@pytest.mark.parametrize("host", HOSTS)
def test_replay(browser: Browser, tmp_path: Path, sqlite_url: str, host: str) -> None:
    """In each host, pages load, and a form replays what came before its dispatch was saved."""
    with (
        HOSTS[host](tmp_path, sqlite_url) as server,
        looking(browser, host, server, **DESK) as site,
    ):
        site.open("")
        site.page.locator("h1", has_text="Overview").wait_for()
        site.open("notifications")
        site.page.get_by_label("Outcome").select_option("dispatch not found")
        site.page.get_by_role("button", name="Show").click()
        site.page.locator("#rows a").first.click()
        send(sqlite_url, EARLY)
        site.page.get_by_role("button", name="Replay").click()
        site.shows("Recorded once more.")
        site.page.get_by_role("link", name=EARLY).click()
        site.shows("delivered at")
        site.shows("by notification 121")


def test_suppress_by_keyboard(site: Look) -> None:
    """The keyboard reaches everything: skip link, pages and forms."""
    site.open("notifications")
    press = site.page.keyboard.press
    press("Tab")
    assert site.page.locator(":focus").inner_text() == "To the content"
    press("Enter")
    assert site.page.locator(":focus").get_attribute("id") == "main"
    site.page.locator("tbody a", has_text=ADA).first.focus()
    press("Enter")
    site.page.get_by_label("Reason").focus()
    site.page.keyboard.type("asked by <letter>")
    press("Tab")
    press("Enter")
    site.page.locator(".notice").wait_for()
    lifted = site.page.get_by_text("The suppression is lifted.").count()
    site.page.get_by_label("Reason").fill("again")
    site.page.get_by_role("button").click()
    site.shows("Suppressed." if lifted else "The suppression is lifted.")
    site.shows("by hookrow: asked by <letter>")


def test_live(site: Look) -> None:
    """New notifications appear without a reload, escaped, until paused."""
    server = site.mount.removesuffix("/mail/dashboard/")
    site.page.clock.install()
    site.open("notifications")
    newest = {**testing.delivery(HOSTILE, HOSTILE, at=datetime.now(UTC)), "Tag": HOSTILE}
    assert testing.post(f"{server}/mail{ENDPOINT}", newest, secret=SECRET)[0] == 404
    site.page.clock.run_for(5100)
    site.shows("1 new at")
    assert "alert(1)" in site.page.locator("#rows tr").first.inner_text()
    site.page.get_by_label("Live:").uncheck()
    assert testing.post(f"{server}/mail{ENDPOINT}", {"x": 1}, secret=SECRET)[0] == 422
    site.page.clock.run_for(20_000)
    site.shows("1 new at")
    site.page.locator("#rows a").first.click()
    site.shows("subscriber not found")


def test_what_is_committed_late(site: Look, sqlite_url: str) -> None:
    """A notification that is committed late with a lower id appears once, in its place."""
    engine, log = open_engine(sqlite_url), tables.notifications
    late = select(log).where(log.c.id == 121)
    with engine.begin() as connection:
        row = connection.execute(late).one()._asdict()
        connection.execute(delete(log).where(log.c.id == 121))
    site.page.clock.install()
    site.open("notifications")
    with engine.begin() as connection:
        connection.execute(insert(log), row)
    engine.dispose()
    site.page.clock.run_for(5100)
    site.shows("1 new at")
    site.page.clock.run_for(5100)
    numbers = site.page.locator("#rows [data-label=Number]").all_inner_texts()
    assert numbers[:3] == ["122", "121", "120"]


def test_the_overview_is_kept_up_to_date(site: Look) -> None:
    """The overview refreshes; focus and opened details stay, and nothing is announced."""
    server = site.mount.removesuffix("/mail/dashboard/")
    site.page.clock.install()
    site.open("")
    summary = site.page.locator("summary").first
    summary.focus()
    site.page.keyboard.press("Enter")
    before = site.table("type")["Delivery"]
    newest = testing.delivery(ADA, "m-1", at=datetime.now(UTC))
    assert testing.post(f"{server}/mail{ENDPOINT}", newest, secret=SECRET)[0] == 200

    def counted() -> bool:
        site.page.clock.run_for(5100)
        site.page.wait_for_timeout(50)
        return sum(site.table("type")["Delivery"]) == sum(before) + 1

    eventually(counted)
    assert f"Delivery {sum(before) + 1:,}" in site.page.locator(".legend").first.inner_text()
    assert [colours > 3 for colours in site.colours()] == [True, True]
    assert site.page.locator("details[open]").count() == 1
    assert summary.evaluate("each => each === document.activeElement")
    assert site.page.locator("svg.bar").first.is_visible()
    assert not site.page.locator("[aria-live], [role=status], [role=alert]").count()
    assert not site.violations()


def test_an_overview_that_cannot_be_brought_up_to_date_says_so(site: Look) -> None:
    """A failed refresh keeps the figures and says so until the server answers again."""
    site.page.clock.install()
    site.open("")
    site.page.route("**/dashboard/", lambda route: route.fulfill(status=503))
    site.page.clock.run_for(5100)
    site.shows("could not be brought up to date (503)")
    site.page.unroute_all()
    site.page.clock.run_for(5100)
    site.page.locator("#stale").wait_for(state="hidden")
    site.wrong[:] = [each for each in site.wrong if "503" not in each]


def test_without_javascript(browser: Browser, tmp_path: Path, sqlite_url: str) -> None:
    """Without JavaScript tables replace the charts, and links replace live updates."""
    with (
        in_starlette(tmp_path, sqlite_url) as server,
        Look.at(
            browser, f"{server}/mail/dashboard/", java_script_enabled=False, **DESK, **LOGIN
        ) as look,
    ):
        look.open("")
        assert look.page.locator("table[data-chart]").count() == 2
        assert look.page.locator("table[data-chart=type]").is_visible()
        look.open("notifications")
        look.page.get_by_role("link", name="Look for newer ones").click()
        look.page.get_by_role("link", name="Older").click()
        look.page.get_by_role("link", name="Newer", exact=True).click()
        assert look.page.locator("#rows tr").count() == 50


def test_sign_in_with_a_token(browser: Browser, tmp_path: Path, sqlite_url: str) -> None:
    """Without the token a page explains how to sign in; with it pages and forms work."""
    fill(sqlite_url)
    options = ("--dashboard", "--mount-path", "/mail", "--database-url", sqlite_url)
    with Command(tmp_path).serving_at_terminal(*options) as serving:
        mount = f"http://127.0.0.1:{serving.port}/mail/dashboard/"
        for window in (DESK, PHONE):
            with Look.at(browser, mount, **window) as look:
                look.open("notifications")
                look.shows("Sign in to the dashboard")
                assert not look.overflows()
                assert not look.violations()
                look.wrong[:] = [each for each in look.wrong if "401" not in each]
                look.page.goto(serving.dashboard_address)
                look.page.locator("h1", has_text="Overview").wait_for()
                assert look.page.url == mount
                assert look.page.evaluate("document.referrer") == ""
                look.open(f"subscriber?email={ADA}")
                look.page.get_by_label("Reason").fill("asked by letter")
                look.page.get_by_role("button").click()
                look.page.get_by_text("asked by letter").first.wait_for()
