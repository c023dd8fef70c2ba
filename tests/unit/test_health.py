"""Health checks: what they respond to each status, and how often the database is checked."""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Event
from time import monotonic, sleep
from unittest.mock import Mock

import pytest

from engines import MEMORY
from hookrow import Request, RequestHead, Response
from hookrow._core.status import Finding, Status, StatusLevel, StatusSubject
from hookrow._diagnostics import CheckResult, Level, status_reader
from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._diagnostics.status import StatusSource
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._server.health import Liveness
from hookrow.stores.sql import SQLStore
from wire import PATIENCE, TEXT

REQUEST = Request(RequestHead("GET", "/readyz", ()), b"")
AWAY = CheckResult(Level.ERROR, "database", "It is away.")
SILENT = "The database does not respond."


def response(status: int, text: str) -> Response:
    return Response(status, f"{text}\n".encode(), {"Content-Type": TEXT})


def test_a_running_process_responds() -> None:
    liveness = Liveness()
    alive = Response(200, b"ok\n", {"Content-Type": TEXT})
    assert (liveness.admit(REQUEST.head), liveness(REQUEST)) == (None, alive)


WRITES = Finding(StatusLevel.BROKEN, StatusSubject.WRITES, "'größe' is missing.", "Add it.")
RESPONSES = Finding(StatusLevel.BROKEN, StatusSubject.RESPONSES, "The last 3 got a 503: why", "")
LOST = Finding(StatusLevel.ATTENTION, StatusSubject.RESPONSES, "1 got a 503: why", "")
SECRETS = Finding(StatusLevel.BROKEN, StatusSubject.SECRETS, "12 requests to acme", "Compare it.")
SILENCE = Finding(StatusLevel.ATTENTION, StatusSubject.SILENCE, "None arrived.", "Test it.")


@pytest.mark.parametrize(
    ("findings", "spooling", "expected"),
    [
        ([], False, response(200, "ready")),
        ([WRITES], False, response(503, "not ready: 'größe' is missing.")),
        ([SECRETS, WRITES], False, response(503, "not ready: 'größe' is missing.")),
        ([RESPONSES], False, response(503, "not ready: The last 3 got a 503: why")),
        ([RESPONSES], True, response(200, "attention: The last 3 got a 503: why")),
        # Another server would not do better, and strangers must not learn the names of entries.
        ([SECRETS, SILENCE], False, response(200, "ready\nattention: secrets, silence")),
        ([SILENCE, SILENCE, LOST], True, response(200, "ready\nattention: silence, responses")),
    ],
)
def test_readiness(findings: list[Finding], expected: Response, *, spooling: bool) -> None:
    """Only what makes this server lose notifications makes it unready."""
    readiness = ReadinessHandler(lambda: Status(findings), can_spool=lambda: spooling)
    assert readiness.admit(REQUEST.head) is None
    assert readiness(REQUEST) == expected


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        yield store


@pytest.fixture
def read(store: SQLStore) -> Iterator[Callable[..., StatusReader]]:
    """Return a function that creates a reader of a check and, if given, of a receiver's results."""
    readers = []

    def create(
        check: Callable[..., Iterable[CheckResult]], results: Mock | None = None, **options: float
    ) -> StatusReader:
        receiver = None
        if results is not None:
            spools = {"spool_state.return_value": None}
            receiver = Mock(results=results, clock=Mock(correction=timedelta(0)), **spools)
        source = StatusSource(store=store, receiver=lambda: receiver, check=check)
        readers.append(StatusReader(source, **options))
        return readers[-1]

    yield create
    for each in readers:
        each.close()


def results(
    fault: str | None = None, *, kept_at: float = -math.inf, lost_at: float = -math.inf
) -> Mock:
    """Return the results of notifications, with the fault that they show."""
    values = {"fault.return_value": fault, "losses.return_value": None}
    return Mock(**values, kept_at=kept_at, lost_after=lambda at: lost_at > at)


def reasons(read: StatusReader) -> list[str]:
    return [each.reason for each in read().findings]


def test_the_first_error_of_the_check_is_a_finding(
    read: Callable[..., StatusReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is an exception; a warning is none. The result is valid for a second."""
    warning = CheckResult(Level.WARNING, "times", "It is wrong.")
    errors = [AWAY, CheckResult(Level.ERROR, "tables", "")]
    check = Mock(side_effect=[[warning, *errors], [warning], LookupError, []])
    status = read(check)
    assert [reasons(status), reasons(status)] == [["It is away."]] * 2
    check.assert_called_once()
    monkeypatch.setattr(status._fault, "_seconds", 0.0)
    status._fault._expires = 0.0
    assert reasons(status) == []
    assert reasons(status) == ["The check of the database failed: LookupError."]
    assert reasons(status) == []


def test_the_last_notifications_count_as_well(read: Callable[..., StatusReader]) -> None:
    """At once, although the result of the check is still valid."""
    check, recent = Mock(return_value=[]), results()
    status = read(check, recent)
    assert reasons(status) == []
    recent.fault.return_value = "The last 3 notifications got a 503: why"
    assert reasons(status) == [f"{recent.fault()}."]
    recent.fault.return_value = None
    assert reasons(status) == []
    check.assert_called_once()


def test_the_last_notifications_do_not_count_after_a_fault_that_the_check_detected(
    read: Callable[..., StatusReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was their cause, or so was a database that did not respond in time."""
    monkeypatch.setattr(status_reader, "VALID_FOR", 0.0)
    check, recent = Mock(side_effect=[[], [AWAY], [AWAY], [], []]), results()
    status = read(check, recent)
    for forgotten in (0, 0, 0, 1, 1):
        status()
        assert recent.forget.call_count == forgotten
    slow = read(Mock(return_value=[]), recent, deadline=0.0)
    recent.forget.reset_mock()
    slow()
    slow._fault._thread.submit(lambda: None).result(PATIENCE)
    slow._deadline = PATIENCE
    slow()
    recent.forget.assert_called_once()


@pytest.mark.parametrize("kept", [False, True])
def test_how_often_a_write_is_rehearsed(
    read: Callable[..., StatusReader], monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """Every 30 s, because it leaves a row, and until it succeeds; never if one was recorded."""
    monkeypatch.setattr(status_reader, "VALID_FOR", 0.0)
    check = Mock(side_effect=[[], [], [], [AWAY], [AWAY], [], []])
    recent = results(kept_at=math.inf if kept else -math.inf)
    status = read(check, recent)
    status()
    status()
    status._rehearsed_at -= status_reader.REHEARSE_EVERY
    for _ in range(5):
        status()
    rehearsed = [each.args[1] for each in check.call_args_list]
    first = not kept
    assert rehearsed == [first, False, first, False, True, True, False]


def test_a_write_is_rehearsed_after_a_notification_was_lost(
    read: Callable[..., StatusReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, if the rehearsal succeeds: the notification then had its own cause."""
    monkeypatch.setattr(status_reader, "VALID_FOR", 0.0)
    now = monotonic()
    check, recent = Mock(return_value=[]), results(kept_at=now, lost_at=now + 0.001)
    status = read(check, recent)
    sleep(0.002)
    status()
    status()
    assert [each.args[1] for each in check.call_args_list] == [True, False]


def test_callers_share_a_check_that_hangs(read: Callable[..., StatusReader]) -> None:
    """After the deadline, it is a finding; no other check starts while one is running."""
    started, end = Mock(), Event()

    def check(*_: object) -> list[CheckResult]:
        started()
        assert end.wait(PATIENCE)
        return []

    status = read(check, deadline=0.02)
    with ThreadPoolExecutor(16) as threads:
        assert [*threads.map(lambda _: reasons(status), range(64))] == [[SILENT]] * 64
        status._deadline = PATIENCE
        late = threads.submit(reasons, status)
        end.set()
        assert late.result(PATIENCE) == []
    started.assert_called_once()


def test_no_thread_is_left(read: Callable[..., StatusReader]) -> None:
    """If no thread can be started, nothing is known of the database."""
    status = read(Mock())
    status._fault.close()
    assert reasons(status) == [SILENT]


def test_a_reader_that_is_closed(read: Callable[..., StatusReader]) -> None:
    """The application stops, which is not the database's fault, and the process is not ready."""
    status = read(Mock(return_value=[]))
    assert reasons(status) == []
    status.close()
    assert reasons(status) == ["The status is closed, because the application stops."]
    response_of = ReadinessHandler(status)(REQUEST)
    assert response_of.status == 503
