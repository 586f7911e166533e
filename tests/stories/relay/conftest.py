"""One gateway for all stories of the relay, and a caller with a session whose agent nobody has spoken to yet."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.stories.relay.scene import CONFIG, ENVIRONMENT, FILES, HttpCaller


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("relay"), CONFIG, files=FILES, env=ENVIRONMENT) as running:
        yield running


@pytest.fixture
async def caller(gateway: RunningGateway) -> AsyncIterator[HttpCaller]:
    """With the stream open, in a session of `helper`."""
    made = HttpCaller(gateway)
    await made.open("helper")
    yield made
    await made.close()
