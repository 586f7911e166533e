"""Logins at a server behind the gateway: made by a browser, each person's own, used, refreshed, ended."""

from pathlib import Path

from tests.connections.world import gateway_at, upstream


async def test_a_person_logs_in_and_calls_are_made_with_their_own_token(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        done = await place.log_in("ann")
        assert done.status_code == 200, done.text
        assert "You are connected" in done.text
        await place.listed()
        answer = await place.call("ann")
        assert answer.json()["result"] == "ann", answer.text
