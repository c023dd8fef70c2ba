"""The store in memory."""

from __future__ import annotations

import pytest
from census_contract import CensusContract
from contract import HostContract, StoreContract, UndatedContract
from homes import OURS, SPARSE, UNDATED, Home, MemoryHome
from log_contract import LogContract, NoLogContract


class TestMemory(StoreContract, HostContract, LogContract, CensusContract):
    @pytest.fixture
    def home(self) -> Home:
        """Keep all columns."""
        return MemoryHome(OURS)


class TestUndatedMemory(UndatedContract):
    @pytest.fixture
    def home(self) -> Home:
        """Keep no date of a change."""
        return MemoryHome(UNDATED)


class TestMemoryWithoutLog(NoLogContract):
    @pytest.fixture
    def home(self) -> Home:
        """Keep no log."""
        return MemoryHome(SPARSE)
