"""Stores find, lock and write rows, but decide nothing. The store is `sql.SQLStore`."""

from hookrow._core.log_entry import StoredEntry
from hookrow.stores._errors import AccessDenied, Locked, MissingChanges, StoreError, Unavailable
from hookrow.stores._log import Forgotten, Prunable, RecordedChange
from hookrow.stores._log_operations import DoubtfulClock

__all__ = [
    "AccessDenied",
    "DoubtfulClock",
    "Forgotten",
    "Locked",
    "MissingChanges",
    "Prunable",
    "RecordedChange",
    "StoreError",
    "StoredEntry",
    "Unavailable",
]
