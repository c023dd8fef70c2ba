"""Metrics: what is counted, and how Prometheus reads it."""

from __future__ import annotations

import re
import sqlite3
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from hookrow import ConfigurationError, Postmark, Receiver, Refusal, Request
from hookrow.errors import MissingExtra
from hookrow.exposition import Exposition
from hookrow.metrics import Metrics
from hookrow.notification import Arrival, Delivered
from hookrow.observing import Inside
from hookrow.prepare import prepare
from hookrow.settings import Settings
from hookrow.stores import Conflict, Unavailable
from hookrow.stores.memory_log import MemoryLog
from small_world import AT, SECRET, head, request, store

NEWEST = "hookrow_newest_notification_timestamp_seconds{}"


@pytest.fixture
def registry() -> CollectorRegistry:
    """Return an empty registry."""
    return CollectorRegistry()


def page(registry: CollectorRegistry) -> str:
    """Return the page that Prometheus reads."""
    return Exposition(registry)(Request(head("/metrics"), b"")).body.decode()


def values(registry: CollectorRegistry) -> dict[str, float]:
    """Return the samples that are not zero, by name and labels, as Prometheus parses them."""
    return {
        f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": float(
            sample.value
        )
        for family in text_string_to_metric_families(page(registry))
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_created", "_bucket"))
    }


def test_notifications(registry: CollectorRegistry) -> None:
    """Notifications are counted by type and outcome, with their groups, attempts and times."""
    receiver = Receiver(Postmark(SECRET), store(), observer=Metrics(registry))
    for each in (request(), request("eve@example.com"), Request(head(), b"{}")):
        receiver.answer(each)
    counted = values(registry)
    assert counted["hookrow_notifications_total{outcome=recorded,type=delivered}"] == 1
    assert counted["hookrow_notifications_total{outcome=subscriber_not_found,type=delivered}"] == 1
    assert counted["hookrow_notifications_total{outcome=unsupported,type=unsupported}"] == 1
    assert counted["hookrow_attempts_total{result=committed}"] == 3
    assert counted["hookrow_group_size_count{}"] == counted["hookrow_group_size_sum{}"] == 3
    assert counted["hookrow_answer_seconds_count{}"] == 3
    assert counted["hookrow_answer_seconds_sum{}"] > 0
    assert counted["hookrow_lag_seconds_count{}"] == 2
    assert abs(counted[NEWEST] - datetime.now(UTC).timestamp()) < 60


def test_refusals_attempts_and_late_responses(registry: CollectorRegistry) -> None:
    """Refusals are counted by reason, attempts by result, and late responses."""
    metrics = Metrics(registry)
    receiver = Receiver(Postmark(SECRET), store(), observer=metrics)
    for each in (head("/x"), head(method="GET"), head(secret="x"), head(secret="y"), head()):
        receiver.admit(each)
    for error in (Conflict(), KeyError()):
        metrics.attempted([], error)
    metrics.late()
    assert values(registry) == {
        "hookrow_requests_refused_total{refusal=no_such_path}": 1,
        "hookrow_requests_refused_total{refusal=method_not_allowed}": 1,
        "hookrow_requests_refused_total{refusal=unauthentic}": 2,
        "hookrow_attempts_total{result=conflict}": 1,
        "hookrow_attempts_total{result=fault}": 1,
        "hookrow_late_answers_total{}": 1,
    }


def test_lag(registry: CollectorRegistry) -> None:
    """The lag is the time since the event, and zero if the provider's clock is ahead."""
    late = Arrival(Delivered("a", "m", AT), b"", AT + timedelta(seconds=90))
    early = replace(late, received_at=AT - timedelta(seconds=90))
    Metrics(registry).recording([early, late], [None, None])([Refusal.FAILED.refused()] * 2)
    counted = values(registry)
    assert (counted["hookrow_lag_seconds_sum{}"], counted["hookrow_lag_seconds_count{}"]) == (90, 2)
    assert counted[NEWEST] == late.received_at.timestamp()


def test_gauges_and_secrets(registry: CollectorRegistry) -> None:
    """A look sets what waits, and counts uses of secrets, also after a rotation began anew."""
    metrics, matched, held = Metrics(registry), {0: 3, 1: 2}, store()
    Receiver(Postmark(SECRET), held).answer(request("eve@example.com"))
    metrics.look()  # before there is anything to look at
    metrics.watch(Inside(lambda: 7, lambda: 5, lambda: matched, held.log))
    for changed in ({}, {0: 4, 1: 2}, {0: 1, 1: 0}):
        matched |= changed
        metrics.look()
    counted = values(registry)
    assert counted.pop(NEWEST) > AT.timestamp()
    assert counted == {
        "hookrow_backlog{}": 7,
        "hookrow_parked{}": 1,
        "hookrow_spooled{}": 5,
        "hookrow_secret_matches_total{secret=1}": 5,
        "hookrow_secret_matches_total{secret=2}": 2,
    }


def test_outage(registry: CollectorRegistry) -> None:
    """Without the database and the spool's file, a look sets the other metrics."""
    log = Mock(MemoryLog, count_parked=Mock(side_effect=Unavailable))
    spooled = Mock(side_effect=sqlite3.OperationalError)
    metrics = Metrics(registry)
    metrics.watch(Inside(lambda: 7, spooled, lambda: {0: 1}, log))
    metrics.look()
    assert values(registry) == {
        "hookrow_backlog{}": 7,
        "hookrow_secret_matches_total{secret=1}": 1,
    }


def test_names_and_labels(registry: CollectorRegistry) -> None:
    """Every name begins with `hookrow_`, and no request can add a series."""
    receiver = Receiver(Postmark(SECRET), store(), observer=Metrics(registry))
    before = len(page(registry).splitlines())
    for number in range(50):
        receiver.admit(head(f"/{number}"))
        receiver.answer(request(f"eve{number}@example.com"))
    text = page(registry)
    assert len(text.splitlines()) == before < 200
    assert "@" not in text
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert all(name.startswith("hookrow_") for name in names)


def test_one_receiver_per_registry(registry: CollectorRegistry) -> None:
    """A second receiver in a registry is refused."""
    Metrics(registry)
    with pytest.raises(ConfigurationError, match="One registry can have the metrics of one"):
        Metrics(registry)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the client, an error of the import and of `serve` shows how to install it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "hookrow.metrics")
    with pytest.raises(MissingExtra, match=r"pip install 'hookrow\[metrics\]'"):
        import_module("hookrow.metrics")
    with pytest.raises(MissingExtra, match=r"pip install 'hookrow\[metrics\]'"):
        prepare(Settings(secrets=(SECRET,), database_url="sqlite://", metrics=True))
