"""What a store knows about the entries of its receivers: for verification, retries and messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hookrow._core.notification import Key


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """The entries of one receiver, or of several that share a store.

    `names` are those of the entries, none for a receiver with a single provider; `tenants` are the
    values of those that are tenants, by name. `message_id_lengths` has the characters of the
    longest message ids, by the names of the providers of which they are known.
    """

    names: Collection[str] = ()
    tenants: Mapping[str, Key] = field(default_factory=dict)
    message_id_lengths: Mapping[str, int] = field(default_factory=dict)

    @property
    def demands(self) -> tuple[Mapping[str, Key], Mapping[str, int]]:
        """What the columns must hold."""
        return self.tenants, self.message_id_lengths

    def with_others(self, others: KnownEntries) -> KnownEntries:
        """Return these entries and others; a name that both have stands for the same entry."""
        longest = {
            name: max(length, self.message_id_lengths.get(name, 0))
            for name, length in others.message_id_lengths.items()
        }
        return KnownEntries(
            [*dict.fromkeys([*self.names, *others.names])],
            {**self.tenants, **others.tenants},
            {**self.message_id_lengths, **longest},
        )


NO_ENTRIES = KnownEntries()
"""A store without a receiver."""
