"""The receiver: what happens to a notification between a host and a store."""
