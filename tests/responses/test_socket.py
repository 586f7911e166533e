"""`/v1/responses` over WebSocket, and conversations that are summed up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from jackfield.errors import BadRequest
from jackfield.model.items import Compaction, Message, text_of
from jackfield.responses.input import opened, sealed
from jackfield.responses.wire import TERMINAL
from jackfield.runs.events import Emit, Ended, RunError, RunStarted
from tests.requirement import requirement
from tests.responses.conformity import SCHEMAS, check_stream, validator
from tests.responses.scene import WITHIN, Scene, held, message, refuses, says, scene


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as opened_scene:
        yield opened_scene


@asynccontextmanager
async def connected(here: Scene, key: str = "ada-key") -> AsyncIterator[ClientConnection]:
    url = here.url.replace("http:", "ws:") + "/v1/responses"
    async with connect(url, additional_headers={"authorization": f"Bearer {key}"}) as socket:
        yield socket


async def turn(socket: ClientConnection, **body: Any) -> list[dict[str, Any]]:
    """One request, and all messages up to its end or its refusal."""
    await socket.send(json.dumps({"type": "response.create", "model": "demo", "input": "Hi", **body}))
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(WITHIN):
        while True:
            told.append(json.loads(await socket.recv()))
            if told[-1]["type"] in TERMINAL or "status" in told[-1]:
                return told


def code_of(told: list[dict[str, Any]]) -> tuple[int, str]:
    (refusal,) = told
    validator("WebSocketErrorEvent", with_tools=False).validate(refusal)
    return refusal["status"], refusal["error"]["code"]


@requirement("CON-resp-transports")
async def test_a_response_is_the_same_over_json_sse_and_websocket(here: Scene) -> None:
    here.engine.plays(says("Hello."), says("Hello."), says("Hello."))
    plain = await here.create()
    streamed = await here.stream()
    async with connected(here) as socket:
        told = await turn(socket)

    check_stream(told)
    assert [event["type"] for event in told] == [event["type"] for event in streamed]
    own = ("id", "created_at", "completed_at")
    answers = [plain, streamed[-1]["response"], told[-1]["response"]]
    assert [await here.get(answer["id"]) for answer in answers] == answers
    kept = [{key: value for key, value in answer.items() if key not in own} for answer in answers]
    assert kept[0] == kept[1] == kept[2]


async def test_one_connection_carries_one_response_after_the_other(here: Scene) -> None:
    here.engine.plays(says("One."), says("Two."))
    async with connected(here) as socket:
        first = await turn(socket, store=False)
        second = await turn(socket, store=False)

    for told in (first, second):
        check_stream(told)
    assert first[0]["response"]["id"] != second[0]["response"]["id"]


async def test_what_is_not_stored_is_continued_on_its_own_connection_alone(here: Scene) -> None:
    here.engine.plays(says("OK."), says("Cobalt."), says("Recovered."))
    async with connected(here) as socket:
        first = await turn(socket, store=False, input="Remember: cobalt.")
        first_id = first[-1]["response"]["id"]
        second = await turn(socket, store=False, input="Which word?", previous_response_id=first_id)
    async with connected(here) as other:
        refused = await turn(other, previous_response_id=second[-1]["response"]["id"])
        await turn(other, store=False)

    said = [text_of(item) for item in here.engine.asked[1].history if isinstance(item, Message)]
    assert said == ["Remember: cobalt.", "OK."]
    assert second[-1]["response"]["previous_response_id"] == first_id
    assert code_of(refused) == (400, "previous_response_not_found")


async def test_what_is_stored_is_continued_on_any_connection(here: Scene) -> None:
    here.engine.plays(says("One."), says("Two."))
    first = await here.create()
    async with connected(here) as socket:
        told = await turn(socket, previous_response_id=first["id"])

    check_stream(told)
    assert [text_of(item) for item in here.engine.asked[1].history if isinstance(item, Message)] == ["Hi", "One."]


async def test_a_continuation_that_fails_forgets_what_it_continued(here: Scene) -> None:
    here.engine.plays(says("OK."))
    async with connected(here) as socket:
        first = (await turn(socket, store=False))[-1]["response"]["id"]
        output = {"type": "function_call_output", "call_id": "missing", "output": "x"}
        failed = await turn(socket, store=False, previous_response_id=first, input=[output])
        again = await turn(socket, store=False, previous_response_id=first)

    assert code_of(failed) == (400, "invalid_request")
    assert code_of(again) == (400, "previous_response_not_found")


async def test_a_refused_or_broken_request_leaves_the_connection_usable(here: Scene) -> None:
    here.engine.plays(refuses(BadRequest("No.", param="tools")), refuses(ZeroDivisionError("secret")), says("Fine."))
    async with connected(here) as socket:
        refused = await turn(socket)
        crashed = await turn(socket)
        wrong = await turn(socket, model=None)
        unknown = await turn(socket, type="response.destroy")
        in_background = await turn(socket, background=True)
        await socket.send(b"bytes")
        as_bytes = [json.loads(await socket.recv())]
        fine = await turn(socket)

    assert code_of(refused) == (400, "invalid_request")
    assert code_of(crashed) == (500, "internal_error")
    assert "secret" not in str(crashed)
    for told in (wrong, unknown, in_background, as_bytes):
        assert code_of(told) == (400, "invalid_request")
    check_stream(fine)


async def test_a_socket_that_closes_stops_its_response(here: Scene) -> None:
    here.engine.plays(held(asyncio.Event(), *message("Half")[:2]))
    async with connected(here) as socket:
        await socket.send(json.dumps({"type": "response.create", "model": "demo", "input": "Hi"}))
        await asyncio.wait_for(here.engine.was_asked.wait(), WITHIN)

    await asyncio.wait_for(here.engine.stopped.wait(), WITHIN)
    assert (await here.until_ended(here.engine.asked[0].response_id))["status"] == "cancelled"


async def test_a_server_that_stops_says_how_the_response_ended(here: Scene) -> None:
    here.engine.plays(held(asyncio.Event()))
    async with connected(here) as socket:
        telling = asyncio.create_task(turn(socket))
        await asyncio.wait_for(here.engine.was_asked.wait(), WITHIN)
        await here.stop()
        told = await asyncio.wait_for(telling, WITHIN)
        await asyncio.wait_for(socket.wait_closed(), WITHIN)

    check_stream(told)
    assert told[-1]["response"]["error"]["code"] == "interrupted"
    assert socket.close_code == 1001


async def test_a_key_that_may_not_call_opens_no_socket(here: Scene) -> None:
    with pytest.raises(InvalidStatus) as raised:
        async with connected(here, key="reader-key"):
            pass
    assert raised.value.response.status_code == 403


async def compact(here: Scene, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = await here.client.post("/v1/responses/compact", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


@requirement("CON-resp-compact-models")
async def test_a_compacted_conversation_stands_for_itself_in_the_next_request(here: Scene) -> None:
    here.engine.plays(says("Launch on Tuesday."), says("Tuesday."))
    conversation = [{"role": "user", "content": "We launch on Tuesday."}, {"role": "assistant", "content": "Noted."}]

    compacted = await compact(here, model="demo", input=conversation, prompt_cache_key="k")
    await here.create(input=[*compacted["output"], {"role": "user", "content": "When?"}])

    validator("CompactResource", with_tools=False).validate(compacted)
    assert "CompactResource" in SCHEMAS["components"]["schemas"]
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    asked = here.engine.asked[0].request
    assert [text_of(item) for item in asked.input[:2] if isinstance(item, Message)] == [
        "We launch on Tuesday.",
        "Noted.",
    ]
    assert len(asked.input) == 3
    told, question = here.engine.asked[1].request.input
    assert isinstance(told, Message)
    assert text_of(told).endswith("Launch on Tuesday.")
    assert isinstance(question, Message)
    models = await here.client.get("/v1/models")
    assert [model["id"] for model in models.json()["data"]] == ["demo"]


async def test_a_kept_compaction_is_opened_again_when_the_conversation_goes_on(here: Scene) -> None:
    here.engine.plays(says("One."), says("Two."))
    item = {"type": "compaction", "encrypted_content": sealed("All of it.").encrypted_content}
    first = await here.create(input=[item])
    await here.create(previous_response_id=first["id"])

    history = here.engine.asked[1].history
    assert isinstance(history[0], Message)
    assert text_of(history[0]).endswith("All of it.")
    items = await here.get(f"{first['id']}/input_items")
    assert items["data"][0]["type"] == "compaction"


async def test_what_cannot_be_compacted_is_told(here: Scene) -> None:
    async def fail(emit: Emit) -> None:
        emit(RunStarted())
        emit(Ended(status="failed", error=RunError("model_error", "It broke.")))

    here.engine.plays(fail)

    assert (await compact(here, 400, input="Hi"))["error"]["param"] == "model"
    refused = await compact(here, 503, model="demo", input="Hi")
    assert "It broke." in refused["error"]["message"]


@pytest.mark.parametrize("content", ["", "not base64!", "aGVsbG8="])
def test_a_compaction_that_was_not_made_here_is_refused(content: str) -> None:
    with pytest.raises(BadRequest, match="not made here"):
        opened([Compaction(id="cmp_1", encrypted_content=content)])
