"""Health checks."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from unittest.mock import Mock

import pytest

from hookrow import Request, RequestHead, Response
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics import readiness as health
from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._server.health import Liveness
from wire import PATIENCE, TEXT

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")


def response(status: int, text: str) -> Response:
    return Response(status, f"{text}\n".encode(), {"Content-Type": TEXT})


READY = response(200, "ready")
SILENT = response(503, "not ready: The database does not respond.")


def results(fault: str | None = None) -> Mock:
    """Return the results of notifications, with the fault that they show."""
    return Mock(**{"fault.return_value": fault})


def test_a_running_process_responds() -> None:
    liveness = Liveness()
    alive = Response(200, b"ok\n", {"Content-Type": TEXT})
    assert (liveness.admit(REQUEST.head), liveness(REQUEST)) == (None, alive)


def test_readiness_is_the_result_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first error, or an exception, is a 503 that contains it; a warning is no error."""
    warning = CheckResult(Level.WARNING, "times", "It is wrong.")
    errors = [CheckResult(Level.ERROR, "tables", text) for text in ("'größe' is missing.", "")]
    check = Mock(side_effect=[[warning, *errors], [warning], LookupError, []])
    readiness = ReadinessHandler(check, results())
    assert readiness.admit(REQUEST.head) is None
    missing = response(503, "not ready: 'größe' is missing.")
    failed = response(503, "not ready: The check of the database failed: LookupError.")
    assert [readiness(REQUEST), readiness(REQUEST)] == [missing, missing]
    check.assert_called_once()  # its result is still valid
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    readiness._expires = 0.0
    responses = [readiness(REQUEST) for _ in range(3)]
    assert responses == [READY, failed, READY]
    readiness.close()


def test_the_last_notifications_count_as_well() -> None:
    """At once, although the result of the check is still valid."""
    check, recent = Mock(return_value=[]), results()
    readiness = ReadinessHandler(check, recent)
    assert readiness(REQUEST) == READY
    recent.fault.return_value = "The last 3 notifications got a 503: why"
    assert readiness(REQUEST) == response(503, f"not ready: {recent.fault()}")
    recent.fault.return_value = None
    assert readiness(REQUEST) == READY
    check.assert_called_once()
    readiness.close()


def test_the_last_notifications_do_not_count_after_a_fault_that_the_check_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was their cause, or so was a database that did not respond in time."""
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    error = CheckResult(Level.ERROR, "database", "It is away.")
    check, recent = Mock(side_effect=[[], [error], [error], [], []]), results()
    readiness = ReadinessHandler(check, recent)
    for forgotten in (0, 0, 0, 1, 1):
        readiness(REQUEST)
        assert recent.forget.call_count == forgotten
    readiness.close()
    slow = ReadinessHandler(Mock(return_value=[]), recent, deadline=0.0)
    recent.forget.reset_mock()
    slow(REQUEST)
    slow._thread.submit(lambda: None).result(PATIENCE)
    slow._deadline = PATIENCE
    slow(REQUEST)
    recent.forget.assert_called_once()
    slow.close()


@pytest.mark.parametrize("fault", [None, "The disk is full."])
def test_while_the_spool_keeps_notifications_a_fault_only_needs_attention(
    fault: str | None,
) -> None:
    error = CheckResult(Level.ERROR, "database", "It is away.")
    can_spool = Mock(return_value=True)
    readiness = ReadinessHandler(
        lambda: [] if fault else [error], results(fault), can_spool=can_spool
    )
    assert readiness(REQUEST) == response(200, f"attention: {fault or error.text}")
    can_spool.return_value = False
    assert readiness(REQUEST) == response(503, f"not ready: {fault or error.text}")
    readiness.close()


def test_requests_share_a_check_and_get_503_if_it_hangs() -> None:
    """After the deadline, requests get 503; they start no other check while one is running."""
    started, end = Mock(), Event()

    def check() -> list[CheckResult]:
        started()
        assert end.wait(PATIENCE)
        return []

    readiness = ReadinessHandler(check, results(), deadline=0.02)
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
    readiness = ReadinessHandler(Mock(), results())
    readiness.close()
    assert readiness(REQUEST) == SILENT
