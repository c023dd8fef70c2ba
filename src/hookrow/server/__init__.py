"""`hookrow serve`: the standalone server."""

RECEIVER = "hookrow.receiver"
"""The key of the receiver in ASGI's lifespan state: the application sets it for the protocol."""
