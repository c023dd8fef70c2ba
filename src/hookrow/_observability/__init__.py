"""Logging, metrics and traces."""
