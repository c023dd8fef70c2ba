"""The contract of providers: hookrow's own keep it, and it finds the faults of others."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from hmac import digest
from itertools import count
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlencode

import msgspec
import pytest

from courier import BAD, NOON, Courier, event
from hookrow import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Event,
    Notification,
    Opened,
    Postmark,
    Reactivated,
    Request,
    RequestHead,
    Response,
    Suppressed,
    testing,
)
from hookrow._http import plain
from hookrow.providers.resend import Resend
from hookrow.testing import ProviderContract, _provider_contract
from hookrow.testing._hostile import changed_bodies
from wire import ENDPOINT, SECRET

ADA = "ada@example.com"
EVE = "eve@example.com"
ID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"

Sample: TypeAlias = tuple[bytes, Sequence[Sequence[Notification]]]


def sample(value: object, *events: Sequence[Notification]) -> Sample:
    return json.dumps(value).encode(), [[*each] for each in events]


class TestPostmark(ProviderContract):
    provider = Postmark(SECRET, "an-old-secret-of-the-tests")
    signs_body = False
    samples = (
        sample(testing.delivery(ADA, ID, at=NOON), [Delivered(ADA, ID, NOON)]),
        sample(testing.opening(ADA, ID, at=NOON), [Opened(ADA, ID, NOON)]),
        sample(testing.click(ADA, ID, at=NOON), [Clicked(ADA, ID, NOON)]),
        sample(testing.bounce(EVE, ID, at=NOON), [Bounced(EVE, ID, NOON, "HardBounce")]),
        sample(testing.complaint(ADA, ID, at=NOON), [Complained(ADA, ID, NOON)]),
        sample(testing.suppression(EVE, ID, at=NOON), [Suppressed(EVE, ID, NOON, "HardBounce")]),
        sample(testing.reactivation(EVE, None, at=NOON), [Reactivated(EVE, None, NOON)]),
        sample(testing.inbound(ADA, ID, at=NOON), []),
    )

    def sign(self, body: bytes, /) -> Request:
        headers = [(b"X-Provider-Secret", SECRET.encode()), (b"User-Agent", b"Postmark")]
        return Request(RequestHead("POST", ENDPOINT, headers), body)


KEY = b"a key of the webhook"


def resend_event(type_: str, **data: object) -> object:
    return {"type": type_, "created_at": "2026-03-05T12:00:00Z", "data": data}


class TestResend(ProviderContract):
    provider = Resend(f"whsec_{b64encode(KEY).decode()}", clock=NOON.timestamp)
    samples = (
        sample(
            resend_event("email.delivered", email_id=ID, to=[ADA, EVE]),
            [Delivered(ADA, ID, NOON)],
            [Delivered(EVE, ID, NOON)],
        ),
        sample(
            resend_event("email.bounced", email_id=ID, to=[EVE], bounce={"type": "Permanent"}),
            [Bounced(EVE, ID, NOON, "Permanent")],
        ),
        sample(
            resend_event("suppression.added", email=EVE, origin="bounce"),
            [Suppressed(EVE, None, NOON, "HardBounce")],
        ),
        sample(resend_event("suppression.removed", email=EVE), [Reactivated(EVE, None, NOON)]),
        sample(resend_event("email.sent", email_id=ID, to=[ADA]), []),
    )

    def sign(self, body: bytes, /) -> Request:
        sent = {"id": sha256(body).hexdigest().encode(), "timestamp": b"%.0f" % NOON.timestamp()}
        content = b"%b.%b.%b" % (*sent.values(), body)
        sent["signature"] = b"v1," + b64encode(digest(KEY, content, "sha256"))
        headers = [(f"svix-{name}".encode(), value) for name, value in sent.items()]
        return Request(RequestHead("POST", ENDPOINT, headers), body)


class TestCourier(ProviderContract):
    """Its signature is a part of the body, but does not depend on it."""

    provider = Courier()
    signs_body = False
    samples: Sequence[Sample] = (
        sample(
            [event("ada"), event("eve", "bounced"), event("eve", "restored"), BAD],
            [Delivered(ADA, "m-ada", NOON)],
            [Bounced(EVE, "m-eve", NOON, "hard"), Suppressed(EVE, "m-eve", NOON, "HardBounce")],
            [Reactivated(EVE, "m-eve", NOON)],
            [],
        ),
    )

    def sign(self, body: bytes, /) -> Request:
        return Request(RequestHead("POST", ENDPOINT, ()), body + b"!")

    def forgeries(self, request: Request, /) -> Iterator[tuple[str, Request]]:
        yield "a request without a signature", Request(request.head, request.body[:-1])


# -- faults ----------------------------------------------------------------------------


class Strict(Courier):
    def parse(self, body: bytes) -> Event:
        return super().parse(body) if "to" in json.loads(body) else Event((), body[1:2])


class Raising(Courier):
    def read(self, request: Request) -> Sequence[Event]:
        if b"[" not in request.body:
            raise KeyError("to")
        return super().read(request)


class Forgetful(Courier):
    """Reads events whose bodies do not contain them."""

    def read(self, request: Request) -> Sequence[Event]:
        return [msgspec.structs.replace(each, body=b"{}") for each in super().read(request)]


class Renumbering(Courier):
    ids = count()

    def read(self, request: Request) -> Sequence[Event]:
        events = super().read(request)
        return [msgspec.structs.replace(each, event_id=str(next(self.ids))) for each in events]


class Equating(Courier):
    def read(self, request: Request) -> Sequence[Event]:
        return [msgspec.structs.replace(each, event_id="e") for each in super().read(request)]


class Reading(Courier):
    """Reads each event as the same notification."""

    def __init__(self, notification: Any) -> None:  # noqa: ANN401 - none that is valid
        super().__init__()
        self._read = (notification,)

    def parse(self, body: bytes) -> Event:
        return msgspec.structs.replace(super().parse(body), notifications=self._read)


class Explaining(Courier):
    def explain(self, body: bytes) -> str | None:
        return "It is not supported." if b"to" in body else None


class Probing(Courier):
    secrets = ("a-secret",)

    def __init__(self, response: Response) -> None:
        super().__init__()
        self._response = response

    def probe(self, _: RequestHead) -> Response | None:
        return self._response


class Named(Courier):
    name = "x" * 33


class Open(Courier):
    def read(self, request: Request) -> Sequence[Event]:
        return super().read(Request(request.head, request.body.removesuffix(b"!") + b"!"))


FOUND = Delivered(ADA, "m", NOON)
LOCAL = datetime(2026, 3, 5, 12)  # noqa: DTZ001 - the fault
HEADER = {"a\n": "b"}


@pytest.mark.parametrize(
    ("provider", "test", "message"),
    [
        (Named(), "name", "The name must be a text of 1 to 32 characters, not 'xxx"),
        (Courier(limit=5), "max_body", "`max_body` must be from 306 bytes, the size of a sample"),
        (Courier(certificate=None), "samples", "read() raised NotReady for the sample b'["),
        (Reading(FOUND), "samples", "What read() returns for b'[{"),
        (Strict(), "stored_bodies", "parse() of a body that is empty raised JSONDec"),
        (Explaining(), "stored_bodies", "which is read, is 'It is not supported.'; expected None."),
        (Open(), "forgeries", "The provider accepts a request without a signature: let admit()"),
        (Raising(), "hostile_bodies", "read() of a body that is empty raised KeyError('to')"),
        (Forgetful(), "hostile_bodies", "The log keeps only the body of an event, so it must"),
        (Renumbering(), "event_ids", "posted again, is '12'; expected '4'."),
        (Equating(), "event_ids", "Two events have the same event_id, or the same body, 'e': (Del"),
        (
            Forgetful(),
            "parked_events",
            "is 'subscriber_not_found'; expected 'recorded'. Does parse()",
        ),
        (Renumbering(), "repeated_events", "posted twice, is 8; expected 4."),
        (Probing(plain(500, "")), "probe", "probe() of GET with the query '' must return a status"),
        (Probing(plain(200, "a-secret")), "probe", "returns a secret, but everybody may send"),
        (Probing(plain(200, "", HEADER)), "probe", "returns headers that HTTP does not allow: "),
        *(
            (Reading(each), "stored_bodies", message)
            for each, message in (
                (Delivered(5, "m", NOON), "must be a str | None, not 5."),  # type: ignore[arg-type]
                (Delivered(ADA, "m", LOCAL), "must be in UTC, not datetime.datetime(2026, 3, 5"),
                (
                    Suppressed(ADA, None, NOON, "\ud800"),
                    "The reason of a body that is empty must be one that",
                ),
                (Suppressed(ADA, None, NOON, " "), "a row can store (not blank, without NUL and "),
                ("Delivered", "A notification of a body that is empty must be a"),
            )
        ),
    ],
)
def test_faults(provider: Courier, test: str, message: str) -> None:
    contract = TestCourier()
    contract.provider = provider
    with pytest.raises(AssertionError) as raised:
        getattr(contract, f"test_{test}")()
    assert message in str(raised.value)


class FirstOfAll(Postmark):
    def admit(self, head: RequestHead) -> str | None:
        return super().admit(msgspec.structs.replace(head, headers=[*head.headers[:1]]))


class Quoting(Postmark):
    def describe_unauthentic(self, head: RequestHead) -> str:
        return f"it has {head.headers!r}"


class Challenging(Postmark):
    def admit(self, head: RequestHead) -> str | None:
        return super().admit(head) and "Secret\r\n"


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (FirstOfAll(SECRET), "accepts a request whose header X-Provider-Secret is repeated: let"),
        (Quoting(SECRET), "quotes a header of a request whose header X-Provider-Secret is miss"),
        (Challenging(SECRET), "must be a header's value, not 'Secret\\r\\n'."),
    ],
)
def test_faults_of_secrets(provider: Postmark, message: str) -> None:
    contract = TestPostmark()
    contract.provider = provider
    with pytest.raises(AssertionError) as raised:
        contract.test_forgeries()
    assert message in str(raised.value)


def test_a_signature_without_the_body() -> None:
    contract = TestPostmark()
    contract.signs_body = True
    with pytest.raises(AssertionError, match=r"The signature does not cover it: raise Unauthentic"):
        contract.test_changed_bodies()


def test_a_call_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_provider_contract, "LONGEST_CALL", 0)
    with pytest.raises(AssertionError, match=r"^admit\(\) of .* took 0.0 seconds; it must not bl"):
        TestPostmark().test_samples()


def test_what_a_subclass_must_define() -> None:
    contract = TestCourier()
    contract.samples = ()
    with pytest.raises(AssertionError, match="`samples` is empty: add a body and its notificat"):
        contract.test_samples()
    with pytest.raises(NotImplementedError, match=r"^Define sign\(body\): return Request\(Requ"):
        ProviderContract().sign(b"")


class Unforgeable(TestCourier):
    __test__ = False

    def forgeries(self, _: Request, /) -> Iterator[tuple[str, Request]]:
        return iter(())


def test_a_signature_that_is_not_in_a_header() -> None:
    with pytest.raises(AssertionError, match=r"no header that authenticates: define forgeries\("):
        Unforgeable().test_forgeries()


def test_changes_of_bodies() -> None:
    """A JSON text within a string is changed, too, as are the fields of a form and what they have.

    Nothing is changed in other bodies.
    """
    inner = json.dumps({"to": ADA})
    in_json = dict(changed_bodies(json.dumps({"Message": inner}).encode()))
    text = json.loads(in_json["a body in which $.Message, parsed,.to is null"])["Message"]
    assert json.loads(text) == {"to": None}
    in_form = dict(changed_bodies(urlencode({"events": inner, "a": "b"}).encode()))
    form = parse_qs(in_form["a form in which events, parsed,.to is missing"].decode())
    assert form == {"events": ["{}"], "a": ["b"]}
    assert parse_qs(in_form["a form in which a is missing"].decode()) == {"events": [inner]}
    assert parse_qs(in_form["a form in which a is repeated"].decode())["a"] == ["b", "b"]
    assert not dict(changed_bodies(b"Hello \xff"))
