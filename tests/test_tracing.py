"""Traces: the spans that the SDK of OpenTelemetry gets to see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from command import run_script
from hookrow import Head, Postmark, Receiver, Request
from hookrow.promise import Promise
from hookrow.stores import Unavailable
from hookrow.stores.memory import MemoryStore
from hookrow.tracing import Tracing
from test_observing import PATIENCE, SECRET, head, request, store

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = (b"Traceparent", f"00-{TRACE}-{PARENT}-01".encode())


class Traced:
    """A receiver whose spans are kept."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.receiver = Receiver(Postmark(SECRET), store(), observer=Tracing(self.provider))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """The spans that have ended."""
        return self._kept.get_finished_spans()


@pytest.fixture
def traced() -> Traced:
    """Make one."""
    return Traced()


def with_headers(asked: Request, *more: tuple[bytes, bytes]) -> Request:
    """Return the request with more headers."""
    headers = [*asked.head.headers, *more]
    return Request(Head("POST", asked.head.path, headers, request_id="r-1"), asked.body)


def test_a_notification(traced: Traced) -> None:
    """Each has a span from its arrival to its end, linked to the span of its group."""
    traced.receiver.answer(request())
    group, span = traced.spans
    assert (group.name, span.name) == ("hookrow group", "hookrow Delivery")
    assert span.links[0].context == group.get_span_context()
    assert dict(span.attributes or {}) == {
        "hookrow.record_type": "Delivery",
        "hookrow.request_id": "r-1",
        "hookrow.outcome": "recorded",
        "http.response.status_code": 200,
    }
    assert dict(group.attributes or {}) == {"hookrow.group.size": 1}
    assert span.parent is group.parent is None
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET
    assert span.start_time is not None
    assert group.start_time is not None
    assert span.start_time <= group.start_time


def test_the_trace_of_the_request(traced: Traced) -> None:
    """With a traceparent the span belongs to that trace, with its state; the group to none."""
    traced.receiver.answer(with_headers(request(), TRACEPARENT, (b"tracestate", b"vendor=1")))
    group, span = traced.spans
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.context.trace_state.get("vendor") == "1"
    assert group.parent is None


@pytest.mark.parametrize("value", [b"", b"nonsense", b"00-0-0-01", "\u00e9".encode(), b"\xff\x00"])
def test_a_wrong_traceparent(traced: Traced, value: bytes) -> None:
    """One that is none begins a trace of its own."""
    assert traced.receiver.answer(with_headers(request(), (b"traceparent", value))).status == 200
    assert traced.spans[1].parent is None


def test_the_span_of_the_host(traced: Traced) -> None:
    """Where the host traces the request itself, its span is the parent."""
    with traced.provider.get_tracer("host").start_as_current_span("POST") as host:
        traced.receiver.answer(with_headers(request(), TRACEPARENT))
    group, span, _ = traced.spans
    assert span.parent == group.parent == host.get_span_context()
    assert span.kind is SpanKind.INTERNAL


def test_a_group(traced: Traced) -> None:
    """Notifications that share a commit have spans in their own traces, linked to one group's."""
    with closing(traced.receiver) as receiver:
        answers = [receiver(request()) for _ in range(20)]
        assert all(isinstance(each, Promise) and each.result(PATIENCE) for each in answers)
    groups = [span for span in traced.spans if span.name == "hookrow group"]
    others = [span for span in traced.spans if span not in groups]
    assert len(others) == len({span.context.trace_id for span in others}) == 20
    linked = {span.links[0].context.span_id for span in others}
    assert linked == {span.context.span_id for span in groups}


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (request("eve@example.com"), "subscriber_not_found"),
        (Request(head(), b'{"Recipient": "eve@example.com"}'), "unsupported"),
    ],
)
def test_refused(traced: Traced, asked: Request, outcome: str) -> None:
    """What is refused is no error of the server's; and nobody's address is in a span."""
    traced.receiver.answer(asked)
    span = traced.spans[1]
    assert (span.attributes or {})["hookrow.outcome"] == outcome
    assert span.status.status_code is StatusCode.UNSET
    assert not any("@" in json.dumps(json.loads(each.to_json())) for each in traced.spans)


def test_unavailable(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is answered 503 is an error."""

    def away(*_: object, **options: object) -> None:
        raise Unavailable(str(options))

    monkeypatch.setattr(MemoryStore, "transaction", away)
    assert traced.receiver.answer(request()).status == 503
    assert traced.spans[1].status.status_code is StatusCode.ERROR


def test_the_extra_is_missing() -> None:
    """Without the API the line that installs it is said."""
    said = run_script("""
        import sys
        sys.modules["opentelemetry"] = None
        try:
            import hookrow.tracing
        except ImportError as error:
            print(error)
    """)
    assert said == "hookrow.tracing needs an extra: pip install 'hookrow[tracing]'\n"
