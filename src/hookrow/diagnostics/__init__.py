"""Checks of a configuration and its database, for `hookrow check`."""
