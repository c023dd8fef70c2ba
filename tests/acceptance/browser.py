"""Pages in Debian's chromium, and the faults that it and axe report."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Page, sync_playwright

from nginx import installed

AXE = Path(__file__).parent / "axe.min.js"

NAME = "dashboard.test"
"""A name that the browser resolves to this machine, but does not regard as a loopback address."""

SCREENSHOTS = os.environ.get("HOOKROW_SCREENSHOTS")
"""The folder for screenshots; without it, none are taken."""

_VIOLATIONS = """() => axe.run().then(found => found.violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.nodes.map(node => node.html).join(" ")}`))"""

_COLOURS = """canvas => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=installed("chromium", "chromium"),
            args=["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"],
        )
        yield browser
        browser.close()


@dataclass(slots=True)
class Visitor:
    """A visitor of the pages below an address; `faults` has the browser's errors and warnings."""

    page: Page
    mount: str
    faults: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def at(cls, browser: Browser, mount: str, **options: Any) -> Iterator[Self]:  # noqa: ANN401 - the browser's own
        """Open a window without cookies; assert at the end that there are no faults."""
        context = browser.new_context(**options)
        context.set_default_timeout(8000)
        visitor = cls(context.new_page(), mount)
        yield visitor
        context.close()
        assert not visitor.faults, visitor.faults

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self._record(message.type, message.text))
        self.page.on("pageerror", lambda error: self._record("error", str(error)))
        self.page.on("dialog", lambda dialog: self._record("error", f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._check_server(request.url))

    def open(self, place: str) -> None:
        """Open a page."""
        self.page.goto(f"{self.mount}{place}")

    def shows(self, text: str) -> bool:
        """Wait until the page has the text; return whether it is visible."""
        element = self.page.get_by_text(text).first
        element.wait_for()
        return element.is_visible()

    def ignore(self, text: str) -> None:
        """Remove the faults that contain the text."""
        self.faults[:] = [each for each in self.faults if text not in each]

    def violations(self) -> list[str]:
        """Return the serious accessibility faults that axe finds."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        violations: list[str] = self.page.evaluate(_VIOLATIONS)
        return violations

    def overflows(self) -> bool:
        """Return whether the page is wider than the window."""
        wider: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wider

    def drawn_charts(self) -> list[bool]:
        """Return whether each canvas has more colours than an empty one."""
        return [canvas.evaluate(_COLOURS) > 3 for canvas in self.page.locator("canvas").all()]

    def table(self, kind: str) -> dict[str, int]:
        """Return the sums of the columns of a chart's table."""
        rows: list[list[str]] = self.page.locator(f"table[data-chart={kind}] tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent.trim()))"
        )
        names, *counts = rows
        return {names[n]: sum(int(row[n]) for row in counts) for n in range(len(names))}

    def take_screenshot(self, name: str) -> None:
        """Save a screenshot of the window, if there is a folder for it."""
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")

    def _record(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.faults.append(text)

    def _check_server(self, url: str) -> None:
        server = "/".join(self.mount.split("/")[:3])
        if not url.startswith(f"{server}/"):
            self.faults.append(f"a request to {url}")
