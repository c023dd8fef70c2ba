"""The page about django-anymail: its code runs with anymail, and its tables are true."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from anymail.signals import tracking
from django.conf import settings
from django.test import Client, override_settings
from django.urls import include, path

import django_host
from basic_auth import basic
from hookrow import Arrival, Postmark, Recorded, Request, Response, testing
from hookrow._core.log_entry import body_of
from hookrow.django import receiver, signals, store
from hookrow.django.tables.models import Dispatch
from hookrow.stores._log import Query
from hookrow.testing import Tables
from senders import SENDERS, brevo, mailgun, mailjet, mandrill
from session import ROOT, execute, read_files
from times import NOON

PAGE = "docs/how-to/migrate-from-anymail.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
FILES = read_files(PAGE)
ANYMAIL = {
    "WEBHOOK_SECRET": [brevo.CREDENTIALS, mailjet.CREDENTIALS],
    "MAILGUN_WEBHOOK_SIGNING_KEY": mailgun.KEY,
    "MANDRILL_WEBHOOK_KEY": mandrill.KEY,
    "MANDRILL_WEBHOOK_URL": mandrill.URL,
}
VIEWS = {
    "Brevo": "brevo:BrevoTrackingWebhookView",
    "Mailgun": "mailgun:MailgunTrackingWebhookView",
    "Mailjet": "mailjet:MailjetTrackingWebhookView",
    "Mandrill": "mandrill:MandrillTrackingWebhookView",
    "Resend": "resend:ResendTrackingWebhookView",
    "SendGrid": "sendgrid:SendGridTrackingWebhookView",
}

every_provider = pytest.mark.parametrize("name", SENDERS)


def __getattr__(name: str) -> object:
    """Return a function that constructs a provider, which the settings name."""
    if sender := SENDERS.get(name.removeprefix("construct_")):
        return sender.construct
    raise AttributeError(name)


@pytest.fixture
def adapter() -> Iterator[Mapping[str, Any]]:
    """Run the adapter, which listens until the test ends."""
    found = execute(FILES["crm/from_anymail.py"])
    try:
        yield found
    finally:
        tracking.disconnect(found["record"])


@pytest.fixture(autouse=True)
def _without_boto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not require boto3, with which anymail confirms subscriptions."""
    monkeypatch.setattr(
        "anymail.webhooks.amazon_ses._get_anymail_boto3_params", lambda **_: ({}, {})
    )


@pytest.fixture
def _project(sqlite_url: str) -> Iterator[None]:
    """Record the events of all providers in a database, with the dispatches of their senders."""
    entries = {name: {"PROVIDER": f"{__name__}.construct_{name}"} for name in SENDERS}
    with django_host.project(sqlite_url, SECRET=None, PROVIDERS=entries):
        tables = Tables(store())
        ada = tables.add_subscriber("ada@example.com")
        for sender in SENDERS.values():
            tables.add_dispatch(sender.message_id, ada)
        yield


def post(name: str, request: Request) -> int:
    """Post a request of a provider to anymail's webhook; return the status."""
    headers = {key.decode(): value.decode() for key, value in request.head.headers}
    content_type = headers.pop("Content-Type", "application/json")
    if name == "amazon_ses":
        headers["x-amz-sns-message-id"] = json.loads(request.body)["MessageId"]
    headers = {"Authorization": basic(brevo.CREDENTIALS).decode(), **headers}
    client = Client(raise_request_exception=False)
    urls = (path("anymail/", include("anymail.urls")),)
    with override_settings(ROOT_URLCONF=urls, ANYMAIL=ANYMAIL):
        url = f"/anymail/{name}/tracking/"
        return client.post(
            url, request.body, content_type=content_type, headers=headers
        ).status_code


def opening(name: str) -> Request:
    """Return an authentic request with an open that anymail reads."""
    sender = SENDERS[name]
    if name == "brevo":  # anymail fails for a batch, and for a custom header that is not JSON
        event = sender.opened(0) | {"X-Mailin-custom": "{}"}
        return sender.sign(json.dumps(event).encode())
    return sender.request(sender.opened(0))


def opened(name: str) -> bool:
    [dispatch] = Dispatch.objects.using(settings.HOOKROW["DATABASE"]).filter(
        provider_message_id=SENDERS[name].message_id
    )
    return dispatch.opened_at is not None


@every_provider
@pytest.mark.usefixtures("_project", "adapter")
@pytest.mark.filterwarnings("ignore:django-anymail has dropped")
class TestAdapter:
    def test_an_event(self, name: str) -> None:
        """It becomes a row, and the entry reads the log."""
        assert post(name, opening(name)) == 200
        assert opened(name)
        log = store().log
        assert log is not None
        [entry] = log.newest(Query(), limit=2)
        assert (entry.entry, entry.provider, entry.record_type) == (name, name, "Open")
        reader, body = receiver().entries.parser_of(entry), body_of(entry)
        assert reader is not None
        assert body is not None
        [notification] = reader.parse(body).notifications
        assert notification.message_id == SENDERS[name].message_id

    def test_an_event_that_is_not_kept(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Anymail asks the provider to send it again."""
        monkeypatch.setattr(receiver(), "record_body", lambda *_: Response(503, b"", {}))
        assert post(name, opening(name)) == 500


@pytest.mark.usefixtures("_project", "adapter")
def test_a_form_of_mailgun() -> None:
    fields = {
        "event": "opened",
        "recipient": "ada@example.com",
        "message-id": mailgun.ID.strip("<>"),
        **mailgun.block(),
    }
    body = urlencode(fields).encode()
    assert post("mailgun", mailgun.post(body, "application/x-www-form-urlencoded")) == 200
    assert opened("mailgun")


class TestTables:
    def test_each_provider_has_a_column(self) -> None:
        columns = [name for head, *_ in NAMES for name in head[1:]]
        assert sorted(columns) == sorted(["Amazon SES", *VIEWS])

    def test_the_entries(self, adapter: Mapping[str, Any]) -> None:
        assert {*adapter["ENTRIES"].values()} == SENDERS.keys()

    @pytest.mark.parametrize("name", VIEWS)
    def test_the_types_of_events(self, name: str) -> None:
        """Anymail gives each event the type of its row."""
        view = resolve_name(f"anymail.webhooks.{VIEWS[name]}")
        types = {event: _type(found) for event, found in view.event_types.items()}
        head, *rows = next(table for table in NAMES if name in table[0])
        column = head.index(name)
        for row in rows:
            for event in re.findall(r"`([\w.]+)`", row[column]):
                type_ = row[0].strip("`")
                is_other = (event, type_) in {("failed", "deferred"), ("bounce", "deferred")}
                assert is_other or types.get(event, "unknown") == type_, event


def _type(found: str | tuple[str, object]) -> str:
    """Return anymail's type of an event, which may have the reason of a rejection beside it."""
    return found if isinstance(found, str) else found[0]


def _rows(head: str) -> Iterator[list[str]]:
    """Yield the cells of the head and of each row of a table."""
    table = (head + TEXT.partition(head)[2]).partition("\n\n")[0]
    first, _, *rest = table.splitlines()
    for line in (first, *rest):
        yield [cell.strip() for cell in line.strip().strip("|").split("|")]


NAMES = [[*_rows(f"| `event_type` | {name} |")] for name in ("Amazon SES", "Mailgun")]
"""The tables with the providers' names of events, one column for each provider."""


def test_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called for complaints, and for nothing else."""
    notified: list[str] = []
    support = SimpleNamespace(notify_support=notified.append)
    monkeypatch.setitem(sys.modules, "crm.support", support)
    handle_complaint = execute(FILES["crm/listeners.py"])["handle_complaint"]
    try:
        for reason in ("HardBounce", "SpamComplaint"):
            payload = testing.suppression("ada@example.com", None, at=NOON, reason=reason)
            notifications = Postmark.parse(json.dumps(payload).encode()).notifications
            signals.notification_recorded.notify(Arrival(notifications, b"{}", NOON), Recorded([]))
    finally:
        signals.notification_recorded.disconnect(handle_complaint, sender=None)
    assert notified == ["ada@example.com"]
