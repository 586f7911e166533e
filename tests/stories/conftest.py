"""What every story may ask for: a gateway of the handy project, one per test module."""

from collections.abc import Iterator

import pytest

from tests.stories.gateway import RunningGateway, default_gateway


@pytest.fixture(scope="module")
def gateway_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with default_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway
