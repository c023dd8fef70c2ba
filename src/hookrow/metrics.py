"""Metrics: `Receiver(..., observer=Metrics(registry))`."""

from hookrow.observability.exposition import Exposition
from hookrow.observability.metrics import Metrics

__all__ = ["Exposition", "Metrics"]
