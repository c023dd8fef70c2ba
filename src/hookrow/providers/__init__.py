"""The base class of email providers, and what they read; a module each for the supported ones."""

from hookrow.providers._base import BodyParser, Event, Provider, Unauthentic

__all__ = ["BodyParser", "Event", "Provider", "Unauthentic"]
