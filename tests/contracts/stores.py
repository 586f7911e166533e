"""The stores that every contract about storing is held against."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.store import Store, open_store
from jackfield.store import gateways as gateway_tx

KINDS = ("memory", "sqlite", "postgres")


@asynccontextmanager
async def a_store(
    request: pytest.FixtureRequest, folder: Path, *, gateway: str = "gw_a", **options: Any
) -> AsyncIterator[Store]:
    """A store of the kind that `request` is about, with a gateway alive in it."""
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    opened = open_store(url, folder=folder, data=folder, **options)
    await opened.open()
    await opened.write(partial(gateway_tx.enter, gateway, is_shared=opened.is_shared))
    try:
        yield opened
    finally:
        await opened.close()
