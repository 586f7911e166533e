"""Runs at two gateways of one database: what one has in hand is shown, followed and ended at the other."""

from pathlib import Path

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.runs.test_run_api import CONFIG, PROGRAM, SCRIPT, TOOLS, in_status, show, started_cycle
from tests.waiting import eventually_async


def gateway_at(folder: Path, url: str) -> Gateway:
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    (folder / "mind.toml").write_text(SCRIPT)
    (folder / "broken.toml").write_text(SCRIPT)
    (folder / "jackfield.toml").write_text(CONFIG)
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": url, "JACKFIELD_VAULT_KEY": "A" * 43}
    return Gateway(load_settings(folder / "jackfield.toml", environment=environment))


@requirement("RUN-ENDED")
async def test_cycles_and_programs_are_ended_at_any_gateway(tmp_path: Path, postgres_url: str) -> None:
    async with gateway_at(tmp_path / "a", postgres_url) as a, gateway_at(tmp_path / "b", postgres_url) as b:
        clients = {a.id: client_of(a), b.id: client_of(b)}
        here = clients[a.id]
        cycle = await started_cycle(here, f"hold {tmp_path / 'never'}")
        run = await eventually_async(lambda: _with_call(here, cycle))
        owner, other = (a, clients[b.id]) if run["owner"] == a.id else (b, clients[a.id])
        assert owner.scheduler.awake == {"ada"}
        answer = await other.post(f"/api/runs/{cycle}/cancel")
        assert answer.status_code == 200, answer.text
        await eventually_async(lambda: not owner.scheduler.awake)
        stopped = await in_status(here, cycle, "cancelled")
        assert stopped["reason"] == "Stopped by admin."

        call = (
            await here.post("/api/v1/tools/run_program/execute", json={"arguments": {"code": PROGRAM}}, timeout=60)
        ).json()
        program = f"prog_{call['call_id']}"
        await in_status(other, program, "parked")
        assert (await clients[b.id].post(f"/api/runs/{program}/cancel")).status_code == 200
        await in_status(here, program, "cancelled")
        for client in clients.values():
            await client.aclose()


async def _with_call(client: httpx2.AsyncClient, run_id: str) -> dict[str, object] | None:
    run = await show(client, run_id)
    return run if run["steps"] and run["steps"][0]["calls"] else None
