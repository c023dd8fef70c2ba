"""Stores find, lock and write rows, but decide nothing. The store is `sql.SQLStore`."""

from hookrow.stores._errors import AccessDenied, Locked, StoreError, Unavailable

__all__ = ["AccessDenied", "Locked", "StoreError", "Unavailable"]
