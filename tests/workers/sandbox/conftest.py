from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workers.sandbox.inside import Booth


@pytest.fixture
async def booth(tmp_path: Path) -> AsyncIterator[Booth]:
    made = Booth(tmp_path, hidden=(tmp_path / "shown" / "data", tmp_path / "shown" / "jackfield.toml"))
    yield made
    await made.close()
