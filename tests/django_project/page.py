"""The page on Django, and the projects that it shows."""

import re
import sys
from pathlib import Path

from command import Command
from session import ROOT

PAGE = "docs/how-to/hosts/django.md"

TEXT = (ROOT / PAGE).read_text(encoding="utf-8")

TRY, _, GO_ON = TEXT.partition("## Good to know")
"""The first part of the page, a new project, and the rest, a project with its own models."""

FILES = re.compile(r"^```python\n# (\S+\.py)(?:, at its end)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def start(folder: Path, text: str) -> None:
    """Create the project of a part of the page; its settings are added to Django's defaults."""
    new = ("-m", "django", "startproject", "project", ".")
    assert Command(folder).execute(sys.executable, *new).returncode == 0
    for name, code in FILES.findall(text):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        before = file.read_text() if file.name == "settings.py" else ""
        file.write_text(before + code)
