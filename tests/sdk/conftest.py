from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sdk.server import BreakingServer, ScriptedGateway, serving


@pytest.fixture
def scripted() -> Iterator[ScriptedGateway]:
    with serving() as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def _no_jackfield_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test never meets the gateway of whoever runs it."""
    for name in ("JACKFIELD_URL", "JACKFIELD_KEY", "JACKFIELD_DATA", "JACKFIELD_ADMIN_KEY", "JACKFIELD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def breaking() -> AsyncIterator[BreakingServer]:
    server = BreakingServer()
    await server.start()
    yield server
    await server.stop()
