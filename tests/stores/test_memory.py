"""The store in memory."""

from __future__ import annotations

import pytest
from contract import HostContract, StoreContract, UndatedContract
from homes import OURS, UNDATED, Home, MemoryHome


class TestMemory(StoreContract, HostContract):
    @pytest.fixture
    def home(self) -> Home:
        """Keep all columns."""
        return MemoryHome(OURS)


class TestUndatedMemory(UndatedContract):
    @pytest.fixture
    def home(self) -> Home:
        """Keep no date of a change."""
        return MemoryHome(UNDATED)
