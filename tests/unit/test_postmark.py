"""Postmark: which secrets are accepted, and what a body is read as.

The case table (`stores/test_cases.py`) has whole payloads; here are the values of each field.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookrow import ConfigurationError, Delivered, Head, Opened, Postmark, Reactivated, Suppressed
from hookrow.notification import Notification, Unsupported

SECRET = "S3cret-of_the~provider"
ADA, MESSAGE = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = "2026-03-04T05:06:07Z"
TIME = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

ADDRESS = {"Recipient": ADA, "MessageID": MESSAGE}
DELIVERY = {"RecordType": "Delivery", **ADDRESS, "DeliveredAt": AT, "Details": "250 OK"}
OPEN = {"RecordType": "Open", **ADDRESS, "ReceivedAt": AT, "Geo": {"City": "Reykjavík"}}
SUPPRESSION = {
    "RecordType": "SubscriptionChange",
    **ADDRESS,
    "ChangedAt": AT,
    "SuppressSending": True,
    "SuppressionReason": "SpamComplaint",
}
REACTIVATION = {
    "RecordType": "SubscriptionChange",
    **ADDRESS,
    "ChangedAt": AT,
    "SuppressSending": False,
    "SuppressionReason": None,
}
PAYLOADS = (DELIVERY, OPEN, SUPPRESSION, REACTIVATION)
FIELDS = ("SuppressSending", "SuppressionReason", "ReceivedAt", "ChangedAt", "Tag", *DELIVERY)


def _parse(payload: dict[str, Any] | str | bytes, **fields: object) -> Notification | None:
    """Read a payload with some fields changed, or left out: `...`."""
    if isinstance(payload, dict):
        changed = {name: value for name, value in (payload | fields).items() if value is not ...}
        payload = json.dumps(changed)
    return Postmark(SECRET).parse(payload if isinstance(payload, bytes) else payload.encode())


def _head(*values: bytes, name: bytes = b"x-provider-secret") -> Head:
    headers = [(b"host", b"example.com"), *((name, value) for value in values)]
    return Head("POST", "/provider/webhooks", headers)


# -- secrets ---------------------------------------------------------------------------

VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


@pytest.mark.parametrize("secrets", [(), ("",), ("", SECRET), (SECRET, "", "other")])
def test_no_secret(secrets: tuple[str, ...]) -> None:
    """An empty secret would accept requests without one; the message says how to make one."""
    with pytest.raises(ConfigurationError, match=r"missing or empty.*secrets\.token_urlsafe"):
        Postmark(*secrets)


@pytest.mark.parametrize(
    "secret", ["geheimnis-ü", "秘密", "two words", " padded", "tab\t", "line\n", "\0", "\x7f", " "]
)
def test_impossible_secret(secret: str) -> None:
    """A secret that a header cannot carry is refused, and not repeated in the message."""
    with pytest.raises(ConfigurationError, match="visible ASCII") as raised:
        Postmark(SECRET, secret)
    assert not secret.strip() or secret not in str(raised.value)


def test_accepted_secrets() -> None:
    """Any visible ASCII is a secret; several are accepted, in a header in any case."""
    for name in (b"x-provider-secret", b"X-Provider-Secret"):
        for secret in (SECRET, "old-secret", VISIBLE, f" {SECRET}\t"):
            provider = Postmark(SECRET, "old-secret", VISIBLE)
            assert provider.authentic(_head(secret.encode(), name=name))
            assert SECRET not in f"{provider!r} {provider}"


@pytest.mark.parametrize(
    "values",
    [
        *((), (b"",), (b"wrong",), (b"old-secret", b"old-secret"), (b"old-secret", b"")),
        *((b"wrong", b"old-secret"), (b"old-secret", SECRET.encode())),
        *((b"old-secre",), (b"old-secretx",), (b"old-secret\0",), (b"OLD-SECRET",)),
        *((b"\nold-secret",), (b'"old-secret"',), ("schlüssel".encode(),), (b"\xff\xfe",)),
    ],
)
def test_refused_secrets(values: tuple[bytes, ...]) -> None:
    """Any other header is refused, and the challenge says whether it is missing or wrong."""
    provider = Postmark(SECRET, "old-secret")
    assert not provider.authentic(_head(*values))
    error = "wrong" if any(values) else "missing"
    assert provider.challenge(_head(*values)) == f'Secret error="{error}"'
    for name in (b"x-provider", b"x_provider_secret"):
        assert not provider.authentic(_head(SECRET.encode(), name=name))


def test_rotation() -> None:
    """Secrets can be replaced, and each is counted by its place; refused ones change nothing."""
    provider = Postmark("new", "old", "old", header="X-Our-Token")

    def knock(*secrets: bytes) -> list[bool]:
        return [provider.authentic(_head(each, name=b"x-our-token")) for each in secrets]

    assert knock(b"new", b"old", b"wrong", b"", b"new") == [True, True, False, False, True]
    assert not provider.authentic(_head(b"new"))
    assert provider.matched == Counter({0: 2, 1: 1})
    for secrets in ((), ("",), ("newer", ""), ("newer secret",)):
        with pytest.raises(ConfigurationError):
            provider.accept(*secrets)
    assert provider.matched == Counter({0: 2, 1: 1})
    provider.accept("newest", "new")
    assert provider.matched == Counter()
    assert knock(b"old", b"newest", b"new") == [False, True, True]
    assert provider.matched == Counter({0: 1, 1: 1})


# -- bodies ----------------------------------------------------------------------------


def test_describe() -> None:
    """Of an unsupported body the type, the address and the message id are read if possible."""
    for body, said in (
        ('{"RecordType":"Click","Recipient":"A@x","MessageID":"m"}', ("Click", "A@x", "m")),
        ('{"RecordType":"Bounce","Email":"a@x","MessageID":""}', ("Bounce", "a@x", "")),
        ('{"Email":"b@x","Recipient":"a@x"}', (None, "a@x")),
        ('{"RecordType":1,"Recipient":null,"Email":["a"],"MessageID":{"a":1}}', ()),
        ('{"RecordType":"Delivery","DeliveredAt":"never"}', ("Delivery",)),
        *((body, ()) for body in ("{}", "[]", "", '{"RecordType":"Click"', "[" * 100_000)),
    ):
        assert Postmark(SECRET).describe(body.encode()) == Unsupported(*said)


@pytest.mark.parametrize(
    ("payload", "notification"),
    [
        (DELIVERY, Delivered(ADA, MESSAGE, TIME)),
        (OPEN, Opened(ADA, MESSAGE, TIME)),
        (SUPPRESSION, Suppressed(ADA, MESSAGE, TIME, "SpamComplaint")),
        (REACTIVATION, Reactivated(ADA, MESSAGE, TIME)),
        ({"RecordType": "Delivery", "DeliveredAt": AT}, Delivered(None, None, TIME)),
        (
            {"RecordType": "SubscriptionChange", "SuppressSending": False},
            Reactivated(None, None, None),
        ),
    ],
)
def test_supported(payload: dict[str, Any], notification: Notification) -> None:
    """Each supported payload is read, whatever its other fields are."""
    assert _parse(payload) == notification
    for value in (None, "no", 3, {"RecordType": "Bounce", "": "é"}, ["x" * 65_536], "9" * 40):
        assert _parse(payload, Tag=value, Metadata=value) == notification


@pytest.mark.parametrize("value", [..., None, 0, 1.5, True, [ADA], {"Email": ADA}, 10**30, ""])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_addresses(payload: dict[str, Any], value: object) -> None:
    """Recipients and message ids are texts of up to 1,000 characters, or none; never judged."""
    expected = value if value == "" else None
    for text, kept in (
        *((value, expected), (" ADA@Example.com\0", " ADA@Example.com\0")),
        *(("ü" * 1000, "ü" * 1000), ("x" * 1001, "x" * 1000)),
    ):
        notification = _parse(payload, Recipient=text, MessageID=text)
        assert notification is not None
        assert (notification.recipient, notification.message_id) == (kept, kept)


@pytest.mark.parametrize("reason", ["ManualSupression", "x", " x ", "理由", "😀"])
def test_reasons(reason: str) -> None:
    """A reason is kept as it came, known or not; a reactivation needs none."""
    assert _parse(SUPPRESSION, SuppressionReason=reason) == Suppressed(ADA, MESSAGE, TIME, reason)
    others: list[object] = [..., "", " ", 1, [], "\0"]
    for other in others:
        reactivated = _parse(REACTIVATION, SuppressionReason=other)
        assert reactivated == Reactivated(ADA, MESSAGE, TIME)


@pytest.mark.parametrize(
    ("payload", "field", "values"),
    [
        (DELIVERY, "RecordType", (..., None, "", "open", "Open\0", 1, True, ["Open"])),
        (OPEN, "RecordType", ("Click", "SpamComplaint", "Bounce")),
        (SUPPRESSION, "SuppressSending", (..., None, 0, 1, 1.0, "", "true", "false", [True], {})),
        (SUPPRESSION, "SuppressionReason", (..., None, "", " \t\r\n", "\u00a0\u2003", 1, True, {})),
        (SUPPRESSION, "SuppressionReason", ("\0", "a\0b")),
    ],
)
def test_unsupported(payload: dict[str, Any], field: str, values: tuple[object, ...]) -> None:
    """Other types are not supported, nor changes without a boolean and a reason."""
    everything = DELIVERY | OPEN | payload
    assert [_parse(everything, **{field: value}) for value in values] == [None] * len(values)


@pytest.mark.parametrize("key", ["recordType", "RECORDTYPE", "deliveredAt", "delivered_at"])
def test_other_keys(key: str) -> None:
    """A key counts only in the provider's spelling, and a time only for its own type."""
    assert _parse(DELIVERY, RecordType=..., **{key: "Delivery"}) is None
    assert _parse(DELIVERY, DeliveredAt=..., ReceivedAt=AT, **{key: AT}) is None


TEXT = json.dumps(DELIVERY)


@pytest.mark.parametrize(
    "body",
    [
        *(b" ", b'"Delivery"', b"\x1f\x8b\x08\x00", (TEXT * 2).encode()),
        *(TEXT.replace("250 OK", text).encode() for text in ("\n", "\\q", "\\ud800", "\\udfff")),
        *(TEXT.replace('"250 OK"', number).encode() for number in ("NaN", "-Infinity", "007")),
        *(TEXT.replace(old, "\xff").encode("latin-1") for old in ("ada@", "250")),
        TEXT.replace("250 OK", "\ud800").encode("utf-8", "surrogatepass"),
        *(TEXT.encode(encoding) for encoding in ("utf-16", "utf-32", "utf-8-sig")),
    ],
    ids=range(17),
)
def test_no_json(body: bytes) -> None:
    """A body that is no JSON object in UTF-8 is not supported, whichever field is wrong."""
    assert _parse(body) is None


# -- times -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at"),
    [
        *((AT, AT), ("2026-03-04t05:06:07z", AT), ("2026-03-04T05:06:07-00:00", AT)),
        *(("2026-03-04T10:36:07+05:30", AT), ("2026-03-05T05:05:07+23:59", AT)),
        ("2026-03-03T05:07:07-23:59", AT),
        ("2026-03-04T05:06:07.5Z", "2026-03-04T05:06:07.500000Z"),
        ("2026-03-04T05:06:07." + "1" * 60 + "Z", "2026-03-04T05:06:07.111111Z"),
        ("2026-12-31T23:59:59.9999999Z", "2027-01-01T00:00:00Z"),
        *((same, same) for same in ("2024-02-29T00:00:00Z", "0001-01-01T00:00:00Z")),
        ("9999-12-31T23:59:59", "9999-12-31T23:59:59Z"),
    ],
)
def test_times(text: str, at: str) -> None:
    """A time is an RFC 3339 date-time with any number of digits, in UTC without an offset."""
    fields = {"DeliveredAt": text, "ReceivedAt": text, "ChangedAt": text}
    for notification in (_parse(payload, **fields) for payload in PAYLOADS):
        assert notification is not None
        assert notification.at == datetime.fromisoformat(at)
        assert notification.at.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *(..., None, "", "now", True, 1772600767, 1.5, 10**30, [], {"time": AT}, "1772600767"),
        *("2026-03-04", "05:06:07Z", "2026-03-04T05:06Z", "2026-03-04T05Z", f" {AT}", f"{AT} "),
        *("2026-03-04T05:06:07.Z", "2026-03-04T05:06:07,5Z", "2026-03-04_05:06:07Z", f"{AT}Z"),
        *("20260304T050607Z", "2026-W10-3T05:06:07Z", "2026-063T05:06:07Z", "2026-3-4T05:06:07Z"),
        *(f"{AT}\0", "2026-03-04T05:06:07 UTC", "2026-03-04T05:06:07-04"),
        *("2026-03-04T05:06:07+24:00", "2026-03-04T05:06:07+04:60", "2026-03-04T24:00:00Z"),
        *("2016-12-31T23:59:60Z", "2026-02-29T05:06:07Z", "2026-13-01T05:06:07Z"),
        *("2026-00-01T05:06:07Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
        *("-2026-03-04T05:06:07Z", "２０２６-03-04T05:06:07Z"),  # noqa: RUF001 - wide digits
        *("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00"),
    ],
    ids=repr,
)
def test_no_time(value: object) -> None:
    """Other values are no time: deliveries and opens need one, subscription changes do not."""
    fields = {"DeliveredAt": value, "ReceivedAt": value, "ChangedAt": value}
    assert [_parse(payload, **fields) for payload in PAYLOADS] == [
        *(None, None, Suppressed(ADA, MESSAGE, None, "SpamComplaint")),
        Reactivated(ADA, MESSAGE, None),
    ]


# -- hostile bodies --------------------------------------------------------------------

relaxed = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
VALUES = (None, True, 0, -1, 10**30, 1e308, "", "\0", "é", AT, ADA, "Open", [AT], {"a": [ADA]})


def _check(body: bytes) -> None:
    """Read a body, and check what all that use the notification rely on."""
    assert isinstance(Postmark(SECRET).describe(body), Unsupported)
    notification = _parse(body)
    if notification is not None:
        assert {type(notification.recipient), type(notification.message_id)} <= {str, type(None)}
        assert notification.at is None or notification.at.tzinfo is UTC
    if isinstance(notification, Suppressed):
        assert notification.reason.strip()
        assert b"\0" not in notification.reason.encode()
    elif isinstance(notification, Delivered | Opened):
        assert notification.at is not None


@relaxed
@given(
    st.sampled_from(PAYLOADS),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES), max_size=4),
    st.binary(max_size=8),
    st.integers(0, 200),
    st.integers(0, 20),
)
def test_any_body(
    payload: dict[str, Any], fields: dict[str, Any], damage: bytes, place: int, lost: int
) -> None:
    """Whatever the values and the bytes, a body is a notification or none; nothing raises."""
    body = json.dumps(payload | fields, ensure_ascii=False).encode()
    for damaged in (body, body[:place] + damage + body[place + lost :], damage):
        _check(damaged)


@pytest.mark.parametrize("field", FIELDS)
def test_large_values(field: str) -> None:
    """Deep nesting, closed or not, and large numbers are harmless in every field."""
    body = TEXT[:-1].encode() + f',"{field}":'.encode()
    for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
        for depth in (200, 5_000, 100_000):
            _check(body + left * depth + b"1" + right * depth + b"}")
            _check(body + left * depth)
            _check(left * depth)
    for number in (b"1" * 20, b"-" + b"9" * 100_000, b"1e999", b"-1e999", b"1E-999"):
        _check(body + number + b"}")
