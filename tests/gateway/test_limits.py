"""Limits over two gateways that share a PostgreSQL database: what is admitted, and what is written for it."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from jackfield.store import Store
from jackfield.store.scripts import Script, Sql
from tests.gateway.cluster import two_gateways
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement

TOOLS = """
def cheap() -> str:
    \"\"\"Costs one point.\"\"\"
    return "done"


def rare() -> str:
    \"\"\"Once a minute.\"\"\"
    return "done"
"""
CONFIG = """
[auth.keys.poor]
key = "key-of-the-poor-one-which-nobody-guesses"
budget = BUDGET

[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.cheap.metadata]
cost_estimate = "low"

[sources.local.tools.rare.metadata]
rate_limit_per_minute = 1
"""
POOR = {"x-api-key": "key-of-the-poor-one-which-nobody-guesses"}


async def admitted(client: httpx2.AsyncClient, tool: str, *, calls: int, callers: int = 4) -> int:
    """How many of so many calls are carried out; the others are refused with 429."""
    left = [calls]

    async def caller() -> int:
        through = 0
        while left[0] > 0:
            left[0] -= 1
            response = await client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": {}}, headers=POOR)
            assert response.status_code in {200, 429}, response.text
            through += response.status_code == 200
        return through

    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


async def writes(store: Store, limit_id: str) -> int:
    def script() -> Script[int]:
        rows = yield Sql("writes", "SELECT writes FROM spending WHERE id = :id"), {"id": limit_id}
        return int(rows[0]["writes"]) if rows else 0

    return await store.read(script)


@requirement("OPS-limits-cluster")
@pytest.mark.parametrize(("budget", "shares"), [(40, (40, 40)), (400, (300, 300)), (400, (550, 20))])
async def test_a_budget_counts_at_both_gateways(
    tmp_path: Path, postgres_url: str, budget: int, shares: tuple[int, int]
) -> None:
    config = CONFIG.replace("BUDGET", str(budget))
    async with two_gateways(tmp_path, postgres_url, config, tools=TOOLS) as ((one, first), (_, second)):
        through = await asyncio.gather(
            admitted(first, "cheap", calls=shares[0]), admitted(second, "cheap", calls=shares[1])
        )
        assert 0.9 * budget <= sum(through) <= 1.1 * budget
        written = await writes(one.store, "key poor")
        assert written <= (sum(through) / 3 if budget >= 400 else sum(through) + 10)


@requirement("OPS-limits-cluster")
async def test_once_a_minute_is_once_whichever_gateway_is_asked(tmp_path: Path, postgres_url: str) -> None:
    config = CONFIG.replace("BUDGET", "1000")
    async with two_gateways(tmp_path, postgres_url, config, tools=TOOLS) as ((_, first), (_, second)):
        through = await asyncio.gather(
            admitted(first, "rare", calls=5, callers=5), admitted(second, "rare", calls=5, callers=5)
        )
        assert sum(through) == 1
        refused = await second.post("/api/v1/tools/rare/execute", json={"arguments": {}}, headers=POOR)
        assert 1 <= int(refused.headers["retry-after"]) <= 61


@requirement("OPS-limits-restart")
async def test_a_restart_does_not_refill_a_budget(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "jackfield.toml").write_text(CONFIG.replace("BUDGET", "3"))
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_DATA": str(tmp_path / "data")}
    through = []
    for _ in range(2):
        settings = load_settings(tmp_path / "jackfield.toml", environment=environment)
        async with Gateway(settings) as gateway, client_of(gateway) as client:
            through.append(await admitted(client, "cheap", calls=5, callers=1))
    assert through == [3, 0]
