"""Health checks."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from unittest.mock import Mock

import pytest

from hookrow import Request, RequestHead, Response
from hookrow.diagnostics import CheckResult, Level
from hookrow.server import health
from hookrow.server.health import Liveness, Readiness
from wire import PATIENCE, TEXT

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")
READY = Response(200, b"ready\n", {"Content-Type": TEXT})
SILENT = Response(503, b"The database does not respond.\n", {"Content-Type": TEXT})


def test_a_running_process_responds() -> None:
    liveness = Liveness()
    alive = Response(200, b"ok\n", {"Content-Type": TEXT})
    assert (liveness.admit(REQUEST.head), liveness(REQUEST)) == (None, alive)


def test_readiness_is_the_result_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first error, or an exception, is a 503 that contains it; a warning is no error."""
    warning = CheckResult(Level.WARNING, "times", "It is wrong.")
    errors = [CheckResult(Level.ERROR, "tables", text) for text in ("'größe' is missing.", "")]
    check = Mock(side_effect=[[warning, *errors], [warning], LookupError, []])
    readiness = Readiness(check)
    assert readiness.admit(REQUEST.head) is None
    missing = Response(503, "'größe' is missing.\n".encode(), {"Content-Type": TEXT})
    failed = b"The check of the database failed: LookupError.\n"
    assert [readiness(REQUEST), readiness(REQUEST)] == [missing, missing]
    check.assert_called_once()  # its result is still valid
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    readiness._expires = 0.0
    responses = [readiness(REQUEST) for _ in range(3)]
    assert responses == [READY, Response(503, failed, {"Content-Type": TEXT}), READY]
    readiness.close()


def test_requests_share_a_check_and_get_503_if_it_hangs() -> None:
    """After the deadline, requests get 503; they start no other check while one is running."""
    started, end = Mock(), Event()

    def check() -> list[CheckResult]:
        started()
        assert end.wait(PATIENCE)
        return []

    readiness = Readiness(check, deadline=0.02)
    with ThreadPoolExecutor(16) as threads:
        assert [*threads.map(readiness, [REQUEST] * 64)] == [SILENT] * 64
        readiness._deadline = PATIENCE
        late = threads.submit(readiness, REQUEST)
        end.set()
        assert late.result(PATIENCE) == READY
    started.assert_called_once()
    readiness.close()


def test_no_thread_is_left() -> None:
    """If no thread can be started, or after `close`, the response is 503."""
    readiness = Readiness(Mock())
    readiness.close()
    assert readiness(REQUEST) == SILENT
