"""Prometheus metrics: `Receiver(..., observer=Metrics(registry))`."""

from hookrow._observability.metrics import Metrics, MetricsEndpoint

__all__ = ["Metrics", "MetricsEndpoint"]
