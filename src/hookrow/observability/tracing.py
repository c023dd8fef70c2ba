"""Traces: a span for each notification, and one for each group that shared a commit.

Only OpenTelemetry's API is needed; who exports the spans is the host's to say. No
attribute has an address in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time_ns

from hookrow import __version__
from hookrow.core.log_entry import RECORD_TYPES
from hookrow.core.notification import Arrival, Outcome
from hookrow.errors import MissingExtra
from hookrow.http import RequestHead, respond
from hookrow.observability.logging import ending
from hookrow.observability.observer import Ended, Observer

try:
    from opentelemetry import context, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.observability.tracing", "tracing") from error

_PROPAGATOR = TraceContextTextMapPropagator()

_HEADERS = ("traceparent", "tracestate")
"""https://www.w3.org/TR/trace-context/"""

_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class _Seen:
    """When a request arrived, in nanoseconds since 1970, and the trace it belongs to."""

    at: int
    context: Context
    kind: SpanKind


class Tracing(Observer):
    """Makes spans: `Receiver(..., observer=Tracing())`; by default with the global provider.

    A notification's span begins when the notification arrives and ends when its answer is
    known. It belongs to the host's own span where one is at work, else to the trace that the
    request's `traceparent` names, and is linked to the span of its group.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("hookrow", __version__, tracer_provider)

    def arrived(self, head: RequestHead) -> _Seen:
        """Return when it was, and the trace."""
        if trace.get_current_span().get_span_context().is_valid:
            return _Seen(time_ns(), context.get_current(), SpanKind.INTERNAL)
        carrier = {
            name: value.decode("latin-1")
            for name in _HEADERS
            if (value := head.header(name)) is not None
        }
        return _Seen(time_ns(), _PROPAGATOR.extract(carrier, Context()), SpanKind.SERVER)

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Begin the group's span; what the host's database driver traces belongs to it."""
        group = self._tracer.start_span(
            "hookrow group", attributes={"hookrow.group.size": len(arrivals)}
        )
        token = context.attach(trace.set_span_in_context(group))

        def ended(outcomes: Sequence[Outcome]) -> None:
            context.detach(token)
            group.end()
            link = Link(group.get_span_context())
            for each in zip(arrivals, seen, outcomes, strict=True):
                self._trace(link, *each)

        return ended

    def _trace(self, link: Link, arrival: Arrival, seen: object | None, outcome: Outcome) -> None:
        if not isinstance(seen, _Seen):
            return
        kind = RECORD_TYPES.get(type(arrival.notification), "unsupported")
        span = self._tracer.start_span(
            f"hookrow {kind}",
            context=seen.context,
            kind=seen.kind,
            links=[link],
            start_time=seen.at,
            attributes={"hookrow.record_type": kind, "hookrow.request_id": arrival.request_id},
        )
        _say(span, outcome)
        span.end()


def _say(span: Span, outcome: Outcome) -> None:
    ended, status = ending(outcome), respond(outcome).status
    span.set_attributes({"hookrow.outcome": ended, "http.response.status_code": status})
    if status >= _SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR, ended))
