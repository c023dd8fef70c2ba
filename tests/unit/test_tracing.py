"""Traces: the spans that OpenTelemetry's SDK receives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from unittest.mock import Mock

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from hookrow import Head, Postmark, Receiver, Request
from hookrow.errors import MissingExtra
from hookrow.stores import Unavailable
from hookrow.stores.memory import MemoryStore
from hookrow.tracing import Tracing
from small_world import SECRET, head, request, store

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
        """The spans that have ended, the group's before those of its notifications."""
        return self._kept.get_finished_spans()


@pytest.fixture
def traced() -> Traced:
    """Return a receiver that is traced."""
    return Traced()


def with_headers(*more: tuple[bytes, bytes]) -> Request:
    """Return a request with more headers."""
    given = request()
    headers = [*given.head.headers, *more]
    return Request(Head("POST", given.head.path, headers, request_id="r-1"), given.body)


def test_notification(traced: Traced) -> None:
    """A notification has a span from its arrival to its end, linked to the span of its group."""
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
    assert (span.parent, group.parent) == (None, None)
    assert (span.kind, span.status.status_code) == (SpanKind.SERVER, StatusCode.UNSET)
    assert (span.start_time or 0) <= (group.start_time or 0)


def test_trace_of_the_request(traced: Traced) -> None:
    """With a `traceparent` the span belongs to that trace; the group's span does not."""
    traced.receiver.answer(with_headers(TRACEPARENT, (b"tracestate", b"vendor=1")))
    group, span = traced.spans
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == f"{TRACE}-{PARENT}"
    assert span.context.trace_state.get("vendor") == "1"
    assert group.parent is None


@pytest.mark.parametrize("value", [b"00-0-0-01", b"\xff\x00"])
def test_invalid_traceparent(traced: Traced, value: bytes) -> None:
    """With an invalid `traceparent` the span begins a trace of its own."""
    assert traced.receiver.answer(with_headers((b"traceparent", value))).status == 200
    assert traced.spans[1].parent is None


def test_span_of_the_host(traced: Traced) -> None:
    """If the host traces the request, its span is the parent, whatever the `traceparent` is."""
    with traced.provider.get_tracer("host").start_as_current_span("POST") as host:
        traced.receiver.answer(with_headers(TRACEPARENT))
    group, span, _ = traced.spans
    assert span.parent == group.parent == host.get_span_context()
    assert span.kind is SpanKind.INTERNAL


def test_refused(traced: Traced) -> None:
    """A refusal is not an error of the server, and no span contains an address."""
    traced.receiver.answer(request("eve@example.com"))
    traced.receiver.answer(Request(head(), b'{"Recipient": "eve@example.com"}'))
    spans = traced.spans[1::2]
    outcomes = [(span.attributes or {})["hookrow.outcome"] for span in spans]
    assert outcomes == ["subscriber_not_found", "unsupported"]
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert not any("@" in each.to_json() for each in traced.spans)


def test_unavailable(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 is an error."""
    monkeypatch.setattr(MemoryStore, "transaction", Mock(side_effect=Unavailable))
    assert traced.receiver.answer(request()).status == 503
    assert traced.spans[1].status.status_code is StatusCode.ERROR


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the API, the error shows the command that installs it."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "hookrow.tracing")
    with pytest.raises(MissingExtra, match=r"pip install 'hookrow\[tracing\]'"):
        import_module("hookrow.tracing")
