"""Creates and upgrades hookrow's own tables, from a host's code: `upgrade(engine, Schema())`."""

from hookrow._migrations import upgrade

__all__ = ["upgrade"]
