"""The places where an operator reads the status of a server: pages, a probe and commands."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from subprocess import CompletedProcess

from basic_auth import basic
from command import Command, Serving
from hookrow._core.status import StatusLevel, StatusSubject
from wire import SECRET, Answer, ask, get, head

PASSWORD = "the-password-of-the-dashboard"

TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL)

FINDING = re.compile(r'^hookrow_finding\{subject="(\w+)"\} (\d)\.0$', re.MULTILINE)


@dataclass(frozen=True)
class Surfaces:
    """A running server, and the commands on its machine, which have its settings."""

    serving: Serving
    command: Command
    variables: Mapping[str, str]

    @property
    def port(self) -> int:
        return self.serving.port

    def page(self) -> str:
        """Return the text of the dashboard's overview, or of its page about an error."""
        credentials = b"Authorization: " + basic(f"hookrow:{PASSWORD}")
        answer = ask(self.port, head("/dashboard/", method="GET", secret=None, extra=[credentials]))
        return plain(unescape(TAGS.sub(" ", answer.body.decode())))

    def readiness(self) -> Answer:
        return get(self.port, "/readyz")

    def levels(self) -> Mapping[StatusSubject, StatusLevel]:
        """Return the level of each subject that has a finding, from the metrics."""
        text = get(self.port, "/metrics").body.decode()
        levels = {
            StatusSubject(subject): [*StatusLevel][int(number)]
            for subject, number in FINDING.findall(text)
        }
        assert {*levels} == {*StatusSubject}, text
        worst = max(levels.values(), key=lambda each: each.severity)
        assert f"\nhookrow_status {worst.severity}.0\n" in text
        return {subject: each for subject, each in levels.items() if each is not StatusLevel.OK}

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command."""
        return self.command.run(*arguments, **self.variables)


@contextmanager
def operated(command: Command, **variables: str) -> Iterator[Surfaces]:
    """Run a server with everything that shows the status until the block ends."""
    variables = {
        "HOOKROW_SECRET": SECRET,
        "HOOKROW_DASHBOARD": "true",
        "HOOKROW_DASHBOARD_PASSWORD": PASSWORD,
        "HOOKROW_METRICS": "true",
        **variables,
    }
    with command.serving(**variables) as serving:
        yield Surfaces(serving, command, variables)


def plain(text: str) -> str:
    """Return a text with single spaces, and without the marks of code, which pages do not show."""
    return " ".join(text.replace("`", "").split())
