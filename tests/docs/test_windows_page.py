"""The page on Windows: it lists every feature that the code refuses there."""

import ast
from pathlib import Path

import hookrow
from requirements import ROOT

PAGE = (ROOT / "docs/how-to/windows.md").read_text(encoding="utf-8")


def test_every_refused_feature_is_listed() -> None:
    """With the word that names it, such as `hookrow demo` or `unix_socket`."""
    calls = [
        node
        for path in Path(hookrow.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "refuse_windows"
    ]
    features = {str(ast.literal_eval(call.args[0])) for call in calls}
    assert len(features) == 5
    table = PAGE.partition("| --- |")[2].partition("\n\n")[0]
    for feature in features:
        assert feature.rpartition("by ")[2].removeprefix("A ").strip("`") in table


def test_the_error_is_the_one_of_the_code() -> None:
    source = (ROOT / "src/hookrow/_receiver/spool.py").read_text(encoding="utf-8")
    error = PAGE.partition("```text\n")[2].partition("\n```")[0]
    feature, _, remedy = error.removesuffix(".").partition(" is not available on Windows: ")
    assert f'refuse_windows("{feature}", "{remedy}")' in source
