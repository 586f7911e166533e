"""kill -9 in a tool that pays, then kill -9 in the call that asks whether it did: what is said in the end is true."""

from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.stories.killable import KillableGateway, killable_gateways

pytestmark = pytest.mark.timeout(180)


async def begin_both(gateway: KillableGateway) -> list[dict[str, Any]]:
    """One payment that took effect and one that did not, neither of which answers."""
    calls = []
    for order, agent, at_once in ((1, "ada", True), (2, "bob", False)):
        call, _ = await gateway.begin("pay", agent=agent, order=order, at_once=at_once)
        await gateway.started(f"held-{order}")
        calls.append(call)
    return calls


async def asked_about_both(gateway: KillableGateway) -> None:
    for order in (1, 2):
        await gateway.started(f"asked-{order}")


async def check(gateway: KillableGateway, calls: list[dict[str, Any]]) -> None:
    paid, unpaid = [await gateway.record(call["id"], wait=30) for call in calls]
    result = {"times": 1, "call": paid["id"]}
    assert (paid["status"], paid["result"], paid["attempt"]) == ("completed", result, 3)
    assert (unpaid["status"], unpaid["error"]["code"]) == ("failed", "interrupted")
    assert "It did not take effect" in unpaid["error"]["message"]
    for call in (paid, unpaid):
        asked = await gateway.record(call["verified_by"])
        assert (asked["tool"], asked["status"], asked["run_id"]) == ("was_it_paid", "completed", call["run_id"])
        assert asked["arguments"] == {"call_id": call["id"], "arguments": call["arguments"]}
    assert await gateway.told("ada") == [(f"tr:{paid['id']}", result)]
    [(event, told)] = await gateway.told("bob")
    assert (event, told["happened"]) == (f"tr:{unpaid['id']}", False)
    assert gateway.starts == {"paid-1": 1, "held-1": 1, "held-2": 1, "asked-1": 2, "asked-2": 2}


@requirement("RUN-verify-crash")
async def test_on_sqlite_the_truth_survives_two_kills(tmp_path: Path) -> None:
    async with killable_gateways(tmp_path, "sqlite:///calls.db", count=1) as (gateway,):
        calls = await begin_both(gateway)
        gateway.kill()
        await gateway.start()
        await asked_about_both(gateway)
        gateway.kill()
        await gateway.start()
        await check(gateway, calls)


@requirement("RUN-verify-crash")
async def test_two_gateways_on_postgresql_ask_for_one_another(
    tmp_path: Path, postgres_server: PostgresServer, empty_database: str
) -> None:
    def end_leases() -> None:
        postgres_server.run("UPDATE gateways SET alive_until = 0 WHERE dead = 0", database=empty_database)

    async with killable_gateways(tmp_path, postgres_server.url(empty_database), count=2) as (a, b):
        calls = await begin_both(a)
        a.kill()
        end_leases()
        await asked_about_both(b)
        await a.start()
        b.kill()
        end_leases()
        await check(a, calls)
