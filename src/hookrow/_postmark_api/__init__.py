"""Postmark's API: hookrow's webhooks at the provider, and what they missed."""

from __future__ import annotations

ADDRESS = "https://api.postmarkapp.com"
