"""Which host of a URL is tried next, and for how long. Nothing here knows a driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

from hookrow.stores._errors import AccessDenied, ReadOnly, StoreError
from hookrow.stores.sql._mariadb_url import Host

RETRY_HOST = 60.0
"""Seconds for which a host that failed is tried last."""

SHORTEST_ATTEMPT = 0.05
"""Seconds that an attempt has at least."""

T = TypeVar("T")


class HostSelection:
    """The hosts of a URL, in the order in which they are tried: those that failed are last.

    All times are on the `clock`.
    """

    def __init__(self, hosts: Sequence[Host], clock: Callable[[], float] = monotonic) -> None:
        self._hosts = hosts
        self._clock = clock
        self._failed: dict[Host, float] = {}

    @property
    def has_others(self) -> bool:
        """Whether there is another host to try."""
        return len(self._hosts) > 1

    def fail(self, host: Host) -> None:
        """Try a host last from now on."""
        self._failed[host] = self._clock()

    def connect(self, attempt: Callable[[Host, float], T], until: float) -> T:
        """Return the result of the first attempt that succeeds.

        `attempt` is called with a host and with the time at which it should end: each host has a
        share of the time that is left. It may raise a `StoreError`. If no attempt succeeds, raises
        the most informative error.
        """
        hosts = sorted(self._hosts, key=self._failed_at)
        failures: list[StoreError] = []
        for number, host in enumerate(hosts):
            now = self._clock()
            if failures and now >= until:
                break
            try:
                result = attempt(host, now + share(until - now, len(hosts) - number))
            except StoreError as error:
                failures.append(error)
                self.fail(host)
            else:
                self._failed.pop(host, None)
                return result
        raise min(failures, key=lambda each: not isinstance(each, (AccessDenied, ReadOnly)))

    def _failed_at(self, host: Host) -> float:
        """Return when a host failed; 0 if it never did, or if that was long ago."""
        at = self._failed.get(host, 0.0)
        return at if self._clock() - at < RETRY_HOST else 0.0


def share(seconds: float, number: int) -> float:
    """Return the seconds for the next one of several attempts that have this time together."""
    return max(seconds / number, SHORTEST_ATTEMPT)
