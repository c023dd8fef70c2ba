"""What the log received, and the state of the host's tables, in figures."""

from hookrow.statistics.cache import Statistics
from hookrow.statistics.log_search import Found, search
from hookrow.statistics.overview import Delays, Overview, Period, read_overview
from hookrow.statistics.tables import TableCounts, count_tables

__all__ = [
    "Delays",
    "Found",
    "Overview",
    "Period",
    "Statistics",
    "TableCounts",
    "count_tables",
    "read_overview",
    "search",
]
