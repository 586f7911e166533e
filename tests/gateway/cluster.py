"""Two gateways on one PostgreSQL database, in the test's own process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, client_of

Side = tuple[Gateway, httpx2.AsyncClient]


@asynccontextmanager
async def two_gateways(
    folder: Path, postgres_url: str, config: str, *, environment: Mapping[str, str] | None = None, **files: str
) -> AsyncIterator[tuple[Side, Side]]:
    """Both with the same config and files, each in a folder of its own."""
    async with AsyncExitStack() as stack:
        sides: list[Side] = []
        for name in ("one", "two"):
            place = folder / name
            place.mkdir()
            for file, text in files.items():
                (place / f"{file}.py").write_text(text)
            (place / "jackfield.toml").write_text(f'store = {{ url = "{postgres_url}" }}\n{config}')
            variables = {"JACKFIELD_ADMIN_KEY": KEY, **(environment or {})}
            settings = load_settings(place / "jackfield.toml", environment=variables)
            gateway = await stack.enter_async_context(Gateway(settings))
            sides.append((gateway, await stack.enter_async_context(client_of(gateway))))
        yield sides[0], sides[1]
