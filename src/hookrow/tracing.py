"""OpenTelemetry traces: `Receiver(..., observer=Tracing())`."""

from hookrow._observability.tracing import Tracing

__all__ = ["Tracing"]
