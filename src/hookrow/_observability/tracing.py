"""OpenTelemetry traces: a span for each notification, and a span for each group.

Only OpenTelemetry's API is required; the host configures the export of spans. No attribute
contains an email address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time_ns

from hookrow import __version__
from hookrow._arguments import has_members, reject
from hookrow._core.log_entry import RECORD_TYPES
from hookrow._core.notification import Arrival, Outcome, Suppressed, first_of
from hookrow._http import RequestHead, respond
from hookrow._observability.logging import outcome_name
from hookrow._observability.observer import GroupEnd, Observer
from hookrow.errors import MissingExtra

try:
    from opentelemetry import context, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    if error.name != "opentelemetry":
        raise
    raise MissingExtra("hookrow.tracing", "tracing") from error

_PROPAGATOR = TraceContextTextMapPropagator()

_HEADERS = ("traceparent", "tracestate")
"""The headers of W3C Trace Context: https://www.w3.org/TR/trace-context/"""

_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class _SpanStart:
    """When a request arrived, in nanoseconds since 1970, and its span's parent and kind."""

    at: int
    parent: Context
    kind: SpanKind


class Tracing(Observer):
    """Creates spans, by default with the global provider: `Receiver(..., observer=Tracing())`.

    The span of a notification starts when the request is admitted and ends when its response is
    known. Its parent is the host's current span or, if there is none, the span in the request's
    `traceparent` header. It links to the span of its group. Raises `ConfigurationError` for an
    object that is not a tracer provider.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        if tracer_provider is not None and not has_members(tracer_provider, ("get_tracer",)):
            line = "Tracing(tracer_provider), or Tracing() for the global one"
            reject("The argument of Tracing()", "a TracerProvider", tracer_provider, line)
        self._tracer = trace.get_tracer("hookrow", __version__, tracer_provider)

    def admitted(self, head: RequestHead) -> _SpanStart:
        """Return the time and the parent of the request's span."""
        if trace.get_current_span().get_span_context().is_valid:
            return _SpanStart(time_ns(), context.get_current(), SpanKind.INTERNAL)
        carrier = {
            name: value.decode("latin-1")
            for name in _HEADERS
            if (value := head.header(name)) is not None
        }
        return _SpanStart(time_ns(), _PROPAGATOR.extract(carrier, Context()), SpanKind.SERVER)

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd:
        """Start the group's span, the parent of the database driver's spans."""
        group = self._tracer.start_span(
            "hookrow group", attributes={"hookrow.group.size": len(arrivals)}
        )
        token = context.attach(trace.set_span_in_context(group))

        def end_group(outcomes: Sequence[Outcome | None]) -> None:
            context.detach(token)
            group.end()
            link = Link(group.get_span_context())
            for start, arrival, outcome in zip(contexts, arrivals, outcomes, strict=True):
                if isinstance(start, _SpanStart) and outcome is not None:
                    self._create_span(start, link, arrival, outcome)

        return end_group

    def _create_span(
        self, start: _SpanStart, link: Link, arrival: Arrival, outcome: Outcome
    ) -> None:
        record_type = arrival.record_type or RECORD_TYPES.get(
            type(first_of(arrival.notifications)), "unsupported"
        )
        attributes: dict[str, str | bool] = {
            "hookrow.record_type": record_type,
            "hookrow.request_id": arrival.request_id,
        }
        if any(isinstance(each, Suppressed) for each in arrival.notifications):
            attributes["hookrow.suppresses"] = True
        if arrival.entry is not None:
            attributes["hookrow.entry"] = arrival.entry
        span = self._tracer.start_span(
            f"hookrow {record_type}",
            context=start.parent,
            kind=start.kind,
            links=[link],
            start_time=start.at,
            attributes=attributes,
        )
        _set_outcome(span, outcome)
        span.end()


def _set_outcome(span: Span, outcome: Outcome) -> None:
    name, status = outcome_name(outcome), respond(outcome).status
    span.set_attributes({"hookrow.outcome": name, "hookrow.status": status})
    if status >= _SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR, name))
