"""Figures about the log and the host's tables."""

from hookrow._statistics.cache import Statistics
from hookrow._statistics.log_search import (
    ResultCount,
    SearchResult,
    count,
    find_beginnings,
    search,
)
from hookrow._statistics.overview import (
    RATE_LIMITS,
    Delays,
    Overview,
    Period,
    Present,
    Rate,
    TableCounts,
    add_up,
    count_tables,
    read_overview,
    read_present,
    read_unauthentic,
)

__all__ = [
    "RATE_LIMITS",
    "Delays",
    "Overview",
    "Period",
    "Present",
    "Rate",
    "ResultCount",
    "SearchResult",
    "Statistics",
    "TableCounts",
    "add_up",
    "count",
    "count_tables",
    "find_beginnings",
    "read_overview",
    "read_present",
    "read_unauthentic",
    "search",
]
