"""Metrics: their values, and the text that Prometheus reads."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from receiving import NOON, Database, delivery, head, people, receive, request

from copying import replace
from hookrow import ConfigurationError, Postmark, Receiver, Refusal
from hookrow._core.notification import Arrival, Bounced, Delivered, Outcome, Recorded, Suppressed
from hookrow._core.result import Result
from hookrow._core.status import Finding, Status, StatusLevel, StatusSubject
from hookrow._http import ENDPOINT
from hookrow._observability.observer import Gauges
from hookrow.metrics import Metrics, MetricsEndpoint
from hookrow.stores._errors import Conflict, ReadOnly, SchemaChanged, Unavailable, Unchanged
from hookrow.stores._log import Backlog, Count, Counts
from hookrow.stores.sql._log import SQLLog
from wire import SECRET

NEWEST = "hookrow_newest_notification_timestamp_seconds{}"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(people("ada")) as database:
        yield database


@pytest.fixture
def receiver(database: Database, metrics: Metrics) -> Receiver:
    return receive(database, observer=metrics)


def page(registry: CollectorRegistry) -> str:
    """Return the text that Prometheus reads."""
    return MetricsEndpoint(registry)(request(b"")).body.decode()


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


def test_notifications_and_groups(
    registry: CollectorRegistry, database: Database, receiver: Receiver
) -> None:
    database.faults = iter([Conflict()])
    for payload in (delivery("ada"), delivery("eve"), b"{}"):
        receiver.record_directly(request(payload))
    counted = values(registry)
    assert abs(counted.pop(NEWEST) - datetime.now(UTC).timestamp()) < 60
    assert counted.pop("hookrow_response_seconds_sum{}") > 0
    assert counted.pop("hookrow_lag_seconds_sum{}") > 0
    assert counted == {
        "hookrow_notifications_total{outcome=recorded,type=delivered}": 1,
        "hookrow_notifications_total{outcome=subscriber_not_found,type=delivered}": 1,
        "hookrow_notifications_total{outcome=unsupported,type=unsupported}": 1,
        "hookrow_attempts_total{result=committed}": 3,
        "hookrow_attempts_total{result=conflict}": 1,
        "hookrow_group_size_count{}": 3,
        "hookrow_group_size_sum{}": 3,
        "hookrow_response_seconds_count{}": 3,
        "hookrow_lag_seconds_count{}": 2,
    }


def test_refusals_and_late_responses(
    registry: CollectorRegistry, receiver: Receiver, metrics: Metrics
) -> None:
    for each in (head("/x"), head(method="GET"), head(secret="x"), head(secret="y"), head()):
        receiver.admit(each)
    for error in (KeyError(), ReadOnly(), SchemaChanged(), Unchanged()):
        metrics.attempted([], error)
    metrics.late()
    assert values(registry) == {
        "hookrow_requests_refused_total{entry=,refusal=no_such_path}": 1,
        "hookrow_requests_refused_total{entry=,refusal=method_not_allowed}": 1,
        "hookrow_requests_refused_total{entry=,refusal=unauthentic}": 2,
        "hookrow_attempts_total{result=fault}": 1,
        "hookrow_attempts_total{result=unavailable}": 2,
        "hookrow_attempts_total{result=conflict}": 1,
        "hookrow_late_responses_total{}": 1,
    }


def test_refusals_by_entry(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Each count begins at zero; an unknown path is that of no entry."""
    entries = {name: Postmark(SECRET) for name in ("acme", "globex")}
    with closing(people()) as database:
        receiver = Receiver(entries, database, observer=metrics)
        counts = {
            (sample.labels["refusal"], sample.labels["entry"]): sample.value
            for family in text_string_to_metric_families(page(registry))
            for sample in family.samples
            if sample.name == "hookrow_requests_refused_total"
        }
        assert set(counts.values()) == {0}
        for path in ("", "/acme", "/globex", "/initech"):
            receiver.admit(head(ENDPOINT + path, secret="wrong"))
    refused = {
        ("no_such_path", ""): 1,
        ("unauthentic", "acme"): 2,
        ("unauthentic", "globex"): 1,
    }
    found = {
        labels: registry.get_sample_value(
            "hookrow_requests_refused_total", dict(zip(("refusal", "entry"), labels, strict=True))
        )
        for labels in counts
    }
    assert found == counts | refused
    assert {entry for refusal, entry in counts if refusal == "no_such_path"} == {""}


def test_lag_is_never_negative(registry: CollectorRegistry, metrics: Metrics) -> None:
    late = Arrival((Delivered("a", "m", NOON),), b"", NOON + timedelta(seconds=90))
    early = replace(late, received_at=NOON - timedelta(seconds=90))
    metrics.begin_group([early, late], [None, None])([Refusal.FAILED.refused()] * 2)
    counted = values(registry)
    assert (counted["hookrow_lag_seconds_sum{}"], counted["hookrow_lag_seconds_count{}"]) == (90, 2)
    assert counted[NEWEST] == late.received_at.timestamp()


def test_each_effect_of_an_event_is_counted(registry: CollectorRegistry, metrics: Metrics) -> None:
    """A suppression is also recorded if only the dispatch is missing, which the bounce needs."""
    effects = (Bounced("a", "m", NOON), Suppressed("a", "m", NOON, "HardBounce"))
    events = [Arrival(effects, b"", NOON)] * 3
    refusals = (Refusal.DISPATCH_NOT_FOUND, Refusal.SUBSCRIBER_NOT_FOUND)
    outcomes: list[Outcome] = [Recorded(()), *(each.refused() for each in refusals)]
    metrics.begin_group(events, [None] * 3)(outcomes)
    counted = values(registry)
    prefix = "hookrow_notifications_total"
    found = {name.removeprefix(prefix): counted[name] for name in counted if prefix in name}
    assert found == {
        "{outcome=recorded,type=bounced}": 1,
        "{outcome=dispatch_not_found,type=bounced}": 1,
        "{outcome=subscriber_not_found,type=bounced}": 1,
        "{outcome=recorded,type=suppressed}": 2,
        "{outcome=subscriber_not_found,type=suppressed}": 1,
    }


@pytest.mark.parametrize(("seconds", "pause"), [(0.01, 60), (2.0, 200)])
def test_totals_that_take_long_are_read_less_often(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch, seconds: float, pause: float
) -> None:
    """Reading them takes at most a hundredth of the time."""
    now = 0.0

    def counts(*_: object) -> Counts:
        nonlocal now
        now += seconds
        return Counts((), None)

    monkeypatch.setattr("hookrow._observability.metrics.monotonic", lambda: now)
    log = Mock(SQLLog, newest=lambda *_, **__: (), counts=Mock(wraps=counts))
    log.backlog.return_value = Backlog(0, None, 0)
    metrics.start(Gauges(lambda: 7, lambda: 5, dict, log))
    metrics.collect()
    for later, calls in ((pause - 1, 1), (1, 2)):
        now += later
        metrics.collect()
        assert log.counts.call_count == calls


def test_collect_reads_the_gauges(registry: CollectorRegistry, metrics: Metrics) -> None:
    matched, database = {0: 3, 1: 2}, people()
    of_entries = {None: matched, "acme": {0: 8}}
    receiver = receive(database)
    receiver.record_directly(request(delivery("eve")))
    ada = database.tables.add_subscriber("ada@example.com")
    receiver.record_directly(request(delivery("ada")))
    database.tables.add_dispatch("m-ada", ada)
    receiver.record_directly(request(delivery("ada")))
    metrics.collect()  # before there are gauges
    metrics.start(Gauges(lambda: 7, lambda: 5, lambda: of_entries, database.log))
    for changed in ({}, {0: 4, 1: 2}, {0: 1, 1: 0}):
        matched |= changed
        metrics.collect()
    unknown_subscriber = "{entry=,first_outcome=subscriber_not_found,reason=,type=Delivery}"
    unknown_dispatch = "{entry=,first_outcome=dispatch_not_found,reason=,type=Delivery}"
    counted = values(registry)
    assert counted.pop(NEWEST) > NOON.timestamp()
    assert counted == {
        "hookrow_backlog{}": 7,
        "hookrow_parked{}": 1,
        "hookrow_spooled{}": 5,
        f"hookrow_log_notifications{unknown_subscriber}": 1,
        f"hookrow_log_notifications{unknown_dispatch}": 1,
        f"hookrow_log_recovered{unknown_dispatch}": 1,
        "hookrow_secret_matches_total{entry=,secret=1}": 5,
        "hookrow_secret_matches_total{entry=,secret=2}": 2,
        "hookrow_secret_matches_total{entry=acme,secret=1}": 8,
    }


@pytest.mark.parametrize(("complete_since", "series"), [(NOON, 0), (None, 1)])
def test_totals_of_the_log_are_not_set_while_entries_are_missing(
    registry: CollectorRegistry, metrics: Metrics, complete_since: datetime | None, series: int
) -> None:
    counted = [Count(NOON, "Delivery", "", Result.RECORDED, "sendgrid", 100_000, 0)]
    log = Mock(SQLLog, newest=lambda *_, **__: ())
    log.backlog.return_value = Backlog(0, None, 0)
    log.counts.return_value = Counts(counted, complete_since)
    metrics.start(Gauges(lambda: 7, lambda: 5, dict, log))
    metrics.collect()
    assert sum(name.startswith("hookrow_log_notifications") for name in values(registry)) == series


def test_collect_without_database_and_spool(registry: CollectorRegistry, metrics: Metrics) -> None:
    log = Mock(SQLLog, backlog=Mock(side_effect=Unavailable))
    spooled = Mock(side_effect=sqlite3.OperationalError)
    metrics.start(Gauges(lambda: 7, spooled, lambda: {None: {0: 1}}, log))
    metrics.collect()
    assert values(registry) == {
        "hookrow_backlog{}": 7,
        "hookrow_secret_matches_total{entry=,secret=1}": 1,
    }


def test_no_request_adds_a_time_series(registry: CollectorRegistry, receiver: Receiver) -> None:
    before = len(page(registry).splitlines())
    for number in range(50):
        receiver.admit(head(f"/{number}"))
        receiver.record_directly(request(delivery(f"eve{number}")))
    text = page(registry)
    assert len(text.splitlines()) == before < 400
    assert "@" not in text
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert all(name.startswith("hookrow_") for name in names)


@pytest.mark.usefixtures("metrics")
def test_one_receiver_per_registry(registry: CollectorRegistry) -> None:
    with pytest.raises(ConfigurationError, match="metrics of one receiver only"):
        Metrics(registry)


def test_the_status(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Its gauges exist only if it is watched, because 0 would mean that all is well."""
    metrics.collect()
    assert "hookrow_status" not in page(registry)
    attention = Finding(StatusLevel.ATTENTION, StatusSubject.SECRETS, "", "")
    broken = Finding(StatusLevel.BROKEN, StatusSubject.SECRETS, "", "")
    writes = Finding(StatusLevel.ATTENTION, StatusSubject.WRITES, "", "")
    read = Mock(side_effect=[Status.of([attention, writes, broken]), Status()])
    metrics.watch(read)
    metrics.collect()
    assert values(registry) == {
        "hookrow_status{}": 2,
        "hookrow_finding{subject=secrets}": 2,
        "hookrow_finding{subject=writes}": 1,
    }
    metrics.collect()
    assert values(registry) == {}
    assert 'hookrow_finding{subject="writes"} 0.0' in page(registry)
    with pytest.raises(ConfigurationError, match="of one receiver only"):
        metrics.watch(read)
    with pytest.raises(ConfigurationError, match="status"):
        metrics.watch(Status())  # type: ignore[arg-type]
