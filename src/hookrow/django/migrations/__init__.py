"""The migrations of the log."""
