"""Responses of several gateways on one database."""

import asyncio
from pathlib import Path

from tests.responses.conformity import check_stream
from tests.responses.scene import WITHIN, held, message, says, scene


async def test_gateways_on_one_database_continue_resume_and_cancel_each_others_responses(
    tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with scene(tmp_path / "a", store=postgres_url) as a, scene(tmp_path / "b", store=postgres_url) as b:
        a.engine.plays(says("One."), held(asyncio.Event(), *message("Half")[:2]))
        b.engine.plays(says("Two."))
        first = await a.create()
        second = await b.create(previous_response_id=first["id"])
        queued = await a.create(background=True)
        reading = asyncio.create_task(b.again(queued["id"]))

        answer = await b.client.post(f"/v1/responses/{queued['id']}/cancel")

        assert second["previous_response_id"] == first["id"]
        assert answer.json()["status"] == "cancelled"
        assert a.engine.stopped.is_set()
        assert answer.json() == await a.get(queued["id"])
        stream = await asyncio.wait_for(reading, WITHIN)
        check_stream(stream)
        assert stream[-1]["response"] == answer.json()
