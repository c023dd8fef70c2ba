"""Traces: the spans that OpenTelemetry's SDK exports."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from receiving import NOON, delivery, people, receive, request

from hookrow import Arrival, Recorded, Suppressed
from hookrow.tracing import Tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
ADA = delivery("ada")


class Traced:
    """A receiver whose spans are kept in memory."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.database = people("ada")
        self._receiver = receive(self.database, observer=Tracing(self.provider))

    def record(self, payload: bytes | dict[str, object], **headers: str) -> int:
        """Record a notification in this thread; return the status."""
        return self._receiver.record_directly(request(payload, **headers)).status

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """The finished spans; a group's span precedes those of its notifications."""
        return self._kept.get_finished_spans()


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_notifications_span_links_to_its_groups_span(traced: Traced) -> None:
    traced.record(ADA)
    group, span = traced.spans
    assert (group.name, span.name) == ("hookrow group", "hookrow Delivery")
    assert span.links[0].context == group.get_span_context()
    assert dict(span.attributes or {}) == {
        "hookrow.record_type": "Delivery",
        "hookrow.request_id": "r-1",
        "hookrow.outcome": "recorded",
        "hookrow.status": 200,
    }
    assert dict(group.attributes or {}) == {"hookrow.group.size": 1}
    assert (span.parent, group.parent) == (None, None)
    assert (span.kind, span.status.status_code) == (SpanKind.SERVER, StatusCode.UNSET)
    assert (span.start_time or 0) <= (group.start_time or 0)


def test_a_suppression_after_a_bounce(traced: Traced) -> None:
    """The span has the type that the log has, and states that the event suppresses."""
    sent = Suppressed("ada@example.com", "m-ada", NOON, "HardBounce")
    arrival = Arrival((sent,), b"", NOON, entry="sendgrid", record_type="Bounce")
    tracing = Tracing(traced.provider)
    end = tracing.begin_group([arrival], [tracing.admitted(request(b"").head)])
    end([Recorded(())])
    _, span = traced.spans
    attributes = span.attributes or {}
    assert span.name == "hookrow Bounce"
    assert attributes["hookrow.record_type"] == "Bounce"
    assert attributes["hookrow.suppresses"] is True
    assert attributes["hookrow.entry"] == "sendgrid"


def test_a_traceparent_is_the_parent_of_the_span(traced: Traced) -> None:
    traced.record(ADA, Traceparent=TRACEPARENT, tracestate="vendor=1")
    group, span = traced.spans
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == f"{TRACE}-{PARENT}"
    assert span.context.trace_state.get("vendor") == "1"
    assert group.parent is None


@pytest.mark.parametrize("value", ["00-0-0-01", "\xff\x00"])
def test_an_invalid_traceparent_is_ignored(traced: Traced, value: str) -> None:
    assert traced.record(ADA, traceparent=value) == 200
    assert traced.spans[1].parent is None


def test_the_hosts_span_takes_precedence_over_a_traceparent(traced: Traced) -> None:
    with traced.provider.get_tracer("host").start_as_current_span("POST") as host:
        traced.record(ADA, traceparent=TRACEPARENT)
    group, span, _ = traced.spans
    assert span.parent == group.parent == host.get_span_context()
    assert span.kind is SpanKind.INTERNAL


def test_a_refusal_is_no_error_and_no_span_contains_an_address(traced: Traced) -> None:
    traced.record(delivery("eve"))
    traced.record(b'{"Recipient": "eve@example.com"}')
    spans = traced.spans[1::2]
    outcomes = [(span.attributes or {})["hookrow.outcome"] for span in spans]
    assert outcomes == ["subscriber_not_found", "unsupported"]
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert not any("@" in each.to_json() for each in traced.spans)


def test_a_503_is_an_error(traced: Traced) -> None:
    traced.database.away = True
    assert traced.record(ADA) == 503
    assert traced.spans[1].status.status_code is StatusCode.ERROR
