"""What a dashboard is about."""

from __future__ import annotations

from dataclasses import dataclass

from hookrow.dashboard.asking import Mistake
from hookrow.providers import Parse
from hookrow.statistics import Statistics
from hookrow.stores import Store
from hookrow.stores.log import LogReader

NO_LOG = "This store keeps no log: there are no notifications to show, and none to replay."


@dataclass(frozen=True, slots=True)
class Site:
    """A store, its figures, the provider's parser, and whether manual changes keep their body."""

    store: Store
    figures: Statistics
    parse: Parse
    keep_bodies: bool = True

    @property
    def no_log(self) -> str | None:
        """What a page says that would show more, had the store a log."""
        return NO_LOG if self.store.log is None else None

    @property
    def log(self) -> LogReader:
        """What reads the log. Raises `Mistake` where there is none."""
        if self.store.log is None:
            raise Mistake(404, NO_LOG)
        return self.store.log
