"""The request id: the request's own where it is harmless, else a new one."""

from __future__ import annotations

import re

import pytest

from hookrow.request_id import request_id


@pytest.mark.parametrize("given", ["r-1", "4bf92f3577b34da6", "A.b_c-9", "x" * 64])
def test_given(given: str) -> None:
    """A short harmless id is the request's; how the header is written does not matter."""
    assert request_id([(b"Host", b"x"), (b"X-Request-Id", given.encode())]) == given


@pytest.mark.parametrize(
    "given",
    [b"", b"x" * 65, b"a b", b"ada@example.com", b"a\nb", b"a\x00", b"<b>", "\u00e9".encode()],
)
def test_harmful(given: bytes) -> None:
    """What is long, or could be an address or break a line, is replaced."""
    assert re.fullmatch("[0-9a-f]{16}", request_id([(b"x-request-id", given)]))


def test_made() -> None:
    """Without one, or with two, it is new, and no two are the same."""
    twice = [(b"x-request-id", b"a")] * 2
    assert len({request_id([]), request_id([]), request_id(twice), request_id(twice)}) == 4
