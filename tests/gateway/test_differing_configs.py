"""Gateways of one database read their own config files, and say when those differ."""

import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.cluster import two_gateways
from tests.requirement import requirement

GROUP = '[groups.some]\ntools = ["one"]\n'


async def differences(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    return list((await client.get("/readyz")).json()["config"]["differs"])


@requirement("OP-reload-differs")
async def test_a_gateway_whose_file_was_changed_and_the_other_say_so(
    tmp_path: Path, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_gateways(tmp_path, postgres_url, "") as ((one, client), (two, other)):
        await one.reloader.compare()
        assert await differences(client) == await differences(other) == []
        config = tmp_path / "one" / "jackfield.toml"
        config.write_text(config.read_text() + GROUP)
        with caplog.at_level(logging.WARNING):
            assert (await client.post("/api/v1/config/reload")).json()["added"] == ["groups.some"]
        assert f"The config of gateway {two.id} differs from this one's in groups." in caplog.text
        assert await differences(client) == [{"gateway": two.id, "sections": ["groups"]}]
        await two.reloader.compare()
        assert await differences(other) == [{"gateway": one.id, "sections": ["groups"]}]
        (tmp_path / "two" / "jackfield.toml").write_text(config.read_text())
        assert (await other.post("/api/v1/config/reload")).json()["added"] == ["groups.some"]
        await one.reloader.compare()
        assert await differences(client) == await differences(other) == []
