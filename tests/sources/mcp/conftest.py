from collections.abc import Iterator

import pytest

from tests.sources.mcp.scene import HttpServer, http_server


@pytest.fixture(scope="package")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that speaks 2026-07-28 and everything before."""
    with http_server(tmp_path_factory.mktemp("modern")) as server:
        yield server


@pytest.fixture(scope="package")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of 2025."""
    with http_server(tmp_path_factory.mktemp("legacy"), legacy=True) as server:
        yield server
