"""The pages on hosts show the examples, and list each of them."""

from __future__ import annotations

import re

import pytest

from session import ROOT, read_blocks

EXAMPLES = ROOT / "examples"

PAGES = ["starlette", "fastapi", "litestar", "quart", "flask", "asgi", "wsgi"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_example(page: str) -> None:
    """The code on the page is the example's, which has the same commands at its top."""
    example = (EXAMPLES / f"{page}_app.py").read_text(encoding="utf-8")
    blocks = [read_blocks(f"docs/hosts/{page}.md", name) for name in ("python", "sh", "console")]
    [code], [install], [session] = blocks
    assert example.endswith(f'"""\n\n{code}')
    assert install in example
    for line in re.findall(r"^\$ ((?:export|curl|hookrow) .*)$", session, re.MULTILINE):
        assert line in example


def test_every_page_is_in_the_table() -> None:
    """Each example has a page, and each page is listed."""
    table = (ROOT / "docs" / "hosts" / "README.md").read_text(encoding="utf-8")
    assert {example.stem.removesuffix("_app") for example in EXAMPLES.glob("*_app.py")} == {*PAGES}
    for page in PAGES:
        assert f"]({page}.md) |" in table
