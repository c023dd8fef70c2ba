"""The protocol of `hookrow serve` compared with uvicorn's, on more streams than in tests/hosts."""

import asyncio

import pytest

import streams

pytestmark = pytest.mark.never_flaky


def test_streams() -> None:
    """For 2,000 random streams of requests, it sends the same bytes as uvicorn."""
    statuses = asyncio.run(streams.compare(2_000))
    print(dict(statuses))
    assert {100, 200, 400, 401, 404, 405, 413, 422, 503} <= {*statuses}
