"""Measures a request with many events: `python bench/batches.py [--events N] [--turns N]`.

Prints how long its response takes on each host and on SQLite, in seconds: the median and the
slowest of the turns. Each event changes another dispatch. The provider is that of the tests, whose
bodies are decoded and encoded by the standard library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from http import HTTPStatus
from io import BytesIO
from itertools import count
from statistics import median
from time import perf_counter
from unittest.mock import patch

from django.core.handlers.wsgi import WSGIRequest

from data import BASE, subscribers
from environment import ROOT, SQLITE, databases
from hookrow import Receiver, Request, RequestHead
from hookrow.stores.sql import SQLStore

sys.path.append(str(ROOT / "tests" / "hosts"))  # `environment` has added the path of the tests
from drivers import HOSTS, MOUNT, mounted

import django_host
import wire
from courier import Courier, event, signed
from hookrow.django import store
from hookrow.django._receiver import BatchReceiver, SyncReceiver
from hookrow.django._views import webhooks

PATH = MOUNT + wire.ENDPOINT

Send = Callable[[bytes], int]
"""Sends the body of a request; returns the status of its response."""


def batches(events: int) -> Iterator[bytes]:
    """Yield bodies that have new events about the same dispatches."""
    for turn in count():
        yield signed(
            *(
                event(
                    "",
                    id=f"{turn} {number}",
                    to=f"subscriber-{BASE + number % subscribers(events)}@example.com",
                    message=f"b7bc2f4a-e38e-4336-9af7-{BASE + number}",
                )
                for number in range(events)
            )
        )


@contextmanager
def directly(url: str) -> Iterator[Send]:
    """Record in the calling thread."""
    with closing(SQLStore(url)) as store, closing(Receiver(Courier(), store)) as receiver:
        head = RequestHead("POST", wire.ENDPOINT, ())
        yield lambda body: receiver.record_directly(Request(head, body)).status


@contextmanager
def over_http(host: str, url: str) -> Iterator[Send]:
    """Post to a host in this process."""
    mount_path = MOUNT if host == "direct" else ""
    with (
        closing(SQLStore(url)) as store,
        closing(Receiver(Courier(), store, mount_path=mount_path)) as receiver,
        mounted(host, receiver) as port,
    ):
        yield lambda body: wire.ask(port, wire.request(body, PATH)).status


@contextmanager
def in_django(url: str, *, group_commit: bool) -> Iterator[Send]:
    """Call the view of a Django project."""
    kind = BatchReceiver if group_commit else SyncReceiver
    with (
        django_host.project(url, GROUP_COMMIT=group_commit),
        closing(kind(Courier(), store())) as receiver,
        patch("hookrow.django._views.receiver", lambda: receiver),
    ):
        yield _post_to_view


def _post_to_view(body: bytes) -> int:
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": PATH, "CONTENT_LENGTH": str(len(body))}
    return webhooks(WSGIRequest({**environ, "wsgi.input": BytesIO(body)})).status_code


SUBJECTS: Mapping[str, Callable[[str], AbstractContextManager[Send]]] = {
    "record_directly": directly,
    **{host: partial(over_http, host) for host in HOSTS},
    "Django, directly": partial(in_django, group_commit=False),
    "Django, group commit": partial(in_django, group_commit=True),
}


def main() -> None:
    """Measure each host in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1000, help="of a request")
    parser.add_argument("--turns", type=int, default=9, help="requests to each host")
    options = parser.parse_args()
    bodies = batches(options.events)
    print(f"{options.events} events in a request, seconds{'median':>14}{'slowest':>9}")
    for name, subject in SUBJECTS.items():
        with databases(options.events, [SQLITE]) as created, subject(created[SQLITE].url) as send:
            taken = [_time(send, next(bodies)) for _ in range(options.turns)]
        print(f"{name:40}{median(taken):9.3f}{max(taken):9.3f}")


def _time(send: Send, body: bytes) -> float:
    began = perf_counter()
    status = send(body)
    seconds = perf_counter() - began
    assert status == HTTPStatus.OK, status
    return seconds


if __name__ == "__main__":
    main()
