"""The two ends of a model's wire."""

from collections.abc import AsyncIterator

import pytest

from jackfield.outgoing import Outgoing
from tests.llm.chat_server import ChatServer


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    async with Outgoing() as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with ChatServer() as chat:
        yield chat
