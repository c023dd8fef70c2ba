"""Every store fulfils the contract, in hookrow's tables and in a host's."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from census_contract import CensusContract
from contract import (
    HostContract,
    LargeContract,
    LateContract,
    StoreContract,
    SuppressionContract,
    TimeContract,
    TransactionContract,
    UndatedContract,
)
from django_home import BARE, FORGETFUL_MODELS, LEAN
from fitted import FITTED
from homes import FORGETFUL, OURS, SPARSE, UNDATED, Home
from locations import open_home
from log_contract import KeepContract, LogContract, NoLogContract, ReplayContract

from crm.schema import CRM
from hookrow import Schema


@pytest.fixture(scope="class")
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    place, schema = request.param
    with closing(open_home(place, schema, new_database)) as home:
        yield home


def over(**schemas: Schema) -> pytest.MarkDecorator:
    """Run a class in every place of these kinds, with the schema of each kind."""
    places = {
        "memory": ["memory"],
        "own": ["sqlite", "postgres"],
        "lent": ["lent-sqlite", "lent-postgres"],
        "django": ["django-sqlite", "django-postgres"],
    }
    params = [(place, schemas[kind]) for kind in schemas for place in places[kind]]
    ids = [place for place, _ in params]
    return pytest.mark.parametrize("home", params, indirect=True, ids=ids, scope="class")


@over(memory=OURS, own=OURS, django=OURS)
class TestHookrowsTables(StoreContract, LargeContract, LogContract, CensusContract):
    """The whole contract."""


@over(own=FITTED, lent=FITTED, django=CRM)
class TestTablesOfAHost(StoreContract, HostContract, ReplayContract, CensusContract):
    """Other names and types, through a host's engine; conditions and reasons; Django models."""


@over(memory=OURS)
class TestMemory(HostContract):
    """The memory store allows the rows that a host's tables may contain."""


@over(lent=OURS)
class TestSuppliedEngine(LargeContract, KeepContract):
    """A host's engine writes the log in transactions, without hookrow's sessions."""


@over(memory=UNDATED, own=UNDATED, lent=UNDATED, django=BARE)
class TestDatesBesideTheLog(LateContract, TransactionContract, TimeContract):
    """No table stores when a suppression last changed, so hookrow does."""


@over(memory=FORGETFUL, own=FORGETFUL, django=FORGETFUL_MODELS)
class TestUndatedTables(UndatedContract):
    """No table stores when a suppression last changed, and there is no log."""


@over(own=UNDATED)
class TestLogOfAnotherName(KeepContract, ReplayContract):
    """The host created the log, whose name needs quotes."""


@over(memory=SPARSE, own=SPARSE, django=LEAN)
class TestSparseTables(SuppressionContract, NoLogContract):
    """There are no lists, no log, and no suppression of dispatches."""


@over(own=SPARSE, django=LEAN)
class TestSparseCensus(CensusContract):
    """There are no lists and no reasons to count by."""
