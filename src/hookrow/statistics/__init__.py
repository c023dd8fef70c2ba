"""Figures about the log and the host's tables."""

from hookrow.statistics.cache import Statistics
from hookrow.statistics.log_search import SearchResult, search
from hookrow.statistics.overview import Delays, Overview, Period, read_overview
from hookrow.statistics.tables import TableCounts, count_tables

__all__ = [
    "Delays",
    "Overview",
    "Period",
    "SearchResult",
    "Statistics",
    "TableCounts",
    "count_tables",
    "read_overview",
    "search",
]
