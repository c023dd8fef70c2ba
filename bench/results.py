"""The figures of loads, their medians and ratios, and the sizes of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median

from environment import POSTGRESQL, Database
from load import Load

BUSY = 64
"""The number of connections at which rates and CPU times are compared."""


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a load, or the medians of several.

    `server` is the subject without its number of processes. The rate is in notifications per
    second, p50 and p99 are in milliseconds, the CPU times of the server and of PostgreSQL in
    microseconds per notification, and the peak memory of the largest process in MB. If a process
    does not exist, its figures are 0.
    """

    name: str
    server: str
    database: str | None
    connections: int
    rate: float
    p50: float
    p99: float
    server_cpu: float
    database_cpu: float
    memory: float
    errors: int

    def __str__(self) -> str:
        """Return a row of the table."""
        return (
            f"{self.name:36} {self.connections:5} {self.rate:8,.0f} {self.p50:9,.2f} "
            f"{self.p99:9,.2f} {self.server_cpu:7,.0f} {self.database_cpu:8,.0f} "
            f"{self.memory:5,.0f} {self.errors:6}"
        )

    @property
    def cpu(self) -> float:
        """The CPU time of the server and the database."""
        return self.server_cpu + self.database_cpu


HEADINGS = (
    f"{'subject':36} {'conns':>5} {'rate':>8} {'p50':>9} {'p99':>9} {'server':>7} {'database':>8} "
    f"{'MB':>5} {'errors':>6}"
)
FIGURES = ("rate", "p50", "p99", "server_cpu", "database_cpu", "memory")


def summarize(
    names: tuple[str, str, str | None],
    load: Load,
    *,
    server_cpu: float = 0.0,
    database_cpu: float = 0.0,
    memory: float = 0.0,
) -> Result:
    """Return the figures of a load.

    `names` are those of the subject, the server and the database. The CPU times are in seconds, for
    the whole load; the memory is in MB.
    """
    return Result(
        *names,
        connections=load.connections,
        rate=load.answered / load.seconds,
        p50=load.p50,
        p99=load.p99,
        server_cpu=server_cpu / load.answered * 1e6,
        database_cpu=database_cpu / load.answered * 1e6,
        memory=memory,
        errors=load.errors,
    )


def medians(results: Iterable[Result]) -> list[Result]:
    """Return the median of every figure, for each subject and number of connections."""
    loads: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        loads.setdefault((result.name, result.connections), []).append(result)
    return [_median(each) for each in loads.values()]


def _median(results: Sequence[Result]) -> Result:
    figures = {name: median(map(attrgetter(name), results)) for name in FIGURES}
    return replace(results[0], **figures, errors=sum(each.errors for each in results))


def ratios(results: Iterable[Result]) -> Iterator[str]:
    """Compare `hookrow serve` with each other subject, each with its best number of processes."""
    best = _best(results)
    yield f"{'hookrow serve compared with':36} {'rate':>7} {'p50, 1 conn':>12} {'CPU':>7}"
    for (server, database), other in best.items():
        ours = best.get(("hookrow serve", database or POSTGRESQL))
        if ours is None or ours is other:
            continue
        rate = ours[BUSY].rate / other[BUSY].rate
        cpu = other[BUSY].cpu / ours[BUSY].cpu
        p50 = f"{other[1].p50 / ours[1].p50:.2f}" if 1 in ours and 1 in other else ""
        name = f"{server}, {database or 'without a database'}"
        yield f"{name:36} {rate:7.2f} {p50:>12} {cpu:7.2f}"
    yield "(rate: hookrow's to the other's; p50 and CPU time: the other's to hookrow's)"


def _best(results: Iterable[Result]) -> dict[tuple[str, str | None], dict[int, Result]]:
    """Return the results of each server for the number of processes with the highest rate."""
    subjects: dict[str, dict[int, Result]] = {}
    for each in results:
        subjects.setdefault(each.name, {})[each.connections] = each
    best: dict[tuple[str, str | None], dict[int, Result]] = {}
    for loads in subjects.values():
        if BUSY in loads:
            key = loads[BUSY].server, loads[BUSY].database
            if key not in best or loads[BUSY].rate > best[key][BUSY].rate:
                best[key] = loads
    return best


_SIZES = "SELECT count(*), pg_table_size('{0}'), pg_indexes_size('{0}') FROM {0}"


def sizes(database: Database) -> Iterator[str]:
    """Yield the bytes per row of the dispatches and of the log, on PostgreSQL."""
    database.execute("VACUUM ANALYZE")
    for table in ("hookrow_dispatches", "hookrow_notifications"):
        [(rows, size, indexes)] = database.execute(_SIZES.format(table))
        if rows:
            each = f"{size / rows:.0f} bytes each, and {indexes / rows:.0f} in indexes"
            yield f"{table}: {rows:,} rows, {each}"
    [(body,)] = database.execute("SELECT avg(octet_length(body)) FROM hookrow_notifications")
    if body:
        yield f"The average body in the log has {body:.0f} bytes."
