"""The pages on hosts are followed as a newcomer would: copy, run, post, see the row."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from process import EXAMPLES, SCRIPTS

from command import Serving, clean_environment
from wire import ask, free_port, get, request

DOCS = Path(__file__).parents[2] / "docs" / "hosts"

PAGES = ["starlette", "fastapi", "litestar", "quart", "flask", "asgi", "wsgi"]


def blocks(page: str, language: str) -> list[str]:
    """Return a page's code blocks in a language, in order."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


class Shell:
    """A shell in an empty folder: it keeps what is exported, and what runs behind an `&`."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._environment = {
            **clean_environment(),
            "PATH": f"{SCRIPTS}:{clean_environment()['PATH']}",
            "HOME": str(folder),
        }
        self.serving: Serving | None = None

    def type(self, line: str) -> str:
        """Run a line; return what it prints. Of a server, wait until it answers."""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._environment[name] = value
            return ""
        if line.endswith("&"):
            self._serve(line.removesuffix("&"))
            return ""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.strip()

    def _serve(self, line: str) -> None:
        log = self._folder / "server.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                line.split(),
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.serving = Serving(process, "127.0.0.1", self._port, log)
        self.serving.wait_until_it_listens()
        get(self._port, "/")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    """The code is copied, each command is typed, and prints what stands below it.

    The application takes an email in any case for the same, as hookrow does, and knows what
    it has not sent.
    """
    [code], [session] = blocks(page, "python"), blocks(page, "console")
    (tmp_path / f"{page}_app.py").write_text(code)
    port = free_port()
    shell = Shell(tmp_path, port)
    try:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            printed = shell.type(line.replace("8000", str(port)))
            assert timeless(printed) == timeless(expected.strip())
        saved = request(b"", "/dispatches?email=Ada@EXAMPLE.com&message_id=m-2", secret=None)
        assert ask(port, saved).status == 201
        assert get(port, "/dispatches/m-2").status == 200
        assert get(port, "/dispatches/m-3").status == 404
    finally:
        if shell.serving is not None:
            shell.serving.stop()
    assert (tmp_path / "hookrow.db").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_example(page: str) -> None:
    """The code on the page is the example's, which says the same commands at its top."""
    example = (EXAMPLES / f"{page}_app.py").read_text(encoding="utf-8")
    [code], [install] = blocks(page, "python"), blocks(page, "sh")
    [session] = blocks(page, "console")
    assert example.endswith(f'"""\n\n{code}')
    assert install in example
    for line in re.findall(r"^\$ ((?:export|curl|hookrow) .*)$", session, re.MULTILINE):
        assert line in example


def test_every_page_is_in_the_table() -> None:
    """Each example has a page, and each page is listed."""
    table = (DOCS / "README.md").read_text(encoding="utf-8")
    assert {example.stem.removesuffix("_app") for example in EXAMPLES.glob("*_app.py")} == {*PAGES}
    for page in PAGES:
        assert f"]({page}.md) |" in table


def timeless(text: str) -> str:
    """Put a word in the place of every time, which is now."""
    return re.sub(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d\.\d{3,6}", r"TIME\1", text)
