"""The admin: what is shown of the log and the tables, and what may be done there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model
from django.db.transaction import atomic, set_rollback
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_project.manage import Manage
from django_project.site import Site, site
from hookrow import testing
from hookrow.django.models import Notification
from hookrow.django.tables.models import Dispatch, Subscriber
from wire import SECRET

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

DELIVERY = testing.delivery(ADA, ADAS, at=AT)
EARLY = testing.opening(ADA, "not-sent-yet", at=AT)
STRANGER = testing.delivery("eve@example.com", ADAS, at=AT)
BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}

LOG = "hookrow/notification/"
PEOPLE = "hookrow_tables/subscriber/"
SENDS = "hookrow_tables/dispatch/"
MEMBERS = "hookrow_tables/subscription/"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def _url(
    request: pytest.FixtureRequest,
    new_database: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    url = new_database(request.param)
    done = Manage(tmp_path_factory.mktemp("migrated"), url).run("migrate", "-v0")
    assert done.returncode == 0, done.stderr
    return url


@pytest.fixture
def project(_url: str) -> Iterator[Site]:
    """Return the project's admin, with a superuser logged in."""
    with site(_url) as project:
        yield project


@contextmanager
def made(model: type[Model]) -> Iterator[None]:
    """Make the table of a model that no migration makes, and drop it in the end."""
    with connection.schema_editor() as editor:
        editor.create_model(model)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


class TestLog:
    def test_it_tells_what_became_of_each(self, project: Site) -> None:
        """The list has a line for each, its page the whole story and the body laid out."""
        assert project.receive(DELIVERY, EARLY, STRANGER, BOUNCE) == [200, 404, 404, 422]
        page = project.get(LOG)
        for text in ("dispatch not found, 404", "recorded, 200", "not-sent-yet", "Bounce"):
            assert text in page
        page = project.get(f"{LOG}{Notification.objects.get(message_id='not-sent-yet').pk}/change/")
        assert "no dispatch had the id not-sent-yet when it came" in page
        assert escape('"RecordType": "Open",\n') in page
        assert '<input type="text"' not in page

    def test_a_body_is_cut(self, project: Site) -> None:
        """A nested one takes no more of the page than the dashboard shows of it."""
        body = b"[" * 500 + b"1," * 9499 + b"1" + b"]" * 500
        assert project.receive(body) == [422]
        page = project.get(f"{LOG}{Notification.objects.get().pk}/change/")
        assert "... (cut: the body has 19,999 characters)" in page
        assert len(page) < 50_000

    def test_the_list_is_read_without_bodies(self, project: Site) -> None:
        """They may be large, and it has a hundred lines."""
        project.receive(DELIVERY)
        with CaptureQueriesContext(connection) as captured:
            project.get(LOG)
        read = [each["sql"] for each in captured if '"hookrow_notifications"' in each["sql"]]
        assert any('"recipient"' in each for each in read)
        assert not [each for each in read if '"body"' in each]

    def test_nobody_changes_it(self, project: Site) -> None:
        """There is no page to add an entry, and none can be saved."""
        project.receive(DELIVERY)
        entry = Notification.objects.get()
        assert project.client.get(f"/admin/{LOG}add/").status_code == 403
        changed = project.client.post(f"/admin/{LOG}{entry.pk}/change/", {"outcome": "failed"})
        assert changed.status_code == 403
        assert Notification.objects.get().outcome == "recorded"

    def test_what_is_hostile_is_only_text(self, project: Site) -> None:
        """Script, markup, NUL, what turns a line round, and what is no UTF-8."""
        script = "<script>alert(1)</script>"
        project.receive(
            testing.delivery(f"{script}@example.com", f"{script}\N{RIGHT-TO-LEFT OVERRIDE}", at=AT),
            {"RecordType": script, "Recipient": "nu\0l"},
            b"\xff\0" + script.encode(),
            b"[" * 5000,
            b'{"RecordType": "Open", "RecordType": "' + script.encode() + b'"}',
        )
        entries = Notification.objects.values_list("pk", flat=True)
        pages = [project.get(LOG), *(project.get(f"{LOG}{pk}/change/") for pk in entries)]
        assert len(pages) == 6
        for page in pages:
            assert script not in page
            assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
            assert "\0" not in page
        assert sum(escape(script) in page for page in pages) >= 5

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({}, 4),
            ({"outcome_is": "recorded"}, 1),
            ({"outcome_is": "no such"}, 4),
            ({"type_is": "Delivery"}, 2),
            ({"next_try_is": "parked"}, 2),
            ({"q": ADA.upper()}, 3),
            ({"q": "m-3"}, 1),
            ({"q": "ada@example"}, 0),
            ({"q": "1" * 30}, 0),
            ({"q": "x" * 400}, 0),
            ({"q": "nu\0l"}, 4),
        ],
    )
    def test_filters_and_search(self, project: Site, query: dict[str, str], found: int) -> None:
        """By how it ended, its kind, and whole addresses and message ids."""
        project.receive(DELIVERY, EARLY, STRANGER, BOUNCE)
        assert project.get(LOG, **query).count('class="action-select"') == found

    def test_the_number_of_one(self, project: Site) -> None:
        """It finds that one."""
        project.receive(DELIVERY, EARLY)
        number = str(Notification.objects.get(message_id=ADAS).pk)
        page = project.get(LOG, q=number)
        assert page.count('class="action-select"') == 1


class TestReplay:
    def test_it_records_what_can_be_now(self, project: Site) -> None:
        """What came too early is recorded; what became of each is said."""
        project.receive(EARLY, STRANGER)
        Dispatch.objects.filter(pk=1).update(provider_message_id="not-sent-yet")
        page = project.act(LOG, "replay", *Notification.objects.values_list("pk", flat=True))
        assert "2 notifications replayed: 1 recorded, 1 subscriber not found." in page
        assert Dispatch.objects.get(pk=1).opened_at == AT
        assert Notification.objects.get(message_id="not-sent-yet").outcome == "recorded"

    def test_large_ones(self, project: Site) -> None:
        """All of them, also if they are more than are read at once."""
        project.receive(*({**DELIVERY, "ID": n, "Pad": "x" * 2**19} for n in range(6)))
        page = project.act(LOG, "replay", *Notification.objects.values_list("pk", flat=True))
        assert "6 notifications replayed: 6 recorded." in page

    def test_it_is_a_permission(self, project: Site) -> None:
        """Who may only view the log has no such action, and posting it does nothing."""
        project.receive(DELIVERY)
        Dispatch.objects.update(delivered_at=None)
        entry = Notification.objects.get().pk
        project.log_in("view_notification")
        assert 'value="replay"' not in project.get(LOG)
        project.act(LOG, "replay", entry)
        assert not Dispatch.objects.filter(delivered_at__isnull=False)
        project.log_in("view_notification", "replay_notification")
        assert "1 notification replayed: 1 recorded." in project.act(LOG, "replay", entry)
        assert Dispatch.objects.filter(delivered_at=AT)

    def test_what_cannot_be_replayed(self, project: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A body that is not kept is counted, and too many are refused at once."""
        project.receive(DELIVERY, EARLY)
        Notification.objects.filter(message_id=ADAS).update(body=None)
        ids = list(Notification.objects.values_list("pk", flat=True))
        page = project.act(LOG, "replay", *ids)
        assert "replayed: 1 dispatch not found, 1 without the body that came." in page
        monkeypatch.setattr("hookrow.django.admin.MOST", 1)
        assert "Select 1 at most" in project.act(LOG, "replay", *ids)

    @pytest.mark.parametrize(
        ("path", "action"), [(LOG, "replay"), (PEOPLE, "suppress"), (LOG, "delete_selected")]
    )
    def test_what_is_selected_and_is_not_there(self, project: Site, path: str, action: str) -> None:
        """It is said, whether it is no key or that of none."""
        for key in ("abc", "9" * 30):
            assert "What is selected is no row." in project.act(path, action, key, reason="x")
        page = project.act(path, action, "77", reason="x")
        assert action == "delete_selected" or "any more." in page
        assert not Notification.objects.exists()


class TestByHand:
    def test_suppress_and_lift(self, project: Site) -> None:
        """Each asks why, changes the row, and leaves an entry with who and why."""
        ada = Subscriber.objects.get(email=ADA)
        asked = project.act(PEOPLE, "suppress", ada.pk)
        assert ADA in asked
        assert 'name="reason"' in asked
        again = project.act(PEOPLE, "suppress", ada.pk, reason=" ")
        assert "This field is required." in again
        assert not Notification.objects.exists()
        page = project.act(PEOPLE, "suppress", ada.pk, reason="<b>asked by letter</b>")
        assert "1 suppression set." in page
        ada.refresh_from_db()
        assert ada.suppression_reason == "<b>asked by letter</b>"
        assert ada.suppressed_at == ada.suppression_changed_at
        page = project.act(PEOPLE, "lift", ada.pk, reason="a mistake")
        assert "1 suppression lifted." in page
        lifted = Subscriber.objects.get(email=ADA)
        assert (lifted.suppressed_at, lifted.suppression_reason) == (None, None)
        bodies = [json.loads(body) for body in Notification.objects.values_list("body", flat=True)]
        assert {(body["ChangedBy"], body["Note"]) for body in bodies} == {
            ("root", "<b>asked by letter</b>"),
            ("root", "a mistake"),
        }
        history = list(
            apps.get_model("admin", "LogEntry").objects.values_list("change_message", flat=True)
        )
        assert "Suppression lifted: a mistake" in history

    def test_it_is_a_permission(self, project: Site) -> None:
        """Who may only view subscribers has no such action, and posting it does nothing."""
        project.log_in("view_subscriber")
        assert 'value="suppress"' not in project.get(PEOPLE)
        project.act(PEOPLE, "suppress", 1, reason="x")
        assert not Notification.objects.exists()

    def test_inside_a_transaction_of_the_request(self, project: Site) -> None:
        """With ATOMIC_REQUESTS each change is a savepoint, and ends as the request does."""
        with atomic():
            assert "2 suppressions set." in project.act(PEOPLE, "suppress", 1, 2, reason="x")
            set_rollback(True)
        assert not Subscriber.objects.filter(pk__in=[1, 2], suppression_reason="x")
        assert not Notification.objects.exists()

    def test_too_many(self, project: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """So many are refused before anything is asked."""
        monkeypatch.setattr("hookrow.django.suppression.MOST", 1)
        assert "Select 1 at most." in project.act(PEOPLE, "suppress", 1, 2)

    MUTED: ClassVar[dict[str, str | None]] = {
        "suppressed_at": "muted_at",
        "suppression_reason": "mute_reason",
        "suppression_changed_at": "mute_changed",
    }
    TABLES: ClassVar[dict[str, Any]] = {
        "subscribers": {
            "table": "crm.Person",
            "columns": {"email": "address", **MUTED},
            "where": {"deleted_at": None},
        },
        "dispatches": {
            "table": "crm.Send",
            "columns": {
                "provider_message_id": "postmark_id",
                "subscriber_id": "person",
                "delivered_at": "arrived",
                "opened_at": "seen",
                **dict.fromkeys(MUTED),
            },
        },
        "subscriptions": None,
    }

    def test_a_hosts_own_people(self, project: Site) -> None:
        """`SuppressionAdmin` gives another model the two actions, by the settings' mapping."""
        person = apps.get_model("crm", "Person")
        with (
            made(person),
            override_settings(HOOKROW={"SECRET": SECRET, "TABLES": self.TABLES}),
        ):
            eve = person.objects.create(uid=UUID(int=7), address="Eve@example.com")
            gone = person.objects.create(uid=UUID(int=8), address=ADA, deleted_at=AT)
            chosen = {"action": "suppress", "_selected_action": [str(eve.pk), str(gone.pk)]}
            page = project.client.post("/admin/crm/person/", chosen).content.decode()
            assert "get no more mail" in page
            chosen["reason"] = "asked"
            followed = project.client.post("/admin/crm/person/", chosen, follow=True)
            assert "1 suppression set. 1 could not be" in followed.content.decode()
            eve.refresh_from_db()
            assert (eve.mute_reason, eve.muted_at) == ("asked", eve.mute_changed)

    def test_another_row_of_the_same_address(self, project: Site) -> None:
        """Where the address finds another than the selected one, nothing is changed."""
        person = apps.get_model("crm", "Person")
        with (
            made(person),
            override_settings(HOOKROW={"SECRET": SECRET, "TABLES": self.TABLES}),
        ):
            rows = ((ADA, AT), (ADA, None), (ADA.upper(), None), (ADA, None))
            for number, (address, deleted_at) in enumerate(rows):
                person.objects.create(uid=UUID(int=number), address=address, deleted_at=deleted_at)
            chosen = {
                "action": "suppress",
                "_selected_action": [str(UUID(int=number)) for number in (0, 2, 3)],
                "reason": "asked",
            }
            page = project.client.post("/admin/crm/person/", chosen, follow=True).content.decode()
            assert page.count("goes to another row") == 2
            assert "1 suppression set." in page
            muted = person.objects.filter(muted_at__isnull=False)
            assert [each.uid for each in muted] == [UUID(int=2)]
            assert apps.get_model("admin", "LogEntry").objects.latest("id").object_id == str(
                UUID(int=2)
            )


class TestTables:
    def test_what_notifications_set_is_not_edited(self, project: Site) -> None:
        """Event times and suppressions are there to be read: posting others changes nothing."""
        sent = f"{SENDS}{Dispatch.objects.get(provider_message_id=ADAS).pk}/change/"
        assert 'name="delivered_at' not in project.get(sent)
        typed = {"email": "ada@elsewhere.example", "suppressed_at": "2026-01-01 00:00"}
        project.client.post(f"/admin/{PEOPLE}1/change/", typed)
        ada = Subscriber.objects.get(pk=1)
        assert (ada.email, ada.suppressed_at) == ("ada@elsewhere.example", None)

    def test_an_email_is_unique_in_whatever_case(self, project: Site) -> None:
        """The form says so, before the database does."""
        page = project.client.post(f"/admin/{PEOPLE}add/", {"email": ADA.upper()})
        assert "There is a subscriber with this email." in page.content.decode()

    def test_a_dispatch_is_added(self, project: Site) -> None:
        """Without an id of the provider's it has none, rather than an empty one."""
        typed = {"subscriber": "1", "list": "", "provider_message_id": ""}
        project.client.post("/admin/hookrow_tables/dispatch/add/", typed)
        assert Dispatch.objects.latest("id").provider_message_id is None

    @pytest.mark.parametrize(("term", "found"), [("AD", [ADA]), ("x", []), ("nu\0l", [])])
    def test_subscribers_are_completed(self, project: Site, term: str, found: list[str]) -> None:
        """By what an address begins with, in whatever case."""
        of = {"app_label": "hookrow_tables", "model_name": "dispatch", "field_name": "subscriber"}
        page = project.get("autocomplete/", **of, term=term)
        assert [each["text"] for each in json.loads(page)["results"]] == found

    @pytest.mark.parametrize(
        ("path", "query", "found"),
        [
            (PEOPLE, {"q": "BEA+"}, 1),
            (PEOPLE, {"state_is": "active", "q": "ada@"}, 1),
            (SENDS, {"q": ADAS}, 1),
            (SENDS, {"mail_is": "delivered"}, 0),
            (SENDS, {"q": ADA.upper()}, None),
            (MEMBERS, {"q": ADA}, None),
            ("hookrow_tables/list/", {"q": "no such"}, 0),
        ],
    )
    def test_filters_and_search(
        self, project: Site, path: str, query: dict[str, str], found: int | None
    ) -> None:
        """What is looked for is found, and no more."""
        count = project.get(path, **query).count('class="action-select"')
        assert count == found if found is not None else count > 0


@pytest.mark.parametrize(
    "path", [LOG, PEOPLE, *map("hookrow_tables/{}/".format, ("dispatch", "subscription"))]
)
def test_a_list_stays_quick(project: Site, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows: so many queries, none of them for one row, and none counts them all."""
    project.receive(DELIVERY, EARLY, STRANGER, BOUNCE)
    monkeypatch.setattr("hookrow.django.changelist.MOST", 4)
    counts = set()
    for rows in (1, 3):
        monkeypatch.setattr("hookrow.django.changelist.LongList.list_per_page", rows)
        with CaptureQueriesContext(connection) as queries:
            page = project.get(path, _facets="True")
        assert page.count('class="action-select"') == rows
        counts.add(len(queries))
        counting = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
        assert len(counting) == 1
        assert "LIMIT 4" in counting[0]
    assert len(counts) == 1
    assert max(counts) <= 6
