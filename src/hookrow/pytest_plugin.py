"""The pytest plugin: three fixtures, which import hookrow's modules only if a test uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hookrow._receiver.receiver import Receiver
    from hookrow.stores.sql import SQLStore
    from hookrow.testing import Tables


@pytest.fixture
def hookrow_store() -> Iterator[SQLStore]:
    """Return a store in a new database in memory, with hookrow's own tables, which are empty."""
    from hookrow.stores.sql import SQLStore  # noqa: PLC0415 - imported only if a test uses the fixture

    with closing(SQLStore("sqlite://")) as store:
        yield store


@pytest.fixture
def hookrow_tables(hookrow_store: SQLStore) -> Tables:
    """Return the tables of `hookrow_store`, to add rows and to read them."""
    from hookrow.testing import Tables  # noqa: PLC0415 - imported only if a test uses the fixture

    return Tables(hookrow_store)


@pytest.fixture
def hookrow_receiver(hookrow_store: SQLStore) -> Iterator[Receiver]:
    """Return a receiver that records in `hookrow_store`, for `hookrow.testing.post`."""
    from hookrow.testing import open_receiver  # noqa: PLC0415 - imported only if a test uses the fixture

    with open_receiver(hookrow_store) as receiver:
        yield receiver
