"""The page on the provider's webhook enables the triggers that are supported."""

import json

from hookrow._core.optional import ALWAYS
from hookrow._postmark_api.register import triggers_of
from session import read_blocks


def test_the_enabled_triggers_are_the_supported_types() -> None:
    webhook = json.loads(read_blocks("docs/how-to/provider-webhook.md", "json")[0])
    enabled = {name for name, trigger in webhook["Triggers"].items() if trigger["Enabled"]}
    assert enabled == set(triggers_of(ALWAYS))
    assert [header["Name"] for header in webhook["HttpHeaders"]] == ["X-Provider-Secret"]
