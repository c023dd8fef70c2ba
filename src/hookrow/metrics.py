"""Prometheus metrics: `Receiver(..., observer=Metrics(registry))`."""

from hookrow.observability.endpoint import MetricsEndpoint
from hookrow.observability.metrics import Metrics

__all__ = ["Metrics", "MetricsEndpoint"]
