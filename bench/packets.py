"""Measures the CPU time of MariaDB's server for the parts of a packet, per notification.

`python bench/packets.py [--group N]`. The packets that write groups are built, but not sent. Then
each variant sends its share of them, cut: only BEGIN and COMMIT; with the locks; and so on. The
cost of a part is the difference between two variants. Other work on the machine increases the
results, so the lowest of a few turns counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate, count
from time import time_ns
from unittest.mock import patch

from data import arrival, payload, targets
from environment import MARIADB, Database, cpu_seconds, databases
from hookrow._core.rules import lookup_keys
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._mariadb import MariaDBSession

ROWS = 60_000

TURNS = 3

PARTS = {
    "begin, commit": ("BEGIN", "COMMIT"),
    "lock rows": ("SET ",),
    "update rows": ("UPDATE ",),
    "register the writer": ("SELECT name",),
    "add entries to the log": ("INSERT ",),
}
"""The beginnings of the statements of each part. They are sent in the order of the packet."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=32, help="the size of a group")
    options = parser.parse_args()
    with databases(ROWS, [MARIADB]) as created:
        database = created[MARIADB]
        with closing(SQLStore(database.url)) as store:
            finding, packets = build(store, database, options.group)
            costs = [finding, *measure(store, database, packets, options.group)]
    print(f"CPU time of the server, in us per notification, in groups of {options.group}")
    for title, cost in zip(("find rows", *PARTS), costs, strict=True):
        print(f"  {title:24}{cost:6.1f}")
    print(f"  {'all':24}{sum(costs):6.1f}")


def build(store: SQLStore, database: Database, size: int) -> tuple[float, Sequence[str]]:
    """Find the rows of all groups; return the cost of this, and the packets that would be sent."""
    microseconds = count(time_ns() // 1000)
    arrivals = [arrival(payload(ROWS, *each, next(microseconds))) for each in targets(ROWS)]
    groups = [arrivals[n : n + size] for n in range(0, len(arrivals) - size + 1, size)]
    record(store, groups.pop())  # verifies the tables
    packets: list[str] = []
    run = MariaDBSession._run  # noqa: SLF001 - there is no other place to see the text

    @contextmanager
    def keep(session: MariaDBSession, sql: str) -> Iterator[object]:
        if sql.startswith("BEGIN;"):
            packets.append(sql)
            sql = "SELECT 1"
        with run(session, sql) as cursor:
            yield cursor

    with patch.object(MariaDBSession, "_run", keep):
        for group in groups:
            record(store, group)
    with store.recording() as transaction:
        before = cpu_seconds(database.pid)
        for group in groups:
            transaction.find(lookup_keys(group))
        spent = cpu_seconds(database.pid) - before
    return spent / len(groups) / size * 1e6, packets


def measure(
    store: SQLStore, database: Database, packets: Sequence[str], size: int
) -> Iterator[float]:
    """Yield the cost of each part."""
    beginnings = [*accumulate(PARTS.values())]
    share = len(packets) // len(beginnings) // TURNS
    lowest = [float("inf")] * len(beginnings)
    shares = (packets[n : n + share] for n in range(0, len(packets) - share + 1, share))
    with store.recording() as transaction:
        session = transaction._connection  # noqa: SLF001 - the connection that sends packets
        for _ in range(TURNS):
            for number, kept in enumerate(beginnings):
                cut = [_cut(packet, kept) for packet in next(shares)]
                before = cpu_seconds(database.pid)
                for packet in cut:
                    session.execute(packet)
                spent = (cpu_seconds(database.pid) - before) / share / size * 1e6
                lowest[number] = min(lowest[number], spent)
    earlier = 0.0
    for cost in lowest:
        yield cost - earlier
        earlier = cost


def _cut(packet: str, beginnings: tuple[str, ...]) -> str:
    """Return the statements of a packet that begin with one of these texts."""
    kept = (each for each in packet.split(";\n") if each.startswith(beginnings))
    return ";\n".join(kept).replace("%", "%%")


if __name__ == "__main__":
    main()
