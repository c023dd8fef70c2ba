"""The Django store keeps the contract: on SQLite and PostgreSQL, in our models and a host's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from census_contract import CensusContract
from contract import HostContract, StoreContract, UndatedContract
from django_home import BARE, LEAN, DjangoHome
from homes import OURS, Home
from log_contract import LogContract, NoLogContract, ReplayContract

from crm.schema import CRM


@pytest.fixture(scope="class", params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Make the tables of the class's schema, and a store for them."""
    with closing(DjangoHome(new_database(request.param), request.cls.schema)) as home:
        yield home


class TestOurTables(StoreContract, LogContract, CensusContract):
    schema = OURS


class TestModelsOfAHost(StoreContract, HostContract, ReplayContract, CensusContract):
    schema = CRM


class TestBareKeys(UndatedContract, LogContract, CensusContract):
    schema = BARE


class TestSparseTables(StoreContract, NoLogContract, CensusContract):
    schema = LEAN
