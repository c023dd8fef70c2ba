"""The entries of a receiver: their arguments, paths and probes, and what reads the log for them."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock
from uuid import UUID

import pytest
from receiving import NOON, Database, delivery, encode, head, people

from courier import WELCOME, Courier, event, signed
from engines import MEMORY
from hookrow import (
    Arrival,
    ConfigurationError,
    Event,
    Gauges,
    Key,
    Observer,
    Opened,
    Outcome,
    Postmark,
    Receiver,
    Recorded,
    Refusal,
    Request,
    RequestHead,
    Response,
    Role,
    Schema,
    Suppressed,
    Tenant,
)
from hookrow._core.log_entry import LONGEST_ENTRY_NAME
from hookrow._core.notification import SetTime
from hookrow._core.optional import ALWAYS
from hookrow._core.rules import PROBE
from hookrow._http import MAX_BODY, PROBE_AGENT
from hookrow._receiver import hourly
from hookrow._receiver.entries import (
    Parsers,
    correct_message_id,
    explain,
    field_names,
    read_entries,
)
from hookrow._receiver.replay import arrivals_of
from hookrow._receiver.spool import Spool
from hookrow.providers import BodyParser, Provider, Unauthentic
from hookrow.stores._log import Origin, RequestKind
from hookrow.stores.sql import SQLStore
from times import SECOND
from wire import ENDPOINT, PATIENCE, SECRET, eventually

OTHER_SECRET = "another-secret-of-the-tests"
UNUSED = SQLStore(MEMORY)
ONE = Postmark(SECRET)
OPENED = Opened("ada@example.com", "m-ada", NOON)


def both(*, limit: int = MAX_BODY) -> dict[str, Provider]:
    """Return the entries of a receiver with two providers."""
    return {"mail": Postmark(SECRET), "parcels": Courier(limit=limit)}


class Batches(Provider):
    """Reads lists of Postmark's payloads, and admits nobody."""

    name = "batches"

    def admit(self, _: object) -> str:
        return "Signature"

    def read(self, _: object) -> NoReturn:
        raise Unauthentic("Signature")

    def read_body(self, body: bytes) -> Sequence[Event]:
        return [self.parse(encode(each)) for each in json.loads(body)]

    def parse(self, body: bytes) -> Event:
        return Postmark.parse(body)


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ({}, "The mapping has no entry: write Receiver({"),
        ([Postmark(SECRET)], "Several providers must be a mapping, with a name for each, not list"),
        (None, "The provider must be an instance .*, not None: write Receiver(Postmark(secret), "),
        (Postmark, "The provider must be an instance .*, not the class Postmark: write"),
        (Tenant(ONE, 1), 'A tenant needs a name: write Receiver({"acme": Tenant(Postmark(secret)'),
        ({1: ONE}, "The name of an entry must be a string, not 1: write Receiver({"),
        *(
            ({name: ONE}, f"The name of an entry has 1 to 64 .*, but one is {name!r}: write")
            for name in ("", "Mail", "a b", "a/b", "é", "x" * (LONGEST_ENTRY_NAME + 1))
        ),
        ({"mail": SECRET}, "an instance .*, not str: write Receiver({"),
        ({"mail": None}, 'not None: write Receiver({"mail": Postmark(secret)}, store)'),
        (
            {"mail": ONE, "acme": Tenant(Postmark(SECRET), 1)},
            "These entries are not tenants, but the others are: 'mail'. They would",
        ),
        ({"a": ONE, "b": ONE}, "The entries 'a' and 'b' are the same object: construct"),
        ({"a": Tenant(ONE, 1), "b": Tenant(ONE, 2)}, "'a' and 'b' are the same object"),
    ],
)
def test_entries_that_are_rejected(providers: Any, message: str) -> None:  # noqa: ANN401 - of a host
    pattern = message.replace("(", r"\(").replace(")", r"\)").replace("{", r"\{")
    with pytest.raises(ConfigurationError, match=pattern):
        Receiver(providers, UNUSED)


@pytest.mark.parametrize("value", [None, 1.5, True, b"1", (1,)])
def test_values_of_a_tenant_that_are_rejected(value: Any) -> None:  # noqa: ANN401 - of a host
    with pytest.raises(ConfigurationError, match=r"must be an int, a string or a UUID, not .*acme"):
        Tenant(ONE, value)


def test_a_tenant_of_another_object() -> None:
    provider: Any = SECRET
    with pytest.raises(ConfigurationError, match=r"The provider of a tenant .*, not str: write "):
        Tenant(provider, 1)


def test_several_positional_providers() -> None:
    with pytest.raises(ConfigurationError, match=r'a mapping of several, .* write Receiver\({"po'):
        Receiver(ONE, Courier(), UNUSED)  # type: ignore[arg-type] # the mistake


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be an int, a string or a UUID, not True"),
        (1.5, "must be an int, a string or a UUID, not 1.5"),
        (2**63, "must fit 64 bits, but 9223372036854775808 does not"),
        (-(2**70), "must fit 64 bits"),
        ("a\ud800", r"must not contain NUL or an unpaired surrogate, as 'a\\ud800' does"),
        ("a\0", "must not contain NUL"),
    ],
)
def test_a_value_that_no_column_contains(value: Any, message: str) -> None:  # noqa: ANN401 - a mistake
    with pytest.raises(ConfigurationError, match=f"^The value of a tenant {message}.*: write Rec"):
        Tenant(ONE, value)


@pytest.mark.parametrize("value", [1, 0, 2**63 - 1, "acme", UUID(int=1)])
def test_entries_of_tenants(value: Key) -> None:
    """Several may have the same value, and names have up to 64 characters."""
    names = "a", "b-2_c", "x" * LONGEST_ENTRY_NAME
    entries = read_entries({name: Tenant(Postmark(SECRET), value) for name in names})
    assert [(each.name, each.tenant) for each in entries] == [(name, value) for name in names]
    assert (entries.default.name, entries.have_names, entries.have_tenants) == ("a", True, True)


class Team(str, Enum):  # noqa: UP042 - `str` of a member is not its value, as that of a StrEnum is
    """The tenants of a host."""

    ACME = "acme"


class TeamNumber(int, Enum):
    """Numbers of tenants."""

    ACME = 1


@pytest.mark.parametrize(("value", "expected"), [(Team.ACME, "acme"), (TeamNumber.ACME, 1)])
def test_a_member_of_an_enum_stands_for_its_value(value: Key, expected: Key) -> None:
    """A column contains the value, although `str` returns the name."""
    [entry] = read_entries({"acme": Tenant(ONE, value)})
    assert (entry.tenant, type(entry.tenant)) == (expected, type(expected))


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1"])
def test_a_provider_with_an_invalid_limit(limit: Any) -> None:  # noqa: ANN401 - of a provider
    with pytest.raises(ConfigurationError, match=r"^Courier.max_body must be an integer of at le"):
        Receiver(Courier(limit=limit), UNUSED)


SINGLE = read_entries(Postmark(SECRET))
FOREIGN = read_entries(Courier())
NAMED = read_entries({"a": Courier(), "b": Courier(), "c": Postmark(SECRET)})
TENANTS = read_entries({"a": Tenant(Courier(), 1), "c": Tenant(Postmark(SECRET), 2)})


@pytest.mark.parametrize(
    ("entries", "stored", "provider", "tenant"),
    [
        # Without names: the provider's own, and Postmark's, which are also those of manual changes.
        (SINGLE, (None, None), "postmark", None),
        (SINGLE, (None, "postmark"), "postmark", None),
        (SINGLE, (None, "courier"), None, None),
        (SINGLE, ("a", "postmark"), None, None),
        (SINGLE, ("a", None), None, None),
        (FOREIGN, (None, None), "postmark", None),
        (FOREIGN, (None, "postmark"), "postmark", None),
        (FOREIGN, (None, "courier"), "courier", None),
        # With names: the entry of that name, unless it has another provider now.
        (NAMED, ("a", "courier"), "courier", None),
        (NAMED, ("c", "postmark"), "postmark", None),
        (NAMED, ("a", "postmark"), None, None),
        (NAMED, ("d", "courier"), None, None),
        (NAMED, ("a", None), "postmark", None),
        (NAMED, ("d", None), None, None),
        # Stored before the entries had names: the first one of the provider.
        (NAMED, (None, "courier"), "courier", None),
        (NAMED, (None, "postmark"), "postmark", None),
        (NAMED, (None, "resend"), None, None),
        (NAMED, (None, None), "postmark", None),
        # Nobody knows the tenant of what has no name.
        (TENANTS, ("a", "courier"), "courier", 1),
        (TENANTS, ("a", None), "postmark", 1),
        (TENANTS, ("c", None), "postmark", 2),
        (TENANTS, (None, "courier"), None, None),
        (TENANTS, (None, "postmark"), None, None),
        (TENANTS, (None, None), None, None),
    ],
)
def test_the_entry_that_reads_what_was_stored(
    entries: Parsers,
    stored: tuple[str | None, str | None],
    provider: str | None,
    tenant: Key | None,
) -> None:
    found = entries.find(*stored)
    assert (found and found.provider.name, found and found.tenant) == (provider, tenant)
    assert (Origin(*stored) in entries.origins) == (provider is not None)


@pytest.mark.parametrize("entries", [SINGLE, FOREIGN, NAMED, TENANTS])
def test_origins_are_those_that_an_entry_reads(entries: Parsers) -> None:
    """A sweep takes no entry of the log that would then have no parser."""
    names = [None, "a", "b", "c", "d"], [None, "postmark", "courier", "resend"]
    read = {Origin(*each) for each in product(*names) if entries.find(*each) is not None}
    assert read == {*entries.origins}


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize(
    ("path", "root", "mount_path"),
    [(ENDPOINT, "", ""), (f"/mail{ENDPOINT}", "/mail", ""), (f"/mail{ENDPOINT}", "", "/mail")],
)
def test_the_path_selects_the_entry(path: str, root: str, mount_path: str, end: str) -> None:
    entries = {"mail": Postmark(SECRET), "more": Postmark(OTHER_SECRET)}
    with closing(Receiver(entries, people(), mount_path=mount_path)) as receiver:

        def statuses(name: str, secret: str) -> int | None:
            sent = head(path + name + end, secret=secret)
            refused = receiver.admit(RequestHead("POST", sent.path, sent.headers, root))
            return None if refused is None else refused.status

        names = "", "/mail", "/more", "/other", "/mail/more", "/Mail", "/"
        admitted = {name: (statuses(name, SECRET), statuses(name, OTHER_SECRET)) for name in names}
    first, second, missing = (None, 401), (401, None), (404, 404)
    expected = [first, first, second, missing, missing, missing, missing]
    if not end:
        expected[-1] = first  # a trailing slash
    assert [*admitted.values()] == expected


def test_a_receiver_without_names_has_one_path() -> None:
    with closing(Receiver(Postmark(SECRET), people())) as receiver:
        refused = receiver.admit(head(f"{ENDPOINT}/postmark"))
    assert refused is not None
    assert (refused.status, refused.body) == (404, b"Not Found")


Post = Callable[[Receiver, RequestHead, bytes], Response]


def send(receiver: Receiver, path: str, body: bytes, **headers: str) -> Response:
    """Post an authentic request as a host does."""
    sent = head(path, **headers)
    return receiver.admit(sent) or receiver(Request(sent, body))


def test_equal_bodies_at_two_entries_are_two_events() -> None:
    """The log has the name of each, and a replay keeps it."""
    database, body = people("ada"), encode(delivery("ada"))
    entries = {
        "acme": Postmark(SECRET),
        "globex": Postmark(SECRET),
        "parcels": Courier(),
    }
    arrived: list[Arrival] = []
    keep = lambda each, _: arrived.append(each)  # noqa: E731 - the hook
    with closing(Receiver(entries, database, on_recorded=keep)) as receiver:
        for name in ("", "/acme", "/globex"):
            assert send(receiver, ENDPOINT + name, body).status == 200
        assert send(receiver, f"{ENDPOINT}/parcels", signed(event("ada"))).status == 200
        logged = database.logged()
        assert sorted((each.entry, each.provider, each.attempts) for each in logged) == [
            *(("acme", "postmark", 2), ("globex", "postmark", 1), ("parcels", "courier", 1))
        ]
        replayed = arrivals_of(database, logged, receiver.entries, logged[0].received_at)
    for found in (arrived, replayed):
        assert {(each.entry, each.provider) for each in found} == {
            *(("acme", "postmark"), ("globex", "postmark"), ("parcels", "courier"))
        }
    assert {each.fingerprint for each in replayed} == {each.fingerprint for each in logged}


def test_the_log_of_a_single_provider_has_no_name_of_an_entry() -> None:
    database = people("ada")
    with closing(Receiver(Postmark(SECRET), database)) as receiver:
        send(receiver, ENDPOINT, encode(delivery("ada")))
    [entry] = database.logged()
    assert (entry.entry, entry.provider) == (None, "postmark")


@pytest.mark.parametrize(
    ("path", "query", "method", "status", "allow"),
    [
        ("/parcels", "", "GET", 200, None),
        ("/parcels/", "", "HEAD", 200, None),
        ("/parcels", "", "PUT", 405, "GET, HEAD, POST"),
        ("/parcels", "", "OPTIONS", 405, "GET, HEAD, POST"),
        ("/parcels", "a=b", "GET", 405, "POST"),
        ("/mail", "", "GET", 405, "POST"),
        ("", "", "HEAD", 405, "POST"),
        ("/other", "", "GET", 404, None),
    ],
)
def test_probes(path: str, query: str, method: str, status: int, allow: str | None) -> None:
    """A provider may check the URL without a secret; it allows only methods that it answers."""
    with closing(Receiver(both(), people())) as receiver:
        response = receiver.admit(RequestHead(method, ENDPOINT + path, (), query=query))
    assert response is not None
    assert (response.status, response.headers.get("Allow")) == (status, allow)


def test_a_probe_is_asked_only_about_its_own_method() -> None:
    """The header Allow, which needs the others, is only in a 405."""
    courier = Courier()
    courier.probe = Mock(return_value=WELCOME)  # type: ignore[method-assign]
    asked = RequestHead("HEAD", ENDPOINT, ())
    with closing(Receiver(courier, people())) as receiver:
        assert receiver.admit(asked) is WELCOME
    courier.probe.assert_called_once_with(asked)


ERROR = KeyError("ada@example.com")
REFUSED = Unauthentic(b"Signature")  # type: ignore[arg-type] # the mistake


@pytest.mark.parametrize(
    ("method", "sent", "result", "message"),
    [
        ("admit", "POST", ERROR, "Courier.admit raised KeyError at "),
        ("admit", "POST", True, "Courier.admit returned True, but must return None to admit "),
        ("admit", "POST", b"Basic", "Courier.admit returned bytes, but must return None to admit "),
        ("probe", "GET", ERROR, "Courier.probe raised KeyError at "),
        ("probe", "PUT", ERROR, "Courier.probe raised KeyError at "),
        ("probe", "GET", 200, "Courier.probe returned 200, but must return None or a response, "),
        ("probe", "PUT", "", "Courier.probe returned str, but must return None or a response, "),
        *(
            ("probe", "HEAD", response, f"Courier.probe returned a response in which {fault}")
            for response, fault in (
                (Response("200", b"", {}), "status is str, but must be a number."),  # type: ignore[arg-type] # a mistake, like the others
                (Response(200, "", {}), "body is str, but must be bytes."),  # type: ignore[arg-type]
                (Response(200, b"", ()), "headers is tuple, but must be a mapping of "),  # type: ignore[arg-type]
                (Response(200, b"", {"Age": 1}), "headers has a name or a value of another"),  # type: ignore[dict-item]
                (Response(200, b"", {}, b""), "stream is bytes, but must be an iterator or N"),  # type: ignore[arg-type]
            )
        ),
        ("is_test", "POST", ERROR, "Courier.is_test raised KeyError at "),
        ("read", "POST", REFUSED, "Courier.read raised Unauthentic with bytes, but the challenge"),
        ("describe_unauthentic", "POST", ERROR, "Courier.describe_unauthentic raised KeyError at "),
        ("describe_unauthentic", "POST", None, "Courier.describe_unauthentic returned None, but "),
    ],
)
def test_a_mistake_in_a_method_of_a_provider(
    caplog: pytest.LogCaptureFixture, method: str, sent: str, result: object, message: str
) -> None:
    """Hosts receive a response, and the log the name of the method."""
    courier, head = Courier(), RequestHead(sent, ENDPOINT, (), request_id="r-1")
    effect = result if isinstance(result, Exception) else [result] * 2
    setattr(courier, method, Mock(side_effect=effect))
    is_refused = method == "describe_unauthentic"
    body = b"[]" if is_refused else signed(event("ada"))
    with closing(Receiver(courier, people(), acknowledge_tests=True)) as receiver:
        response = receiver.admit(head) or receiver(Request(head, body))
    assert response.status == (401 if is_refused else 503)
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage().startswith(message if is_refused else f"Returned 503: {message}")
    assert (record.exc_info is not None) is (result is ERROR)
    assert "ada@" not in caplog.text
    refused = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert refused == (["Returned 401 to request r-1."] if is_refused else [])


@pytest.mark.parametrize(
    ("describe", "method", "default", "wrong", "expected"),
    [
        (
            partial(explain, recorded=ALWAYS),
            "explain",
            None,
            b"",
            "bytes, but must return a string",
        ),
        (correct_message_id, "correct_message_id", "m-1", 1, "1, but must return a string or None"),
        (field_names, "field_names", ("recipient", "message ID"), "ab", "str, but must return two"),
        (field_names, "field_names", ("recipient", "message ID"), ("to",), "tuple, but must re"),
    ],
)
def test_a_mistake_in_a_method_that_only_describes(
    caplog: pytest.LogCaptureFixture,
    describe: Callable[[BodyParser, Any], object],
    method: str,
    default: object,
    wrong: object,
    expected: str,
) -> None:
    """Pages and commands do without, and the log names the method."""
    courier = Courier()
    stored = {"explain": Event((), b"ada@"), "correct_message_id": "m-1"}.get(method, OPENED)
    setattr(courier, method, Mock(side_effect=[ERROR, wrong]))
    assert [describe(courier, stored) for _ in range(2)] == [default, default]
    raised, returned = caplog.messages
    assert raised.startswith(f"Courier.{method} raised KeyError at ")
    assert returned.startswith(f"Courier.{method} returned {expected}")
    assert "ada@" not in caplog.text


@pytest.mark.parametrize("post", [Receiver.__call__, Receiver.record_directly])
def test_a_provider_that_is_not_ready(post: Callable[[Receiver, Request], Response]) -> None:
    """Nothing is recorded, and the provider is asked to repeat the request soon."""
    courier, database = Courier(certificate=None), people("ada")
    refused: list[Refusal] = []

    class Watch(Observer):
        def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
            del head, entry
            refused.append(refusal)

    request = Request(head(), signed(event("ada")))
    with closing(Receiver(courier, database, observer=Watch())) as receiver:
        response = post(receiver, request)
        assert (response.status, response.body) == (503, b"Try again later")
        assert response.headers["Retry-After"] == "10"
        assert (refused, database.logged()) == ([Refusal.NOT_READY], [])
        courier.certificate = "fetched"
        assert post(receiver, request).status == 200


def test_a_body_that_other_code_has_authenticated() -> None:
    """All of its events are recorded by the provider of the entry, without its signature."""
    database = people("ada", "eve")
    body = json.dumps([delivery("ada"), delivery("eve")]).encode()
    with closing(Receiver({"mail": Postmark(SECRET), "batches": Batches()}, database)) as receiver:
        assert receiver.record_body(body, "batches").status == 200
        assert receiver.record_body(b"[]", "batches").status == 200
        assert receiver.record_body(encode(delivery("bob"))).status == 404
        database.away = True
        assert receiver.record_body(body, "batches").status == 503
    logged = {(each.entry, each.message_id): each.outcome.value for each in database.logged()}
    assert logged == {
        ("batches", "m-ada"): "recorded",
        ("batches", "m-eve"): "recorded",
        ("mail", "m-bob"): "subscriber_not_found",
    }


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ERROR, "Returned 503: Batches.read_body raised KeyError at "),
        (Event((), b""), "Returned 503: Batches.read_body returned Event, but must return a seq"),
        ([Event((), "")], "Returned 503: Batches.read_body returned an event in which Event.body "),  # type: ignore[arg-type] # a mistake
    ],
)
def test_a_mistake_in_reading_an_authenticated_body(
    caplog: pytest.LogCaptureFixture, result: object, message: str
) -> None:
    """The other code that received it can send it again."""
    batches = Batches()
    effect = result if isinstance(result, Exception) else [result]
    batches.read_body = Mock(side_effect=effect)  # type: ignore[method-assign]
    with closing(Receiver(batches, people())) as receiver:
        assert receiver.record_body(b"[]").status == 503
    [record] = caplog.records
    assert record.getMessage().startswith(message)


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        (ONE, "no entry 'parcel': its only provider has no name, so pass none."),
        (both(), "no entry 'parcel': use 'mail', 'parcels'."),
    ],
    ids=["unnamed", "named"],
)
def test_a_body_for_an_unknown_entry(providers: Any, message: str) -> None:  # noqa: ANN401 - a case
    with (
        closing(Receiver(providers, people())) as receiver,
        pytest.raises(ConfigurationError, match=message),
    ):
        receiver.record_body(b"{}", "parcel")


@pytest.mark.parametrize("path", ["", "/mail"])
def test_a_request_that_was_not_admitted(path: str) -> None:
    """Not even if it was refused: the path, or another receiver, does not select the entry."""
    database = people("ada")
    wrong, sent = (head(ENDPOINT + path, secret=secret) for secret in ("wrong", SECRET))
    with (
        closing(Receiver(both(), database)) as receiver,
        closing(Receiver(both(), people())) as other,
    ):
        assert receiver.admit(wrong) is not None
        assert other.admit(sent) is None
        for each in (wrong, sent, head()):
            request = Request(each, encode(delivery("ada")))
            for call in (receiver, receiver.record_directly):
                with pytest.raises(
                    ConfigurationError, match=r"^The receiver has not admitted this"
                ):
                    call(request)
            with pytest.raises(ConfigurationError, match=r"call receiver.admit\(head\) first"):
                receiver.max_body(each)
    assert not database.logged()


def test_each_entry_limits_its_bodies() -> None:
    with closing(Receiver(both(limit=5 * MAX_BODY), people())) as receiver:
        limits = []
        for path in ("", "/mail", "/parcels"):
            sent = head(ENDPOINT + path)
            assert receiver.admit(sent) is None
            limits.append(receiver.max_body(sent))
    assert limits == [MAX_BODY, MAX_BODY, 5 * MAX_BODY]


@pytest.mark.parametrize(
    ("providers", "path", "entry"),
    [
        (both(), "", "mail"),
        (both(), "/mail", "mail"),
        (both(), "/parcels", "parcels"),
        (ONE, "", None),
    ],
    ids=["first", "named", "signed", "unnamed"],
)
def test_refusals_by_entry(
    providers: Any,  # noqa: ANN401 - a case
    path: str,
    entry: str | None,
) -> None:
    """Observers receive its name, if it has one; 401s are counted by it."""
    refused: list[tuple[Refusal, str | None]] = []

    class Watch(Observer):
        def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
            del head
            refused.append((refusal, entry))

    database = people()
    assert database.log is not None
    with closing(Receiver(providers, database, observer=Watch())) as receiver:
        assert send(receiver, ENDPOINT + path, b"[]", secret="wrong").status == 401
        receiver.admit(head(ENDPOINT + path, method="PUT"))
        admitted = head(ENDPOINT + path)
        assert receiver.admit(admitted) is None
        receiver.refuse(admitted, Refusal.TOO_LARGE)
        receiver.admit(head(f"{ENDPOINT}/other"))
    assert refused == [
        (Refusal.UNAUTHENTIC, entry),
        (Refusal.METHOD_NOT_ALLOWED, entry),
        (Refusal.TOO_LARGE, entry),
        (Refusal.NO_SUCH_PATH, None),
    ]
    found = database.log.requests(RequestKind.WRONG_SECRET, NOON)
    assert {name: each.number for name, each in found.items()} == {entry or "": 1}


def test_refusals_name_the_entry(caplog: pytest.LogCaptureFixture) -> None:
    """A single provider has no name."""
    with closing(Receiver(both(), people())) as receiver:
        receiver.admit(head(f"{ENDPOINT}/mail", secret=""))
        send(receiver, f"{ENDPOINT}/parcels", b"[]")
    with closing(Receiver(Courier(), people())) as receiver:
        send(receiver, ENDPOINT, b"[]")
    assert caplog.messages == [
        "Returned 401 to request r-1 at mail: X-Provider-Secret is empty.",
        "Returned 401 to request r-1 at parcels: it has no valid secret.",
        "Returned 401 to request r-1: it has no valid secret.",
    ]


def test_the_secrets_of_all_entries_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each use of an old one is also in the log's counts."""
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    given: list[Gauges] = []

    class Watch(Observer):
        def start(self, gauges: Gauges) -> None:
            given.append(gauges)

    entries = {name: Postmark(SECRET, OTHER_SECRET) for name in ("a", "b")}
    database = people()
    assert database.log is not None
    with closing(Receiver(entries, database, observer=Watch())) as receiver:
        receiver.start()
        for name, secret in (("a", SECRET), ("a", OTHER_SECRET), ("b", OTHER_SECRET)):
            receiver.admit(head(f"{ENDPOINT}/{name}", secret=secret))
        assert given[0].secret_matches() == {"a": {0: 1, 1: 1}, "b": {0: 0, 1: 1}}
    found = database.log.requests(RequestKind.OLD_SECRET, NOON)
    assert {name: each.number for name, each in found.items()} == {"a": 1, "b": 1}


def test_each_entry_has_its_own_responses() -> None:
    """An unsupported event gets a 200 from the courier's entry, and a 422 from Postmark's."""
    with closing(Receiver(both(), people())) as receiver:
        unsupported = send(receiver, f"{ENDPOINT}/parcels", signed(event("ada", "packed")))
        assert (unsupported.status, unsupported.body) == (200, b"")
        assert send(receiver, ENDPOINT, encode(delivery("ada") | {"RecordType": "x"})).status == 422


def test_each_entry_knows_its_own_tests() -> None:
    database, test = people(), event("ada", to="check@courier.test")
    with closing(
        Receiver(both(), database, acknowledge_tests=True, acknowledge_parked=False)
    ) as receiver:
        assert send(receiver, f"{ENDPOINT}/parcels", signed(test)).status == 200
        assert send(receiver, f"{ENDPOINT}/parcels", signed(event("eve"))).status == 404
        of_courier = encode(delivery("ada", Recipient="check@courier.test"))
        assert send(receiver, ENDPOINT, of_courier).status == 404
    assert [each.outcome.value for each in database.logged()].count("test") == 1


EVENTS = {
    "mail": encode(delivery("ada")),
    "parcels": signed(event("ada", "bounced"), event("bea")),
}


def sent_to_each(receiver: Receiver) -> Sequence[int]:
    return [send(receiver, f"{ENDPOINT}/{name}", body).status for name, body in EVENTS.items()]


def recorded(database: Database) -> set[tuple[str | None, str | None, str]]:
    return {(each.entry, each.message_id, each.outcome.value) for each in database.logged()}


ALL_RECORDED = {
    *(("mail", "m-ada", "recorded"), ("parcels", "m-ada", "recorded")),
    ("parcels", "m-bea", "recorded"),
}


def test_parked_notifications_of_each_entry_are_retried() -> None:
    """When their rows exist, by the entry at which they arrived."""
    database = Database()
    with closing(Receiver(both(), database)) as receiver:
        assert sent_to_each(receiver) == [404, 200]
        for name in ("ada", "bea"):
            subscriber = database.tables.add_subscriber(f"{name}@example.com")
            database.tables.add_dispatch(f"m-{name}", subscriber)
        assert receiver.retry_now("m-ada", "m-bea").result(PATIENCE) == 3
    assert recorded(database) == ALL_RECORDED
    assert database.tables.subscriber("ada@example.com").suppression_reason == "HardBounce"


@pytest.mark.parametrize("post", [Receiver.__call__, Receiver.record_directly])
def test_an_event_of_a_batch_that_the_database_rejects(
    post: Callable[[Receiver, Request], Response],
) -> None:
    """The others are recorded, and it is logged as failed: the request is acknowledged.

    If the log cannot be written either, nothing is acknowledged.
    """
    database = people("ada", "bea", "cyd")
    batch = Request(head(), signed(event("ada"), event("bea"), event("cyd")))
    with closing(Receiver(Courier(), database)) as receiver:
        database.refuses = lambda each: isinstance(each, SetTime) and each.dispatch == 2
        assert post(receiver, batch).status == 200
        assert {(each.message_id, each.outcome.value) for each in database.logged()} == {
            *(("m-ada", "recorded"), ("m-bea", "failed"), ("m-cyd", "recorded"))
        }
        database.refuses = lambda each: getattr(each, "message_id", None) == "m-bea"
        assert post(receiver, batch).status == 503


def test_parked_notifications_of_an_entry_that_was_removed() -> None:
    """They wait until the receiver has the entry again; until then, no retry is counted."""
    database = Database()
    with closing(Receiver(both(), database)) as receiver:
        sent_to_each(receiver)
    database.tables.add_dispatch("m-ada", database.tables.add_subscriber("ada@example.com"))
    for entries, expected in (({"mail": Postmark(SECRET)}, 1), (both(), 1)):
        with closing(Receiver(entries, database)) as receiver:
            assert receiver.retry_now("m-ada", "m-bea").result(PATIENCE) == expected
            retries = {(each.entry, each.message_id): each.retries for each in database.logged()}
    assert retries == {("mail", "m-ada"): 1, ("parcels", "m-ada"): 1, ("parcels", "m-bea"): 1}


def test_an_event_that_is_recorded_in_part() -> None:
    """Its suppression is made at once. Retries repeat it, and do not undo a later reactivation."""
    database = people("ada")
    ada, at = "ada@example.com", NOON.isoformat()
    left = event("ada", "unsubscribed", message="m-late", at=at)
    back = event("ada", "restored", at=(NOON + SECOND).isoformat())

    def reasons() -> list[str | None]:
        row = database.tables.subscriber(ada)
        return [row.suppression_reason, database.logged()[-1].outcome.value]

    with closing(Receiver(both(), database)) as receiver:

        def post(sent: Mapping[str, object]) -> int:
            return send(receiver, f"{ENDPOINT}/parcels", signed(sent)).status

        assert post(left) == 200
        assert reasons() == ["ManualSuppression", "dispatch_not_found"]
        assert receiver.retry_now("m-late").result(PATIENCE) == 0
        assert reasons() == ["ManualSuppression", "dispatch_not_found"]
        assert post(back) == 200
        for _ in range(2):
            assert receiver.retry_now("m-late").result(PATIENCE) == 0
        assert reasons()[0] is None
        database.tables.add_dispatch("m-late", database.tables.subscriber(ada).id)
        assert receiver.retry_now("m-late").result(PATIENCE) == 1
        assert reasons()[0] is None
    assert database.tables.dispatch("m-late").opened_at == NOON
    logged = {each.record_type: each for each in database.logged()}
    assert (logged["Open"].attempts, logged["Open"].retries) == (1, 4)


def test_hooks_are_called_for_the_part_of_an_event_that_is_recorded() -> None:
    """A host that mirrors suppressions must not miss one because the dispatch is missing."""
    database, hooks = people("ada"), Mock()
    sent = event("ada", "unsubscribed", message="m-late")
    with closing(
        Receiver(Courier(), database, on_recorded=hooks.recorded, on_refused=hooks.refused)
    ) as receiver:
        assert send(receiver, ENDPOINT, signed(sent)).status == 200
        database.tables.add_dispatch("m-late", subscriber=1)
        assert receiver.retry_now("m-late").result(PATIENCE) == 1
    calls = [
        (name, [type(each) for each in args[0].notifications], len(args[1].changes))
        for name, args, _ in hooks.mock_calls
    ]
    assert calls == [
        ("recorded", [Suppressed], 1),
        ("refused", [Opened, Suppressed], 1),
        ("recorded", [Opened, Suppressed], 3),
    ]


def test_a_secret_of_two_tenants(caplog: pytest.LogCaptureFixture) -> None:
    mapping = Schema(subscribers=Role("hookrow_subscribers", tenant="team_id"))
    secrets = {"acme": (SECRET,), "globex": (OTHER_SECRET, SECRET), "again": (SECRET,)}
    tenants = {"acme": 1, "globex": 2, "again": 1}
    entries = {name: Tenant(Postmark(*secrets[name]), tenants[name]) for name in secrets}
    Receiver(entries, SQLStore(MEMORY, mapping))
    [warning] = caplog.messages
    assert warning.startswith("The entries acme and globex have the same secret, although they are")


def test_spooled_notifications_of_each_entry_are_recorded(tmp_path: Path) -> None:
    """After an outage, by the entry at which they arrived, and with the same identity."""
    database = people("ada", "bea")
    outcomes: list[Outcome] = []
    with closing(
        Receiver(
            both(),
            database,
            spool=tmp_path / "spool.db",
            on_recorded=lambda _, outcome: outcomes.append(outcome),
        )
    ) as receiver:
        database.away = True
        assert sent_to_each(receiver) == [503, 503]
        database.away = False
        eventually(lambda: recorded(database) == ALL_RECORDED)
        eventually(lambda: sent_to_each(receiver) == [200, 200])
    assert recorded(database) == ALL_RECORDED
    assert {type(each) for each in outcomes} == {Recorded}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"mail": Postmark(SECRET)},
            "the receiver has no entry 'parcels' (courier). If the entry was renamed, name it 'pa",
        ),
        (
            {"mail": Postmark(SECRET), "parcels": Postmark(OTHER_SECRET)},
            "the entry 'parcels' had the provider courier then, and has another one now. Give the",
        ),
    ],
)
def test_spooled_notifications_of_an_entry_that_was_removed(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    entries: Mapping[str, Provider],
    message: str,
) -> None:
    """They stay in the spool, and the log says what to do."""
    database, path = people("ada", "bea"), tmp_path / "spool.db"
    with closing(Receiver(both(), database, spool=path)) as receiver:
        database.away = True
        sent_to_each(receiver)
    database.away = False
    caplog.clear()
    with closing(Receiver(entries, database, spool=path)) as receiver:
        receiver.start()
        eventually(lambda: Spool(path).count() == 2)
    assert recorded(database) == {("mail", "m-ada", "recorded")}
    [logged] = caplog.messages
    assert f"cannot be recorded, and stays there: {message}" in logged
    assert logged.endswith(", or start a receiver that has it with this spool.")


def test_a_hundred_entries_share_the_threads_of_one(tmp_path: Path) -> None:
    """All record, sweep, drain and count with the same threads."""
    threads: list[Counter[str]] = []
    for number in (1, 100):
        before = {*threading.enumerate()}
        entries = {f"e-{each}": Courier() for each in range(number)}
        database = people("ada")
        with closing(Receiver(entries, database, spool=tmp_path / f"{number}.db")) as receiver:
            for name in entries:
                assert send(receiver, f"{ENDPOINT}/{name}", signed(event("ada"))).status == 200
            threads.append(Counter(each.name for each in {*threading.enumerate()} - before))
        assert len(database.logged()) == number
    assert threads[0] == threads[1]
    assert {"hookrow-writer", "hookrow-sweep"} <= {*threads[0]}


# -- probes ----------------------------------------------------------------------------


def test_a_person_with_the_address_of_probes_delays_no_batch() -> None:
    """Only a request of `hookrow check` is a probe; the log has the events of all others."""
    database = people("ada")
    check = {"user-agent": PROBE_AGENT.decode()}
    batch = [event("ada"), event("ada", to=PROBE, id="p-1")]
    with closing(Receiver(both(), database, sweep=True)) as receiver:
        for sent, headers in [(batch, {}), (batch, check), (batch[1:], {})]:
            assert send(receiver, f"{ENDPOINT}/parcels", signed(*sent), **headers).status == 200
        assert send(receiver, f"{ENDPOINT}/parcels", signed(batch[1]), **check).status == 404
    logged = {each.recipient: each.attempts for each in database.logged()}
    assert logged == {"ada@example.com": 2, PROBE: 3}
