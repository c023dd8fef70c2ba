"""The metrics page is complete, its Python runs, and the tools accept rules, panels and example."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

import asgi_client
from engines import MEMORY
from hookrow import Postmark, Receiver, Refusal, Request, RequestHead, testing
from hookrow._core.status import Status
from hookrow._server.app import Server
from hookrow._server.settings import EntrySettings, Settings
from hookrow.metrics import Metrics, MetricsEndpoint
from hookrow.stores.sql import SQLStore
from session import ROOT, execute, read_blocks
from wire import PATIENCE, SECRET

PAGE = (ROOT / "docs/how-to/metrics.md").read_text(encoding="utf-8")
RULES = ROOT / "docs/how-to/metrics/alerts.yml"
PANELS = json.loads((ROOT / "docs/how-to/metrics/grafana.json").read_text())["panels"]
ASKED = Request(RequestHead("GET", "/metrics", ()), b"")
ALERTS = [Path(__file__).with_name(name) for name in ("alerts.yml", "alerts_of_days.yml")]
PROMTOOL, AMTOOL = shutil.which("promtool"), shutil.which("amtool")
SEVERITIES = ("warning", "critical")


@pytest.fixture
def text() -> str:
    """Return the text that Prometheus reads."""
    registry = CollectorRegistry()
    with closing(SQLStore(MEMORY)) as store:
        metrics = Metrics(registry)
        Receiver(Postmark(SECRET), store, observer=metrics)
        metrics.watch(Mock(return_value=Status()))
        metrics.collect()
    return MetricsEndpoint(registry)(ASKED).body.decode()


def kinds(text: str) -> dict[str, str]:
    """Return the type of each metric by name, without creation times."""
    types = re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE)
    return {name: kind for name, kind in types if not name.endswith("_created")}


def expressions() -> Iterator[str]:
    """Yield the expressions in the dashboard, with values for its variables."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def run(*command: object, stdin: str | None = None) -> str:
    """Run a program, which must succeed; return its output."""
    typed = list(map(str, command))
    done = subprocess.run(typed, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_table_lists_every_metric_and_label_value(text: str) -> None:
    documented = re.findall(r"^\| `(hookrow_\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(kinds(text))
    values = {
        value for _, value in re.findall(r'(type|outcome|refusal|result|subject)="(\w+)"', text)
    }
    assert {each.name.lower() for each in Refusal} <= values
    assert [value for value in values if f"`{value}`" not in PAGE] == []


def test_rules_use_existing_metrics_and_the_dashboard_uses_all(text: str) -> None:
    known, queries = kinds(text), " ".join(expressions())
    used = re.findall(r"\bhookrow_\w+", f"{queries} {RULES.read_text()}")
    histograms = {name for name, kind in known.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert set(used) <= (known.keys() - histograms) | parts
    assert [name for name in known if name not in queries] == []


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: it is in Debian's prometheus")
def test_promtool_accepts_the_rules_and_alerts_fire(text: str, tmp_path: Path) -> None:
    run(PROMTOOL, "check", "metrics", stdin=text)
    rules = [{"record": f"r{n}", "expr": each} for n, each in enumerate(expressions())]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run(PROMTOOL, "check", "rules", RULES, file)
    run(PROMTOOL, "test", "rules", *ALERTS)


def test_every_alert_is_tested_and_documented() -> None:
    """At least one test names it; the page lists all in their order."""
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = " ".join(path.read_text() for path in ALERTS)
    assert [name for name in alerts if not re.search(rf"\b{name}\b", tested)] == []
    documented = dict(re.findall(r"^\| `(Hookrow\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert list(documented) == alerts
    assert list(documented.values()) == re.findall(r"severity: (\w+)", RULES.read_text())


@pytest.mark.skipif(AMTOOL is None, reason="no amtool: it is in Debian's prometheus-alertmanager")
def test_alertmanager_accepts_the_example(tmp_path: Path) -> None:
    """Alerts reach Slack, and critical ones the mailbox as well."""
    *_, example = read_blocks("docs/how-to/metrics.md", "yaml")
    file = tmp_path / "alertmanager.yml"
    file.write_text(example)
    run(AMTOOL, "check-config", file)
    route = ("config", "routes", "test", "--config.file", file)
    received = [run(AMTOOL, *route, f"severity={each}").strip() for each in SEVERITIES]
    assert received == ["slack", "mail,slack"]


def test_every_python_block_runs(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    monkeypatch.setenv("HOOKROW_DATABASE_URL", sqlite_url)
    for block in read_blocks("docs/how-to/metrics.md", "python"):
        names = execute(block)
        if "app" in names:
            path = "/mail/provider/webhooks"
            sent = {"json": {}, "headers": testing.headers(secret=SECRET)}
            assert asgi_client.request(names["app"], "POST", path, **sent).status_code == 422
            ended = 'outcome="unsupported",type="unsupported"} 1.0'
            assert ended in asgi_client.request(names["app"], "GET", "/metrics").text
        names["receiver"].close(PATIENCE)


@pytest.mark.parametrize("metrics", [True, False])
def test_serve_has_the_endpoint_only_with_its_option(sqlite_url: str, *, metrics: bool) -> None:
    entries = [EntrySettings(credentials=(SECRET,))]
    server = Server(Settings(entries=entries, database_url=sqlite_url, metrics=metrics))
    assert ("hookrow_backlog" in asgi_client.request(server, "GET", "/metrics").text) is metrics
    server.close()
