"""`hookrow serve`: the standalone server."""
