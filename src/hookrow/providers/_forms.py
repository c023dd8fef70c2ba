"""Decodes forms (application/x-www-form-urlencoded), and checks the keys that sign their fields."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Sequence

from hookrow.errors import ConfigurationError
from hookrow.providers._base import Provider, check_secrets
from hookrow.providers._secrets import why_no_header

_MOST_FIELDS = 1000
"""The largest number of fields of a form, because a client chooses it."""


_find_wrong_escape = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
"""Finds a percent sign that is not encoded, as no sender of a form leaves one."""


def decode_form(body: bytes) -> Sequence[tuple[str, str]]:
    """Return the names and values of a form in order; none if it is not one. Never raises.

    Bytes that are not UTF-8 become surrogates, from which `str.encode(errors="surrogateescape")`
    restores them.
    """
    fields = body.split(b"&", _MOST_FIELDS)
    if len(fields) > _MOST_FIELDS or _find_wrong_escape(body):
        return ()
    pairs = [each.partition(b"=") for each in fields if each]
    return [(_decode(name), _decode(value)) for name, _, value in pairs]


def _decode(text: bytes) -> str:
    """Return a name or a value of a form in which all escapes are valid.

    The signature covers the decoded form, so anyone can have one decoded. `parse_qsl` needs seconds
    and 700 MB for 8 MiB of escapes, so they are decoded in C, as those of quoted-printable text
    (RFC 2045, section 6.7), which differ only in the sign.
    """
    quoted = text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"=")
    return a2b_qp(quoted).decode(errors="surrogateescape")


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
