"""A page in Debian's chromium, and all that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")

AXE = Path(__file__).parent / "axe.min.js"

SHOTS = os.environ.get("HOOKROW_SCREENSHOTS")
"""The folder to which screenshots go, where they are wanted."""

_VIOLATIONS = """() => axe.run().then(found => found.violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.nodes.map(node => node.html).join(" ")}`))"""

_INK = """canvas => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser; where there is none what needs it is skipped, but not in CI."""
    if not CHROMIUM.exists():
        reason = f"there is no {CHROMIUM}: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@dataclass(slots=True)
class Look:
    """Somebody who looks at the pages below an address; `wrong` is what the browser found so."""

    page: Page
    mount: str
    wrong: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def at(cls, browser: Browser, mount: str, **options: Any) -> Iterator[Self]:  # noqa: ANN401 - the browser's own
        """Look with a browser that nobody used before; nothing may be wrong in the end."""
        context = browser.new_context(**options)
        context.set_default_timeout(8000)
        look = cls(context.new_page(), mount)
        yield look
        context.close()
        assert not look.wrong, look.wrong

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))
        self.page.on("dialog", lambda dialog: self._note("error", f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._check(request.url))

    def open(self, place: str) -> None:
        """Go to a page."""
        self.page.goto(f"{self.mount}{place}")

    def shows(self, text: str) -> None:
        """Wait until the page has the text."""
        self.page.get_by_text(text).first.wait_for()

    def violations(self) -> list[str]:
        """Return what axe has against the page that is serious."""
        self.page.evaluate(_axe())
        found: list[str] = self.page.evaluate(_VIOLATIONS)
        return found

    def overflows(self) -> bool:
        """Tell whether the page is wider than the window."""
        wider: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wider

    def colours(self) -> list[int]:
        """Return how many colours each canvas has; an empty one has a single."""
        return [canvas.evaluate(_INK) for canvas in self.page.locator("canvas").all()]

    def table(self, kind: str) -> dict[str, list[int]]:
        """Read the figures of a chart's table."""
        rows: list[list[str]] = self.page.locator(f"table[data-chart={kind}] tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent.trim()))"
        )
        counts = zip(*rows[1:], strict=True)
        return {name: list(map(int, each)) for name, each in zip(rows[0], counts, strict=True)}

    def shoot(self, name: str) -> None:
        """Keep what the window shows, where that is wanted."""
        if SHOTS:
            self.page.screenshot(path=Path(SHOTS) / f"{name}.png")

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(text)

    def _check(self, url: str) -> None:
        server = "/".join(self.mount.split("/")[:3])
        if not url.startswith(f"{server}/"):
            self.wrong.append(f"a request to {url}")


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")
