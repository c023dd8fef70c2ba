"""Decodes forms (application/x-www-form-urlencoded), and checks the keys that sign their fields."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl

from hookrow.errors import ConfigurationError
from hookrow.providers._base import Provider, check_secrets
from hookrow.providers._secrets import why_no_header

_MOST_FIELDS = 1000
"""The largest number of fields of a form, because a client chooses it."""


def decode_form(body: bytes) -> Sequence[tuple[str, str]]:
    """Return the names and values of a form in order; none if it is not one. Never raises.

    Bytes that are not UTF-8 become surrogates, from which `str.encode(errors="surrogateescape")`
    restores them.
    """
    try:
        return parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        return ()


def encode_keys(provider: Provider, keys: Sequence[str], source: str) -> Sequence[bytes]:
    """Return the keys of signatures in bytes; `source` says where to copy them.

    Raises `ConfigurationError` if there is none, or one is empty or was copied wrongly.
    """
    if not keys or not all(keys):
        raise ConfigurationError(f"The key is missing or empty: copy {source}.")
    check_secrets(provider, keys)
    for key in keys:
        if fault := why_no_header(key):
            raise ConfigurationError(f"The key {fault}: copy {source}.")
    return [key.encode() for key in keys]
