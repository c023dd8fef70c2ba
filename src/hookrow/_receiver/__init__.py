"""The receiver: the path of notifications between a host and a store."""
