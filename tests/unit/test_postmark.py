"""Postmark: accepted secrets, and the notifications in bodies.

The case table (`stores/test_cases.py`) has whole payloads; this file covers the rest.
"""

import codecs
import gzip
import json
import zlib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hookrow import ConfigurationError, Postmark, RequestHead
from hookrow._core.notification import (
    Bounced,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
    Unsupported,
    first_of,
)
from hookrow._http import PROBE_AGENT
from hookrow.providers import Event
from hookrow.providers._postmark_payloads import body_schema, explain

SECRET = "S3cret-of_the~provider"
ADA, MESSAGE = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = "2026-03-04T05:06:07Z"
TIME = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

ADDRESS = {"Recipient": ADA, "MessageID": MESSAGE}
CHANGE = {"RecordType": "SubscriptionChange", **ADDRESS, "ChangedAt": AT}
DELIVERY = {"RecordType": "Delivery", **ADDRESS, "DeliveredAt": AT, "Details": "250 OK"}
OPEN = {"RecordType": "Open", **ADDRESS, "ReceivedAt": AT, "Geo": {"City": "Reykjavík"}}
SUPPRESSION = {**CHANGE, "SuppressSending": True, "SuppressionReason": "SpamComplaint"}
REACTIVATION = {**CHANGE, "SuppressSending": False, "SuppressionReason": None}
PAYLOADS = (DELIVERY, OPEN, SUPPRESSION, REACTIVATION)
FIELDS = ("SuppressSending", "SuppressionReason", "ReceivedAt", "ChangedAt", "Tag", *DELIVERY)
TEXT = json.dumps(DELIVERY)

REQUIRED = {"SuppressSending": False, "ReceivedAt": AT, "DeliveredAt": AT, "BouncedAt": AT}
"""Valid values of required fields; those of the others are texts."""


@pytest.mark.parametrize(
    "kind", body_schema()["oneOf"], ids=lambda kind: kind["properties"]["RecordType"]["const"]
)
def test_the_schema_of_bodies_requires_what_the_parser_requires(kind: dict[str, Any]) -> None:
    """A payload is supported with the required fields only, and not without one of them.

    A payload without its recipient is read, but matches no row.
    """
    record_type, required = kind["properties"]["RecordType"]["const"], kind["required"]
    payload = {name: REQUIRED.get(name, ADA) for name in required} | {"RecordType": record_type}
    assert explain(json.dumps(payload).encode()) is None
    for name in {*required} - {"Recipient"}:
        without = {**payload, name: None}
        assert explain(json.dumps(without).encode()) == f"{name} is missing or null."


def test_the_schema_of_bodies_has_the_types_of_the_fields() -> None:
    """A time has a format, and every field may be null, except for the record type."""
    properties = body_schema()["properties"]
    null = {"type": "null"}
    assert properties["BouncedAt"] == {"anyOf": [{"type": "string", "format": "date-time"}, null]}
    assert properties["SuppressSending"] == {"anyOf": [{"type": "boolean"}, null]}
    assert properties["Type"] == {"anyOf": [{"type": "string"}, null]}
    assert {*properties} >= {*DELIVERY, *SUPPRESSION} - {"Details"}


def _parse(payload: dict[str, Any] | bytes, **fields: object) -> Notification | None:
    """Parse a payload with some fields changed, or omitted if they are `...`."""
    return first_of(Postmark.parse(_encode(payload, **fields)).notifications)


def _encode(payload: dict[str, Any] | bytes, **fields: object) -> bytes:
    if isinstance(payload, bytes):
        return payload
    changed = {name: value for name, value in (payload | fields).items() if value is not ...}
    return json.dumps(changed).encode()


def _head(*values: bytes, name: bytes = b"x-provider-secret") -> RequestHead:
    headers = [(b"host", b"example.com"), *((name, value) for value in values)]
    return RequestHead("POST", "/provider/webhooks", headers)


# -- secrets ---------------------------------------------------------------------------


def test_an_empty_secret_is_rejected_with_a_command_to_create_one() -> None:
    for secrets in ((), ("",), (SECRET, "", "other")):
        with pytest.raises(ConfigurationError, match=r"missing or empty.*secrets\.token_urlsafe"):
            Postmark(*secrets)


def test_a_secret_that_no_header_can_contain_is_rejected_and_not_quoted() -> None:
    for secret in ("geheimnis-ü", "two words", "tab\t", "line\n", "\x7f", " "):
        with pytest.raises(ConfigurationError, match="visible ASCII") as raised:
            Postmark(SECRET, secret)
        assert not secret.strip() or secret not in str(raised.value)


def test_any_visible_ascii_is_a_secret_in_a_header_in_any_case() -> None:
    visible = "".join(map(chr, range(0x21, 0x7F)))
    provider = Postmark(SECRET, "old-secret", visible)
    for name in (b"x-provider-secret", b"X-Provider-Secret"):
        for secret in (SECRET, "old-secret", visible, f" {SECRET}\t"):
            assert provider.admit(_head(secret.encode(), name=name)) is None
    assert SECRET not in f"{provider!r} {provider}"


@pytest.mark.parametrize(
    "values",
    [
        *((), (b"",), (b"wrong",), (b"old-secret", b"old-secret"), (b"old-secret", b"")),
        *((b"old-secre",), (b"old-secretx",), (b"old-secret\0",), (b"OLD-SECRET",)),
        *((b"\nold-secret",), (b'"old-secret"',), (b"\xff\xfe",)),
    ],
)
def test_any_other_header_is_refused_as_missing_or_wrong(values: tuple[bytes, ...]) -> None:
    provider = Postmark(SECRET, "old-secret")
    error = "wrong" if any(values) else "missing"
    assert provider.admit(_head(*values)) == f'Secret error="{error}"'
    assert provider.admit(_head(SECRET.encode(), name=b"x_provider_secret")) is not None


QUOTED = '"quoted-secret"'


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "X-Provider-Secret is missing"),
        ([("X-Provider-Secret", " ")], "X-Provider-Secret is empty"),
        ([("Cookie", SECRET), ("X-Secret-5", SECRET)], "X-Provider-Secret is missing"),
        *(
            ([(name, SECRET)], f"X-Provider-Secret is missing; the request has {name} instead")
            for name in ("Authorization", "X_Provider_Secret", "X-Postmark-Secret")
        ),
        (
            [("x-provider-secrets", SECRET), ("x-provider-secret", "")],
            "X-Provider-Secret is empty; the request has X-Provider-Secrets instead",
        ),
        *(
            (
                [("X-Provider-Secret", "x"), *others, (name, value)],
                f"X-Provider-Secret is wrong; the request has the secret in {name} instead",
            )
            for others in ([], [("Authorization", "y"), ("Cookie", SECRET)])
            for name, value in (("Authorization", f"Bearer {SECRET}"), ("X-Webhook-Secret", SECRET))
        ),
        *(
            ([("X-Provider-Secret", "x"), (name, value)], "X-Provider-Secret is wrong")
            for name, value in (("Authorization", "Bearer x"), ("Cookie", SECRET))
        ),
        (
            [("X-Provider-Secret", SECRET.swapcase())],
            "X-Provider-Secret is the secret, but with other upper and lower case letters",
        ),
        (
            [("X-Provider-Secret", SECRET), ("x-provider-secret", SECRET)],
            "X-Provider-Secret is rep",
        ),
        ([("X-PROVIDER-SECRET", f"{SECRET},{SECRET}")], "X-Provider-Secret is repeated"),
        ([("X-PROVIDER-SECRET", ",".join(["x"] * 30_000))], "X-Provider-Secret is wrong"),
        *(
            ([("X-Provider-Secret", value)], "X-Provider-Secret is the secret, but with quotes, ")
            for value in (
                f'"{SECRET}"',
                f"'{SECRET}' ",
                rf"{SECRET}\n",
                f"Bearer {SECRET}",
                "<old>",
            )
        ),
        ([("X-Provider-Secret", "quoted-secret")], "X-Provider-Secret is the secret, but without"),
        ([("X-Provider-Secret", '"' * 30_000)], "X-Provider-Secret is wrong"),
    ],
)
def test_the_reason_for_a_401(headers: list[tuple[str, str]], reason: str) -> None:
    """The reason says how the header differs from a secret, and quotes no value."""
    provider = Postmark(SECRET, QUOTED, "old")
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    given = RequestHead("POST", "/provider/webhooks", encoded)
    assert provider.admit(given) is not None
    described = provider.describe_unauthentic(given)
    assert described.startswith(reason)
    assert described == reason or not reason.endswith(("missing", "empty", "wrong", "instead"))
    assert SECRET not in described


def test_requests_are_counted_by_secret_and_secrets_can_be_replaced() -> None:
    provider = Postmark("new", "old", "old")

    def authenticate(*secrets: bytes) -> list[bool]:
        return [provider.admit(_head(each)) is None for each in secrets]

    assert authenticate(b"new", b"old", b"wrong", b"", b"new") == [True, True, False, False, True]
    for secrets in (("newer", ""), ("newer secret",)):
        with pytest.raises(ConfigurationError):
            provider.accept(*secrets)
    assert provider.matched == Counter({0: 2, 1: 1})  # rejected secrets change nothing
    provider.accept("newest", "new")
    assert provider.matched == Counter()
    assert authenticate(b"old", b"newest", b"new") == [False, True, True]
    assert provider.matched == Counter({0: 1, 1: 1})
    assert provider.old_matches == 2, "which no replacement resets"
    probe = _head(b"new")
    probe = replace(probe, headers=[*probe.headers, (b"user-agent", PROBE_AGENT)])
    assert provider.admit(probe) is None
    assert (provider.matched[1], provider.old_matches) == (2, 2)


# -- bodies ----------------------------------------------------------------------------


def test_the_readable_fields_of_an_unsupported_body_are_returned() -> None:
    for body, readable in (
        ('{"RecordType":"Click","Recipient":"A@x","MessageID":"m"}', ("Click", "A@x", "m")),
        ('{"RecordType":"Bounce","Email":"a@x","MessageID":""}', ("Bounce", "a@x", "")),
        ('{"Email":"b@x","Recipient":"a@x"}', (None, "a@x")),
        ('{"RecordType":1,"Recipient":null,"Email":["a"],"MessageID":{"a":1}}', ()),
        *((body, ()) for body in ("[]", "", '{"RecordType":"Click"', "[" * 100_000)),
    ):
        assert Postmark.parse(body.encode()).unsupported == Unsupported(*readable)


@pytest.mark.parametrize(
    ("payload", "fields", "problem"),
    [
        (DELIVERY, {"DeliveredAt": ...}, "DeliveredAt is missing or null."),
        (DELIVERY, {"DeliveredAt": None}, "DeliveredAt is missing or null."),
        (DELIVERY, {"DeliveredAt": 1}, "DeliveredAt is not an RFC 3339 time that fits the years"),
        (OPEN, {"ReceivedAt": "0001-01-01T00:00:00+14:00"}, "ReceivedAt is not an RFC 3339 time"),
        (REACTIVATION, {"SuppressSending": ...}, "SuppressSending is missing or null."),
        (SUPPRESSION, {"SuppressSending": "true"}, "SuppressSending is not a boolean."),
        (SUPPRESSION, {"SuppressionReason": ...}, "SuppressionReason is missing or null."),
        (SUPPRESSION, {"SuppressionReason": " "}, "SuppressionReason is not a string with visible"),
        (DELIVERY, {"RecordType": "Inbound"}, "RecordType Inbound is not supported."),
        (DELIVERY, {"RecordType": "Click"}, "ReceivedAt is missing or null."),
        (DELIVERY, {"RecordType": "Bounce", "Email": ""}, "Email is not a string"),
        (DELIVERY, {"RecordType": "SpamComplaint"}, "Email is missing or null."),
        (DELIVERY, {"RecordType": "Bounce", "Email": "a@x"}, "BouncedAt is missing or null."),
        (DELIVERY, {"RecordType": ""}, "RecordType is not a string with visible characters."),
        (DELIVERY, {"RecordType": " "}, "RecordType is not a string with visible characters."),
        (DELIVERY, {"RecordType": ...}, "RecordType is missing or null."),
        (DELIVERY, {"RecordType": 1}, "RecordType is not a string with visible characters."),
        (b"[]", {}, "The body is an array, not a JSON object."),
        (b'"{}"', {}, "The body is a string, not a JSON object."),
        (b"5", {}, "The body is a number, not a JSON object."),
        (b"null", {}, "The body is null, not a JSON object."),
        (b"{", {}, "The body is not JSON: it ends too early, at byte 1."),
        ('{"Tag": "é'.encode(), {}, "The body is not JSON: it ends too early, at byte 11."),
        ('{"é": 5 5}'.encode(), {}, "The body is not JSON at byte 9: "),
        (b'{"Tag": NaN}', {}, "The body is not JSON: NaN is not JSON."),
        (b'{"Tag":' + b"[" * 100_000, {}, "The body is nested too deeply."),
        (b'{"Tag": "\xff"}', {}, "The body is not valid UTF-8 at byte 9: "),
        (b" \n", {}, "The body is empty: "),
        (
            gzip.compress(b"{}", mtime=0),
            {},
            "The body is compressed (gzip): configure the proxy not to",
        ),
        (zlib.compress(b"{}"), {}, "The body is compressed (deflate): "),
        (b"\x28\xb5\x2f\xfd\0", {}, "The body is compressed (zstd): "),
        (codecs.BOM_UTF8 + b"{}", {}, "The body begins with a byte order mark, "),
        ("{}".encode("utf-16"), {}, "The body is in UTF-16, not in UTF-8: "),
        ("{}".encode("utf-16-be"), {}, "The body is in UTF-16, not in UTF-8: "),
        ("{}".encode("utf-32"), {}, "The body is in UTF-32, not in UTF-8: "),
        (b"RecordType=Open&Recipient=a%40x", {}, "The body is form-encoded, not JSON: "),
        (b"--x\r\nContent-Disposition: form-data", {}, "The body is a form (multipart/form-data)"),
        (b"<html></html>", {}, "The body is XML or HTML, not JSON: "),
    ],
)
def test_the_problem_of_an_unsupported_body_is_explained(
    payload: dict[str, Any] | bytes, fields: dict[str, Any], problem: str
) -> None:
    assert (explain(_encode(payload, **fields)) or "").startswith(problem)


@pytest.mark.parametrize("value", [..., None, 0, True, [ADA], {"Email": ADA}, ""])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_addresses_are_truncated_strings_or_none(payload: dict[str, Any], value: object) -> None:
    expected = value if value == "" else None
    for text, kept in (
        *((value, expected), (" ADA@Example.com\0", " ADA@Example.com\0")),
        *(("ü" * 1000, "ü" * 1000), ("x" * 1001, "x" * 1000)),
    ):
        notification = _parse(payload, Recipient=text, MessageID=text)
        assert notification is not None
        assert (notification.recipient, notification.message_id) == (kept, kept)


def test_a_suppression_needs_a_reason_which_is_kept_unchanged() -> None:
    for reason in ("ManualSupression", " x ", "理由", "😀"):
        suppressed = _parse(SUPPRESSION, SuppressionReason=reason)
        assert suppressed == Suppressed(ADA, MESSAGE, TIME, reason)
    others: list[object] = [..., "", " \t\r\n", "\u00a0\u2003", 1, [], "a\0b"]
    for no_reason in others:
        assert _parse(SUPPRESSION, SuppressionReason=no_reason) is None
        reactivated = _parse(REACTIVATION, SuppressionReason=no_reason)
        assert reactivated == Reactivated(ADA, MESSAGE, TIME)


@pytest.mark.parametrize(
    "body",
    [
        TEXT.replace("250", "\xff").encode("latin-1"),
        TEXT.replace("250 OK", "\ud800").encode("utf-8", "surrogatepass"),
        TEXT.encode("utf-8-sig"),
    ],
)
def test_utf8_is_required_even_in_an_unused_field(body: bytes) -> None:
    assert _parse(body) is None


# -- unpaired surrogates ---------------------------------------------------------------

HALF = "\ud83d"
"""Half of an emoji, as in a text that was cut by its number of UTF-16 code units."""

BOUNCE = {
    "RecordType": "Bounce",
    "Email": ADA,
    "MessageID": MESSAGE,
    "BouncedAt": AT,
    "Type": "HardBounce",
}


@pytest.mark.parametrize("payload", [*PAYLOADS, BOUNCE])
@pytest.mark.parametrize(
    "unused",
    [
        *({"Tag": HALF}, {"Tag": f"x{HALF}y"}, {"Tag": "\ude00"}, {"Tag": HALF * 2}),
        *({"Metadata": {HALF: [HALF]}}, {HALF: 1}, {"Tag": f"{HALF}\\ud83d"}),
        *({"Tag": HALF, "Size": 10**600}, {"Subject": HALF, "BounceID": 1, "Ratio": 0.5}),
    ],
)
def test_unpaired_surrogates_in_unused_fields(
    payload: dict[str, Any], unused: dict[str, Any]
) -> None:
    """They change nothing, although msgspec rejects the body."""
    expected = _parse(payload)
    assert expected is not None
    assert _parse(payload | unused) == expected
    assert _parse(unused | payload) == expected
    assert explain(_encode(payload | unused)) is None


@pytest.mark.parametrize("payload", [*PAYLOADS, BOUNCE])
def test_unpaired_surrogates_in_addresses_are_kept(payload: dict[str, Any]) -> None:
    """A row with U+FFFD must not match, as it would if they were replaced."""
    names = {"Recipient": f"a{HALF}@x", "Email": f"a{HALF}@x", "MessageID": HALF}
    notification = _parse(payload, **names)
    assert notification is not None
    assert (notification.recipient, notification.message_id) == (f"a{HALF}@x", HALF)


def test_unpaired_surrogates_in_stored_texts_are_replaced() -> None:
    for text, stored in (
        (HALF, "\ufffd"),
        (f"Spam{HALF}", "Spam\ufffd"),
        (f" {HALF * 2}\ude00", " \ufffd\U0001f600"),
        (f"\\ud83d{HALF}\ufffd", "\\ud83d\ufffd\ufffd"),
    ):
        suppressed = _parse(SUPPRESSION, SuppressionReason=text)
        assert suppressed == Suppressed(ADA, MESSAGE, TIME, stored)
        assert _parse(BOUNCE, Type=text) == Bounced(ADA, MESSAGE, TIME, stored)
    assert _parse(SUPPRESSION, SuppressionReason=f"a\0{HALF}") is None
    assert _parse(BOUNCE, Type=f"a\0{HALF}") == Bounced(ADA, MESSAGE, TIME, "a\0\ufffd")


@pytest.mark.parametrize(
    ("payload", "fields", "problem"),
    [
        (DELIVERY, {"DeliveredAt": AT + HALF}, "DeliveredAt is not an RFC 3339 time"),
        (OPEN, {"ReceivedAt": HALF}, "ReceivedAt is not an RFC 3339 time"),
        (BOUNCE, {"BouncedAt": HALF}, "BouncedAt is not an RFC 3339 time"),
        (SUPPRESSION, {"SuppressSending": HALF}, "SuppressSending is not a boolean."),
        (SUPPRESSION, {"SuppressionReason": 5, "Tag": HALF}, "SuppressionReason is not a string"),
        (SUPPRESSION, {"SuppressionReason": " ", "Tag": HALF}, "SuppressionReason is not a string"),
        (DELIVERY, {"RecordType": f"Open{HALF}"}, "RecordType Open\ufffd is not supported."),
        (DELIVERY, {"RecordType": 5, "Tag": HALF}, "RecordType is not a string"),
    ],
)
def test_unpaired_surrogates_in_unsupported_bodies(
    payload: dict[str, Any], fields: dict[str, Any], problem: str
) -> None:
    """The body is read, so the explanation names the field, and the log has the other fields."""
    body = _encode(payload | fields)
    event = Postmark.parse(body)
    assert not event.notifications
    assert (explain(body) or "").startswith(problem)
    assert (event.unsupported.recipient or ADA, event.unsupported.message_id) == (ADA, MESSAGE)


def test_an_unpaired_surrogate_is_no_time_of_a_change() -> None:
    """The change counts as of its arrival, as with any other text that is not a time."""
    assert _parse(REACTIVATION, ChangedAt=HALF) == Reactivated(ADA, MESSAGE, None)
    suppressed = _parse(SUPPRESSION, ChangedAt=AT + HALF)
    assert suppressed == Suppressed(ADA, MESSAGE, None, "SpamComplaint")


@pytest.mark.parametrize("digits", ["5", "1e999", "9" * 5000, "0.5"])
@pytest.mark.parametrize("rest", ["", ', "Tag": "\\ud83d"'])
def test_a_number_is_never_a_text(digits: str, rest: str) -> None:
    """A number of any size is valid JSON, whichever decoder reads it."""

    def parse(payload: dict[str, Any], *names: str) -> Notification | None:
        numbers = "".join(f', "{name}": {digits}' for name in names)
        text = json.dumps({name: payload[name] for name in payload if name not in names})
        return first_of(Postmark.parse(f"{text[:-1]}{numbers}{rest}}}".encode()).notifications)

    assert parse(DELIVERY, "Size") == Delivered(ADA, MESSAGE, TIME)
    assert parse(DELIVERY, "Recipient", "MessageID") == Delivered(None, None, TIME)
    assert parse(SUPPRESSION, "ChangedAt") == Suppressed(ADA, MESSAGE, None, "SpamComplaint")
    assert parse(BOUNCE, "Type") == Bounced(ADA, MESSAGE, TIME, None)
    for payload, name in (
        *((DELIVERY, "RecordType"), (DELIVERY, "DeliveredAt"), (OPEN, "ReceivedAt")),
        *((SUPPRESSION, "SuppressSending"), (SUPPRESSION, "SuppressionReason"), (BOUNCE, "Email")),
    ):
        assert parse(payload, name) is None


@pytest.mark.parametrize("rest", [b"NaN", b'"\x01"', b'"\xff"', b"1,", b"[" * 100_000, b'"\\ud83"'])
def test_an_unpaired_surrogate_excuses_nothing_else(rest: bytes) -> None:
    body = _encode(DELIVERY | {"Tag": HALF})
    assert _parse(body) is not None
    broken = body[:-1] + b', "X": ' + rest + b"}"
    assert _parse(broken) is None
    assert (explain(broken) or "").startswith(
        ("The body is not ", "The body is nested too deeply.")
    )


# -- times -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at"),
    [
        *((AT, AT), ("2026-03-04t05:06:07z", AT), ("2026-03-04T05:06:07-00:00", AT)),
        *(("2026-03-04T10:36:07+05:30", AT), ("2026-03-05T05:05:07+23:59", AT)),
        ("2026-03-04T05:06:07." + "1" * 60 + "Z", "2026-03-04T05:06:07.111111Z"),
        ("2026-12-31T23:59:59.9999999Z", "2027-01-01T00:00:00Z"),
        *((same, same) for same in ("2024-02-29T00:00:00Z", "0001-01-01T00:00:00Z")),
        ("9999-12-31T23:59:59", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_is_an_rfc_3339_date_time(text: str, at: str) -> None:
    fields = {"DeliveredAt": text, "ReceivedAt": text, "ChangedAt": text}
    for notification in (_parse(payload, **fields) for payload in PAYLOADS):
        assert notification is not None
        assert notification.at == datetime.fromisoformat(at)
        assert notification.at.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *(..., None, True, 1772600767, 10**30, [], "1772600767", f" {AT}", f"{AT}Z", f"{AT}\0"),
        *("2026-03-04T05:06Z", "2026-03-04T05:06:07.Z", "2026-03-04T05:06:07,5Z"),
        *("20260304T050607Z", "2026-W10-3T05:06:07Z", "2026-063T05:06:07Z", "2026-3-4T05:06:07Z"),
        *("2026-03-04T05:06:07 UTC", "2026-03-04T05:06:07-04", "2026-03-04T05:06:07+24:00"),
        *("2026-13-01T05:06:07Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
        "２０２６-03-04T05:06:07Z",  # noqa: RUF001 - wide digits
        *("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00"),
    ],
    ids=repr,
)
def test_without_a_time_only_subscription_changes_are_supported(value: object) -> None:
    fields = {"DeliveredAt": value, "ReceivedAt": value, "ChangedAt": value}
    assert [_parse(payload, **fields) for payload in PAYLOADS] == [
        *(None, None, Suppressed(ADA, MESSAGE, None, "SpamComplaint")),
        Reactivated(ADA, MESSAGE, None),
    ]


# -- hostile bodies --------------------------------------------------------------------

relaxed = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
TEXTS = st.text(st.characters() | st.sampled_from("\ud83d\ude00\\u"))
OTHERS = (None, True, 0, -1, 10**30, 1e308, [AT], {"a": [ADA]})
VALUES = (*OTHERS, "", "\0", HALF, "é", AT, ADA, "Open")


def _check(body: bytes) -> None:
    """Parse a body, and check the properties that all users of a notification rely on."""
    event = Postmark.parse(body)
    notification = first_of(event.notifications)
    assert event == Event(event.notifications, body, event.unsupported)
    assert len(event.notifications) <= 1
    problem = explain(body)
    assert (problem is None) is (notification is not None)
    assert problem is None or problem.encode()  # it can be printed
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
def test_parsing_never_raises(
    payload: dict[str, Any], fields: dict[str, Any], damage: bytes, place: int, lost: int
) -> None:
    escaped = json.dumps(payload | fields).encode()
    body = json.dumps(payload | fields, ensure_ascii=False).encode(errors="surrogatepass")
    for damaged in (escaped, body, body[:place] + damage + body[place + lost :], damage):
        _check(damaged)


@relaxed
@given(
    st.sampled_from([*PAYLOADS, BOUNCE]),
    st.dictionaries(TEXTS.filter(lambda name: name not in FIELDS), TEXTS | st.lists(TEXTS)),
)
def test_no_text_in_an_unused_field_changes_a_notification(
    payload: dict[str, Any], unused: dict[str, Any]
) -> None:
    assert _parse(payload | unused) == _parse(unused | payload) == _parse(payload)
