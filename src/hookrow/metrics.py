"""Prometheus metrics: `Receiver(..., observer=Metrics(registry))`."""

from hookrow.observability.metrics import Metrics, MetricsEndpoint

__all__ = ["Metrics", "MetricsEndpoint"]
