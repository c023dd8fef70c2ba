"""How to set up the webhook of each entry: what the overview shows before any notification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hookrow._http import ENDPOINT
from hookrow._receiver.entries import Entry
from hookrow.dashboard._queries import Context
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark

MAX_FIRST_STEPS = 20
"""The largest number of entries that the page describes; a receiver may have hundreds."""


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """How to set up the webhook of an entry, which is None for the only provider of a receiver.

    `endpoint` is a URL, or a path of the host's; if it `is_relative`, only the end of the path is
    known. `setup` says how requests are authenticated; it is empty for a provider of the host's.
    `own_test` is how to have the provider send a request if only it can sign, or empty.
    """

    entry: str | None
    provider: str
    endpoint: str
    is_relative: bool
    setup: str
    own_test: str
    can_register: bool


def first_steps(context: Context) -> Sequence[FirstSteps]:
    """Return the steps for each entry of the receiver, of which the first ones are enough."""
    return [
        _steps(context.endpoint, entry, is_first=entry is context.parsers.default)
        for entry in [*context.parsers][:MAX_FIRST_STEPS]
    ]


def _steps(endpoint: str | None, entry: Entry[BodyParser], *, is_first: bool) -> FirstSteps:
    path = (endpoint or ENDPOINT).rstrip("/")
    provider = entry.provider
    return FirstSteps(
        entry.name,
        provider.name,
        path if is_first else f"{path}/{entry.name}",
        is_relative=endpoint is None,
        setup=getattr(provider, "setup", ""),  # of the built-in providers
        own_test=getattr(provider, "own_test", ""),
        can_register=provider.name == Postmark.name,
    )
