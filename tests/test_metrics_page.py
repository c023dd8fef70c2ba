"""The page on metrics: what it says is so, its snippets run, and promtool takes what it offers."""

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

import world
from command import Command
from hookrow import Refusal
from hookrow.exposition import Exposition
from hookrow.http import Request
from hookrow.metrics import Metrics
from nginx import fronting
from test_observing import SECRET, head
from wire import ask, get, request, uvicorn_serving

DOCS = Path(__file__).parent.parent / "docs"
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
    return Exposition(registry)(Request(head("/metrics"), b"")).body.decode()


def families(text: str) -> dict[str, str]:
    """Return each metric's kind by its name, but for when it was made."""
    found = re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE)
    return {name: kind for name, kind in found if not name.endswith("_created")}


def expressions() -> Iterator[str]:
    """Yield what the dashboard asks, with its variables filled in."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def check(*arguments: object, given: str | None = None) -> str:
    """Run promtool; fail where it does."""
    assert PROMTOOL is not None
    command = [PROMTOOL, *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_metric_is_in_the_table(text: str) -> None:
    """Each stands there once, and each there exists."""
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == sorted(
        families(text), key=PAGE.index
    )


def test_every_label_is_in_the_table(text: str) -> None:
    """Each value of a label stands in the table."""
    values = {value for _, value in re.findall(r'(type|outcome|refusal|result)="(\w+)"', text)}
    assert {each.name.lower() for each in Refusal} <= values
    assert all(f"`{value}`" in PAGE for value in values)


def test_the_dashboard_and_the_rules_ask_for_what_there_is(text: str) -> None:
    """Every name in them is one of a metric, and each metric is on the dashboard."""
    known = families(text)
    asked = re.findall(r"\bhookrow_\w+", " ".join([*expressions(), RULES.read_text()]))
    histograms = {name for name, kind in known.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert set(asked) <= (known.keys() - histograms) | parts
    shown = " ".join(expressions())
    assert all(name in shown for name in known)


def test_the_dashboard_is_whole() -> None:
    """Panels have ids of their own and do not overlap; all ask the chosen data source."""
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at: dict[str, Any] = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not covered & places
        assert at["x"] + at["w"] <= 24
        places |= covered
        assert panel["datasource"]["uid"] == "${datasource}"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@promtool
def test_promtool_takes_the_metrics(text: str) -> None:
    """Names, kinds and units are as Prometheus recommends."""
    check("check", "metrics", given=text)


@promtool
def test_promtool_takes_the_rules() -> None:
    """They are well-formed, silent when all is well, and fire when it is not."""
    check("check", "rules", RULES)
    check("test", "rules", Path(__file__).parent / "promtool" / "alerts.yml")


@promtool
def test_promtool_takes_the_dashboard(tmp_path: Path) -> None:
    """Each of its expressions is one."""
    rules = [{"record": f"r{n}", "expr": each} for n, each in enumerate(expressions())]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check("check", "rules", file)


def test_behind_the_proxy(tmp_path: Path) -> None:
    """The page's lines for nginx pass on the webhook, and neither metrics nor health."""
    (location,) = re.findall(r"^```nginx\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with Command(tmp_path).serving("--metrics", "--mount-path", "/mail") as server:
        passing = location.replace(":8000", f":{server.port}")
        with fronting(tmp_path, server.port, passing, "return 404;") as port:
            assert ask(port, request(b"{}", "/mail/provider/webhooks")).status == 422
            for path in ("/metrics", "/mail/metrics", "/mail/../metrics", "/healthz"):
                assert get(port, path).status == 404
        assert get(server.port, "/metrics").status == 200


@pytest.mark.parametrize("number", [0, 1])
def test_the_snippets_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snippet of Python runs as it stands; the application has its page."""
    command, url = Command(tmp_path), f"sqlite:///{tmp_path}/hookrow.db"
    command.call("db", "upgrade")
    world.fill(url)
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    monkeypatch.setenv("HOOKROW_DATABASE_URL", url)
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[number], names)
    if "app" in names:
        with uvicorn_serving(names["app"]) as port:
            posted = request(b"{}", "/mail/provider/webhooks", secret=SECRET)
            assert ask(port, posted).status == 422
            assert (
                b'hookrow_notifications_total{outcome="unsupported"' in get(port, "/metrics").body
            )
    names["receiver"].close(10.0)
