"""The page on the provider's webhook: its triggers are supported, and its setting passes a test."""

import json
from contextlib import closing

from hookrow import Postmark, Receiver, testing
from hookrow.core.optional import ALWAYS
from hookrow.postmark_api.register import triggers_of
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET, post
from session import read_blocks
from times import NOON

PAGE = "docs/how-to/provider-webhook.md"

NOBODY = ("john@example.com", "00000000-0000-0000-0000-000000000000")


def test_the_enabled_triggers_are_the_supported_types() -> None:
    webhook = json.loads(read_blocks(PAGE, "json")[0])
    enabled = {name for name, trigger in webhook["Triggers"].items() if trigger["Enabled"]}
    assert enabled == set(triggers_of(ALWAYS))
    assert [header["Name"] for header in webhook["HttpHeaders"]] == ["X-Provider-Secret"]


def test_the_setting_of_the_page_passes_the_verification(sqlite_url: str) -> None:
    """A notification like that of "Send test" gets a 404 without the setting, and a 200 with it."""
    payloads = [make(*NOBODY, at=NOON) for make in (testing.delivery, testing.opening)]
    payloads.append(testing.suppression(*NOBODY, at=NOON))
    for acknowledge, expected in (
        (False, (404, "Engine::Subscriber not found")),
        (True, (200, "")),
    ):
        store = SQLStore(sqlite_url)
        with closing(Receiver(Postmark(SECRET), store, acknowledge_tests=acknowledge)) as receiver:
            assert [post(receiver, payload) for payload in payloads] == [expected] * 3
