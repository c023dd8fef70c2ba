"""The exposition: what a registry holds, as Prometheus reads it over HTTP.

Processes that serve the same port share their counts by files in a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from hookrow.errors import MissingExtra
from hookrow.http import Request, RequestHead, Response

try:
    from prometheus_client import CollectorRegistry, generate_latest, multiprocess
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.observability.exposition", "metrics") from error

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Of the environment: where processes share their counts, if they do. It is the client's own
variable, https://prometheus.github.io/client_python/multiprocess/, and read at its import."""


class Exposition:
    """Answers with what a registry holds, as Prometheus reads it; of all processes that share."""

    blocking = True

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def admit(self, head: RequestHead) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response:
        """Answer."""
        del request
        registry = self._registry
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        return Response(200, generate_latest(registry), {"Content-Type": CONTENT_TYPE_LATEST})


@contextmanager
def shared() -> Iterator[None]:
    """Let the processes that are started in the block share their counts, in a folder made for it.

    A process that has imported the client by then counts for itself.
    """
    with TemporaryDirectory(prefix="hookrow-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def forget_process(pid: int) -> None:
    """Leave out from now on what only a living process has; where none share, do nothing."""
    if FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call] # as above
