"""Postmark: which secrets open the door, and what a body says, whatever its bytes."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookrow.errors import ConfigurationError
from hookrow.http import Head
from hookrow.notification import (
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
    Unsupported,
)
from hookrow.postmark import Postmark

SECRET = "S3cret-of_the~provider"
CASES = Path(__file__).parent / "cases" / "notifications.jsonl"

ADA = "ada@example.com"
MESSAGE = "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _parse(body: bytes | str) -> Notification | None:
    return Postmark(SECRET).parse(body.encode() if isinstance(body, str) else body)


def _head(*values: bytes, name: bytes = b"x-provider-secret") -> Head:
    headers = [(b"host", b"example.com"), *((name, value) for value in values)]
    return Head("POST", "/provider/webhooks", headers)


class TestSecrets:
    def test_none(self) -> None:
        """Without a secret there is no provider: the message says how to make one."""
        with pytest.raises(ConfigurationError, match=r"secrets\.token_urlsafe"):
            Postmark()

    @pytest.mark.parametrize("secrets", [("",), ("", SECRET), (SECRET, ""), (SECRET, "", "other")])
    def test_empty(self, secrets: tuple[str, ...]) -> None:
        """An empty secret would let in a request without one: refused, also among others."""
        with pytest.raises(ConfigurationError, match="missing or empty"):
            Postmark(*secrets)

    @pytest.mark.parametrize(
        "secret",
        ["geheimnis-ü", "秘密", "two words", " padded", "tab\t", "line\n", "\r", "\0", "\x7f", " "],
    )
    @pytest.mark.parametrize("others", [(), (SECRET,)])
    def test_not_for_a_header(self, secret: str, others: tuple[str, ...]) -> None:
        """A secret that a header cannot carry is refused, and not repeated in the message."""
        with pytest.raises(ConfigurationError, match="visible ASCII") as raised:
            Postmark(*others, secret)
        assert not secret.strip() or secret not in str(raised.value)

    def test_every_visible_letter(self) -> None:
        """Any visible ASCII makes a secret."""
        secret = "".join(map(chr, range(0x21, 0x7F)))
        assert Postmark(secret).authentic(_head(secret.encode()))

    def test_not_shown(self) -> None:
        """A provider that is printed does not tell its secrets."""
        assert SECRET not in f"{Postmark(SECRET)!r} {Postmark(SECRET)}"


class TestAuthentic:
    def test_the_secret(self) -> None:
        """A head with the secret is authentic, however its name is spelt or its value padded."""
        assert Postmark(SECRET).authentic(_head(SECRET.encode()))
        assert Postmark(SECRET).authentic(_head(SECRET.encode(), name=b"X-Provider-Secret"))
        assert Postmark(SECRET).authentic(_head(b" " + SECRET.encode() + b"\t"))

    def test_several(self) -> None:
        """While a secret is rotated the new one and the old one both open."""
        provider = Postmark("new-secret", "old-secret", "older-secret")
        for secret in (b"new-secret", b"old-secret", b"older-secret"):
            assert provider.authentic(_head(secret))
        assert not provider.authentic(_head(b"other-secret"))

    @pytest.mark.parametrize(
        "head",
        [
            pytest.param(_head(), id="missing"),
            pytest.param(_head(b""), id="empty"),
            pytest.param(_head(b"wrong"), id="wrong"),
            pytest.param(_head(SECRET.encode()[:-1]), id="a part of it"),
            pytest.param(_head(SECRET.encode() + b"x"), id="more than it"),
            pytest.param(_head(SECRET.encode() + b"\0"), id="with NUL"),
            pytest.param(_head(SECRET.lower().encode()), id="another case"),
            pytest.param(_head(b'"' + SECRET.encode() + b'"'), id="quoted"),
            pytest.param(_head(b"\n" + SECRET.encode()), id="after a line feed"),
            pytest.param(_head(SECRET.encode(), SECRET.encode()), id="doubled"),
            pytest.param(_head(SECRET.encode(), b""), id="doubled, one empty"),
            pytest.param(_head(b"wrong", SECRET.encode()), id="doubled, one wrong"),
            pytest.param(_head("schlüssel".encode()), id="not ASCII, UTF-8"),
            pytest.param(_head("schlüssel".encode("latin-1")), id="not ASCII, Latin-1"),
            pytest.param(_head(b"\xff\xfe"), id="no text at all"),
            pytest.param(_head(SECRET.encode(), name=b"x-provider"), id="another header"),
            pytest.param(_head(SECRET.encode(), name=b"x_provider_secret"), id="underscores"),
        ],
    )
    def test_nothing_else(self, head: Head) -> None:
        """Any other head is not authentic, and judging it never fails."""
        assert not Postmark(SECRET, "another-secret").authentic(head)

    def test_two_secrets_in_one(self) -> None:
        """Two accepted secrets in a header that comes twice are no secret."""
        assert not Postmark("one", "two").authentic(_head(b"one", b"two"))

    def test_another_header(self) -> None:
        """The header may have another name, and then only that one counts."""
        provider = Postmark(SECRET, header="X-Our-Token")
        assert provider.authentic(_head(SECRET.encode(), name=b"x-our-token"))
        assert not provider.authentic(_head(SECRET.encode()))

    @relaxed
    @given(st.lists(st.binary(max_size=30) | st.just(SECRET.encode()), max_size=3))
    def test_never_raises(self, values: list[bytes]) -> None:
        """Whatever bytes a header has, it is the secret or it is not."""
        stripped = [value.strip(b" \t") for value in values]
        assert Postmark(SECRET).authentic(_head(*values)) == (stripped == [SECRET.encode()])


class TestRotation:
    """The secrets are changed while requests come, and one sees which are used."""

    def test_accept(self) -> None:
        """From then on the new secrets open, and the old ones no longer."""
        provider = Postmark("old-secret", header="X-Our-Token")
        provider.accept("new-secret", "other-secret")
        for secret, opens in (
            (b"old-secret", False),
            (b"new-secret", True),
            (b"other-secret", True),
        ):
            assert provider.authentic(_head(secret, name=b"x-our-token")) is opens

    @pytest.mark.parametrize("secrets", [(), ("",), ("new-secret", ""), ("new secret",)])
    def test_refused(self, secrets: tuple[str, ...]) -> None:
        """Secrets that the constructor would refuse are refused, and nothing changes."""
        provider = Postmark("old-secret")
        assert provider.authentic(_head(b"old-secret"))
        with pytest.raises(ConfigurationError):
            provider.accept(*secrets)
        assert provider.authentic(_head(b"old-secret"))
        assert provider.matched == Counter({0: 2})

    def test_matched(self) -> None:
        """How often each opened is counted by its place, anew after a rotation; no other is."""
        provider = Postmark("new-secret", "old-secret", "older-secret")
        for secret in (b"new-secret", b"old-secret", b"wrong", b"", b"new-secret"):
            provider.authentic(_head(secret))
        assert provider.matched == Counter({0: 2, 1: 1})
        provider.accept("newest-secret", "new-secret")
        assert provider.matched == Counter({})
        provider.authentic(_head(b"new-secret"))
        assert provider.matched == Counter({1: 1})

    def test_twice(self) -> None:
        """A secret that is named twice counts as the first."""
        provider = Postmark("secret", "secret")
        provider.authentic(_head(b"secret"))
        assert provider.matched == Counter({0: 1})

    def test_while_requests_come(self) -> None:
        """A secret that is accepted before and after a rotation opens at every moment."""
        provider = Postmark("a-secret", "same-secret")
        wrong: list[bool] = []

        def knock() -> None:
            for _ in range(2000):
                if not provider.authentic(_head(b"same-secret")):
                    wrong.append(True)
                if provider.authentic(_head(b"wrong-secret")):
                    wrong.append(False)

        threads = [Thread(target=knock) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            provider.accept("same-secret", "b-secret")
            provider.accept("c-secret", "d-secret", "same-secret")
        assert wrong == []


class TestDescribe:
    """What an unsupported body says of itself, for the log."""

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (
                '{"RecordType":"Click","Recipient":"Ada@x.org","MessageID":"m-1"}',
                Unsupported("Click", "Ada@x.org", "m-1"),
            ),
            (
                '{"RecordType":"Bounce","Email":"ada@x.org","MessageID":"m-1"}',
                Unsupported("Bounce", "ada@x.org", "m-1"),
            ),
            (
                '{"Email":"bea@x.org","Recipient":"ada@x.org"}',
                Unsupported(None, "ada@x.org", None),
            ),
            (
                '{"RecordType":1,"Recipient":null,"Email":["a"],"MessageID":{"a":1}}',
                Unsupported(),
            ),
            ('{"RecordType":"Delivery","DeliveredAt":"never"}', Unsupported("Delivery")),
            ("{}", Unsupported()),
            ("[]", Unsupported()),
            ("", Unsupported()),
            ('{"RecordType":"Click"', Unsupported()),
            ("[" * 100_000, Unsupported()),
        ],
        ids=range(10),
    )
    def test_as_far_as_it_can_be_read(self, body: str, said: Unsupported) -> None:
        """The fields that are text are told, the address by either name; all else is None."""
        assert Postmark(SECRET).describe(body.encode()) == said

    @relaxed
    @given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8")))
    def test_never_raises(self, body: bytes) -> None:
        """Whatever the bytes, something is said."""
        for posted in (body, b'{"RecordType":"' + body + b'","MessageID":"' + body + b'"}'):
            assert isinstance(Postmark(SECRET).describe(posted), Unsupported)


DELIVERY = """{
  "RecordType": "Delivery",
  "MessageStream": "bulk",
  "ServerID": 771204,
  "MessageID": "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901",
  "Recipient": "ada@example.com",
  "Tag": "spring-letter",
  "DeliveredAt": "2026-03-04T05:06:07.1234567Z",
  "Details": "smtp;250 2.0.0 accepted for relay q7-0419",
  "Metadata": {"edition": "17", "cohort": "b"}
}"""

OPEN = """{
  "RecordType": "Open",
  "MessageStream": "bulk",
  "ServerID": 771204,
  "FirstOpen": true,
  "MessageID": "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901",
  "Recipient": "ada@example.com",
  "Tag": "spring-letter",
  "ReceivedAt": "2026-03-04T02:30:00.2493688-04:00",
  "Platform": "Desktop",
  "ReadSeconds": 11,
  "UserAgent": "ExampleMail/9.1 (TestOS 4)",
  "Client": {"Name": "ExampleMail 9.1", "Company": "Example Co", "Family": "ExampleMail"},
  "OS": {"Name": "TestOS 4", "Company": "Example Co", "Family": "TestOS"},
  "Geo": {"CountryISOCode": "IS", "Country": "Ísland", "City": "Reykjavík", "IP": "192.0.2.7"},
  "Metadata": {}
}"""

SUPPRESSION = """{
  "RecordType": "SubscriptionChange",
  "MessageID": "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901",
  "ServerID": 771204,
  "MessageStream": "bulk",
  "ChangedAt": "2026-03-05T09:10:11.654321Z",
  "Recipient": "ada@example.com",
  "Origin": "Recipient",
  "SuppressSending": true,
  "SuppressionReason": "SpamComplaint",
  "Tag": "spring-letter",
  "Metadata": {"edition": "17"}
}"""

REACTIVATION = """{
  "RecordType": "SubscriptionChange",
  "MessageID": null,
  "ServerID": 771204,
  "MessageStream": "bulk",
  "ChangedAt": "2026-03-06T01:02:03Z",
  "Recipient": "gil@example.com",
  "Origin": "Customer",
  "SuppressSending": false,
  "SuppressionReason": null,
  "Tag": null,
  "Metadata": {}
}"""

SEND_TEST = """{
  "RecordType": "SubscriptionChange",
  "MessageID": "00000000-0000-0000-0000-000000000000",
  "ServerID": 23,
  "MessageStream": "outbound",
  "ChangedAt": "2026-03-04T05:06:07Z",
  "Recipient": "john@example.com",
  "Origin": "Recipient",
  "SuppressSending": true,
  "SuppressionReason": "HardBounce",
  "Tag": "welcome-email",
  "Metadata": {"example": "value", "example_2": "value"}
}"""


def _change(source: str, **fields: object) -> str:
    """Return the payload with fields set to other values, or taken out: `...`."""
    payload = json.loads(source) | fields
    return json.dumps({name: value for name, value in payload.items() if value is not ...})


def _raw(source: str, **fields: str) -> str:
    """Return the payload with further fields at its end, in JSON as given."""
    added = "".join(f', "{name}": {value}' for name, value in fields.items())
    return source.rstrip().removesuffix("}") + added + "}"


class TestPayloads:
    """What the provider sends, in its own shapes."""

    @pytest.mark.parametrize(
        ("body", "notification"),
        [
            pytest.param(
                DELIVERY,
                Delivered(ADA, MESSAGE, _at("2026-03-04T05:06:07.123457Z")),
                id="delivery",
            ),
            pytest.param(OPEN, Opened(ADA, MESSAGE, _at("2026-03-04T06:30:00.249369Z")), id="open"),
            pytest.param(
                SUPPRESSION,
                Suppressed(ADA, MESSAGE, _at("2026-03-05T09:10:11.654321Z"), "SpamComplaint"),
                id="suppression",
            ),
            pytest.param(
                REACTIVATION,
                Reactivated("gil@example.com", None, _at("2026-03-06T01:02:03Z")),
                id="reactivation",
            ),
            pytest.param(
                SEND_TEST,
                Suppressed(
                    "john@example.com",
                    "00000000-0000-0000-0000-000000000000",
                    _at("2026-03-04T05:06:07Z"),
                    "HardBounce",
                ),
                id="Send test",
            ),
            pytest.param(
                '{"RecordType":"Open","ReceivedAt":"2026-03-04T06:30:00Z"}',
                Opened(None, None, _at("2026-03-04T06:30:00Z")),
                id="no more than it needs",
            ),
            pytest.param(
                '{"RecordType":"SubscriptionChange","SuppressSending":false}',
                Reactivated(None, None, None),
                id="reactivation of 2020, without a date",
            ),
            pytest.param(
                DELIVERY.replace("\n", "\r\n\t").replace(":", "\t:\n", 1),
                Delivered(ADA, MESSAGE, _at("2026-03-04T05:06:07.123457Z")),
                id="other white space",
            ),
        ],
    )
    def test_supported(self, body: str, notification: Notification) -> None:
        """A payload in one of the provider's shapes is read, with its times in UTC."""
        assert _parse(body) == notification

    @pytest.mark.parametrize(
        "body",
        [
            _change(DELIVERY, Tag=..., ServerID=..., MessageStream=...),
            _change(DELIVERY, Tag=None, Metadata=None, Details=None),
            _change(DELIVERY, Tag={"a": 1}, Metadata=[1], ServerID="x"),
            _change(DELIVERY, ServerID=..., ServerId=771204),
            _change(DELIVERY, Metadata={"RecordType": "Bounce", "Recipient": "x", "": "é"}),
            _change(DELIVERY, SuppressSending="no", SuppressionReason=3, ReceivedAt=[]),
            _raw(DELIVERY, ServerID="9" * 40),
            _raw(DELIVERY, Details='"' + "x" * 65_536 + '"'),
            json.dumps(json.loads(DELIVERY) | {f"k{number}": "v" for number in range(20_000)}),
        ],
        ids=range(9),
    )
    def test_other_fields(self, body: str) -> None:
        """Fields that do not count may be missing, null, of any type, or many."""
        assert _parse(body) == Delivered(ADA, MESSAGE, _at("2026-03-04T05:06:07.123457Z"))

    @pytest.mark.parametrize(
        "recipient",
        [
            "bea+news@example.org",
            "zoë.müller@example.net",
            "dora@xn--exmple-cua.example",
            " ADA@Example.com ",
            "Ada <ada@example.com>",
            "ada@example.com' OR '1'='1",
            "ada@example.com\0",
            "",
            pytest.param("a" * 1000, id="long"),
        ],
    )
    def test_addresses_as_they_came(self, recipient: str) -> None:
        """A recipient and a message id are any text, and are neither trimmed nor judged here."""
        body = _change(DELIVERY, Recipient=recipient, MessageID=recipient)
        escaped = _parse(body)
        assert escaped == _parse(json.dumps(json.loads(body), ensure_ascii=False))
        assert escaped == Delivered(recipient, recipient, _at("2026-03-04T05:06:07.123457Z"))

    @pytest.mark.parametrize(
        "value", [..., None, 0, 7, 1.5, True, [ADA], {"Email": ADA}, 10**30], ids=repr
    )
    def test_no_address(self, value: object) -> None:
        """A recipient or message id that is not a text is none."""
        at = _at("2026-03-04T05:06:07.123457Z")
        assert _parse(_change(DELIVERY, Recipient=value)) == Delivered(None, MESSAGE, at)
        assert _parse(_change(DELIVERY, MessageID=value)) == Delivered(ADA, None, at)

    @pytest.mark.parametrize(
        "reason", ["HardBounce", "ManualSupression", "x", " x ", "理由", "😀"], ids=repr
    )
    def test_reason_verbatim(self, reason: str) -> None:
        """A reason is kept as it came, whether it is known or not."""
        notification = _parse(_change(SUPPRESSION, SuppressionReason=reason))
        assert isinstance(notification, Suppressed)
        assert notification.reason == reason

    @pytest.mark.parametrize("reason", [..., None, "", " ", 1, [], "HardBounce", "\0"], ids=repr)
    def test_reason_of_a_reactivation(self, reason: object) -> None:
        """Whatever reason a reactivation gives, it needs none."""
        notification = _parse(_change(REACTIVATION, SuppressionReason=reason))
        assert notification == Reactivated("gil@example.com", None, _at("2026-03-06T01:02:03Z"))

    @pytest.mark.parametrize(
        "changed_at", [..., None, "", "yesterday", "2026-03-05", 1, True, []], ids=repr
    )
    def test_changed_at_is_no_need(self, changed_at: object) -> None:
        """A change without a time that can be read is a change all the same."""
        suppressed = _parse(_change(SUPPRESSION, ChangedAt=changed_at))
        reactivated = _parse(_change(REACTIVATION, ChangedAt=changed_at))
        assert suppressed == Suppressed(ADA, MESSAGE, None, "SpamComplaint")
        assert reactivated == Reactivated("gil@example.com", None, None)


class TestUnsupported:
    @pytest.mark.parametrize(
        "record_type",
        [
            ...,
            None,
            "",
            "Bounce",
            "SpamComplaint",
            "Click",
            "Inbound",
            "SMTPApiError",
            "InboxPlacement",
            "delivery",
            "OPEN",
            " Delivery",
            "Delivery\0",
            "Оpen",  # noqa: RUF001 - Cyrillic
            1,
            True,
            ["Delivery"],
            {"Delivery": 1},
        ],
        ids=repr,
    )
    def test_record_type(self, record_type: object) -> None:
        """Any other record type is not supported, whatever else the payload has."""
        everything = json.loads(DELIVERY) | json.loads(OPEN) | json.loads(SUPPRESSION)
        assert _parse(_change(json.dumps(everything), RecordType=record_type)) is None

    @pytest.mark.parametrize("key", ["recordType", "recordtype", "record_type", "RECORDTYPE"])
    def test_key_of_the_record_type(self, key: str) -> None:
        """A key counts only as the provider spells it."""
        assert _parse(_change(DELIVERY, RecordType=..., **{key: "Delivery"})) is None

    @pytest.mark.parametrize("key", ["deliveredAt", "delivered_at", "Deliveredat", "ReceivedAt"])
    def test_another_types_need(self, key: str) -> None:
        """The need of another type, or one spelt otherwise, does not help."""
        at = "2026-03-04T05:06:07Z"
        assert _parse(_change(DELIVERY, DeliveredAt=..., **{key: at})) is None
        assert _parse(_change(OPEN, ReceivedAt=..., DeliveredAt=at)) is None

    @pytest.mark.parametrize(
        "suppress",
        [..., None, 0, 1, 0.0, 1.0, -1, "", "true", "false", "True", [], [True], {}],
        ids=repr,
    )
    def test_suppress_sending(self, suppress: object) -> None:
        """`SuppressSending` is a JSON boolean and nothing else."""
        assert _parse(_change(SUPPRESSION, SuppressSending=suppress)) is None

    @pytest.mark.parametrize(
        "reason",
        [..., None, "", " ", "  \t\r\n", "\u00a0\u2003", "\0", "Hard\0Bounce", 1, True, ["x"], {}],
        ids=repr,
    )
    def test_reason(self, reason: object) -> None:
        """A suppression needs a reason: a text with something in it, and without NUL."""
        assert _parse(_change(SUPPRESSION, SuppressionReason=reason)) is None

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b" ",
            b"null",
            b"true",
            b"0",
            b'"Delivery"',
            b"[]",
            b"{}",
            b"{",
            b'{"RecordType":"Delivery",}',
            f"[{DELIVERY}]".encode(),
            DELIVERY.encode()[:120],
            DELIVERY.encode() + b" trailing",
            DELIVERY.encode() * 2,
            b"/* x */" + DELIVERY.encode(),
            DELIVERY.replace('"', "'").encode(),
            DELIVERY.replace("771204", "NaN").encode(),
            DELIVERY.replace("771204", "-Infinity").encode(),
            DELIVERY.replace("771204", "007").encode(),
            DELIVERY.replace("spring-letter", "spring\nletter").encode(),
            DELIVERY.replace("ada@", "ada\\q@").encode(),
            DELIVERY.replace("ada@", "ada\\ud800@").encode(),
            DELIVERY.replace("ada@", "ada\\udfff@").encode(),
            DELIVERY.replace("ada@", "\xff@").encode("latin-1"),
            DELIVERY.replace("ada@", "ada\ud800@").encode("utf-8", "surrogatepass"),
            DELIVERY.encode("utf-16"),
            DELIVERY.encode("utf-32"),
            DELIVERY.encode("utf-8-sig"),
            b"RecordType=Delivery&Recipient=ada%40example.com&DeliveredAt=2026-03-04T05%3A06%3A07Z",
            b"<!doctype html><title>x</title>",
            b"\x1f\x8b\x08\x00",
        ],
        ids=range(31),
    )
    def test_form(self, body: bytes) -> None:
        """A body that is no JSON object in UTF-8 is not supported."""
        assert _parse(body) is None


class TestTwice:
    """Of a key that comes twice the last counts."""

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (_raw(DELIVERY, RecordType='"Bounce"'), None),
            (_raw(_change(DELIVERY, RecordType="Bounce"), RecordType='"Delivery"'), Delivered),
            (_raw(DELIVERY, DeliveredAt="null"), None),
            (
                _raw(_change(DELIVERY, DeliveredAt=5), DeliveredAt='"2026-03-04T05:06:07Z"'),
                Delivered,
            ),
            (_raw(REACTIVATION, SuppressSending="true", SuppressionReason='"x"'), Suppressed),
            (_raw(SUPPRESSION, SuppressSending="false"), Reactivated),
            (_raw(SUPPRESSION, SuppressionReason='" "'), None),
        ],
        ids=range(7),
    )
    def test_needs(self, body: str, kind: type[Notification] | None) -> None:
        """Which notification it is, or none, hangs on the last value of each need."""
        notification = _parse(body)
        assert type(notification) is (kind or type(None))

    def test_addresses(self) -> None:
        """Whom it is about hangs on the last value, too, though that be none."""
        body = _raw(DELIVERY, Recipient='"bea+news@example.org"', MessageID="null")
        notification = _parse(body)
        assert notification is not None
        assert notification.recipient == "bea+news@example.org"
        assert notification.message_id is None


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "at"),
        [
            pytest.param(
                "2026-03-04T05:06:07.1234561Z", _at("2026-03-04T05:06:07.123456Z"), id="7 Z"
            ),
            pytest.param(
                "2026-03-04T01:06:07.1234561-04:00",
                _at("2026-03-04T05:06:07.123456Z"),
                id="7 -04:00",
            ),
            pytest.param(
                "2026-03-04T05:06:07.123456Z", _at("2026-03-04T05:06:07.123456Z"), id="6 Z"
            ),
            pytest.param("2026-03-04T05:06:07.123Z", _at("2026-03-04T05:06:07.123000Z"), id="3 Z"),
            pytest.param("2026-03-04T05:06:39.31Z", _at("2026-03-04T05:06:39.310000Z"), id="2 Z"),
            pytest.param("2026-03-04T05:06:07.5Z", _at("2026-03-04T05:06:07.500000Z"), id="1 Z"),
            pytest.param("2026-03-04T05:06:07Z", _at("2026-03-04T05:06:07Z"), id="0 Z"),
            pytest.param("2026-03-04T01:06:07-04:00", _at("2026-03-04T05:06:07Z"), id="0 -04:00"),
            pytest.param("2026-03-04T00:06:07-05:00", _at("2026-03-04T05:06:07Z"), id="0 -05:00"),
            pytest.param("2026-03-04T10:36:07+05:30", _at("2026-03-04T05:06:07Z"), id="0 +05:30"),
            pytest.param("2026-03-04T05:06:07+00:00", _at("2026-03-04T05:06:07Z"), id="+00:00"),
            pytest.param("2026-03-04T05:06:07-00:00", _at("2026-03-04T05:06:07Z"), id="-00:00"),
            pytest.param("2026-03-04T05:06:07", _at("2026-03-04T05:06:07Z"), id="no offset is UTC"),
            pytest.param("2026-03-04t05:06:07z", _at("2026-03-04T05:06:07Z"), id="lower case"),
            pytest.param(
                "2026-03-04T05:06:07.123456789Z", _at("2026-03-04T05:06:07.123457Z"), id="9 Z"
            ),
            pytest.param(
                "2026-03-04T05:06:07." + "1" * 60 + "Z",
                _at("2026-03-04T05:06:07.111111Z"),
                id="60 Z",
            ),
            pytest.param(
                "2026-03-04T05:06:07.9999999Z", _at("2026-03-04T05:06:08Z"), id="rounds up"
            ),
            pytest.param(
                "2026-12-31T23:59:59.9999999Z", _at("2027-01-01T00:00:00Z"), id="into the next year"
            ),
            pytest.param("2024-02-29T00:00:00Z", _at("2024-02-29T00:00:00Z"), id="leap day"),
            pytest.param("0001-01-01T00:00:00Z", _at("0001-01-01T00:00:00Z"), id="first"),
            pytest.param("9999-12-31T23:59:59Z", _at("9999-12-31T23:59:59Z"), id="last"),
            pytest.param(
                "2026-03-05T05:05:07+23:59", _at("2026-03-04T05:06:07Z"), id="widest offset"
            ),
        ],
    )
    def test_read(self, text: str, at: datetime) -> None:
        """An RFC 3339 date-time is read: any number of digits, `Z`, an offset or none."""
        for notification in (
            _parse(_change(DELIVERY, DeliveredAt=text)),
            _parse(_change(OPEN, ReceivedAt=text)),
            _parse(_change(SUPPRESSION, ChangedAt=text)),
            _parse(_change(REACTIVATION, ChangedAt=text)),
        ):
            assert notification is not None
            assert notification.at == at
            assert notification.at.tzinfo is UTC

    @pytest.mark.parametrize(
        "value",
        [
            ...,
            None,
            "",
            "T",
            "now",
            True,
            False,
            1772600767,
            1772600767123,
            1.5,
            10**30,
            [],
            {"time": "2026-03-04T05:06:07Z"},
            "1772600767",
            "2026-03-04",
            "05:06:07Z",
            "2026-03-04T05:06Z",
            "2026-03-04T05Z",
            "2026-03-04T05:06:07.Z",
            "2026-03-04T05:06:07,5Z",
            "2026-03-04_05:06:07Z",
            "2026-03-04😀05:06:07Z",
            "20260304T050607Z",
            "2026-W10-3T05:06:07Z",
            "2026-063T05:06:07Z",
            "2026-3-4T05:06:07Z",
            " 2026-03-04T05:06:07Z",
            "2026-03-04T05:06:07Z ",
            "2026-03-04T05:06:07ZZ",
            "2026-03-04T05:06:07Z\0; drop",
            "2026-03-04T05:06:07 UTC",
            "2026-03-04T05:06:07-04",
            "2026-03-04T05:06:07+24:00",
            "2026-03-04T05:06:07+04:60",
            "2026-03-04T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "2026-02-30T05:06:07Z",
            "2026-02-29T05:06:07Z",
            "2026-13-01T05:06:07Z",
            "2026-00-01T05:06:07Z",
            "0000-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "-2026-03-04T05:06:07Z",
            "２０２６-03-04T05:06:07Z",  # noqa: RUF001 - wide digits
            "Wed, 04 Mar 2026 05:06:07 +0000",
            "9999-12-31T23:59:59-14:00",
            "9999-12-31T23:59:59.9999999Z",
            "0001-01-01T00:00:00+14:00",
        ],
        ids=repr,
    )
    def test_refused(self, value: object) -> None:
        """What is no RFC 3339 date-time, or does not fit a UTC one, is no time."""
        assert _parse(_change(DELIVERY, DeliveredAt=value)) is None
        assert _parse(_change(OPEN, ReceivedAt=value)) is None

    @relaxed
    @given(
        st.datetimes(
            timezones=st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
        )
    )
    def test_any_instant(self, at: datetime) -> None:
        """Every instant with an offset is read as that instant in UTC, where there is one."""
        try:
            expected = Delivered(ADA, MESSAGE, at.astimezone(UTC))
        except OverflowError:
            expected = None
        assert _parse(_change(DELIVERY, DeliveredAt=at.isoformat())) == expected


FIELDS = (
    "RecordType",
    "Recipient",
    "MessageID",
    "DeliveredAt",
    "ReceivedAt",
    "SuppressSending",
    "SuppressionReason",
    "ChangedAt",
    "Metadata",
)

_texts = st.text(st.characters())
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | _texts
    | st.sampled_from(["Delivery", "Open", "SubscriptionChange", "2026-03-04T05:06:07Z", ADA]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(_texts, children, max_size=3),
    max_leaves=6,
)


def _check(notification: Notification | None) -> None:
    """Check what everybody after `parse` relies on."""
    if notification is None:
        return
    assert type(notification.recipient) in {str, type(None)}
    assert type(notification.message_id) in {str, type(None)}
    assert notification.at is None or notification.at.tzinfo is UTC
    if isinstance(notification, Suppressed):
        assert notification.reason.strip()
        assert "\0" not in notification.reason
        assert notification.reason.encode("utf-8")
    elif not isinstance(notification, Reactivated):
        assert notification.at is not None


class TestNeverRaises:
    @relaxed
    @given(st.binary())
    def test_any_bytes(self, body: bytes) -> None:
        """Whatever the bytes, they are a notification or none."""
        _check(_parse(body))

    @relaxed
    @given(
        st.sampled_from([DELIVERY, OPEN, SUPPRESSION, REACTIVATION]),
        st.binary(max_size=4),
        st.integers(0, 1000),
        st.integers(0, 20),
    )
    def test_damaged(self, source: str, damage: bytes, place: int, lost: int) -> None:
        """A payload with a few bytes lost or replaced is a notification or none."""
        body = source.encode()
        place %= len(body)
        _check(_parse(body[:place] + damage + body[place + lost :]))

    @relaxed
    @given(
        st.sampled_from([DELIVERY, OPEN, SUPPRESSION, REACTIVATION]),
        st.dictionaries(st.sampled_from(FIELDS), _values, max_size=4),
    )
    def test_any_value_in_any_field(self, source: str, fields: dict[str, Any]) -> None:
        """Whatever JSON value a field has, the payload is a notification or none."""
        _check(_parse(_change(source, **fields)))

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("depth", [200, 5_000, 200_000])
    @pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
    def test_deep_nesting(self, field: str, depth: int, left: str, right: str) -> None:
        """Nesting of any depth is survived in every field, closed or not."""
        _check(_parse(_raw(DELIVERY, **{field: left * depth + "1" + right * depth})))
        _check(_parse(_raw(DELIVERY, **{field: left * depth})))

    @pytest.mark.parametrize("body", [b"[" * 500_000, b'{"a":' * 200_000, b'[{"":' * 100_000])
    def test_nothing_but_nesting(self, body: bytes) -> None:
        """A body of brackets is not supported."""
        assert _parse(body) is None

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize(
        "number",
        [
            "1" * 19,
            "1" * 20,
            "9" * 400,
            "9" * 5_000,
            "-" + "9" * 100_000,
            "1e999",
            "-1e999",
            "1E-999",
        ],
    )
    def test_big_numbers(self, field: str, number: str) -> None:
        """Numbers of any size are survived in every field."""
        _check(_parse(_raw(DELIVERY, **{field: number})))

    def test_shallow_enough(self) -> None:
        """Nesting that any parser takes, in a field that does not count, is no fault."""
        assert _parse(_raw(DELIVERY, Metadata="[" * 200 + "]" * 200)) is not None
