"""The limits of a group."""

from math import inf

import pytest

from hookrow._core.sizes import LARGEST_GROUP, leading


@pytest.mark.parametrize(
    ("sizes", "most", "count"),
    [
        ([], inf, 0),
        ([LARGEST_GROUP - 1, 1, 1], inf, 2),
        ([LARGEST_GROUP + 1, 0], inf, 1),
        ([1] * 301, 300, 300),
        ([1] * 3, 3, 3),
        ([LARGEST_GROUP, 1, 1], 2, 1),
    ],
)
def test_a_group_is_limited_in_bytes_and_number(sizes: list[int], most: float, count: int) -> None:
    """A single item may be larger."""
    assert leading(sizes, int, most=most) == sizes[:count]


@pytest.mark.parametrize(("size", "most", "unread"), [(LARGEST_GROUP, inf, 1), (0, 1, 2)])
def test_items_after_the_group_are_not_read(size: int, most: float, unread: int) -> None:
    items = iter([size] * 3)
    assert leading(items, int, most=most) == [size]
    assert len(list(items)) == unread
