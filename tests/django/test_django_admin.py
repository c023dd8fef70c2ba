"""The admin: the log of notifications, the tables, and the actions on them."""

import json
from datetime import UTC, datetime
from html import escape
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection
from django.db.transaction import atomic, set_rollback
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

import django_host  # noqa: F401 - configures Django, before models are imported
import world
from copying import replace
from crm.models import Person, Team
from crm.schema import CRM
from django_project.site import Site
from hookrow import testing
from hookrow.django.models import Notification
from hookrow.django.tables.models import Dispatch, Subscriber
from wire import ADA, ADAS, SECRET

pytest_plugins = ["django_project.databases"]

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

DELIVERY = testing.delivery(ADA, ADAS, at=AT)
EARLY = testing.opening(ADA, "not-sent-yet", at=AT)
STRANGER = testing.delivery("eve@example.com", ADAS, at=AT)
BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}

LOG = "hookrow/notification/"
PEOPLE = "hookrow_tables/subscriber/"
SENDS = "hookrow_tables/dispatch/"
MEMBERS = "hookrow_tables/subscription/"
LISTS = "hookrow_tables/list/"
HOSTS = "crm/person/"

ROW = 'class="action-select"'


def ids() -> list[int]:
    return list(Notification.objects.values_list("pk", flat=True))


class TestLog:
    def test_pages(self, sqlite_site: Site) -> None:
        """The list has a row for each notification, and its page has the history and the body.

        Entries cannot be added or changed.
        """
        assert sqlite_site.receive(DELIVERY, EARLY, STRANGER, BOUNCE) == [200, 404, 404, 422]
        with CaptureQueriesContext(connection) as captured:
            page = sqlite_site.get(LOG)
        for text in ("dispatch not found, 404", "recorded, 200", "not-sent-yet", "Bounce"):
            assert text in page
        assert not [each for each in captured if '"body"' in each["sql"]]  # bodies may be large
        entry = f"{LOG}{Notification.objects.get(message_id='not-sent-yet').pk}/change/"
        page = sqlite_site.get(entry)
        assert "no dispatch had the message ID not-sent-yet" in page
        assert escape('"RecordType": "Open",\n') in page
        for path in (entry, f"{LOG}add/"):
            posted = sqlite_site.client.post(f"/admin/{path}", {"outcome": "failed"})
            assert posted.status_code == 403

    def test_near_misses(self, sqlite_site: Site) -> None:
        """The page of a refused notification names the rows that it almost matched."""
        Subscriber.objects.filter(email=ADA).update(email=f"Ada & Co <{ADA}>")
        sqlite_site.receive(testing.suppression(ADA, None, at=AT), BOUNCE)
        stranger, bounce = Notification.objects.order_by("pk")
        page = sqlite_site.get(f"{LOG}{stranger.pk}/change/")
        stored = escape(f'A subscriber has the address "Ada & Co <{ADA}>", which is not equal')
        assert stored in page
        row = sqlite_site.get(f"{LOG}{bounce.pk}/change/").partition("Almost matched:")[2]
        assert '<div class="readonly">-</div>' in row.partition("Not supported")[0]
        assert '<div class="readonly">None</div>' not in page

    def test_entries_and_reasons(self, sqlite_site: Site) -> None:
        """Notifications are named and filtered by the receiver's entry, if it has several."""
        sqlite_site.receive(DELIVERY, testing.suppression(ADA, ADAS, at=AT), EARLY)
        assert "By entry" not in sqlite_site.get(LOG)
        early = Notification.objects.filter(message_id="not-sent-yet")
        early.update(entry="sendgrid", retry_at=None)
        page = sqlite_site.get(LOG)
        assert "By entry" in page
        assert '<a href="?entry=sendgrid">' in page
        for query in ({"entry": "sendgrid"}, {"retries_is": "expired"}):
            page = sqlite_site.get(LOG, **query)
            assert (page.count(ROW), "not-sent-yet" in page) == (1, True)
        assert "sendgrid" in sqlite_site.get(f"{LOG}{early.get().pk}/change/")
        assert sqlite_site.get(LOG, reason_is="HardBounce").count(ROW) == 1
        assert sqlite_site.get(LOG, reason_is="SpamComplaint").count(ROW) == 0

    def test_hostile_bodies(self, any_site: Site) -> None:
        """Pages escape scripts, control characters and invalid UTF-8, and truncate long bodies."""
        script, reverse = "<script>alert(1)</script>", "\N{RIGHT-TO-LEFT OVERRIDE}"
        any_site.receive(
            testing.delivery(f"{script}@example.com", f"{script}{reverse}", at=AT),
            {"RecordType": script, "Recipient": "nu\0l"},
            b"\xff\0" + script.encode(),
            b"[" * 500 + b"1," * 9499 + b"1" + b"]" * 500,
            b'{"RecordType": "Open", "RecordType": "' + script.encode() + b'"}',
        )
        Notification.objects.update(trace_id=f"t{reverse}")
        pages = [any_site.get(LOG), *(any_site.get(f"{LOG}{pk}/change/") for pk in ids())]
        assert not [page for page in pages for text in (script, reverse, "\0") if text in page]
        assert sum(escape(script) in page for page in pages) >= 5
        note = "... (truncated: the body has 19,999 characters)"
        [truncated] = [page for page in pages if note in page]
        assert len(truncated) < 50_000
        assert sum("The body is not valid UTF-8 at byte 0: " in page for page in pages) == 1

    def test_spaces_around_values(self, sqlite_site: Site) -> None:
        """They are visible, as in the command and in the dashboard."""
        sqlite_site.receive(testing.delivery(f" {ADA}", "m-1 ", at=AT))
        for page in (sqlite_site.get(LOG), sqlite_site.get(f"{LOG}{ids()[0]}/change/")):
            assert rf"\x20{ADA}<" in page
            assert r"m-1\x20<" in page

    def test_replay(self, sqlite_site: Site) -> None:
        """A replay records an early notification, and the message counts the outcomes."""
        sqlite_site.receive(EARLY, STRANGER, DELIVERY)
        Notification.objects.filter(message_id=ADAS, outcome="recorded").update(body=None)
        Dispatch.objects.filter(pk=1).update(provider_message_id="not-sent-yet")
        page = sqlite_site.act(LOG, "replay", *ids())
        assert "3 notifications replayed: 1 recorded, 1 subscriber not found" in page
        assert "1 without a stored body." in page
        assert Dispatch.objects.get(pk=1).opened_at == AT
        connection.cursor().execute("ALTER TABLE hookrow_dispatches RENAME TO away")
        assert "Stopped after 0 notifications:" in sqlite_site.act(LOG, "replay", *ids())


@pytest.mark.parametrize(
    ("path", "action", "view", "change"),
    [
        (LOG, "replay", "view_notification", "replay_notification"),
        (PEOPLE, "suppress", "view_subscriber", "change_subscriber"),
    ],
)
def test_permissions(sqlite_site: Site, path: str, action: str, view: str, change: str) -> None:
    """Users with the view permission only have no actions; posting one has no effect."""
    sqlite_site.receive(DELIVERY)
    Dispatch.objects.update(delivered_at=None)
    before = world.rows(sqlite_site.url)
    for permissions, allowed in (((view,), False), ((view, change), True)):
        sqlite_site.log_in(*permissions)
        assert (f'value="{action}"' in sqlite_site.get(path)) is allowed
        sqlite_site.act(path, action, 1, reason="x")
        assert (world.rows(sqlite_site.url) != before) is allowed


@pytest.mark.parametrize(
    ("path", "action", "limit"),
    [(LOG, "replay", "admin._MAX_REPLAYED"), (PEOPLE, "suppress", "_suppression.MAX_CHANGED")],
)
def test_selections(
    any_site: Site, monkeypatch: pytest.MonkeyPatch, path: str, action: str, limit: str
) -> None:
    """Rows that do not exist, and too many rows, result in a message."""
    for key in ("abc", "9" * 30):
        assert "The selection is not valid." in any_site.act(path, action, key, reason="x")
    assert "no longer" in any_site.act(path, action, "77", reason="x")
    assert not ids()
    any_site.receive(DELIVERY, EARLY)
    monkeypatch.setattr(f"hookrow.django.{limit}", 1)
    assert "Select at most 1" in any_site.act(path, action, 1, 2)


class TestSuppression:
    def test_suppress_and_lift(self, sqlite_site: Site) -> None:
        """Both actions ask for a reason, change the row, and log the user and the reason."""
        ada = Subscriber.objects.get(email=ADA)
        form = sqlite_site.act(PEOPLE, "suppress", ada.pk)
        assert ADA in form
        assert 'name="reason"' in form
        assert "field is required." in sqlite_site.act(PEOPLE, "suppress", ada.pk, reason=" ")
        assert not ids()
        page = sqlite_site.act(PEOPLE, "suppress", ada.pk, reason="<b>asked by letter</b>")
        assert "1 subscriber suppressed." in page
        ada.refresh_from_db()
        assert ada.suppression_reason == "<b>asked by letter</b>"
        assert ada.suppressed_at == ada.suppression_changed_at
        page = sqlite_site.act(PEOPLE, "lift", ada.pk, reason="a mistake")
        assert "Suppression of 1 subscriber lifted." in page
        lifted = Subscriber.objects.get(email=ADA)
        assert (lifted.suppressed_at, lifted.suppression_reason) == (None, None)
        bodies = [json.loads(each.body or "") for each in Notification.objects.order_by("pk")]
        assert [(body["ChangedBy"], body["Note"]) for body in bodies] == [
            ("root", "<b>asked by letter</b>"),
            ("root", "a mistake"),
        ]
        history = apps.get_model("admin", "LogEntry").objects
        assert history.filter(change_message="Suppression lifted: a mistake").exists()

    def test_transaction_of_the_request(self, any_site: Site) -> None:
        """With ATOMIC_REQUESTS, the changes are rolled back with the request."""
        with atomic():
            assert "2 subscribers suppressed." in any_site.act(PEOPLE, "suppress", 1, 2, reason="x")
            set_rollback(True)
        assert not Subscriber.objects.filter(suppression_reason="x")
        assert not ids()

    def test_models_of_the_host(self, sqlite_site: Site) -> None:
        """`SuppressionAdmin` uses the mapping, and changes only rows that notifications change.

        The address of a row may find another row with the same address, or none.
        """
        rows = ((ADA, AT), (ADA, None), (ADA.upper(), None), (ADA, None), ("x@example.com", AT))
        tables = replace(CRM, subscribers=replace(CRM.subscribers, where={"deleted_at": None}))
        with override_settings(HOOKROW={"SECRET": SECRET, "TABLES": tables}):
            for number, (address, deleted_at) in enumerate(rows):
                Person.objects.create(uid=UUID(int=number), address=address, deleted_at=deleted_at)
            chosen = [UUID(int=number) for number in (0, 2, 3, 4)]
            page = sqlite_site.act(HOSTS, "suppress", *chosen, reason="asked")
            none = sqlite_site.act(HOSTS, "suppress", chosen[0], reason="asked")
        assert page.count("was not changed: notifications for its address") == 2
        assert none.count("was not changed: notifications for its address") == 1
        assert "0 subscribers" not in none
        assert "1 subscriber suppressed. 1 not changed" in page
        [muted] = Person.objects.filter(muted_at__isnull=False)
        assert (muted.uid, muted.mute_reason) == (UUID(int=2), "asked")
        history = apps.get_model("admin", "LogEntry").objects
        assert history.latest("id").object_id == str(UUID(int=2))

    def test_tenants(self, sqlite_site: Site) -> None:
        """Of equal addresses, only the person of the row's tenant is changed, at its entry."""
        tables = replace(CRM, subscribers=replace(CRM.subscribers, tenant="team"))
        teams = [Team.objects.create(uid=UUID(int=10 + number)) for number in range(2)]
        acme = {"PROVIDER": "postmark", "SECRET": SECRET, "TENANT": teams[1].uid}
        with override_settings(HOOKROW={"PROVIDERS": {"second": acme}, "TABLES": tables}):
            for number, team in enumerate((*teams, None)):
                Person.objects.create(uid=UUID(int=number), address=ADA, team=team)
            chosen = [UUID(int=number) for number in (1, 2)]
            page = sqlite_site.act(HOSTS, "suppress", *chosen, reason="asked")
        assert page.count("was not changed: it belongs to no tenant.") == 1
        assert "1 subscriber suppressed." in page
        [muted] = Person.objects.filter(muted_at__isnull=False)
        assert muted.uid == UUID(int=1)
        [entry] = Notification.objects.all()
        assert entry.entry == "second"


class TestTables:
    def test_forms(self, sqlite_site: Site) -> None:
        """Forms have no fields for event times and suppressions; posting them has no effect.

        An email is unique ignoring case; a dispatch without a message id is stored with null.
        """
        sent = f"{SENDS}{Dispatch.objects.get(provider_message_id=ADAS).pk}/change/"
        assert 'name="delivered_at' not in sqlite_site.get(sent)
        post = sqlite_site.client.post
        typed = {"email": "ada@elsewhere.example", "suppressed_at": "2026-01-01 00:00"}
        post(f"/admin/{PEOPLE}1/change/", typed)
        ada = Subscriber.objects.get(pk=1)
        assert (ada.email, ada.suppressed_at) == ("ada@elsewhere.example", None)
        page = post(f"/admin/{PEOPLE}add/", {"email": ada.email.upper()}).content.decode()
        assert "A subscriber with this email already exists." in page
        post(f"/admin/{SENDS}add/", {"subscriber": "1", "list": "", "provider_message_id": ""})
        assert Dispatch.objects.latest("id").provider_message_id is None

    def test_completion(self, any_site: Site) -> None:
        """The form of a dispatch suggests subscribers by the beginning of the address."""
        of = {"app_label": "hookrow_tables", "model_name": "dispatch", "field_name": "subscriber"}
        for term, suggested in (("AD", [ADA]), ("x", []), ("nu\0l", [])):
            page = any_site.get("autocomplete/", **of, term=term)
            assert [each["text"] for each in json.loads(page)["results"]] == suggested


def test_filters_and_search(any_site: Site) -> None:
    """Lists are filtered by state, and searched by address, prefix, message id or number."""
    any_site.receive(DELIVERY, EARLY, STRANGER, BOUNCE)
    expected: list[tuple[str, dict[str, str], int]] = [
        (LOG, {}, 4),
        (LOG, {"outcome_is": "recorded"}, 1),
        (LOG, {"outcome_is": "no such"}, 4),
        (LOG, {"type_is": "Delivery"}, 2),
        (LOG, {"retries_is": "parked"}, 2),
        (LOG, {"retries_is": "expired"}, 0),
        (LOG, {"entry": "sendgrid"}, 0),
        (LOG, {"entry": "nu\0l"}, 4),
        (LOG, {"q": ADA.upper()}, 3),
        (LOG, {"q": "m-3"}, 1),
        (LOG, {"q": str(ids()[0])}, 1),
        (LOG, {"q": "ada@example"}, 0),
        (LOG, {"q": "1" * 30}, 0),
        (LOG, {"q": "x" * 400}, 0),
        (LOG, {"q": "nu\0l"}, 4),
        (PEOPLE, {"q": "BEA+"}, 1),
        (PEOPLE, {"state_is": "active", "q": "ada@"}, 1),
        (SENDS, {"q": ADAS}, 1),
        (SENDS, {"q": ADA.upper()}, 2),
        (SENDS, {"mail_is": "delivered"}, 1),
        (MEMBERS, {"q": ADA}, 2),
        (LISTS, {"q": "no such"}, 0),
    ]
    counts = [(path, query, any_site.get(path, **query).count(ROW)) for path, query, _ in expected]
    assert counts == expected


@pytest.mark.parametrize("path", [LOG, PEOPLE, SENDS, MEMBERS])
def test_queries_of_a_list(sqlite_site: Site, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list needs the same few queries for any number of rows, and never counts all rows."""
    sqlite_site.receive(DELIVERY, EARLY, STRANGER, BOUNCE)
    monkeypatch.setattr("hookrow.django._large_table.MAX_ROWS", 4)
    counts = set()
    for rows in (1, 3):
        monkeypatch.setattr("hookrow.django._large_table.LargeTableAdmin.list_per_page", rows)
        with CaptureQueriesContext(connection) as queries:
            page = sqlite_site.get(path, _facets="True")
        assert page.count(ROW) == rows
        counts.add(len(queries))
        [counting] = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
        assert "LIMIT 4" in counting
    assert len(counts) == 1
    assert max(counts) <= 6
