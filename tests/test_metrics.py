"""Metrics: what is counted, how Prometheus reads it, and that processes count together."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import world
from command import Command, Serving, run_script
from hookrow import ConfigurationError, Postmark, Receiver, Refusal, Request, testing
from hookrow.exposition import Exposition
from hookrow.metrics import Metrics
from hookrow.notification import Arrival, Delivered, Outcome, Recorded
from hookrow.observing import Inside, attempted
from hookrow.retry import Retry
from hookrow.stores import Conflict, Rejected, Unavailable
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from test_observing import AT, SECRET, head, request, store
from wire import ask, eventually, get
from wire import request as posted

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"


@pytest.fixture
def registry() -> CollectorRegistry:
    """Make a registry."""
    return CollectorRegistry()


def values(text: bytes | str) -> dict[str, float]:
    """Read the text as Prometheus does: what is not zero, by name and labels."""
    shown = text if isinstance(text, str) else text.decode()
    return {
        f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": float(
            sample.value
        )
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_created", "_bucket"))
    }


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """Return what the page of a registry says."""
    return values(Exposition(registry)(Request(head("/metrics"), b"")).body)


def test_notifications(registry: CollectorRegistry) -> None:
    """They are counted by type and outcome, and so are groups, tries and answers."""
    receiver = Receiver(Postmark(SECRET), store(), observer=Metrics(registry))
    for each in (request(), request("eve@example.com"), Request(head(), b"{}")):
        receiver.answer(each)
    counted = shown(registry)
    assert counted["hookrow_notifications_total{outcome=recorded,type=delivered}"] == 1
    assert counted["hookrow_notifications_total{outcome=subscriber_not_found,type=delivered}"] == 1
    assert counted["hookrow_notifications_total{outcome=unsupported,type=unsupported}"] == 1
    assert counted["hookrow_attempts_total{result=committed}"] == 3
    assert counted["hookrow_group_size_count{}"] == counted["hookrow_group_size_sum{}"] == 3
    assert counted["hookrow_answer_seconds_count{}"] == 3
    assert 0 < counted["hookrow_answer_seconds_sum{}"] < 3
    assert counted["hookrow_lag_seconds_count{}"] == 2
    newest = counted["hookrow_newest_notification_timestamp_seconds{}"]
    assert abs(newest - datetime.now(UTC).timestamp()) < 60


@pytest.mark.parametrize("fault", [Unavailable(), Rejected(), KeyError()])
def test_groups_that_are_not_committed(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """A group counts when it is committed: not if it failed, nor if no store was asked."""
    observer = Metrics(registry)
    receiver = Receiver(Postmark(SECRET), store(), observer=observer)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "transaction", Mock(side_effect=fault))
        assert receiver.answer(request()).status == 503
    unlogged = Receiver(Postmark(SECRET), store(log=False), observer=observer)
    assert unlogged.answer(Request(head(), b"{}")).status == 422
    assert "hookrow_group_size_count{}" not in shown(registry)


def test_a_group_that_is_split(registry: CollectorRegistry) -> None:
    """The parts of a group that are committed one by one count as groups of one."""
    arrivals = [Arrival(Delivered(ADA, "m-1", AT), b"", AT)] * 3

    def attempt(arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        del skip_locked
        if len(arrivals) > 1:
            raise Rejected
        return [Recorded(())]

    observed = attempted(attempt, Metrics(registry))
    Retry(observed, fail=Mock(), reachable=bool, spool=Mock(), seconds=5)(arrivals)
    counted = shown(registry)
    assert counted["hookrow_group_size_count{}"] == counted["hookrow_group_size_sum{}"] == 3


def test_refusals(registry: CollectorRegistry) -> None:
    """What is refused by its head alone is counted by why."""
    receiver = Receiver(Postmark(SECRET), store(), observer=Metrics(registry))
    for each in (head("/x"), head(method="GET"), head(secret="x"), head(secret="y"), head()):
        receiver.admit(each)
    assert shown(registry) == {
        "hookrow_requests_refused_total{refusal=no_such_path}": 1,
        "hookrow_requests_refused_total{refusal=method_not_allowed}": 1,
        "hookrow_requests_refused_total{refusal=unauthentic}": 2,
    }


def test_lag(registry: CollectorRegistry) -> None:
    """It is the time since the event; where the provider's clock is ahead, none."""
    metrics = Metrics(registry)
    late = Arrival(Delivered("a", "m", AT), b"", AT + timedelta(seconds=90))
    early = replace(late, received_at=AT - timedelta(seconds=90))
    ended = metrics.recording([early, late], [None, None])
    ended([Refusal.FAILED.refused()] * 2)
    counted = shown(registry)
    assert counted["hookrow_lag_seconds_sum{}"] == 90
    assert counted["hookrow_lag_seconds_count{}"] == 2
    assert counted["hookrow_notifications_total{outcome=failed,type=delivered}"] == 2
    newest = counted["hookrow_newest_notification_timestamp_seconds{}"]
    assert newest == late.received_at.timestamp()


def test_inside(registry: CollectorRegistry) -> None:
    """What changes by itself is looked at; how often secrets matched goes on after a rotation."""
    metrics, matched, held = Metrics(registry), {0: 3, 1: 2}, store()
    Receiver(Postmark(SECRET), held).answer(request("eve@example.com"))
    metrics.look()
    metrics.watch(Inside(lambda: 7, lambda: 5, lambda: matched, held.log))
    metrics.look()
    matched |= {0: 4, 1: 2}
    metrics.look()
    matched |= {0: 1, 1: 0}
    metrics.look()
    counted = shown(registry)
    assert counted.pop("hookrow_newest_notification_timestamp_seconds{}") > AT.timestamp()
    assert counted == {
        "hookrow_backlog{}": 7,
        "hookrow_parked{}": 1,
        "hookrow_spooled{}": 5,
        "hookrow_secret_matches_total{secret=1}": 5,
        "hookrow_secret_matches_total{secret=2}": 2,
    }


@pytest.mark.parametrize("log", [True, False])
def test_a_clock_that_was_ahead(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, *, log: bool
) -> None:
    """The newest notification came no later than now, and what comes after it is newer."""
    metrics, held, now = Metrics(registry), store(log=log), AT.timestamp()
    Receiver(Postmark(SECRET), held).answer(request())  # in the real present, far ahead
    metrics.watch(Inside(int, int, dict, held.log))

    def newest(at: float) -> float:
        monkeypatch.setattr("hookrow.metrics.time", lambda: at)
        metrics.look()
        return shown(registry).get("hookrow_newest_notification_timestamp_seconds{}", 0)

    def receive(at: float) -> None:
        arrival = Arrival(None, b"", datetime.fromtimestamp(at, UTC))
        metrics.recording([arrival], [None])([Refusal.UNSUPPORTED.refused()])

    assert newest(now + 3600) == 0
    receive(now + 3600)
    assert newest(now + 3600) == now + 3600
    assert newest(now) == newest(now + 60) == now
    receive(now + 30)
    assert newest(now + 60) == now + 30


def test_late_answers(registry: CollectorRegistry) -> None:
    """An answer that the deadline gave is counted, besides how the notification ends."""
    Metrics(registry).late()
    assert shown(registry) == {"hookrow_late_answers_total{}": 1}


def test_an_outage(registry: CollectorRegistry) -> None:
    """What can be seen without the database, or without the spool's file, is seen."""

    class Away(MemoryLog):
        """Cannot be reached."""

        def count_parked(self) -> int:
            """Fail."""
            raise Unavailable

    def broken() -> int:
        raise sqlite3.OperationalError

    metrics = Metrics(registry)
    metrics.watch(Inside(lambda: 7, broken, lambda: {0: 1}, Away()))
    metrics.look()
    assert shown(registry) == {
        "hookrow_backlog{}": 7,
        "hookrow_secret_matches_total{secret=1}": 1,
    }


@pytest.mark.parametrize(
    ("error", "result"), [(None, "committed"), (Conflict(), "conflict"), (KeyError(), "fault")]
)
def test_attempts(registry: CollectorRegistry, error: Exception | None, result: str) -> None:
    """A try is counted by how it ended; what no store raises on purpose is a fault."""
    Metrics(registry).attempted([], error)
    counted = shown(registry)
    counted.pop("hookrow_group_size_count{}", None)  # of the one that is committed
    assert counted == {f"hookrow_attempts_total{{result={result}}}": 1}


def test_names_and_labels(registry: CollectorRegistry) -> None:
    """Every name begins with hookrow_; no series depends on what requests say."""
    receiver = Receiver(Postmark(SECRET), store(), observer=Metrics(registry))
    before = len(Exposition(registry)(Request(head("/metrics"), b"")).body.splitlines())
    for number in range(50):
        receiver.admit(head(f"/{number}"))
        receiver.answer(request(f"eve{number}@example.com"))
    text = Exposition(registry)(Request(head("/metrics"), b"")).body.decode()
    assert len(text.splitlines()) == before < 200
    assert all(
        name.startswith("hookrow_") for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    )
    assert "@" not in text


def test_one_receiver_a_registry(registry: CollectorRegistry) -> None:
    """A registry that has such metrics is refused, in a sentence."""
    Metrics(registry)
    with pytest.raises(ConfigurationError, match="One registry can have the metrics of one"):
        Metrics(registry)


def test_the_extra_is_missing() -> None:
    """Without the client the line that installs it is said."""
    said = run_script("""
        import sys
        sys.modules["prometheus_client"] = None
        try:
            import hookrow.metrics
        except ImportError as error:
            print(error)
    """)
    assert said == "hookrow.metrics needs an extra: pip install 'hookrow[metrics]'\n"


class TestServe:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_metrics(self, tmp_path: Path, workers: int) -> None:
        """However many processes there are, what they did together is at /metrics."""
        command = Command(tmp_path, measured=True)
        command.call("db", "upgrade")
        world.fill(f"sqlite:///{tmp_path}/hookrow.db")
        body = msgspec.json.encode(testing.delivery(ADA, ADAS, at=AT))
        with command.serving("--metrics", "--workers", workers, "--mount-path", "mail") as server:
            eventually(lambda: server.log.count("Application startup complete") == workers)
            for _ in range(40):
                assert ask(server.port, posted(body, "/mail/provider/webhooks")).status == 200
                assert ask(server.port, posted(body, "/metrics/x")).status == 404
            answer = get(server.port, "/metrics")
            assert answer.status == 200
            assert (answer.header("content-type") or "").startswith("text/plain; version=")
            counted = values(answer.body)
            assert counted["hookrow_notifications_total{outcome=recorded,type=delivered}"] == 40
            assert counted["hookrow_requests_refused_total{refusal=no_such_path}"] == 40
            assert "pid" not in answer.body.decode()
            assert len(list(command.temporary.glob("hookrow-metrics-*"))) == (workers > 1)
        assert list(command.temporary.iterdir()) == []
        assert "Traceback" not in server.log

    def test_a_worker_that_ends(self, tmp_path: Path) -> None:
        """What it did still counts; what only a living process has does not."""
        command = Command(tmp_path, measured=True)
        with command.serving("--metrics", "--workers", 2) as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            for _ in range(20):
                assert ask(server.port, posted(b"{}")).status == 422
            (folder,) = command.temporary.glob("hookrow-metrics-*")
            assert len(list(folder.glob("gauge_livesum_*.db"))) == 2
            os.kill(server.workers()[0], signal.SIGKILL)
            eventually(lambda: server.log.count("Application startup complete") == 3)
            assert len(list(folder.glob("gauge_livesum_*.db"))) == 2
            assert _unsupported(server) == 20

    def test_the_extra_is_missing(self, tmp_path: Path) -> None:
        """It says what to install, and does not start."""
        script = (
            "import sys; sys.modules['prometheus_client'] = None; "
            "from hookrow.__main__ import main; main()"
        )
        told = Command(tmp_path).execute(
            *(sys.executable, "-c", script, "serve", "--metrics"), HOOKROW_SECRET=SECRET
        )
        assert told.returncode == 1
        wanted = "Error: hookrow.metrics needs an extra: pip install 'hookrow[metrics]'\n"
        assert told.stderr == wanted

    def test_without(self, tmp_path: Path) -> None:
        """Without the option there is no such page."""
        with Command(tmp_path).serving() as server:
            assert get(server.port, "/metrics").status == 404


def _unsupported(server: Serving) -> float:
    counted = values(get(server.port, "/metrics").body)
    return counted["hookrow_notifications_total{outcome=unsupported,type=unsupported}"]
