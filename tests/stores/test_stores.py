"""Every store fulfils the contract, in hookrow's tables and in a host's."""

from uuid import UUID

import pytest
from contract import (
    CensusContract,
    HostContract,
    LargeContract,
    LateContract,
    ReadSuppressionsContract,
    StoreContract,
    SuppressionContract,
    TimeContract,
    TransactionContract,
    UndatedContract,
)
from django_home import BARE, FORGETFUL_MODELS, LEAN
from fitted import FITTED
from homes import FORGETFUL, OURS, SPARSE, UNDATED
from locations import shared_home
from log_contract import KeepContract, LogContract, NoLogContract, ReplayContract

from copying import replace
from crm.schema import CRM
from databases import IN_MEMORY, NAMES, places
from engines import MEMORY
from hookrow import Schema
from hookrow.stores._change_dates import key_text
from hookrow.stores.sql import SQLStore

home = pytest.fixture(shared_home, scope="class")


def over(**schemas: Schema) -> pytest.MarkDecorator:
    """Run a class in every place of these kinds, with the schema of each kind."""
    by_kind = {
        "own": (IN_MEMORY, *NAMES),
        "supplied": places("supplied"),
        "django": places("django"),
    }
    params = [(place, schemas[kind]) for kind in schemas for place in by_kind[kind]]
    ids = [place for place, _ in params]
    return pytest.mark.parametrize("home", params, indirect=True, ids=ids, scope="class")


@over(own=OURS, django=OURS)
class TestHookrowsTables(
    StoreContract, LargeContract, LogContract, CensusContract, ReadSuppressionsContract
):
    """The whole contract."""


@over(own=FITTED, supplied=FITTED, django=CRM)
class TestTablesOfAHost(
    StoreContract, HostContract, ReplayContract, CensusContract, ReadSuppressionsContract
):
    """Other names and types, through a host's engine; conditions and reasons; Django models."""


@over(supplied=OURS)
class TestSuppliedEngine(LargeContract, KeepContract):
    """A host's engine writes the log in transactions, without hookrow's sessions."""


@over(own=UNDATED, supplied=UNDATED, django=BARE)
class TestDatesBesideTheLog(LateContract, TransactionContract, TimeContract):
    """No table stores when a suppression last changed, so hookrow does."""


@over(own=FORGETFUL, django=FORGETFUL_MODELS)
class TestUndatedTables(UndatedContract):
    """No table stores when a suppression last changed, and there is no log."""


@over(own=UNDATED)
class TestLogOfAnotherName(KeepContract, ReplayContract):
    """The host created the log, whose name needs quotes."""


@over(own=SPARSE, django=LEAN)
class TestSparseTables(SuppressionContract, NoLogContract):
    """There are no lists, no log, and no suppression of dispatches."""


@over(own=SPARSE, django=LEAN)
class TestSparseCensus(CensusContract, ReadSuppressionsContract):
    """There are no lists and no reasons to count or filter by, and no log."""


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([17], "17"),
        (["a key"], "a key"),
        (["blank "], '"blank "'),
        (['"blank "'], '"\\"blank \\""'),
        ([UUID(int=1)], f"{1:032}"),
        ([UUID(int=1).bytes], f"{1:032}"),
        ([1, 2], '["1","2"]'),
        (['"', UUID(int=1)], f'["\\"","{1:032}"]'),
    ],
)
def test_key_text(key: list[object], expected: str) -> None:
    """The text of a key does not depend on the types of the database and the driver."""
    assert key_text(key) == expected


def test_warning_without_dates(caplog: pytest.LogCaptureFixture) -> None:
    """A store warns once that the last change to arrive wins, and names the roles."""
    SQLStore(MEMORY, UNDATED)
    SQLStore(MEMORY, replace(FORGETFUL, subscriptions=None))
    [warning] = caplog.messages
    assert "the suppression of the subscribers, dispatches last changed" in warning
    assert "name a column for suppression_changed_at, or turn on the log." in warning
