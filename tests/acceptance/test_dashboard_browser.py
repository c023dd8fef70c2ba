"""The dashboard in a real browser: charts, keyboard, live updates, and hostile content."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from browser import NAME, Visitor, chromium
from playwright.sync_api import Browser, expect
from sqlalchemy import delete, insert, select
from starlette.applications import Starlette
from starlette.routing import Mount

import own_tables
from engines import opened
from hookrow import Postmark, Receiver, testing
from hookrow._receiver import replay
from hookrow._receiver.recorder import record
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, _parked, basic
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from received import arrival
from wire import ADA, ENDPOINT, PATIENCE, SECRET, eventually, uvicorn_serving

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e" + "W" * 70

EARLY = "saved-too-late"
"""The message of a notification that arrives before its dispatch is saved."""

PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
TABLET = {"viewport": {"width": 768, "height": 1024}, "color_scheme": "light"}
NARROW = {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"}
DESK = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
LOGIN = {"http_credentials": {"username": "hookrow", "password": "of-the-tests"}}

PAGES = {
    "overview": "?period=day",
    "notifications": "notifications",
    "parked": "parked",
    "search": "search?q=person",
    "notification": "notification?id=121",
    "subscriber": f"subscriber?email={ADA}",
    "dispatch": "dispatch?message_id=m-1",
    "suppressions": "suppressions",
    "lists": "lists",
}
HARMLESS = {
    "hostile": "notification?id=123",
    "hostile-overview": "",
    "hostile-notifications": "notifications",
    "nothing-found": f"search?q={'x' * 80}",
    "several-found": "search?q=7",
    "mistake": f"notifications?before={'x' * 80}",
}
"""Pages that show hostile content."""


_LINES = """rows => rows.map(row => {
    const cells = [...row.cells].filter(cell => cell.dataset.label !== "ID" && cell.offsetHeight);
    const bottoms = cells.map(cell => cell.getBoundingClientRect().bottom).sort((a, b) => a - b);
    return bottoms.filter((bottom, n) => !n || bottom - bottoms[n - 1] > 8).length;
})"""
"""Count the lines of each row: cells on the same line end at about the same height."""


def fill(url: str) -> None:
    """Insert subscribers, dispatches, and a day's notifications of each kind."""
    numbers = range(1, 21)
    emails = {n: ADA if n == 1 else f"person{n}@example.com" for n in numbers}
    ids = [{"subscriber_id": n, "list_id": 1 + n % 2} for n in numbers]
    with opened(url) as engine, engine.begin() as database:
        database.execute(insert(own_tables.lists), [{"name": "news"}, {"name": "offers"}])
        database.execute(insert(own_tables.subscribers), [{"email": emails[n]} for n in numbers])
        database.execute(insert(own_tables.subscriptions), ids)
        yesterday = datetime.now(UTC) - timedelta(days=1)
        sent = [
            {**row, "provider_message_id": f"m-{row['subscriber_id']}", "created_at": yesterday}
            for row in ids
        ]
        database.execute(insert(own_tables.dispatches), sent)
    now = datetime.now(UTC)
    day = []
    for n in range(1, 121):
        at, person = now - timedelta(minutes=11 * (120 - n)), 1 + n * 7 % 20
        email, message = emails[person], f"m-{person}"
        match n % 10:
            case 0:
                payload = testing.suppression(email, message, at=at, reason="SpamComplaint")
            case 1 | 2 | 3:
                payload = testing.opening(email, message, at=at)
            case 4:
                payload = testing.delivery("eve@example.com", message, at=at)
            case _:
                payload = testing.delivery(email, message, at=at)
        day.append((payload, at))
    early, opening = testing.delivery(ADA, EARLY, at=now), testing.opening(ADA, "m-1", at=now)
    keep(url, *day, (early, now), (opening, now))


def keep(url: str, *payloads: tuple[Any, datetime]) -> None:
    """Record payloads as if they had arrived at these times."""
    with closing(SQLStore(url)) as store:
        for payload, at in payloads:
            record(store, [arrival(payload, at)])


@contextmanager
def serving(url: str) -> Iterator[str]:
    """Mount the dashboard and a receiver in Starlette; yield the dashboard's address."""
    fill(url)
    with closing(SQLStore(url)) as store:
        dashboard = Dashboard(store, authorize=basic(*LOGIN["http_credentials"].values()))
        receiver = Receiver(Postmark(SECRET), store)
        routes = [Mount("/mail/dashboard", ASGI(dashboard)), Mount("/mail", ASGI(receiver))]
        with uvicorn_serving(Starlette(routes=routes)) as port:
            yield f"http://127.0.0.1:{port}/mail/dashboard/"
        dashboard.close(PATIENCE)
        receiver.close(PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def mount(sqlite_url: str) -> Iterator[str]:
    with serving(sqlite_url) as mount:
        yield mount


@pytest.fixture
def site(browser: Browser, mount: str) -> Iterator[Visitor]:
    with Visitor.at(browser, mount, **DESK, **LOGIN) as visitor:
        yield visitor


def receive(site: Visitor, payload: Any) -> int:  # noqa: ANN401 - any JSON
    """Post a notification to the receiver beside the dashboard; return the status."""
    url = site.mount.replace("/dashboard/", ENDPOINT)
    return testing.post(url, payload, secret=SECRET)[0]


@pytest.mark.parametrize(
    ("window", "options"), [("desk", DESK), ("tablet", TABLET), ("phone", PHONE)]
)
def test_pages_are_accessible_and_fit_the_window(
    browser: Browser, mount: str, sqlite_url: str, window: str, options: dict[str, Any]
) -> None:
    """Pages have no serious accessibility faults, light and dark, also with hostile content."""
    for pages in (PAGES, HARMLESS):
        with Visitor.at(browser, mount, **options, **LOGIN) as visitor:
            visitor.open("lists")  # counts the tables, as the overview shows
            for page, place in pages.items():
                visitor.open(place)
                visitor.page.locator("h1").wait_for()
                assert not visitor.overflows(), page
                assert not visitor.violations(), page
                assert (page != "several-found") or visitor.page.locator("ul.prose a").count() == 2
                if pages is PAGES and options is not TABLET:
                    visitor.take_screenshot(f"{page}-{window}")
            visitor.ignore("400")  # the invalid request
        hostile = dict.fromkeys(("RecordType", "MessageID", "Recipient"), HOSTILE)
        now = datetime.now(UTC)
        keep(sqlite_url, (hostile, now), (testing.delivery(ADA, "7", at=now), now))


def test_charts_show_the_figures_of_the_log(site: Visitor, sqlite_url: str) -> None:
    """The tables have the counts of the log, the charts and legends those of the tables."""
    site.open("?period=day")
    assert site.drawn_charts() == [True, True, True]
    since = site.page.locator("table[data-chart=type] time").first.get_attribute("datetime")
    with closing(SQLStore(sqlite_url)) as store:
        assert store.log is not None
        entries = store.log.newest(Query(since=datetime.fromisoformat(since or "")), limit=1000)
    for kind, names in (
        ("type", [each.record_type for each in entries]),
        ("outcome", [each.first_outcome.value.replace("_", " ") for each in entries]),
    ):
        figures = site.table(kind)
        assert {name: count for name, count in figures.items() if count} == Counter(names)
        legend = site.page.locator(f"section[aria-labelledby=by-{kind}] .legend").inner_text()
        for name, count in figures.items():
            assert f"{name} {count}" in legend.replace("\n", " ")
    legends = site.page.locator("section[aria-labelledby=by-outcome] .legend")
    legends.get_by_role("link", name="dispatch not found").click()
    site.page.locator("#rows tr", has_text=EARLY).wait_for()
    expect(site.page.locator("#rows tr")).to_have_count(figures["dispatch not found"])


def test_the_keyboard_and_the_origin_of_a_form(browser: Browser, mount: str) -> None:
    """The skip link and forms work without a mouse, also if the browser sends only `Origin`.

    Over HTTP, Chromium sends `Sec-Fetch-Site` only to loopback addresses.
    """
    for address in (mount, mount.replace("127.0.0.1", NAME)):
        with Visitor.at(browser, address, **DESK, **LOGIN) as site:
            site.open(f"subscriber?email={ADA}")
            press = site.page.keyboard.press
            press("Tab")
            assert site.page.locator(":focus").inner_text() == "Skip to content"
            press("Enter")
            assert site.page.locator(":focus").get_attribute("id") == "main"
            site.page.get_by_label("Reason").focus()
            site.page.keyboard.type("asked by <letter>")
            press("Tab")
            press("Enter")
            site.page.locator(".notice").wait_for()
            assert site.shows("by hookrow: asked by <letter>")


@pytest.mark.parametrize("place", ["notifications", "notifications/"])
def test_new_notifications_appear_without_a_reload(
    site: Visitor, sqlite_url: str, place: str
) -> None:
    """New rows are escaped and in order of their ids, and stop if the user turns them off."""
    is_late = own_tables.notifications.c.id == 121
    with opened(sqlite_url) as engine, engine.begin() as database:
        row = database.execute(select(own_tables.notifications).where(is_late)).one()._asdict()
        database.execute(delete(own_tables.notifications).where(is_late))
    site.page.clock.install()
    site.open(place)
    with opened(sqlite_url) as engine, engine.begin() as database:
        database.execute(insert(own_tables.notifications), row)
    site.page.clock.run_for(5100)
    assert site.shows("1 new at")
    numbers = site.page.locator("#rows [data-label=ID]")
    assert numbers.all_inner_texts()[:3] == ["122", "121", "120"]
    newest = {**testing.delivery(HOSTILE, HOSTILE, at=datetime.now(UTC)), "Tag": HOSTILE}
    assert receive(site, newest) == 404
    site.page.clock.run_for(5100)
    site.page.locator("#rows tr", has_text="alert(1)").first.wait_for()
    assert numbers.all_inner_texts()[:3] == ["123", "122", "121"]
    site.page.get_by_label("Live:").uncheck()
    assert receive(site, {"x": 1}) == 422
    site.page.clock.run_for(20_000)
    site.page.wait_for_timeout(100)  # by then, a response would have arrived
    assert numbers.all_inner_texts()[0] == "123"


def test_a_replay_of_all_that_match(
    site: Visitor, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page continues by itself until the end, states the result, and has the remaining rows."""
    monkeypatch.setattr(_parked, "REPLAY_TIME", 0)
    monkeypatch.setattr(replay, "MAX_REPLAY_GROUP", 4)
    with opened(sqlite_url) as engine, engine.begin() as database:
        eve = insert(own_tables.subscribers).values(id=99, email="eve@example.com")
        database.execute(eve)
        sent = [{"subscriber_id": 99, "provider_message_id": f"m-{n}"} for n in (9, 19)]
        database.execute(insert(own_tables.dispatches), sent)
    site.open("parked")
    expect(site.page.locator("tr[data-id]")).to_have_count(13)
    site.page.get_by_role("button", name="Replay all 13 parked notifications").click()
    notice = site.page.locator("[role=status]")
    expect(notice).to_have_text("Replayed 13 notifications: 12 recorded, 1 not recorded.")
    expect(site.page.locator("tr[data-id]")).to_have_count(1)
    assert site.page.locator(":focus").get_attribute("id") == "main"
    assert not site.violations()


def test_a_replay_that_fails(site: Visitor) -> None:
    """The reason is shown, and the button stays."""
    site.open("parked")
    site.page.route(re.compile("/parked"), lambda route: route.fulfill(status=503, body="no"))
    button = site.page.get_by_role("button", name="Replay all 13 parked notifications")
    button.click()
    assert site.shows("The replay stopped: 503")
    expect(button).to_be_visible()
    site.ignore("503")


@pytest.mark.parametrize("options", [PHONE, NARROW, TABLET], ids=["phone", "narrow", "tablet"])
def test_a_narrow_screen(browser: Browser, mount: str, options: dict[str, Any]) -> None:
    """The links to the pages are on one line; a row has two, and leads to its notification."""
    with Visitor.at(browser, mount, **options, **LOGIN) as site:
        for place in ("notifications", "parked"):
            site.open(place)
            tops = site.page.locator("header nav a").evaluate_all(
                "links => links.map(link => Math.round(link.getBoundingClientRect().top))"
            )
            assert len({*tops}) == 1
            rows = site.page.locator("tr[data-id]")
            lines = rows.evaluate_all(_LINES)
            assert {*lines} == {2}, place
        row = rows.first
        id_, box = row.get_attribute("data-id"), row.bounding_box()
        assert box is not None
        site.page.mouse.click(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
        site.page.wait_for_url(f"**/notification?id={id_}")


def test_filters_are_folded_on_a_phone(browser: Browser, mount: str) -> None:
    """They open by the keyboard; on a desktop, they are always visible."""
    with Visitor.at(browser, mount, **DESK, **LOGIN) as site:
        site.open("notifications?type=Open")
        expect(site.page.get_by_label("First outcome")).to_be_visible()
        expect(site.page.get_by_text("Filters (1 set)")).to_be_hidden()
    with Visitor.at(browser, mount, **PHONE, **LOGIN) as site:
        site.open("notifications?type=Open")
        expect(site.page.get_by_label("First outcome")).to_be_hidden()
        site.page.get_by_text("Filters (1 set)").focus()
        site.page.keyboard.press("Enter")
        expect(site.page.get_by_label("First outcome")).to_be_visible()
        assert not site.overflows()
        assert not site.violations()


@pytest.mark.parametrize("options", [DESK, PHONE, NARROW], ids=["desk", "phone", "narrow"])
def test_addresses_that_are_written_from_right_to_left(
    browser: Browser, mount: str, sqlite_url: str, options: dict[str, Any]
) -> None:
    """They stay in their cells, and do not change the order of the texts beside them."""
    address = f"{'مرحبا' * 12}@example.com"
    with opened(sqlite_url) as engine, engine.begin() as database:
        database.execute(insert(own_tables.subscribers).values(id=99, email=address))
    keep(sqlite_url, (testing.delivery(address, "7", at=datetime.now(UTC)), datetime.now(UTC)))
    with Visitor.at(browser, mount, **options, **LOGIN) as site:
        for place in ("notifications", "parked", f"subscriber?email={address}", "search?q=مرحبا"):
            site.open(place)
            shown = site.page.locator("bdi", has_text=address[:20]).first
            assert shown.is_visible()
            assert shown.evaluate("each => getComputedStyle(each.parentElement).direction") == "ltr"
            assert not site.overflows(), place
            assert not site.violations(), place
        site.open("notifications")
        row = site.page.locator("tr[data-id]").first
        times, texts = row.locator("time").bounding_box(), row.locator("bdi").first.bounding_box()
        assert times is not None
        assert texts is not None
        if options is not DESK:
            cell = row.locator("[data-label=Address]").bounding_box()
            assert cell is not None
            assert cell["x"] + cell["width"] <= times["x"]


@pytest.mark.parametrize(("window", "options"), [("desk", DESK), ("phone", PHONE)])
def test_the_first_start(
    browser: Browser, sqlite_url: str, window: str, options: dict[str, Any]
) -> None:
    """The overview has the steps, which become the figures when a notification arrives."""
    with closing(SQLStore(sqlite_url)) as store:
        authorize = basic(*LOGIN["http_credentials"].values())
        dashboard = Dashboard(store, authorize=authorize, endpoint=f"/mail{ENDPOINT}")
        routes = [Mount("/mail/dashboard", ASGI(dashboard))]
        with uvicorn_serving(Starlette(routes=routes)) as port:
            mount = f"http://127.0.0.1:{port}/mail/dashboard/"
            with Visitor.at(browser, mount, **options, **LOGIN) as site:
                site.page.clock.install()
                site.open("")
                assert site.shows(f"{mount.removesuffix('/dashboard/')}{ENDPOINT}")
                assert not site.overflows()
                assert not site.violations()
                site.take_screenshot(f"first-start-{window}")
                keep(
                    sqlite_url,
                    (testing.delivery(ADA, "m-1", at=datetime.now(UTC)), datetime.now(UTC)),
                )

                def drawn() -> bool:
                    site.page.clock.run_for(5100)
                    site.page.wait_for_timeout(50)
                    return any(site.drawn_charts())

                eventually(drawn)
                assert not site.violations()
        dashboard.close(PATIENCE)


def test_the_title_of_a_time_is_the_local_time(browser: Browser, mount: str) -> None:
    """Pointing at a time, which is in UTC, shows it in the time zone of the browser."""
    with Visitor.at(browser, mount, timezone_id="Asia/Kolkata", **DESK, **LOGIN) as visitor:
        visitor.open("notifications")
        time = visitor.page.locator("#rows time").first
        time.hover()
        text = time.inner_text()
        utc = datetime.strptime(text, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC)
        local = utc + timedelta(hours=5, minutes=30)
        title = time.get_attribute("title") or ""
        assert f"{local:%M:%S}" in title
        assert title.endswith("(local time)")


def test_the_overview_refreshes_itself(site: Visitor) -> None:
    """The focus and opened tables stay, nothing is announced, and a failed refresh is reported."""
    site.page.clock.install()
    site.open("")
    summary = site.page.locator("summary").first
    summary.focus()
    site.page.keyboard.press("Enter")
    before = site.table("type")["Delivery"]
    assert receive(site, testing.delivery(ADA, "m-1", at=datetime.now(UTC))) == 200

    def counted() -> bool:
        site.page.clock.run_for(5100)
        site.page.wait_for_timeout(50)
        return site.table("type")["Delivery"] == before + 1

    eventually(counted)
    legend = site.page.locator("section[aria-labelledby=by-type] .legend")
    assert f"Delivery {before + 1:,}" in legend.inner_text()
    assert site.drawn_charts() == [True, True, True]
    assert site.page.locator("details[open]").count() == 1
    assert summary.evaluate("each => each === document.activeElement")
    assert site.page.locator("svg.bar").first.is_visible()
    assert not site.page.locator("[aria-live], [role=status], [role=alert]").count()
    assert not site.violations()
    assert not site.page.locator(".stale").count()
    site.page.route("**/dashboard/", lambda route: route.fulfill(status=503))
    site.page.clock.run_for(5100)
    assert site.shows("the response is 503")
    assert site.page.locator("body.stale").count()
    site.page.unroute_all()
    # The page of an error has the reason, and the status.
    html = "<p id=error>It is gone.</p><div id=state role=region class='state broken'>Broken</div>"
    failed = {"status": 503, "body": html, "content_type": "text/html"}
    site.page.route("**/dashboard/", lambda route: route.fulfill(**failed))
    site.page.clock.run_for(5100)
    assert site.shows("503: It is gone.")
    assert "This page could not be refreshed since " in site.page.locator("#stale").inner_text()
    assert site.page.locator("#state.broken").inner_text() == "Broken"
    assert not site.violations()
    site.page.unroute_all()
    site.page.route("**/dashboard/", lambda route: route.abort())
    site.page.clock.run_for(5100)
    assert site.shows("the server cannot be reached")
    site.page.unroute_all()
    site.page.clock.run_for(5100)
    site.page.locator("#stale").wait_for(state="hidden")
    assert not site.page.locator("body.stale, #state.broken").count()
    site.ignore("503")
    site.ignore("ERR_FAILED")


def respond_with(site: Visitor, response: dict[str, Any]) -> None:
    """Respond to each refresh of a page in place of the server."""
    site.page.route(_REFRESH, lambda route: route.fulfill(**response))


@pytest.mark.parametrize("path", ["", "notifications"])
def test_refreshes_that_fail(site: Visitor, path: str) -> None:
    """The page says why, and is greyed out, also if the server accepts requests and is silent."""
    site.page.clock.install()
    site.open(path)
    login = {"status": 200, "body": "<form>Log in</form>", "content_type": "text/html"}
    for answer, reason in (
        ({"status": 401}, "401: your login is not valid any more; reload this page"),
        (login, "the server responds with another page, such as a login; reload this page"),
        ({"status": 403}, "the response is 403"),
    ):
        respond_with(site, answer)
        site.page.clock.run_for(5100)
        assert site.shows(reason)
        assert site.page.locator("body.stale").count()
        site.page.unroute_all()
    site.page.clock.run_for(5100)
    site.page.locator("#stale").wait_for(state="hidden")
    site.page.route(_REFRESH, lambda _: None)  # never
    site.page.clock.run_for(5100)
    site.page.clock.run_for(10_100)
    assert site.shows("the server does not respond within 10 seconds")
    assert site.page.locator("body.stale").count()
    site.ignore("401")
    site.ignore("403")


_REFRESH = re.compile(r"/dashboard/(notifications)?(\?|$)")
