"""A supervisor for each test, closed afterwards, and with it what a failed test left."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jackfield.workers.supervisor import Supervisor
from tests.workers.processes import Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(Supervisor(), tmp_path)
    yield made
    await made.close()
