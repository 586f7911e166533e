from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jackfield.store import Store
from tests.contracts.stores import KINDS, a_store


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each kind of store in turn, empty, with the gateway `gw_a` alive in it."""
    async with a_store(request, tmp_path) as opened:
        yield opened
