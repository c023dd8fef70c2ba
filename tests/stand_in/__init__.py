"""A stand-in for Postmark's API, to test an application without an account at the provider."""

from __future__ import annotations

from hookrow.testing.postmark_api.server import PostmarkStandIn, RecordedRequest
from hookrow.testing.postmark_api.state import Attempt, Event, Fault, Trigger

__all__ = ["Attempt", "Event", "Fault", "PostmarkStandIn", "RecordedRequest", "Trigger"]
