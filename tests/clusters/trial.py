"""Two receivers on a cluster under load. Half of the load is on 64 rows that all clients share."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from time import monotonic

from traffic import Attempt, Load, Posting, logged, longest_pause, spooled

from command import Command, Serving
from wire import eventually

HOT_ROWS = 64

DEADLINE = 5.0
"""In seconds; a server that is silent costs at most the deadline of a response, to which a busy
machine may add `SLACK`."""

SLACK = 3.0

ACKNOWLEDGED = 5.0
"""Seconds in which each notification with a 200 must be found on each server."""

SWEEPS = 180.0
"""In seconds; a notification whose rows others keep changing until its deadline is parked, and
recorded by a sweep."""

PAUSE = 0.02
"""Seconds between two requests of a client, so that the clients leave time to the servers."""


class Trial:
    """Two receivers and their load.

    `receivers` are their URLs of the database, and `url` is that of a server that accepts changes,
    for the test's own queries. Half of the load is on `hot_rows` rows; see `Load` for `pause`.
    """

    def __init__(
        self,
        receivers: Sequence[str],
        url: str,
        folder: Path,
        stack: ExitStack,
        *,
        hot_rows: int = HOT_ROWS,
        pause: float = PAUSE,
    ) -> None:
        self.loads = [
            Load(url, rows=hot_rows, shared=True, pause=pause),
            Load(url, first=1001, pause=pause),
        ]
        self.spools: list[Path] = []
        self.receivers: list[Serving] = []
        for number, address in enumerate(receivers):
            own = folder / f"receiver_{number}"
            own.mkdir()
            spool = own / "spool"
            serving = Command(own).serving("--database-url", address, "--spool", spool)
            self.receivers.append(stack.enter_context(serving))
            self.spools.append(spool)

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Post before, during and after the block, until both receivers record again."""
        ports = [each.port for each in self.receivers]
        with ExitStack() as stack:
            for load in self.loads:
                stack.enter_context(load.on(*ports))
            self.wait_until_healthy()
            yield
            self.wait_until_healthy()

    def attempts(self, receiver: int, *, since: float = 0.0) -> list[Attempt]:
        """Return the requests to a receiver since a time of `monotonic`."""
        clients = [client for load in self.loads for client in load.clients[receiver::2]]
        return [each for client in clients for each in client.attempts if each.begun >= since]

    def wait_until_healthy(self) -> None:
        """Wait until both receivers respond, and only with 200."""

        def is_healthy() -> bool:
            begun = monotonic()
            time.sleep(0.5)
            statuses = [
                {each.status for each in self.attempts(number, since=begun)}
                for number in range(len(self.receivers))
            ]
            return all(each == {200} for each in statuses)

        eventually(is_healthy, seconds=60)

    def drain(self) -> None:
        """Wait until the spools are empty."""
        for spool in self.spools:
            eventually(partial(_is_empty, spool), seconds=60)

    def check(self, *copies: str) -> float:
        """Assert that all notifications are recorded, except for those that were left out.

        This is asserted on the server that accepts changes, and on its `copies`: the URLs of other
        servers that have the same changes. Print and return the longest time, in seconds, in which
        a receiver acknowledged nothing.
        """
        self.drain()
        for load in self.loads:
            load.urls += copies
        # First, because a lost one would never be recorded, however long a sweep takes.
        for load in self.loads:
            load.wait_until_recorded(ACKNOWLEDGED, answered=200)
        for load in self.loads:
            load.wait_until_recorded(SWEEPS)
            load.check(200, 503)
            print(load, f"; counted more often than posted: {len(load.miscounted())}", sep="")
        print(f"checked on {1 + len(copies)} servers")
        by_receiver = [self.attempts(number) for number in range(len(self.receivers))]
        pauses = [longest_pause(each) for each in (chain(*by_receiver), *by_receiver)]
        print("longest pause: {:.1f} s; of each receiver: {:.1f} s, {:.1f} s".format(*pauses))
        for receiver in self.receivers:
            assert "a bug raised" not in receiver.log, receiver.log
        return max(pauses)

    def leave_out_missing(self) -> list[Posting]:
        """Leave out the notifications that the database lacks once the spools are empty.

        Return them.
        """
        self.drain()
        found: list[Posting] = []
        for load in self.loads:
            log = logged(load.url)
            missing = [each for each in load.postings if each.body not in log]
            load.left_out |= {each.body for each in missing}
            found += missing
        return found


def _is_empty(spool: Path) -> bool:
    return spooled(spool) == 0
