from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sources.toolbox import Toolbox


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """A files source over `tools/*.py` that has not been opened: nothing watches, `refresh` reads."""
    box = Toolbox(tmp_path, config={"units": "metric"}, secrets=["WEATHER_KEY", "UNSET_KEY"])
    yield box
    await box.source.close()
