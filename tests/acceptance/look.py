"""A page in Debian's chromium, and all that is wrong with it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Page, sync_playwright

from nginx import installed

AXE = Path(__file__).parent / "axe.min.js"

SHOTS = os.environ.get("HOOKROW_SCREENSHOTS")
"""The folder to which screenshots go, if they are wanted."""

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
            args=["--no-sandbox", "--disable-gpu"],
        )
        yield browser
        browser.close()


@dataclass(slots=True)
class Look:
    """A visitor of the pages below an address; `wrong` has what the browser complained about."""

    page: Page
    mount: str
    wrong: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def at(cls, browser: Browser, mount: str, **options: Any) -> Iterator[Self]:  # noqa: ANN401 - the browser's own
        """Look with a browser without cookies; nothing may be wrong in the end."""
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

    def shows(self, text: str) -> bool:
        """Wait until the page has the text; return whether it is visible."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found.is_visible()

    def excuse(self, text: str) -> None:
        """Forget what was wrong and contains the text."""
        self.wrong[:] = [each for each in self.wrong if text not in each]

    def violations(self) -> list[str]:
        """Return what axe has against the page that is serious."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: list[str] = self.page.evaluate(_VIOLATIONS)
        return found

    def overflows(self) -> bool:
        """Return whether the page is wider than the window."""
        wider: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wider

    def draws(self) -> list[bool]:
        """Return whether each canvas has more colours than an empty one."""
        return [canvas.evaluate(_COLOURS) > 3 for canvas in self.page.locator("canvas").all()]

    def table(self, kind: str) -> dict[str, int]:
        """Return the sums of the columns of a chart's table."""
        rows: list[list[str]] = self.page.locator(f"table[data-chart={kind}] tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent.trim()))"
        )
        names, *counts = rows
        return {names[n]: sum(int(row[n]) for row in counts) for n in range(len(names))}

    def shoot(self, name: str) -> None:
        """Keep what the window shows, if that is wanted."""
        if SHOTS:
            self.page.screenshot(path=Path(SHOTS) / f"{name}.png")

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(text)

    def _check(self, url: str) -> None:
        server = "/".join(self.mount.split("/")[:3])
        if not url.startswith(f"{server}/"):
            self.wrong.append(f"a request to {url}")
