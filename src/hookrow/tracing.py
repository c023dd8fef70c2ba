"""OpenTelemetry traces: `Receiver(..., observer=Tracing())`."""

from hookrow.observability.tracing import Tracing

__all__ = ["Tracing"]
