"""Other providers: several events in a request, signed bodies, and responses of the provider's."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from math import isinf
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock

import msgspec
import pytest
from msgspec.structs import replace
from receiving import NOON, Database, delivery, encode, head, people

from courier import BAD, Courier, event, signed
from effects import Effects
from effects import body_of as body_of_effects
from engines import MEMORY
from hookrow import (
    Arrival,
    Bounced,
    Clicked,
    Complained,
    ConfigurationError,
    Delivered,
    Event,
    Opened,
    Outcome,
    Postmark,
    Reactivated,
    Receiver,
    Recorded,
    Refused,
    Request,
    Response,
    Suppressed,
    Unsupported,
)
from hookrow._cli.log import _describe_replay
from hookrow._cli.replay import Summary
from hookrow._core.log_entry import RECORD_TYPES, body_of, fingerprint
from hookrow._core.result import Result
from hookrow._http import plain
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import POSTMARK, Entries, Entry, read_entries
from hookrow._receiver.recorder import Responses, combine, record
from hookrow._receiver.replay import ParkedRetry, arrivals_of, parse_entry, replay, replay_entries
from hookrow._receiver.spool import Spool
from hookrow.dashboard._queries import preview_replay
from hookrow.providers import Provider
from hookrow.providers._base import _FIELDS, BodyParser
from hookrow.stores._timeouts import left
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._transaction import SQLTransaction
from wire import PATIENCE, SECRET, eventually, post_together

STORE = SQLStore(MEMORY)  # which is not used


def in_loop(receiver: Receiver, request: Request) -> Response:
    [response] = post_together(receiver, [request])
    return response


Post = Callable[[Receiver, Request], Response]
in_thread: Post = Receiver.__call__
every_host = pytest.mark.parametrize(
    "post",
    [in_thread, in_loop, Receiver.record_directly],
    ids=["in_thread", "in_loop", "record_directly"],
)


def post_events(
    post: Post,
    database: Database,
    *events: dict[str, Any],
    **options: Any,  # noqa: ANN401 - of Receiver
) -> Response:
    with closing(Receiver(Courier(), database, **options)) as receiver:
        return post(receiver, Request(head(), signed(*events)))


@every_host
def test_each_event_is_recorded_and_logged(post: Post) -> None:
    database = people("ada", "bea")
    assert post_events(post, database, event("ada"), event("bea"), BAD).status == 200
    assert database.tables.dispatch("m-ada").delivered_at == NOON
    assert database.tables.dispatch("m-bea").delivered_at == NOON
    assert sorted((each.record_type, each.outcome.value) for each in database.logged()) == [
        ("Delivery", "recorded"),
        ("Delivery", "recorded"),
        ("mail.queued", "unsupported"),
    ]
    assert {each.provider for each in database.logged()} == {"courier"}


@every_host
def test_events_that_the_log_has_are_accepted(post: Post) -> None:
    """The provider would send the whole batch again because of one event."""
    database = people("ada")
    response = post_events(post, database, event("ada"), event("nobody"), BAD)
    assert (response.status, response.body) == (200, b"")
    assert database.tables.dispatch("m-ada").delivered_at == NOON
    parked = {each.recipient: each.retry_at is not None for each in database.logged()}
    assert parked == {"ada@example.com": False, "nobody@example.com": True, None: False}


@every_host
def test_a_failed_event_is_accepted_if_the_log_has_it(post: Post) -> None:
    database = people("ada")
    database.refuses = lambda each: not hasattr(each, "body")
    assert post_events(post, database, event("ada")).status == 200
    [entry] = database.logged()
    assert (entry.outcome, entry.retry_at is not None) == (Result.FAILED, True)
    database.refuses = lambda _: True
    assert post_events(post, database, event("ada", attempt=2)).status == 503


@every_host
def test_one_refusal_refuses_the_request(post: Post) -> None:
    """With the contract's responses; events of other kinds are accepted even then."""
    database = people("ada")
    events = event("ada"), event("nobody"), BAD
    response = post_events(post, database, *events, acknowledge_parked=False)
    assert (response.status, response.body) == (404, b"Engine::Subscriber not found")
    assert database.tables.dispatch("m-ada").delivered_at == NOON


@pytest.mark.parametrize(
    ("log", "options"), [(True, {"sweep": False}), (True, {"keep_bodies": False}), (False, {})]
)
def test_accepted_events_must_be_retried(options: dict[str, Any], *, log: bool) -> None:
    with pytest.raises(ConfigurationError, match="needs a log, `keep_bodies` and `sweep`"):
        Receiver(Courier(), people(log=log), **options)


@every_host
def test_a_request_without_events_is_acknowledged(post: Post) -> None:
    database = people()
    assert post_events(post, database).status == 200
    assert not database.logged()


@every_host
def test_a_signature_that_is_not_valid(post: Post) -> None:
    database = people()
    with closing(Receiver(Courier(), database)) as receiver:
        response = post(receiver, Request(head(), b"[]"))
    assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Signature")
    assert not database.logged()


DELIVERED: Any = Delivered("ada@example.com", "m-ada", NOON)
NAIVE = NOON.replace(tzinfo=None)
BEFORE_UTC = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))


@every_host
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "Courier.read returned None, but must return a sequence of events: write `return"),
        (Event((), b""), "Courier.read returned Event, but must return a sequence of events"),
        (iter(()), "Courier.read returned tuple_iterator, but must"),
        ([b"{}"], "Courier.read returned a sequence with bytes, but must"),
        (KeyError("x"), "Courier.read raised KeyError at "),
    ],
)
def test_a_mistake_in_a_provider(
    post: Post, caplog: pytest.LogCaptureFixture, result: object, message: str
) -> None:
    """The provider sends the request again, because nothing else has its events."""
    courier = Courier()
    effect = result if isinstance(result, Exception) else [result]
    courier.read = Mock(side_effect=effect)  # type: ignore[method-assign]
    with closing(Receiver(courier, people())) as receiver:
        response = post(receiver, Request(head(), b"[]!"))
    assert (response.status, response.body) == (503, b"Try again later")
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage().startswith(f"Returned 503: {message}")


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"body": "{}"}, "Event.body is str, but must be bytes"),
        ({"event_id": 1}, "Event.event_id is int, but must be a string or None"),
        ({"trace_id": b"1"}, "Event.trace_id is bytes, but must be a string or None"),
        ({"notifications": DELIVERED}, "Event.notifications is Delivered, but must be a sequence"),
        ({"notifications": [{}]}, "Event.notifications contains dict, but must be a sequence"),
        ({"notifications": (), "unsupported": None}, "Event.unsupported is NoneType, but must be"),
        (
            {"notifications": (), "unsupported": Unsupported(ANY)},
            "Unsupported.record_type is _ANY, but must be a string or None",
        ),
        *(
            ({"notifications": [DELIVERED, notification]}, fault)
            for notification, fault in (
                (Delivered(ANY, None, NOON), "Delivered.recipient is _ANY, but must be a string"),
                (Opened(None, ANY, NOON), "Opened.message_id is _ANY, but must be a string or N"),
                (Clicked(None, None, ANY), "Clicked.at is _ANY, but must be a datetime"),
                (Complained(None, None, NAIVE), "Complained.at has no time zone, but must be in"),
                (Opened(None, None, BEFORE_UTC), "Opened.at is out of range, but must be in UTC"),
                (Bounced(None, None, NOON, ANY), "Bounced.type is _ANY, but must be a string or"),
                (Suppressed(None, None, None, ANY), "Suppressed.reason is _ANY, but must be a st"),
                (Reactivated(None, None, ANY), "Reactivated.at is _ANY, but must be a datetime o"),
            )
        ),
    ],
)
def test_a_field_of_the_wrong_type_fails_only_its_request(
    caplog: pytest.LogCaptureFixture, changed: dict[str, Any], fault: str
) -> None:
    """The notifications of others, with which it would share a group, are recorded."""
    courier, database = Courier(), people("ada")
    wrong = replace(Event((DELIVERED,), b"{}"), **changed)
    read = Courier.read
    courier.read = lambda request: (  # type: ignore[method-assign]
        [wrong] * 6 if request.body == b"wrong" else read(courier, request)
    )
    with closing(Receiver(courier, database)) as receiver:
        good = [Request(head(), signed(event("ada", type_))) for type_ in ("delivered", "opened")]
        responses = post_together(receiver, [good[0], Request(head(), b"wrong"), good[1]])
    assert [each.status for each in responses] == [200, 503, 200]
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage().startswith(
        f"Returned 503: Courier.read returned an event in which {fault}"
    )


def test_the_types_of_all_fields_are_known() -> None:
    """In the order of each struct, in which their values are checked."""
    checked = {kind: (*fields,) for kind, fields in _FIELDS.items()}
    kinds: list[type[msgspec.Struct]] = [Event, Unsupported, *RECORD_TYPES]  # type: ignore[list-item] # all are structs
    assert checked == {kind: kind.__struct_fields__ for kind in kinds}


@every_host
def test_events_without_a_log(post: Post) -> None:
    database, options = people("ada", log=False), {"acknowledge_parked": False}
    assert post_events(post, database, BAD, event("ada"), **options).status == 200
    assert post_events(post, database, BAD, **options).status == 200
    assert post_events(post, database, event("nobody"), **options).status == 404


@every_host
def test_an_outage(post: Post) -> None:
    database = people("ada")
    database.away = True
    assert post_events(post, database, BAD, event("ada"), event("nobody")).status == 503


@every_host
def test_what_is_in_the_spool_is_acknowledged_on_request(post: Post, tmp_path: Path) -> None:
    """Only for a provider that does not send it again; without room, it must."""
    database, path = people("ada", "bea"), tmp_path / "spool.db"
    database.away = True
    events = BAD, event("ada"), event("bea")
    assert post_events(post, database, *events, spool=path).status == 503
    options: dict[str, Any] = {"spool": path, "acknowledge_spooled": True}
    hook = Mock()
    assert post_events(post, database, *events, on_recorded=hook, **options).status == 200
    hook.assert_not_called()
    assert len(Spool(path).after(0, limit=9)) == len(events)
    with closing(Receiver(Courier(), database, **options)) as receiver:
        path.unlink()
        path.mkdir()  # no file can be written
        request = Request(head(), json.dumps(events).encode() + b"!")
        assert post(receiver, request).status == 503


class Hanging(Database):
    """A database that does not respond: each transaction takes all the time that it has.

    Its clock, which replaces those of the receiver, advances only then.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 1000.0
        self.left_to_spool: list[float] = []
        put = Spool.put

        def put_in_time(spool: Spool, arrivals: Sequence[Arrival]) -> Sequence[bool]:
            self.left_to_spool.append(left())
            return put(spool, arrivals)

        monkeypatch.setattr(Spool, "put", put_in_time)
        for module in "stores._timeouts", "_receiver.recorder", "_receiver.batch":
            monkeypatch.setattr(f"hookrow.{module}.monotonic", lambda: self.now)

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[SQLTransaction]:
        self.now += TRANSACTION_TIMEOUT if isinf(left()) else max(left(), 0.0)
        with super().transaction(skip_locked=skip_locked, checked=checked) as transaction:
            yield transaction


@every_host
@pytest.mark.parametrize("acknowledges", [True, False])
def test_the_first_events_of_an_outage_in_which_the_database_does_not_respond(
    post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, acknowledges: bool
) -> None:
    """All are spooled; if that is acknowledged, within the deadline, in a time kept for it."""
    database, path = Hanging(monkeypatch), tmp_path / "spool.db"
    database.away = True
    options = {"spool": path, "acknowledge_spooled": acknowledges, "deadline": PATIENCE}
    began, events = database.now, (BAD, event("ada"), event("bea"))
    response = post_events(post, database, *events, group=2, **options)
    assert response.status == (200 if acknowledges else 503)
    assert len(Spool(path).after(0, limit=9)) == len(events)
    if acknowledges:
        assert database.now - began == pytest.approx(PATIENCE * 0.8)
        assert database.left_to_spool == [pytest.approx(PATIENCE * 0.2)] * 2


@pytest.mark.parametrize("options", [{}, {"sweep": True}, {"spool": "spool.db"}])
def test_what_is_in_the_spool_must_be_retried(options: dict[str, Any], tmp_path: Path) -> None:
    if "spool" in options:
        options = {"spool": tmp_path / "spool.db"}
    with pytest.raises(ConfigurationError, match="`acknowledge_spooled` needs `spool`, and `sw"):
        Receiver(Postmark(SECRET), people(), acknowledge_spooled=True, **options)


def test_an_object_of_another_class() -> None:
    secret: Any = "the secret alone"
    with pytest.raises(ConfigurationError, match=r"not str: write Receiver\(Postmark\(secret\)"):
        Receiver(secret, STORE)


@pytest.mark.parametrize(("provider", "status"), [(Courier(), 503), (Postmark(SECRET), 422)])
def test_the_response_to_an_unsupported_event_that_is_not_logged(
    provider: Provider, status: int
) -> None:
    """A 200 would state that the log has it. Postmark's 422 is final, logged or not."""
    responses = Responses(read_entries(provider), acknowledge_parked=False)
    unsupported = Arrival((), b"{}", NOON)
    supported = Arrival((Delivered("a@example.com", "m", NOON),), b"{}", NOON)
    statuses = [responses.unavailable(each).status for each in (unsupported, supported)]
    assert statuses == [status, 503]


def test_responses_are_combined() -> None:
    for statuses, expected in (
        ((), 200),
        ((200, 200), 200),
        ((200, 404, 422), 404),
        ((422, 400), 422),
        ((404, 503, 200), 503),
    ):
        assert combine([plain(each, "") for each in statuses]).status == expected


def test_an_event_that_changed_between_two_attempts_is_the_same() -> None:
    """Its id identifies it, together with the provider."""
    database = people("ada")
    post_events(in_thread, database, event("ada", attempt=1))
    post_events(in_thread, database, event("ada", attempt=2))
    [entry] = database.logged()
    assert (entry.attempts, entry.body) == (2, json.dumps(event("ada", attempt=1)))
    assert body_of(entry) == encode(event("ada", attempt=1))


@every_host
def test_the_events_of_a_request_share_their_commits(post: Post) -> None:
    """A request with more events than a group, or even than the backlog, takes few commits."""
    names = [f"s{number}" for number in range(1000)]
    database = people(*names)
    with closing(Receiver(Courier(), database, backlog=300, deadline=PATIENCE)) as receiver:
        body = signed(*map(event, names))
        assert post(receiver, Request(head(), body)).status == 200
    assert all(database.tables.dispatch(f"m-{name}").delivered_at for name in names)
    assert len(database.begun) <= 5


def test_a_request_for_which_the_queue_is_full_is_refused_as_a_whole() -> None:
    """None of its events is recorded, and the provider sends all of them again."""
    database = people("ada", "bea", "carl")
    database.opened.clear()

    def send(*names: str) -> Response:
        return receiver(Request(head(), signed(*map(event, names))))

    with (
        closing(Receiver(Courier(), database, backlog=2, deadline=PATIENCE)) as receiver,
        ThreadPoolExecutor(2) as threads,
    ):
        recording = threads.submit(send, "ada")
        assert database.reached.wait(PATIENCE)
        waiting = threads.submit(send, "ada", "ada")
        eventually(lambda: receiver._writers[0].waiting() == 2)
        assert send("bea", "carl").status == 503
        database.opened.set()
        assert [each.result(PATIENCE).status for each in (recording, waiting)] == [200, 200]
    assert database.tables.dispatch("m-bea").delivered_at is None


def test_entries_of_another_provider_are_not_retried() -> None:
    """A receiver of Postmark leaves the courier's parked entries to the courier's receiver."""
    database = people("ada")
    post_events(in_thread, database, event("ada", message="m-late"))
    database.tables.add_dispatch("m-late", subscriber=1)
    [entry] = database.logged()
    assert entry.outcome is Result.DISPATCH_NOT_FOUND
    assert arrivals_of(STORE, [entry], POSTMARK, NOON) == []
    assert database.log is not None
    recorded = {
        name: ParkedRetry(
            database, database.log, parsers, lambda *_: None, Clock(database)
        ).retry_now(["m-late"])
        for name, parsers in (("postmark", POSTMARK), ("courier", read_entries(Courier())))
    }
    assert [recorded[name].result(20) for name in ("postmark", "courier")] == [0, 1]


def test_an_event_is_recorded_again_only_if_more_of_it_can_be() -> None:
    """Otherwise, a hook would be called at each retry; and a later reactivation is not undone."""
    database, outcomes = people("ada"), list[Outcome]()
    body = body_of_effects(
        "Delivered", "HardBounce", recipient="ada@example.com", message_id="m-late", at=NOON
    ).encode()
    bounce = Arrival(Effects.parse(body).notifications, body, utc_now(), provider=Effects.name)
    [refused] = record(database, [bounce])
    assert isinstance(refused, Refused)
    assert database.tables.subscriber("ada@example.com").suppression_reason == "HardBounce"
    lifted = Reactivated("ada@example.com", None, NOON + timedelta(hours=1))
    record(database, [Arrival((lifted,), b"lifted", NOON)])
    assert database.log is not None
    parsers = Entries(Entry(None, Effects()))
    retry = ParkedRetry(
        database,
        database.log,
        parsers,
        lambda _, ended: outcomes.extend(ended),
        Clock(database),
    )
    assert [retry.retry_now(["m-late"]).result(PATIENCE) for _ in range(2)] == [0, 0]
    assert outcomes == []
    database.tables.add_dispatch("m-late", subscriber=1)
    assert retry.retry_now(["m-late"]).result(PATIENCE) == 1
    [recorded] = outcomes
    assert isinstance(recorded, Recorded)
    assert database.tables.dispatch("m-late").delivered_at == NOON
    assert database.tables.subscriber("ada@example.com").suppressed_at is None


def test_a_replay_keeps_the_identity_of_an_event() -> None:
    database = people("ada")
    post_events(in_thread, database, event("ada"))
    [entry] = database.logged()
    arrivals = arrivals_of(STORE, [entry], read_entries(Courier()), NOON)
    assert [fingerprint(each) for each in arrivals] == [entry.fingerprint]
    replay(database, arrivals, clock=utc_now)
    assert len(database.logged()) == 1


@pytest.mark.parametrize("name", ["", "x" * 33, "a\0", "\ud800"])
def test_a_name_that_the_log_cannot_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a database would reject every notification, or every sweep of all entries."""
    monkeypatch.setattr(Courier, "name", name)
    with pytest.raises(ConfigurationError, match="1 to 32 characters, but that of Courier is '"):
        Receiver(Courier(), STORE)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        *(("name", name, "Own.name must be a string, not ") for name in (None, 7)),
        ("header", b"Signature", "Own.header must be a string or None, not bytes"),
        ("secrets", None, "Own.secrets must be a sequence of strings, not NoneType"),
        ("secrets", SECRET, r'must be a sequence of strings: write secrets = \("the secret",\)\.$'),
        ("secrets", [b"hunter2"], "must be a sequence of strings: write "),
        ("matched", None, "Own.matched must be a mapping of numbers to numbers, not NoneType"),
        ("old_matches", None, "Own.old_matches must be a number, not NoneType"),
        ("accepts_logged", "no", "Own.accepts_logged must be True or False, not str"),
    ],
)
def test_a_provider_with_an_invalid_attribute(attribute: str, value: object, message: str) -> None:
    """It is refused at once: the tasks that all entries share would fail with it."""
    own = type("Own", (Courier,), {attribute: value})
    with pytest.raises(ConfigurationError, match=message) as raised:
        Receiver(own(), STORE)
    assert "hunter2" not in str(raised.value)


class Misreading(Courier):
    """Fails to read the stored events of Ada."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result

    def parse(self, body: bytes) -> Event:
        if b"ada@" not in body:
            return super().parse(body)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # type: ignore[return-value] # the mistake


every_misreading = pytest.mark.parametrize(
    ("result", "fault"),
    [
        (KeyError("ada@example.com"), "Misreading.parse raised KeyError at "),
        (None, "Misreading.parse returned None, but must return an event: write `return Event("),
        (
            Event((DELIVERED,), "{}"),  # type: ignore[arg-type] # the mistake
            "Misreading.parse returned an event in which Event.body is str, but must be bytes.",
        ),
    ],
    ids=["raises", "returns None", "wrong type"],
)


@every_misreading
def test_a_parked_event_that_its_provider_fails_to_read(
    caplog: pytest.LogCaptureFixture, result: object, fault: str
) -> None:
    """The sweep records the others, and leaves it in the log until the provider is corrected."""
    database = people("ada", "bea")
    events = [event(name, message=f"late-{name}") for name in ("ada", "bea")]
    post_events(in_thread, database, *events, clock=lambda: utc_now() - timedelta(minutes=2))
    for number, name in enumerate(("ada", "bea"), 1):
        database.tables.add_dispatch(f"late-{name}", subscriber=number)
    assert database.log is not None
    faulty, corrected = (
        ParkedRetry(database, database.log, read_entries(each), lambda *_: None, Clock(database))
        for each in (Misreading(result), Courier())
    )
    assert faulty.retry_due() == 1
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    left, recorded = sorted(database.logged(), key=lambda each: str(each.recipient))
    assert record.getMessage().startswith(f"Notification {left.id} cannot be read: {fault}")
    assert (recorded.outcome, left.outcome) == (Result.RECORDED, Result.DISPATCH_NOT_FOUND)
    assert (body_of(left), left.retry_at is not None) == (encode(events[0]), True)
    parsers = read_entries(Misreading(result))
    assert parse_entry(left, parsers) is None
    assert _describe_replay(database, left, parsers).startswith(f"not possible: {fault}")
    preview = preview_replay(database, left, parsers)
    assert preview is not None
    assert preview.refusal.startswith(fault)
    summary = Summary(dry_run=False)
    summary.add(replay_entries(database, database.log, [left], parsers), [left], parsers)
    assert summary.describe() == "1 notification replayed: 1 not readable."
    assert "ada@" not in caplog.text
    assert corrected.retry_now(["late-ada"]).result(PATIENCE) == 1
    assert database.tables.dispatch("late-ada").delivered_at == NOON


@every_misreading
def test_a_spooled_event_that_its_provider_fails_to_read(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, result: object, fault: str
) -> None:
    """The drain records the others, and leaves it in the spool for a corrected provider."""
    database, path = people("ada", "bea"), tmp_path / "spool.db"
    database.away = True
    post_events(in_thread, database, event("ada"), event("bea"), spool=path)
    database.away = False
    [ada, _] = Spool(path).after(0, limit=9)
    caplog.clear()
    with closing(Receiver(Misreading(result), database, spool=path)) as receiver:
        receiver.start()
        eventually(lambda: len(Spool(path).after(0, limit=9)) == 1)
    assert database.tables.dispatch("m-bea").delivered_at == NOON
    [left] = Spool(path).after(0, limit=9)
    assert (left.body, left.attempts) == (ada.body, ada.attempts)
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    expected = f"Entry {left.id} of the spool cannot be recorded, and stays there: {fault}"
    assert record.getMessage().startswith(expected)
    assert "ada@" not in caplog.text
    with closing(Receiver(Courier(), database, spool=path)) as receiver:
        receiver.start()
        eventually(lambda: not Spool(path).after(0, limit=9))
    assert database.tables.dispatch("m-ada").delivered_at == NOON


class Prefixed(Postmark):
    """A subclass of a built-in provider, whose trace ids are wrong."""

    def read(self, request: Request) -> Sequence[Event]:
        return [replace(each, trace_id=1) for each in super().read(request)]


def test_a_subclass_of_a_built_in_provider_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    database = people("ada")
    sent = Request(head(), encode(delivery("ada")))
    with closing(Receiver(Prefixed(SECRET), database)) as receiver:
        assert receiver(sent).status == 503
    assert "Prefixed.read returned an event in which Event.trace_id is int" in caplog.text
    assert not database.logged()


@pytest.mark.parametrize(
    ("provider", "is_checked"),
    [
        (Postmark(SECRET), False),
        (Postmark, False),
        (Courier(), True),
        (Effects, True),
        (Prefixed(SECRET), True),
        (Prefixed, True),
        (type("Postmark", (Postmark,), {"__module__": "hookrow.providers.other"}), True),
    ],
)
def test_only_events_of_built_in_providers_are_not_checked(
    provider: BodyParser, *, is_checked: bool
) -> None:
    assert Entry(None, provider).is_checked is is_checked
