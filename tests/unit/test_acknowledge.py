"""The two opt-in responses: 200 for the provider's tests, and for parked notifications."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import NOON, Database, delivery, people, post, receive, request, suppression

from hookrow import ConfigurationError, Response, Schema, testing
from hookrow._core.result import Result
from hookrow._receiver.clock import utc_now
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.replay import arrivals_of, replay
from hookrow._receiver.spool import Spool
from hookrow._server.app import Server
from hookrow._server.settings import EntrySettings, Settings
from hookrow.stores._log import Backlog
from wire import SECRET

TEST = testing.send_test(at=NOON)
UNKNOWN = delivery("nobody")
UNSENT = delivery("ada", MessageID="m-unsent")
MISMATCH = delivery("bea", MessageID="m-ada")


def answer(database: Database, payload: dict[str, Any], **options: Any) -> Response:  # noqa: ANN401 - of Receiver
    with closing(receive(database, **options)) as receiver:
        return post(receiver, payload)


# -- tests -----------------------------------------------------------------------------


CHANGE = {"Recipient": "john@example.com", "MessageID": TEST["MessageID"]}


@pytest.mark.parametrize(
    "payload", [TEST, TEST | {"Recipient": "John@EXAMPLE.com"}, suppression("x", **CHANGE)]
)
def test_a_test_is_acknowledged_and_logged_as_such(payload: dict[str, Any]) -> None:
    database, hook = people("ada"), Mock()
    response = answer(database, payload, acknowledge_tests=True, on_recorded=hook, on_refused=hook)
    assert (response.status, response.body) == (200, b"")
    [entry] = database.logged()
    assert (entry.outcome, entry.status, entry.retry_at) == (Result.TEST, 200, None)
    hook.assert_not_called()


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (TEST | {"Recipient": "jane@example.com"}, 404),
        (TEST | {"Recipient": "zoe@example.com"}, 404),
        (TEST | {"MessageID": "00000000-0000-0000-0000-000000000001"}, 404),
        (TEST | {"MessageID": None}, 404),
        (TEST | {"RecordType": "Bounce"}, 422),
        (TEST | {"DeliveredAt": "never"}, 422),
    ],
)
def test_anything_else_keeps_its_response(payload: dict[str, Any], status: int) -> None:
    assert answer(people("ada"), payload, acknowledge_tests=True).status == status


def test_a_subscriber_with_the_address_of_the_test() -> None:
    """The usual rules apply."""
    assert answer(people("john"), TEST, acknowledge_tests=True).status == 404
    database = people("john")
    database.tables.add_dispatch(TEST["MessageID"], subscriber=1)
    assert answer(database, TEST, acknowledge_tests=True).status == 200
    assert database.tables.dispatch(TEST["MessageID"]).delivered_at == NOON


def test_the_option_needs_no_log_and_is_off_by_default() -> None:
    assert answer(people("ada", log=False), TEST, acknowledge_tests=True).status == 200
    assert answer(people("ada"), TEST).body == b"Engine::Subscriber not found"


def test_a_replayed_test_stays_a_test() -> None:
    database = people("ada")
    answer(database, TEST, acknowledge_tests=True)
    replay(
        database,
        arrivals_of(database, database.logged(), POSTMARK, datetime.now(UTC)),
        clock=utc_now,
    )
    [entry] = database.logged()
    assert (entry.outcome, entry.attempts) == (Result.TEST, 1)


# -- parked notifications --------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        (UNKNOWN, Result.SUBSCRIBER_NOT_FOUND),
        (UNSENT, Result.DISPATCH_NOT_FOUND),
        (MISMATCH, Result.RECIPIENT_MISMATCH),
    ],
)
def test_a_parked_notification_is_acknowledged(payload: dict[str, Any], outcome: Result) -> None:
    """The log has the outcome and its status, and the hook is called as usual."""
    database, hook = people("ada", "bea"), Mock()
    response = answer(database, payload, sweep=True, acknowledge_parked=True, on_refused=hook)
    assert (response.status, response.body) == (200, b"")
    [entry] = database.logged()
    assert (entry.outcome, entry.retry_at is None) == (outcome, False)
    assert entry.status in {400, 404}
    hook.assert_called_once()


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (delivery("ada", MessageID=None), 404),  # no row can have these ids
        (delivery("ada", MessageID="m\0"), 404),
        (delivery("ada", Recipient=""), 404),
        (delivery("ada", Recipient="check@hookrow.invalid"), 404),  # a probe is not logged
        ({"RecordType": "Click"}, 422),
    ],
)
def test_what_is_not_parked_keeps_its_response(payload: dict[str, Any], status: int) -> None:
    database = people("ada")
    response = answer(database, payload, sweep=True, acknowledge_parked=True)
    assert response.status == status
    assert not any(entry.retry_at for entry in database.logged())


@pytest.mark.parametrize("recipient", ["ada", "nobody"])
def test_without_dispatches_no_delivery_is_parked(recipient: str) -> None:
    """Nor is it acknowledged, and it does not count as expired."""
    database = people("ada")
    database.use(Schema(dispatches=None, subscriptions=None))
    response = answer(database, delivery(recipient), sweep=True, acknowledge_parked=True)
    missing = b"Dispatch" if recipient == "ada" else b"Subscriber"
    assert (response.status, response.body) == (404, b"Engine::%s not found" % missing)
    [entry] = database.logged()
    assert (entry.outcome, entry.retry_at) == (Result.UNMAPPED, None)
    assert entry.body is not None
    assert database.log is not None
    assert database.log.backlog(datetime.now(UTC)) == Backlog(0, None, 0)


def test_failures_keep_their_response() -> None:
    """A rejected notification is parked, but its 503 makes the provider send it again."""
    database = people("ada")
    database.refuses = lambda each: not hasattr(each, "body")
    assert answer(database, delivery("ada"), sweep=True, acknowledge_parked=True).status == 503
    database.away = True
    assert answer(database, UNKNOWN, sweep=True, acknowledge_parked=True).status == 503


@pytest.mark.parametrize(
    ("log", "options"),
    [(True, {}), (True, {"sweep": True, "keep_bodies": False}), (False, {"sweep": True})],
)
def test_parked_notifications_are_acknowledged_only_if_they_are_retried(
    options: dict[str, bool], *, log: bool
) -> None:
    with pytest.raises(ConfigurationError, match="needs"):
        receive(people(log=log), acknowledge_parked=True, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sweep": False}, "again: remove `sweep = false`, --no-sweep or HOOKROW_SWEEP; or"),
        ({"keep_bodies": timedelta(0)}, "--keep-bodies or HOOKROW_KEEP_BODIES; or remove"),
    ],
)
def test_the_server_names_its_settings(sqlite_url: str, options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"sweep": True, "acknowledge_parked": True} | options
    entries = [EntrySettings(credentials=(SECRET,))]
    settings = Settings(entries=entries, database_url=sqlite_url, **given)
    with pytest.raises(ConfigurationError, match=text):
        Server(settings)


# -- trace ids -------------------------------------------------------------------------

TRACE = {"x-pm-webhook-trace-id": "1b7e6f0a-2a5e-4d0c-8f1e-0d4f6c2b9a11"}


def test_the_trace_id_is_logged_and_survives_the_spool(tmp_path: Path) -> None:
    database, path = people("ada"), tmp_path / "spool.db"
    with closing(receive(database, spool=path)) as receiver:
        assert receiver(request(delivery("ada"), **TRACE)).status == 200
        assert receiver(request(delivery("ada"))).status == 200  # without it, nothing changes
        database.away = True
        assert receiver(request(UNKNOWN, **TRACE)).status == 503
    [entry] = database.logged()
    assert (entry.trace_id, entry.attempts) == (TRACE["x-pm-webhook-trace-id"], 2)
    [spooled] = Spool(path).after(0, limit=9)
    assert spooled.trace_id == entry.trace_id


def test_a_hostile_trace_id_is_escaped_and_truncated() -> None:
    database = people("ada")
    with closing(receive(database)) as receiver:
        receiver(request(delivery("ada"), **{"x-pm-webhook-trace-id": "\0" + "é" * 300}))
    [entry] = database.logged()
    assert entry.trace_id == r"\x00" + "é" * 251
