"""Email providers: their base class, and one module for each supported provider."""

from hookrow.providers._base import BodyParser, Event, NotReady, Provider, Unauthentic

__all__ = ["BodyParser", "Event", "NotReady", "Provider", "Unauthentic"]
