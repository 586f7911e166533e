"""Responses through the official openai SDK, unchanged: made, streamed, kept, continued, stopped, refused.

Every stream and every response object is also held against the schemas of Open Responses, by the tap under the client.
"""

import itertools
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.responses import CALLER_KEY, CATALOG, MODEL, Sdk, Tap, calls_of, kinds
from tests.waiting import eventually


class City(BaseModel):
    city: str
    celsius: int


@requirement("CON-resp-input-string", "TOOL-loop-ends-on-message")
def test_a_text_gets_an_answer_with_its_usage(client: Sdk) -> None:
    made = client.responses.create(
        model=MODEL, input="good morning", instructions="Be brief.", temperature=0.2, metadata={"story": "one"}
    )

    assert (made.status, made.output_text, kinds(made)) == ("completed", "Hello to you.", ["message"])
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (4, 3, 7)
    assert (made.model, made.temperature, made.instructions, made.metadata) == (
        MODEL,
        0.2,
        "Be brief.",
        {"story": "one"},
    )


@requirement("CON-resp-transports")
def test_the_sdks_own_accumulator_takes_a_stream_and_ends_with_what_is_kept(client: Sdk, tap: Tap) -> None:
    with client.responses.stream(model=MODEL, input="good morning") as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()

    assert types == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert final.output_text == "Hello to you."
    assert [event["type"] for event in tap.last_events] == types
    assert client.responses.retrieve(final.id).to_dict() == tap.exchanges[0].events[-1]["response"]


def test_a_stream_without_the_accumulator_is_typed_event_by_event(client: Sdk) -> None:
    events = list(client.responses.create(model=MODEL, input="good morning", stream=True))

    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == "Hello to you."
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_reasoning_and_refusals_reach_the_client_as_what_they_are(client: Sdk) -> None:
    with client.responses.stream(model=MODEL, input="think first") as stream:
        thought = stream.get_final_response()
    refused = client.responses.create(model=MODEL, input="refuse, please")

    assert kinds(thought) == ["reasoning", "message"]
    reasoning = thought.output[0]
    assert reasoning.content[0].text == "What would they like to hear?"
    message = refused.output[0]
    assert message.content[0].to_dict() == {"type": "refusal", "refusal": "I would rather not."}


def test_a_structured_answer_is_parsed_by_the_sdk(client: Sdk) -> None:
    parsed = client.responses.parse(model=MODEL, input="as json", text_format=City)
    with client.responses.stream(model=MODEL, input="as json", text_format=City) as stream:
        streamed = stream.get_final_response()

    assert parsed.output_parsed == streamed.output_parsed == City(city="Lisbon", celsius=21)


def test_an_answer_that_is_cut_short_is_incomplete_and_says_why(client: Sdk, tap: Tap) -> None:
    cut = client.responses.create(model=MODEL, input="cut short")
    events = list(client.responses.create(model=MODEL, input="cut short", stream=True))

    assert cut.status == "incomplete"
    assert cut.incomplete_details.reason == "max_output_tokens"
    assert events[-1].type == "response.incomplete"
    assert cut.output[-1].to_dict()["status"] == "incomplete"


@requirement("CON-resp-stored")
def test_a_response_is_retrieved_listed_continued_and_deleted(client: Sdk) -> None:
    first = client.responses.create(model=MODEL, input="good morning")
    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=[{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
    )

    assert client.responses.retrieve(second.id).to_dict() == second.to_dict()
    assert second.previous_response_id == first.id
    pages = client.responses.input_items.list(second.id, order="asc", limit=1)
    said = [item.content[0].to_dict()["text"] for item in pages if item.type == "message"]
    assert said == ["one", "two"]
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError) as gone:
        client.responses.retrieve(first.id)
    assert gone.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as lost:
        client.responses.create(model=MODEL, previous_response_id=second.id, input="and now?")
    assert lost.value.code == "previous_response_not_found"


@requirement("CON-resp-stored")
def test_a_response_that_is_not_to_be_stored_is_nowhere(client: Sdk) -> None:
    made = client.responses.create(model=MODEL, input="good morning", store=False)

    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


@requirement("CON-resp-background")
def test_a_background_response_is_polled_to_its_end(client: Sdk) -> None:
    queued = client.responses.create(model=MODEL, input="slowly", background=True)
    ended = eventually(lambda: _if(client.responses.retrieve(queued.id), "completed"))

    assert queued.status == "queued"
    assert ended.output_text == "One two three four five."


@requirement("CON-resp-background", "CON-resp-sequence")
def test_a_background_stream_that_broke_is_resumed_behind_the_last_event_that_was_read(client: Sdk, tap: Tap) -> None:
    broken = client.responses.create(model=MODEL, input="slowly", background=True, stream=True)
    seen = list(itertools.islice(broken, 6))
    broken.close()
    created = seen[0]
    assert created.type == "response.created"

    again = client.responses.retrieve(
        created.response.id, stream=True, starting_after=seen[-1].sequence_number, extra_headers={}
    )
    rest = list(again)
    whole = list(client.responses.retrieve(created.response.id, stream=True))

    assert [event.sequence_number for event in (*seen, *rest)] == list(range(len(whole)))
    assert [event.to_dict() for event in (*seen, *rest)] == [event.to_dict() for event in whole]
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.output_text == "One two three four five."
    tap.exchanges = tap.exchanges[2:]  # of the first two each has a part of the stream only


@requirement("CON-resp-background", "TOOL-loop-ends-on-cancel")
def test_a_background_response_is_cancelled_with_its_tool(client: Sdk, actor: RunningGateway) -> None:
    made = client.responses.create(model=MODEL, input="wait", tools=[CATALOG], background=True)
    eventually(lambda: [call for call in calls_of(actor, made.id) if call["status"] == "running"])
    cancelled = client.responses.cancel(made.id)

    assert cancelled.status == "cancelled"
    assert client.responses.retrieve(made.id).status == "cancelled"
    assert [call["status"] for call in calls_of(actor, made.id)] == ["cancelled"]


@requirement("TOOL-loop-ends-on-cancel")
def test_a_client_that_hangs_up_stops_the_tool_that_ran_for_it(client: Sdk, actor: RunningGateway) -> None:
    stream = client.responses.create(model=MODEL, input="wait", tools=[CATALOG], stream=True)
    response_id = ""
    for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.mcp_call.in_progress":
            break
    stream.close()

    assert eventually(lambda: [c for c in calls_of(actor, response_id) if c["status"] == "cancelled"])
    assert eventually(lambda: _if(client.responses.retrieve(response_id), "cancelled"))


def _if(response: Any, status: str) -> Any:
    return response if response.status == status else None


@requirement("CON-resp-errors")
@pytest.mark.parametrize(
    ("asked", "code", "param"),
    [
        ({"input": "hello"}, "invalid_request", "model"),
        ({"model": MODEL, "input": "hello", "previous_response_id": "resp_none"}, "previous_response_not_found", None),
        ({"model": MODEL}, "invalid_request", "input"),
        ({"model": MODEL, "input": "hello", "max_tool_calls": 0}, "invalid_request", "max_tool_calls"),
        ({"model": MODEL, "input": "hello", "tools": [{"type": "function", "name": "a b"}]}, "invalid_request", None),
        ({"model": MODEL, "input": "hello", "tools": [{"type": "acme:nothing"}]}, "invalid_request", None),
        ({"model": MODEL, "input": "hello", "tool_choice": "required"}, "invalid_request", "tool_choice"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"stream": True}, {"background": True}], ids=["plain", "stream", "background"])
def test_what_is_wrong_before_the_first_event_is_an_http_error(
    client: Sdk, asked: dict[str, object], code: str, param: str | None, how: dict[str, bool]
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/responses", body={**asked, **how}, cast_to=object)

    assert refused.value.code == code
    assert refused.value.param == param or param is None
    assert str(refused.value.message).endswith((".'", ".", "}"))


def test_an_unknown_model_is_not_found_and_the_known_ones_are_named(client: Sdk) -> None:
    with pytest.raises(openai.NotFoundError, match=f"'nobody'. Known: {MODEL}"):
        client.responses.create(model="nobody", input="hello", stream=True)


def test_a_wrong_key_and_another_keys_response_are_refused(client: Sdk, actor: RunningGateway) -> None:
    mine = client.responses.create(model=MODEL, input="good morning")

    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="key-of-nobody").responses.create(model=MODEL, input="hello")
    with pytest.raises(openai.NotFoundError):
        client.with_options(api_key=CALLER_KEY).responses.retrieve(mine.id)


@requirement("CON-resp-errors", "TOOL-loop-ends-on-error")
def test_a_model_that_fails_after_the_first_event_is_told_by_an_error_and_a_failed_response(
    client: Sdk, tap: Tap
) -> None:
    with pytest.raises(openai.APIError, match="The engine fell off"):
        list(client.responses.create(model=MODEL, input="break off", stream=True))
    failed = client.responses.create(model=MODEL, input="break off")
    busy = client.responses.create(model=MODEL, input="too busy")

    assert failed.status == busy.status == "failed"
    assert (failed.error.code, failed.error.message) == ("model_error", "The engine fell off.")
    assert failed.output_text == "I was about to"
    assert busy.error.code == "rate_limited"


def test_the_models_are_listed(client: Sdk) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
