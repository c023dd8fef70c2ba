"""A stand-in for Postmark's API, for the tests of `hookrow provider`."""

from __future__ import annotations

from stand_in.server import PostmarkStandIn, RecordedRequest
from stand_in.state import Attempt, Event, Fault, Trigger

__all__ = ["Attempt", "Event", "Fault", "PostmarkStandIn", "RecordedRequest", "Trigger"]
