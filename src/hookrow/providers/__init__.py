"""The base class of email providers, and what they read; a module each for the supported ones."""

from hookrow.providers._base import Event, Provider, Unauthentic

__all__ = ["Event", "Provider", "Unauthentic"]
