"""What the hourly counts cost on PostgreSQL: many uncounted entries, and a receiver under load.

`python bench/hours.py [--rows N] [--turns N] [--seconds N]`. A thread records groups of 32 all the
time, without a pause. First the log gets that many entries that are not counted, as after an
upgrade; then they are counted as a receiver does it. After that the thread records alone and beside
a count in turns: each count is of what came since the last one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from statistics import median, quantiles
from threading import Thread
from time import monotonic, process_time, sleep

from data import SECRET, fill, payloads
from hookrow.concurrency import PAUSE
from hookrow.core.notification import Arrival
from hookrow.providers.postmark import Postmark
from hookrow.receiver.receiver import read
from hookrow.receiver.recorder import record
from hookrow.stores.sql import SQLStore
from places import opened, postgres
from processes import cores

GROUP = 32
PORTION = 1_000_000

FILL = """
INSERT INTO hookrow_notifications (fingerprint, record_type, message_id, recipient, outcome,
    first_outcome, status, attempts, received_at, last_received_at, ended_at, body)
SELECT decode(lpad(to_hex({first} + n), 32, '0'), 'hex'), 'Delivery', 'message-' || n,
    'reader-' || n || '@example.com', 'recorded', 'recorded', 200, 1, at, at, at, repeat('x', 300)
FROM generate_series(1, {number}) AS n,
    LATERAL (SELECT timestamptz '2026-01-01Z' + ({first} + n) * interval '0.5 s' AS at) AS times
"""


class Recorder:
    """Records groups in a thread until it is closed; `durations` has the seconds of each."""

    def __init__(self, store: SQLStore, groups: Iterator[Sequence[Arrival]]) -> None:
        self.durations: list[float] = []
        self._store, self._groups, self._closed = store, groups, False
        self._thread = Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._thread.join()

    def taken(self) -> list[float]:
        """Return the durations since the last call."""
        durations, self.durations = self.durations, []
        return durations

    def _run(self) -> None:
        for group in self._groups:
            began = monotonic()
            record(self._store, group)
            self.durations.append(monotonic() - began)
            if self._closed:
                return


def main() -> None:
    """Print how long many entries take, and what the count costs beside a recorder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=6, help="of each of the two")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a turn")
    given = parser.parse_args()

    with postgres() as server:
        url = server.create()
        with opened(url) as engine:
            fill(engine)
        began = monotonic()
        for first in range(0, given.rows, PORTION):
            number = min(PORTION, given.rows - first)
            server.execute(FILL.format(first=first, number=number), url=url)
        server.execute("VACUUM ANALYZE hookrow_notifications", url=url)
        server.execute("CHECKPOINT")
        print(f"{given.rows} entries made in {monotonic() - began:.0f} s")
        with closing(SQLStore(url)) as store:
            count = store.log.count_hours if store.log else bool
            with closing(Recorder(store, _groups())) as recorder:
                _measure(recorder, count, server.pid, given)
                sleep(given.seconds)
            sql, spent = "SELECT sum(entries) FROM hookrow_hours", process_time()
            [(before,)], server_spent = server.execute(sql, url=url), cores(server.pid)
            _count(count)
            spent, server_spent = process_time() - spent, cores(server.pid) - server_spent
            [(after,)] = server.execute(sql, url=url)
            each = (spent + server_spent) / int(after - before) * 1e6
            print(f"{after - before} counted by themselves: {each:.2f} us of CPU each")


def _measure(
    recorder: Recorder, count: Callable[[], bool], pid: int, given: argparse.Namespace
) -> None:
    began = monotonic()
    with _turn("beside the count of all", recorder, pid, []):
        _count(count)
    print(f"all were counted in {monotonic() - began:.0f} s")
    costs: dict[str, list[float]] = {"alone": [], "beside a count": []}
    for turn in range(2 * given.turns):
        name = [*costs][turn % 2]
        with _turn(name, recorder, pid, costs[name]):
            until = monotonic() + given.seconds
            if turn % 2:
                _count(count)
            sleep(max(until - monotonic(), 0))
    alone, beside = map(median, costs.values())
    print(f"CPU for a notification, with the count of two to without: {beside / alone:.3f}")


def _count(count: Callable[[], bool]) -> None:
    while count():
        sleep(PAUSE)


@contextmanager
def _turn(name: str, recorder: Recorder, pid: int, costs: list[float]) -> Iterator[None]:
    """Print how the recorder did in the block; append the CPU for a notification, of all."""
    recorder.taken()
    began, spent = monotonic(), process_time() + cores(pid)
    yield
    durations = recorder.taken()
    number, percentiles = len(durations) * GROUP, quantiles(durations, n=100)
    costs.append((process_time() + cores(pid) - spent) / number * 1e6)
    print(
        f"{name}: {number / (monotonic() - began):.0f} a second, {costs[-1]:.1f} us of CPU each; "
        f"a group takes {percentiles[49] * 1000:.1f} ms, p99 {percentiles[98] * 1000:.1f} ms",
        flush=True,
    )


def _groups() -> Iterator[Sequence[Arrival]]:
    """Yield groups of notifications that are always new."""
    provider, number = Postmark(SECRET), 0
    bodies = list(payloads())
    while True:
        group = []
        for body in bodies[number % len(bodies) :][:GROUP]:
            number += 1
            group.append(read(provider, b" " * (number // len(bodies)) + body, datetime.now(UTC)))
        yield group


if __name__ == "__main__":
    main()
