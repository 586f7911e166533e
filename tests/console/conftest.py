"""What the console's stories share: one Chromium and one stage for all of them, and people who leave at the end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from jackfield.console.api import is_built
from jackfield.model.space import Sender
from jackfield.spaces import transactions as space_tx
from jackfield.store import open_store
from tests.console import operator_scene
from tests.console.scene import ADMIN, CONFIG, FILES
from tests.console.visitor import Visitor, chromium
from tests.harness.process import RunningGateway, running_gateway

MANY = 5_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not is_built():
        pytest.skip("the console is not built: install Node.js 20 or newer, then make console")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("stage")
    # In a thread: while a browser is driven, this one's loop is taken.
    seeding = threading.Thread(target=lambda: asyncio.run(_seed(folder)))
    seeding.start()
    seeding.join(60)
    with running_gateway(folder, CONFIG, files=FILES, env=ADMIN) as gateway:
        yield gateway


@pytest.fixture(scope="package")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with something to do for whoever runs it."""
    folder = tmp_path_factory.mktemp("operated")
    with running_gateway(folder, operator_scene.CONFIG, files=operator_scene.FILES, env=ADMIN) as gateway:
        yield gateway


async def _seed(folder: Path) -> None:
    """A space in which much has been said before the gateway starts."""
    data = folder / ".jackfield"
    data.mkdir(exist_ok=True)
    store = open_store("sqlite:///", folder=folder, data=data)
    await store.open()
    await store.write(partial(space_tx.create_space, "long", name="A long talk"))
    husam = Sender("husam", "Husam", "person")
    words = (f"Message {number}: " + "so it goes " * (number % 13) for number in range(1, MANY + 1))
    await asyncio.gather(
        *(store.write(partial(space_tx.post_message, "long", sender=husam, content=each)) for each in words)
    )
    await store.close()


@pytest.fixture
def visit(browser: Browser, stage: RunningGateway) -> Iterator[Callable[..., Visitor]]:
    """Opens the console for somebody; at the end everybody leaves, and no page may have had a fault."""
    visitors: list[Visitor] = []

    def open_for(key: str | None = None, *, gateway: RunningGateway = stage, **how: object) -> Visitor:
        visitor = Visitor(browser, gateway, **how)  # type: ignore[arg-type]
        visitors.append(visitor)
        if key != "":
            visitor.sign_in(key)
        return visitor

    yield open_for
    for visitor in visitors:
        visitor.close()
