"""The page on messages: each one is in the source, and every response is on the page."""

import re

from hookrow import Refusal
from session import ROOT

PAGE = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")


def rows(title: str) -> list[str]:
    """Return the messages in the tables whose first column has a title."""
    tables = re.findall(rf"^\| {title} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return re.findall(r"^\| (?:\d+ )?`(.+?)` \| ", "".join(tables), re.MULTILINE)


def test_every_response_is_explained() -> None:
    texts = {re.sub(r"\{\w+\}", "...", refusal.text) for refusal in Refusal if refusal.text}
    assert set(rows("response")) == texts


def test_every_message_is_in_the_source() -> None:
    """The source contains each text between two values, once adjacent literals are joined."""
    files = (ROOT / "src/hookrow").rglob("*.py")
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    source = re.sub(r'"\s*f?"', "", source).replace("\\n", " ")
    messages = rows("log line") + rows("message")
    assert len(messages) > 60
    missing = [
        message
        for message in messages
        if not all(part.strip() in source for part in message.split("..."))
    ]
    assert missing == []
