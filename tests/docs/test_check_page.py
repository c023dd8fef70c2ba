"""docs/check.md: its terminal session prints what it shows, and its table is complete."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from pathlib import Path

import hookrow.outside
from command import Command
from hookrow import Postmark, Receiver
from hookrow.stores.memory import MemoryStore
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import SECRET

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")


def test_session(tmp_path: Path) -> None:
    """The session prints the same, except for the port and the response time."""
    (session,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    serve, *checks = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    assert serve == "hookrow serve --mount-path /mail &\n"
    receiver = Receiver(Postmark(SECRET), MemoryStore(), mount_path="/mail")
    with closing(receiver), loopback(WSGI(receiver)) as port:
        for check in checks:
            typed, _, expected = check.replace("8000", str(port)).partition("\n")
            done = Command(tmp_path).call(*shlex.split(typed)[1:], HOOKROW_SECRET=SECRET)
            assert _untimed(done.stdout) == _untimed(expected)


def _untimed(text: str) -> str:
    return re.sub(r"\d+\.\d\d s", "0 s", text)


def test_table() -> None:
    """The table explains exactly the subjects that findings can have."""
    files = Path(hookrow.outside.__file__).parent.glob("*.py")
    texts = "".join(file.read_text() for file in files)
    levels = re.findall(r'Explained\(\s*Level\.[^"]*?,\s*"(\w+)",', texts)
    returned = re.findall(r'(?:return|: \()\s*\(?\s*"(\w+)",', texts)
    named = re.findall(r'\babout = (?:Level\.\w+, )?"(\w+)"', texts)
    table = re.findall(r"^\| (`.*`) \|", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(table))) == {*levels, *returned, *named}
