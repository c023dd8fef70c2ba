"""Health checks: what they respond, and how often the probe is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from unittest.mock import Mock

from hookrow import Head, Request, Response
from hookrow.health import Liveness, Readiness
from hookrow.promise import Promise
from wire import TEXT, eventually

REQUEST = Request(Head("GET", "/readyz", ()), b"")
PATIENCE = 30.0
READY = Response(200, b"ready\n", {"Content-Type": TEXT})


@contextmanager
def ready(probe: Callable[[], str | None], *, deadline: float = PATIENCE) -> Iterator[Readiness]:
    """Return a check of readiness; end its thread afterwards."""
    readiness = Readiness(probe, deadline=deadline)
    try:
        yield readiness
    finally:
        readiness._commit.close(PATIENCE)


def response(given: Response | Promise[Response]) -> Response:
    """Wait for the response."""
    return given.result(PATIENCE) if isinstance(given, Promise) else given


def test_liveness() -> None:
    """A living process responds 200 to everybody."""
    liveness = Liveness()
    assert liveness.admit(REQUEST.head) is None
    assert liveness(REQUEST) == Response(200, b"ok\n", {"Content-Type": TEXT})


def test_readiness() -> None:
    """The response is 200, or 503 with the fault in UTF-8, and follows each probe."""
    faults = iter(["The table 'größe' is missing.", None, "down again"])
    with ready(lambda: next(faults)) as readiness:
        assert readiness.admit(REQUEST.head) is None
        fault = "The table 'größe' is missing.\n".encode()
        assert response(readiness(REQUEST)) == Response(503, fault, {"Content-Type": TEXT})
        assert response(readiness(REQUEST)) == READY
        assert response(readiness(REQUEST)).status == 503


def test_probe_that_hangs() -> None:
    """If the probe does not return in time, the response is 503, and later 200 again."""
    go_on = Event()
    with ready(lambda: None if go_on.wait(PATIENCE) else "late", deadline=0.02) as readiness:
        late = response(readiness(REQUEST))
        assert (late.status, late.body) == (503, b"The database does not answer.\n")
        go_on.set()
        eventually(lambda: response(readiness(REQUEST)) == READY, seconds=PATIENCE)


def test_probe_that_raises() -> None:
    """If the probe raises, the response is 503, each time."""
    with ready(Mock(side_effect=LookupError)) as readiness:
        assert [response(readiness(REQUEST)).status for _ in range(2)] == [503, 503]


def test_many_requests() -> None:
    """All requests that arrive during a probe share the next one; too many get 503 at once."""
    probes, go_on = [], Event()

    def probe() -> None:
        probes.append(1)
        assert go_on.wait(PATIENCE)

    with ready(probe) as readiness:
        waiting = [readiness(REQUEST) for _ in range(5000)]
        refused = readiness(REQUEST)
        assert isinstance(refused, Response)
        assert refused.status == 503
        go_on.set()
        assert {response(each).status for each in waiting} == {200, 503}
    assert len(probes) < 5000 / 100
