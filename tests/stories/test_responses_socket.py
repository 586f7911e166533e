"""Responses over WebSocket through the official openai SDK: the compliance suite's WebSocket tests by their names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jackfield.responses.wire import TERMINAL
from tests.requirement import requirement
from tests.responses.conformity import check_stream
from tests.stories.responses import CATALOG, MODEL, Sdk

# The SDK's own way to open its connection, which the library below it would rather not see.
pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used as a context manager:DeprecationWarning")


class Talk:
    """One connection of the SDK: a request, then all that comes for it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, said: Any, **fields: Any) -> list[dict[str, Any]]:
        self._connection.response.create(model=MODEL, input=said, **fields)
        told: list[dict[str, Any]] = []
        while not told or (told[-1]["type"] not in TERMINAL and "status" not in told[-1]):
            told.append(json.loads(self._connection.recv_bytes()))
        return told

    def answered(self, said: Any, **fields: Any) -> dict[str, Any]:
        """The response, after all events of its stream were held against the spec."""
        told = self.ask(said, **fields)
        check_stream(told, with_tools="tools" in fields)
        response: dict[str, Any] = told[-1]["response"]
        assert response["status"] == "completed"
        return response

    def refused(self, said: Any, **fields: Any) -> str:
        (told,) = self.ask(said, **fields)
        assert (told["type"], told["status"]) == ("error", 400)
        return str(told["error"]["code"])


@contextmanager
def talking(client: Sdk) -> Iterator[Talk]:
    with client.responses.connect() as connection:
        yield Talk(connection)


def says(response: dict[str, Any]) -> str:
    text: str = response["output"][-1]["content"][0]["text"]
    return text


@requirement("CON-resp-transports")
def test_websocket_response_has_events_of_their_schemas(client: Sdk) -> None:
    with talking(client) as talk:
        made = talk.answered([{"type": "message", "role": "user", "content": "Count from 1 to 3."}])

    assert says(made) == "Hello to you."
    assert client.responses.retrieve(made["id"]).to_dict() == made


def test_websocket_sequential_responses_come_one_after_the_other(client: Sdk) -> None:
    with talking(client) as talk:
        first = talk.answered("good morning", store=False)
        second = talk.answered("add 2 and 40", tools=[CATALOG], store=False)

    assert (says(first), says(second)) == ("Hello to you.", "The result is 42.")


def test_websocket_continuation_of_what_is_not_stored_works_on_its_connection(client: Sdk) -> None:
    with talking(client) as talk:
        first = talk.answered("add 2 and 40", tools=[CATALOG], store=False)
        second = talk.answered("good", tools=[CATALOG], store=False, previous_response_id=first["id"])

    assert second["previous_response_id"] == first["id"]
    assert [item["type"] for item in second["output"]] == ["message"]


def test_websocket_reconnect_store_false_recovery_begins_anew(client: Sdk) -> None:
    with talking(client) as talk:
        lost = talk.answered("good morning", store=False)
    with talking(client) as talk:
        assert talk.refused("go on", store=False, previous_response_id=lost["id"]) == "previous_response_not_found"
        assert says(talk.answered("start again", store=False)) == "Hello to you."


def test_websocket_previous_response_not_found_is_told(client: Sdk) -> None:
    with talking(client) as talk:
        assert talk.refused("go on", previous_response_id="resp_nowhere") == "previous_response_not_found"


def test_websocket_failed_continuation_evicts_cache(client: Sdk) -> None:
    stray = {"type": "function_call_output", "call_id": "call_nobody", "output": "?"}
    with talking(client) as talk:
        first = talk.answered("good morning", store=False)
        assert talk.refused([stray], store=False, previous_response_id=first["id"]) == "invalid_request"
        assert talk.refused("and now?", store=False, previous_response_id=first["id"]) == "previous_response_not_found"


@requirement("CON-resp-compact-models")
def test_websocket_compact_new_chain_begins_with_the_compacted_conversation(client: Sdk) -> None:
    compacted = client.responses.compact(
        model=MODEL,
        prompt_cache_key="one",
        input=[{"role": "user", "content": "We launch on Tuesday."}, {"role": "assistant", "content": "Understood."}],
    )
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output][-1] == "compaction"

    with talking(client) as talk:
        kept = [item.to_dict() for item in compacted.output]
        made = talk.answered([*kept, {"type": "message", "role": "user", "content": "When?"}], store=False)
    assert says(made) == "Hello to you."


@requirement("TOOL-question-stream-results")
def test_over_a_websocket_too_the_gateway_runs_tools_and_asks_before_those_that_are_guarded(client: Sdk) -> None:
    with talking(client) as talk:
        asked = talk.answered("pay", tools=[CATALOG])
        request = asked["output"][-1]
        answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        done = talk.answered([answer], tools=[CATALOG], previous_response_id=asked["id"])

    assert [item["type"] for item in done["output"]] == ["mcp_call", "message"]
    assert says(done) == "The result is 120."
