"""The endpoint that Prometheus reads, and the metrics that several processes share.

The metrics themselves are in `metrics`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from hookrow.arguments import has_members, reject
from hookrow.errors import MissingExtra
from hookrow.http import Handler, Request, RequestHead, Response, reject_call

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        generate_latest,
        multiprocess,
    )
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.metrics", "metrics") from error

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the directory in which processes share their metrics.

prometheus_client reads it on import: https://prometheus.github.io/client_python/multiprocess/
"""


class MetricsEndpoint(Handler):
    """A handler that returns the metrics in a registry, in Prometheus' text format.

    If processes share their metrics, the response covers all of them. Raises `ConfigurationError`
    for an object that is not a registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        check_registry("MetricsEndpoint", registry)
        self._registry = registry

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request, *others: object) -> Response:
        """Return the metrics."""
        if others or not isinstance(request, Request):
            return reject_call("endpoint", self, request, *others)
        registry = self._registry
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        return Response(200, generate_latest(registry), {"Content-Type": CONTENT_TYPE_LATEST})


def create_registry() -> CollectorRegistry:
    """Return a registry without metrics."""
    return CollectorRegistry()


def check_registry(name: str, registry: object) -> None:
    """Raise `ConfigurationError` if the argument of `name` is not a registry."""
    if not has_members(registry, ("register", "collect")):
        reject(f"The argument of {name}()", "a CollectorRegistry", registry, f"{name}(registry)")


@contextmanager
def shared_counts() -> Iterator[None]:
    """Let all processes that start in the block share their metrics in a temporary directory.

    A process that has already imported prometheus_client keeps separate metrics.
    """
    with TemporaryDirectory(prefix="hookrow-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def forget_process(pid: int) -> None:
    """Remove the gauges of a process that has ended, if processes share their metrics."""
    if FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call] # as above
