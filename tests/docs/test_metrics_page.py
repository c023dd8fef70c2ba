"""The page on metrics is complete, its Python runs, and promtool accepts rules and dashboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hookrow import Head, Refusal, Request, testing
from hookrow.exposition import Exposition
from hookrow.metrics import Metrics
from hookrow.server import Server
from hookrow.settings import Settings
from hookrow.testing.applications import call_asgi
from wire import PATIENCE, SECRET

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
RULES = DOCS / "metrics" / "alerts.yml"
DASHBOARD = json.loads((DOCS / "metrics" / "grafana.json").read_text())
PROMTOOL = shutil.which("promtool")

promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: it is in Debian's prometheus")


@pytest.fixture
def text() -> str:
    """Return what Prometheus reads of a receiver's metrics."""
    registry = CollectorRegistry()
    Metrics(registry)
    return Exposition(registry)(Request(Head("GET", "/metrics", ()), b"")).body.decode()


def kinds(text: str) -> dict[str, str]:
    """Return the kind of each metric by its name, except for times of creation."""
    found = re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE)
    return {name: kind for name, kind in found if not name.endswith("_created")}


def expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard, with values for its variables."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def check(*arguments: object, given: str | None = None) -> str:
    """Run promtool, which has to succeed; return its output."""
    command = [str(PROMTOOL), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_table(text: str) -> None:
    """The table has every metric once, and every value of its labels."""
    documented = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(kinds(text))
    values = {value for _, value in re.findall(r'(type|outcome|refusal|result)="(\w+)"', text)}
    assert {each.name.lower() for each in Refusal} <= values
    assert [value for value in values if f"`{value}`" not in PAGE] == []


def test_dashboard_and_rules(text: str) -> None:
    """They use only metrics that exist, and the dashboard uses each."""
    known = kinds(text)
    used = re.findall(r"\bhookrow_\w+", " ".join([*expressions(), RULES.read_text()]))
    histograms = {name for name, kind in known.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert set(used) <= (known.keys() - histograms) | parts
    shown = " ".join(expressions())
    assert [name for name in known if name not in shown] == []


@promtool
def test_promtool(text: str, tmp_path: Path) -> None:
    """The metrics' names, the rules and the dashboard are valid; alerts fire when they should."""
    check("check", "metrics", given=text)
    rules = [{"record": f"r{n}", "expr": each} for n, each in enumerate(expressions())]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check("check", "rules", RULES, file)
    check("test", "rules", Path(__file__).with_name("alerts.yml"))


def read_metrics(application: Any) -> str:  # noqa: ANN401 - any ASGI application
    """Return the page of metrics of an ASGI application."""
    return call_asgi(application, Request(Head("GET", "/metrics", ()), b""), PATIENCE)[1]


def test_python(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of Python runs as it stands, and the application has the page of metrics."""
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    monkeypatch.setenv("HOOKROW_DATABASE_URL", sqlite_url)
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        names: dict[str, Any] = {}
        exec(block, names)
        if "app" in names:
            path = "/mail/provider/webhooks"
            assert testing.post(names["app"], {}, path=path, secret=SECRET)[0] == 422
            ended = 'outcome="unsupported",type="unsupported"} 1.0'
            assert ended in read_metrics(names["app"])
        names["receiver"].close(PATIENCE)


@pytest.mark.parametrize("metrics", [True, False])
def test_server(sqlite_url: str, *, metrics: bool) -> None:
    """The server has the page of metrics only with `--metrics`."""
    server = Server(Settings(secrets=(SECRET,), database_url=sqlite_url, metrics=metrics))
    assert ("hookrow_backlog" in read_metrics(server)) is metrics
    server.close()
