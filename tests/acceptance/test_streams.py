"""The protocol of `hookrow serve` against uvicorn's own: more streams than in the quick tests."""

import asyncio

import streams


def test_streams() -> None:
    """All bytes sent for 2,000 random streams of requests are those that uvicorn would send."""
    statuses = asyncio.run(streams.compare(2_000))
    print(dict(statuses))
    assert {100, 200, 400, 401, 404, 405, 413, 422, 503} <= {*statuses}
