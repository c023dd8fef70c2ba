"""The order in which the hosts of a URL are tried, on a clock of the test."""

from collections.abc import Callable

import pytest

from hookrow.stores._errors import AccessDenied, ReadOnly, StoreError, Unavailable
from hookrow.stores.sql._mariadb_hosts import RETRY_HOST, SHORTEST_ATTEMPT, HostSelection
from hookrow.stores.sql._mariadb_url import Host

DB1, DB2, DB3 = HOSTS = [Host(f"db{number}", 3306) for number in (1, 2, 3)]

TIME = 3.0
"""Seconds for all attempts together."""


class Site:
    """Hosts, some of which fail, after some seconds each."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.hosts = HostSelection(HOSTS, clock=lambda: self.now)
        self.failures: dict[Host, StoreError] = {}
        self.delay = 0.0
        self.attempts: list[tuple[Host, float]] = []

    def connect(self) -> Host:
        self.attempts.clear()
        return self.hosts.connect(self.attempt, self.now + TIME)

    def attempt(self, host: Host, until: float) -> Host:
        self.attempts.append((host, until - self.now))
        if failure := self.failures.get(host):
            self.now += self.delay
            raise failure
        return host

    @property
    def tried(self) -> list[Host]:
        return [host for host, _ in self.attempts]


def test_the_first_host_is_used_while_it_responds() -> None:
    site = Site()
    assert [site.connect(), site.connect()] == [DB1, DB1]
    assert HostSelection(HOSTS).has_others
    assert not HostSelection([DB1]).has_others


def test_a_host_that_failed_is_tried_last_for_a_minute() -> None:
    """Also if its session failed later; of several, the one that failed first comes first."""
    site = Site()
    site.hosts.fail(DB1)
    site.now += RETRY_HOST / 2
    site.failures = {DB2: Unavailable("gone")}
    assert (site.connect(), site.tried) == (DB3, [DB2, DB3])
    site.failures = {DB3: Unavailable("gone")}
    assert (site.connect(), site.tried) == (DB1, [DB3, DB1])
    site.hosts.fail(DB1)
    site.now += RETRY_HOST
    assert (site.connect(), site.tried) == (DB1, [DB1])


def test_a_host_that_succeeds_is_preferred_again() -> None:
    site = Site()
    site.failures = dict.fromkeys((DB2, DB3), Unavailable("gone"))
    site.hosts.fail(DB1)
    assert (site.connect(), site.tried) == (DB1, [DB2, DB3, DB1])
    assert (site.connect(), site.tried) == (DB1, [DB1])


@pytest.mark.parametrize(
    ("delay", "shares"),
    [
        (0.0, [1.0, 1.5, 3.0]),  # what a host leaves is for the others
        (1.0, [1.0, 1.0, 1.0]),
        (2.9, [1.0, SHORTEST_ATTEMPT]),  # no attempt begins when the time is over
    ],
)
def test_each_host_has_a_share_of_the_time(delay: float, shares: list[float]) -> None:
    site = Site()
    site.failures, site.delay = dict.fromkeys(HOSTS, Unavailable("gone")), delay
    with pytest.raises(Unavailable, match="gone"):
        site.connect()
    assert [seconds for _, seconds in site.attempts] == pytest.approx(shares)


@pytest.mark.parametrize("kind", [AccessDenied, ReadOnly])
def test_the_most_informative_error_is_raised(kind: Callable[[str], StoreError]) -> None:
    site = Site()
    site.failures = dict.fromkeys(HOSTS, Unavailable("gone")) | {DB2: kind("the reason")}
    with pytest.raises(StoreError, match="the reason"):
        site.connect()
