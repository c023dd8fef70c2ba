"""The task that asks the provider for the status of its webhooks, for the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hookrow.concurrency import PeriodicTask
from hookrow.errors import HookrowError
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.register import triggers_of
from hookrow.postmark_api.status import Expected, read_status
from hookrow.stores import Store

ASK_EVERY = 300.0
"""In seconds."""


class ProviderWatch(PeriodicTask):
    """Reads the status every five minutes; `line` is the last one, or why there is none.

    `secrets` returns the secrets that hookrow accepts, the newest first. A status compares counts
    with the log of the `store`. Raises `ConfigurationError` as `PostmarkAPI` does.
    """

    line: str | None = None

    def __init__(
        self, token: str, address: str, store: Store, secrets: Callable[[], Sequence[str]]
    ) -> None:
        self._api = PostmarkAPI(token, address)
        self._store, self._secrets = store, secrets
        super().__init__(self._ask, seconds=ASK_EVERY, name="status of the provider")

    def _ask(self) -> None:
        expected = Expected(secrets=self._secrets(), triggers=triggers_of(self._store.recorded))
        self._api.hide(*expected.secrets)
        try:
            self.line = read_status(self._api, expected, store=self._store).summary
        except HookrowError as error:
            self.line = f"Unknown. {error}"
