"""Checks of a configuration, its database and the webhook, for `hookrow check`."""
