"""What `read_resource` and `get_prompt` say of themselves, whatever servers list, and what a model is told."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.catalog.catalog import Catalog
from jackfield.errors import InvalidArguments, PromptNotFound, ResourceNotFound
from jackfield.model.call import Call, CallError, CallStatus
from jackfield.model.resource import Resource
from jackfield.model.tool import CallKind, Tool
from jackfield.runs.outputs import output_of
from jackfield.runs.reading import LONGEST_LISTED, MOST_LISTED, reading_tools, reading_tools_within
from jackfield.sources.base import Listing
from tests.catalog.given import key
from tests.requirement import requirement

OPS = key("admin")


def prompt(name: str, about: str = "") -> Tool:
    schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    return Tool(source="docs", name=name, description=about, input_schema=schema, operation=CallKind.PROMPT)


def catalog_with(count: int, *prompts: Tool, about: str = "") -> Catalog:
    catalog = Catalog()
    resources = tuple(
        Resource(source="docs", uri=f"note://{n:06}", listed={"uri": f"note://{n:06}", "name": about})
        for n in range(count)
    )
    catalog.update((("docs", Listing(resources=resources, prompts=prompts)),))
    return catalog


def test_nothing_to_read_is_no_tool() -> None:
    assert reading_tools(catalog_with(0), OPS) == ()
    assert [tool.name for tool in reading_tools(catalog_with(1), OPS)] == ["read_resource"]
    assert [tool.name for tool in reading_tools(catalog_with(0, prompt("review")), OPS)] == ["get_prompt"]
    assert reading_tools(catalog_with(1, prompt("review")), key("call", tools=("clock",))) == ()


@requirement("MCP2-read-covered")
async def test_a_description_is_short_however_much_there_is() -> None:
    many = [prompt(f"p{n}", "words " * 500) for n in range(100)]
    catalog = catalog_with(30_000, *many, about="a\nlong " * 300)
    read, get = reading_tools(catalog, OPS)
    assert "note://000019" in read.description
    assert "and 29,980 more" in read.description
    assert "and 80 more" in get.description
    for tool in (read, get):
        assert len(tool.description) < (MOST_LISTED + 2) * (LONGEST_LISTED + 4)
        assert "\n" not in tool.description
        assert tool.definition.description == tool.description

    [few] = await reading_tools_within(catalog, OPS, ["docs:note://00000?", "other:*"], label="jackfield")
    assert "note://000009" in few.description
    assert "more" not in few.description
    assert await reading_tools_within(catalog, OPS, ["other:*"], label="jackfield") == ()
    within = ("docs:note://00000?", "other:*")
    assert catalog.resources(OPS, within=within) is catalog.resources(OPS, within=within), "made once"


def test_what_a_call_names_is_found_when_it_is_made() -> None:
    catalog = catalog_with(2, prompt("review"))
    read, get = (tool.target for tool in reading_tools(catalog, OPS))
    assert read is not None
    assert get is not None
    target = read({"uri": "note://000001"})
    assert (target.entry.tool.operation, target.entry.tool.source, target.arguments) == (
        CallKind.RESOURCE,
        "docs",
        {"uri": "note://000001"},
    )
    assert get({"name": "review", "arguments": {"code": "x"}}).arguments == {"code": "x"}
    wrongs: list[dict[str, object]] = [{}, {"uri": 3}, {"uri": ""}, {"uri": "x" * 5_000}, {"uri": "a://b", "more": 1}]
    for wrong in wrongs:
        with pytest.raises(InvalidArguments):
            read(wrong)
    with pytest.raises(ResourceNotFound):
        read({"uri": "note://gone"})
    with pytest.raises(PromptNotFound):
        get({"name": "gone"})
    catalog.update((("docs", Listing()),))
    with pytest.raises(ResourceNotFound):
        read({"uri": "note://000001"})


def read_call(kind: CallKind, result: Any, **fields: Any) -> Call:
    return Call(
        id="call_1",
        run_id="run_1",
        tool="note://one",
        source="docs",
        tool_version="",
        arguments=Raw(b'{"uri":"jackfield://docs/one"}'),
        principal="ops",
        status=CallStatus.COMPLETED,
        kind=kind,
        result=Raw(msgspec.json.encode(result)),
        **fields,
    )


def test_a_model_is_told_what_was_read() -> None:
    contents = [
        {"uri": "note://one", "text": "Hello"},
        {"uri": "note://one/picture", "mimeType": "image/png", "blob": "AAE="},
        {"uri": "note://one/sound", "mimeType": "audio/wav", "blob": "AAE="},
        3,
    ]
    output = output_of(read_call(CallKind.RESOURCE, {"contents": contents}))
    assert output.text.startswith(
        "[resource jackfield://docs/one]\nHello\n[resource note://one/picture: image/png, shown"
    )
    assert "audio/wav" in output.text
    assert [image.image_url for image in output.images] == ["data:image/png;base64,AAE="]

    messages = [
        {"role": "user", "content": {"type": "text", "text": "Review"}},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Fine"}, {"type": "image", "data": "AAE=", "mimeType": "image/png"}],
        },
        {"role": "user"},
        "odd",
    ]
    output = output_of(read_call(CallKind.PROMPT, {"messages": messages}))
    assert output.text.startswith("[user]\nReview\n[assistant]\nFine\n[image: image/png, shown as image 1]\n[user]\n")
    assert len(output.images) == 1
    odds: list[Any] = [[], {}, {"contents": 3}, "text"]
    for odd in odds:
        assert output_of(read_call(CallKind.RESOURCE, odd)).text == "(The tool gave back nothing.)"


def test_a_read_that_failed_is_told_in_its_servers_words() -> None:
    failed = msgspec.structs.replace(
        read_call(CallKind.RESOURCE, {"error": {"code": -32002, "message": "Resource not found", "data": {"x": 1}}}),
        status=CallStatus.FAILED,
        error=CallError(code="mcp_error", message="Resource not found"),
    )
    output = output_of(failed)
    assert output.text == "Resource not found"
    assert output.error is not None
