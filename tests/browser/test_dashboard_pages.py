"""The dashboard in a real browser: drawn, used by mouse and by keyboard, and harmless."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import pytest
from fastapi import FastAPI
from flask import Flask
from hypercorn import middleware as hypercorn
from litestar import Litestar, asgi
from look import Look, chromium
from playwright.sync_api import Browser
from quart import Quart
from sqlalchemy import delete, func, insert, select, update
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
from hookrow.story import printable
from hookrow.wsgi import WSGI
from wire import ENDPOINT, PATIENCE, SECRET, eventually, uvicorn_serving

pytestmark = pytest.mark.browser

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
"""What is looked at once something hostile came."""

Host: TypeAlias = Callable[[Path, str], AbstractContextManager[str]]
"""Serves the dashboard of a database, in a folder; yields the server's address."""


def fill(url: str) -> None:
    """Put in people, what was sent to them, and a day's notifications, a few of each kind."""
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(insert(tables.lists), [{"name": "news"}, {"name": "offers"}])
        for n in range(1, 21):
            email = ADA if n == 1 else f"person{n}@example.com"
            connection.execute(insert(tables.subscribers), {"email": email})
            ids = {"subscriber_id": n, "list_id": 1 + n % 2}
            connection.execute(insert(tables.subscriptions), ids)
            row = ids | {"provider_message_id": f"m-{n}"}
            connection.execute(insert(tables.dispatches), row)
    store, now = SQLStore(url), datetime.now(UTC)
    for n in range(1, 121):
        record(store, [_arrival(n, now - timedelta(minutes=11 * (120 - n)))])
    early, opened = testing.delivery(ADA, EARLY, at=now), testing.opening(ADA, "m-1", at=now)
    for payload in (early, opened):
        record(store, [_arrived(payload, now)])
    store.close()
    with engine.begin() as connection:  # as if all had been sent, and recorded, in time
        log, dispatches = tables.notifications, tables.dispatches
        connection.execute(update(log).values(ended_at=log.c.received_at))
        first = select(log.c.message_id, func.min(log.c.occurred_at)).group_by(log.c.message_id)
        for n, (id_, at) in enumerate(connection.execute(first).all()):
            sent = {"created_at": at - timedelta(seconds=n)}
            connection.execute(update(dispatches).filter_by(provider_message_id=id_).values(sent))
    engine.dispose()


def attack(url: str) -> None:
    """Have something hostile come."""
    store = SQLStore(url)
    hostile = dict.fromkeys(("RecordType", "MessageID", "Recipient"), HOSTILE)
    record(store, [_arrived(hostile, datetime.now(UTC))])
    store.close()


def send(url: str, message_id: str) -> None:
    """Save the dispatch that a notification came too early for."""
    engine = open_engine(url)
    with engine.begin() as connection:
        row = {"provider_message_id": message_id, "subscriber_id": 1}
        connection.execute(insert(tables.dispatches), row)
    engine.dispose()


def _arrival(n: int, at: datetime) -> Arrival:
    """Return the notification of that number: it came a second after it happened."""
    person = 1 + n * 7 % 20
    email, message = ADA if person == 1 else f"person{person}@example.com", f"m-{person}"
    match n % 10:
        case 0:
            payload: Any = testing.suppression(email, message, at=at, reason="SpamComplaint")
        case 1 | 2 | 3:
            payload = testing.opening(email, message, at=at)
        case 4 if n > 60:
            payload = testing.delivery("eve@example.com", message, at=at)
        case _:
            payload = testing.delivery(email, message, at=at)
    return _arrived(payload, at + timedelta(seconds=1))


def _arrived(payload: Any, at: datetime) -> Arrival:  # noqa: ANN401 - any JSON
    body = json.dumps(payload).encode()
    return Arrival(parse(body), body, at, unsupported=Postmark(SECRET).describe(body))


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
    """Return the host that an ASGI application is, once dashboard and receiver are mounted."""

    @contextmanager
    def host(folder: Path, url: str) -> Iterator[str]:
        del folder
        with (
            _dashboard(url) as (dashboard, receiver),
            uvicorn_serving(mount(ASGI(dashboard), ASGI(receiver))) as port,
        ):
            yield f"http://127.0.0.1:{port}"

    return host


def starlette(dashboard: ASGI, receiver: ASGI) -> Starlette:
    """Mount both in Starlette."""
    return Starlette(routes=[Mount("/mail/dashboard", dashboard), Mount("/mail", receiver)])


def fastapi(dashboard: ASGI, _: ASGI) -> FastAPI:
    """Mount the dashboard in FastAPI."""
    app = FastAPI()
    app.mount("/mail/dashboard", dashboard)
    return app


def litestar(dashboard: ASGI, _: ASGI) -> Litestar:
    """Mount the dashboard in Litestar, which takes the mount off and adds a slash."""
    return Litestar([asgi("/mail/dashboard", is_mount=True, copy_scope=True)(dashboard)])


def quart(dashboard: ASGI, _: ASGI) -> Any:  # noqa: ANN401 - any ASGI application
    """Mount the dashboard beside a Quart application."""
    mounts: Any = {"/mail/dashboard": dashboard, "": Quart("host")}
    return hypercorn.DispatcherMiddleware(mounts)


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
    "fastapi": in_asgi(fastapi),
    "litestar": in_asgi(litestar),
    "quart": in_asgi(quart),
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
    """Look at the dashboard in Starlette."""
    with (
        in_starlette(tmp_path, sqlite_url) as server,
        Look.at(browser, f"{server}/mail/dashboard/", **DESK, **LOGIN) as look,
    ):
        yield look


@contextmanager
def looking(browser: Browser, host: str, server: str, **options: Any) -> Iterator[Look]:  # noqa: ANN401 - the browser's own
    """Look at the dashboard of a host, logged in."""
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


@pytest.mark.parametrize("host", HOSTS)
def test_each_page_in_each_host(
    browser: Browser, tmp_path: Path, sqlite_url: str, host: str
) -> None:
    """It is drawn on a desk and, dark, on a phone: no complaint, all reachable, none too wide."""
    with HOSTS[host](tmp_path, sqlite_url) as server:
        for pages in (PAGES, HARMLESS):
            for name, options in (("desk", DESK), ("phone", PHONE)):
                with looking(browser, host, server, **options) as look:
                    for page, place in pages.items():
                        look.open(place)
                        look.page.locator("h1").wait_for()
                        if page == "overview":  # it brings itself up to date once all is counted
                            look.page.locator("dd", has_text="%").first.wait_for()
                        assert not look.overflows(), page
                        assert not look.violations(), page
                        if host == "starlette" and pages is PAGES:
                            look.shoot(f"{page}-{name}")
                    look.wrong[:] = [
                        each for each in look.wrong if "400" not in each
                    ]  # the mistake
            attack(sqlite_url)


def test_charts(site: Look, sqlite_url: str) -> None:
    """They are drawn, and their tables say what is in the database."""
    site.open("?period=day")
    assert [colours > 3 for colours in site.colours()] == [True, True]
    assert not site.page.locator("details[open]").count()
    store = SQLStore(sqlite_url)
    assert store.log is not None
    since = site.page.locator("table[data-chart=type] time").first.get_attribute("datetime")
    entries = store.log.newest(Query(since=datetime.fromisoformat(since or "")), limit=1000)
    store.close()
    for kind, names in (
        ("type", [printable(each.record_type or "other") for each in entries]),
        ("outcome", [each.outcome.value.replace("_", " ") for each in entries]),
    ):
        figures = {name: sum(counts) for name, counts in site.table(kind).items()}
        legend = site.page.locator(f"section[aria-labelledby=by-{kind}] .legend").inner_text()
        assert set(figures) - {"other"} <= set(names)
        assert sum(figures.values()) == len(entries)
        for name in set(figures) - {"other"}:
            assert figures[name] == names.count(name)
            assert f"{name} {figures[name]}" in legend.replace("\n", " ")


@pytest.mark.parametrize("host", HOSTS)
def test_replay(browser: Browser, tmp_path: Path, sqlite_url: str, host: str) -> None:
    """What came too early is found among the parked, and recorded once its dispatch is there."""
    with (
        HOSTS[host](tmp_path, sqlite_url) as server,
        looking(browser, host, server, **DESK) as site,
    ):
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
    """Everything is reached by the keyboard: the skip link, the pages, and the forms."""
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
    """What comes is seen without loading the page, hostile as it may be, until it is paused."""
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
    """It is not missed for its lower number, and stands where it belongs, once."""
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
    """What comes is drawn anew; focus and what was opened stay, and nothing is announced."""
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
    """It is what it was, with a sentence, until the server answers again."""
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
    """All is there but the charts: their tables are open, and a link looks for what is newer."""
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
