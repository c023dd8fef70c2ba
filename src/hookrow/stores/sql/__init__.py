"""The SQL store: on each supported database, by a URL or a host's SQLAlchemy engine."""

from hookrow.stores.sql._store import SQLStore

__all__ = ["SQLStore"]
