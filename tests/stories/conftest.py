"""What every story may ask for: a gateway of the handy project, one per module; one that answers Responses, for all."""

from collections.abc import Iterator

import pytest

from tests.harness.process import RunningGateway, default_gateway
from tests.stories.responses import Sdk, Tap, actor_gateway, tapped


@pytest.fixture(scope="module")
def gateway_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with default_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture(scope="package")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose model plays `responses.SCRIPT`, which follows from the conversation alone."""
    with actor_gateway(tmp_path_factory.mktemp("actor")) as gateway:
        yield gateway


@pytest.fixture
def wire(actor: RunningGateway) -> Iterator[tuple[Sdk, Tap]]:
    with tapped(actor) as made:
        yield made


@pytest.fixture
def client(wire: tuple[Sdk, Tap]) -> Sdk:
    """The official openai SDK, on `actor`."""
    return wire[0]


@pytest.fixture
def tap(wire: tuple[Sdk, Tap]) -> Tap:
    """What came over the wire to `client`."""
    return wire[1]
