"""The page on messages: each one is in the source, and every logged warning is on the page."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from hookrow import Refusal
from session import ROOT

PAGE = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")

_LEVELS = {"warning", "error", "critical", "exception", "log"}


@cache
def modules() -> list[ast.Module]:
    files = (ROOT / "src/hookrow").rglob("*.py")
    return [ast.parse(file.read_text(encoding="utf-8")) for file in files]


def template(node: ast.AST) -> str | None:
    """Return the text of a string with `...` in place of its values, or None for another node."""
    match node:
        case ast.Constant(value=str(text)):
            pass
        case ast.JoinedStr(values=parts):
            values = (part.value if isinstance(part, ast.Constant) else "..." for part in parts)
            text = "".join(map(str, values))
        case _:
            return None
    return shortened(re.sub(r"%[sd]", "...", text.replace("\n", " ")))


def shortened(text: str) -> str:
    """Return the text with one `...` for adjacent values, or for a value and a full stop."""
    return re.sub(r"\.{3,}", "...", text)


def logged() -> Iterator[str]:
    """Yield the literal messages that are logged as a warning or an error."""
    for node in (each for module in modules() for each in ast.walk(module)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=args):
                texts = map(template, args[:2]) if level in _LEVELS else []
                yield from [text for text in texts if text and re.search(r"[a-z] ", text)][:1]


def rows(title: str) -> list[str]:
    """Return the messages in the tables whose first column has a title."""
    tables = re.findall(rf"^\| {title} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return re.findall(r"^\| (?:\d+ )?`(.+?)` \| ", "".join(tables), re.MULTILINE)


def test_every_logged_warning_is_explained() -> None:
    assert sorted({shortened(row) for row in rows("log line")}) == sorted(set(logged()))


def test_every_response_is_explained() -> None:
    texts = {re.sub(r"\{\w+\}", "...", refusal.text) for refusal in Refusal if refusal.text}
    assert set(rows("response")) == texts


SETTINGS = {"accepted", "read_secrets", "unknown_variables"}
"""The functions whose errors and warnings are about secrets and variables."""


def test_every_error_about_secrets_and_variables_is_explained() -> None:
    nodes = [node for module in modules() for node in ast.walk(module)]
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef)]
    bodies = [each.body for each in functions if each.name in SETTINGS]
    printed = {
        text
        for node in (node for body in bodies for each in body for node in ast.walk(each))
        if isinstance(node, ast.Raise | ast.Yield)
        for text in map(template, ast.walk(node))
        if text and re.fullmatch(r"[A-Z].+\.", text)
    }
    assert len(printed) == 5
    explained = [shortened(row).removesuffix("...") for row in rows("message")]
    assert not [text for text in printed if not text.startswith(tuple(explained))]


def test_every_error_is_in_the_source() -> None:
    nodes = [node for module in modules() for node in ast.walk(module)]
    texts = {text for text in map(template, nodes) if text}
    for row in rows("message"):
        begin, end = shortened(row).removesuffix("..."), shortened(row)
        assert any(end in text or text.startswith(begin) for text in texts), row
