"""Postmark's API: hookrow's webhooks at the provider, and what they missed."""
