"""The pages on databases and providers list what the code supports."""

import re

from hookrow.providers._registry import PROVIDER_NAMES
from hookrow.stores.sql._dialects import DIALECTS
from session import ROOT


def read(page: str) -> str:
    return (ROOT / "docs/reference" / page).read_text(encoding="utf-8")


def test_every_provider_is_listed() -> None:
    listed = re.findall(r"^\| .* \| `(\w+)` \|", read("providers.md"), re.MULTILINE)
    assert listed == sorted(PROVIDER_NAMES)


def test_every_database_is_listed_with_its_oldest_version() -> None:
    rows = re.findall(r"^\| (\w+) \| (\d[\d.]*) \|", read("databases.md"), re.MULTILINE)
    assert dict(rows) == {
        name: ".".join(map(str, version))
        for dialect in DIALECTS.values()
        for name, version in dialect.oldest.items()
    }
