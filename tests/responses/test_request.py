"""The body of a request: every accepted spelling becomes one form, everything else a sentence."""

import json
from typing import Any

import msgspec
import pytest

from jackfield.errors import BadRequest
from jackfield.model.items import (
    InputImage,
    InputText,
    ItemReference,
    McpCall,
    McpToolExecutionError,
    Message,
    OutputText,
    Reasoning,
)
from jackfield.model.response_request import (
    AllowedTools,
    ApprovalRules,
    CatalogTool,
    ChosenTool,
    CreateResponse,
    ExtensionTool,
    FunctionTool,
    McpTool,
    ToolSubset,
)
from jackfield.responses.request import read_request
from jackfield.responses.resource import new_resource
from tests.requirement import requirement
from tests.responses.conformity import check_resource

ADD = {"type": "function", "name": "add"}


def read(**body: Any) -> CreateResponse:
    return read_request({"model": "demo", "input": "Hi", **body})


def refusal(**body: Any) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        read(**body)
    return raised.value


@requirement("CON-resp-input-string")
def test_a_string_is_what_the_user_says() -> None:
    (said,) = read(input="Hi").input

    assert isinstance(said, Message)
    assert (said.role, said.content) == ("user", (InputText(text="Hi"),))
    assert said.id.startswith("msg_")


def test_messages_need_neither_type_nor_parts() -> None:
    given = [{"role": "assistant", "content": "Yes."}, {"role": "developer", "content": [], "id": "msg_1"}]

    first, second = read(input=given).input

    assert isinstance(first, Message)
    assert first.content == (OutputText(text="Yes."),)
    assert second == Message(id="msg_1", role="developer")


def test_null_is_the_same_as_left_out() -> None:
    given: list[Any] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": None, "status": None},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:x", "detail": None, "file_id": None}]},
        {"id": "msg_9", "type": None},
    ]

    thought, seen, named = read(input=given, tools=None, temperature=None, metadata=None).input

    assert thought == Reasoning(id="rs_1")
    assert isinstance(seen, Message)
    assert seen.content == (InputImage(image_url="data:x"),)
    assert named == ItemReference(id="msg_9")


def test_an_error_that_is_a_string_becomes_an_object() -> None:
    given = {"type": "mcp_call", "id": "m", "server_label": "s", "name": "t", "arguments": "{}", "error": "broke"}

    (call,) = read(input=[given]).input

    assert isinstance(call, McpCall)
    assert call.error == McpToolExecutionError(content="broke")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ("text", "input[0]"),
        ({"type": "web_search_call", "id": "x"}, "input[0].type"),
        ({"text": "x"}, "input[0].type"),
        ({"role": "robot", "content": "x"}, "input[0].role"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[0].call_id"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].text"),
    ],
)
def test_an_item_that_does_not_fit_is_named_by_its_place(item: Any, param: str) -> None:
    assert refusal(input=[item]).param == param


def test_every_kind_of_tool_is_read() -> None:
    tools = read(
        tools=[
            {**ADD, "parameters": {"type": "object"}, "strict": True, "description": None},
            {
                "type": "mcp",
                "server_label": "s",
                "server_url": "https://mcp.example",
                "headers": {"a": "b"},
                "allowed_tools": {"tool_names": ["x"], "read_only": True},
                "require_approval": {"never": {"tool_names": ["x"]}},
            },
            {"type": "mcp", "server_label": "t", "allowed_tools": ["x"], "require_approval": "never"},
            {"type": "jackfield:catalog", "tools": ["git*"]},
            {"type": "jackfield:catalog"},
            {"type": "acme:search", "depth": 3},
        ]
    ).tools

    assert tools == (
        FunctionTool(name="add", parameters={"type": "object"}, strict=True),
        McpTool(
            server_label="s",
            server_url="https://mcp.example",
            headers={"a": "b"},
            allowed_tools=ToolSubset(tool_names=("x",), read_only=True),
            require_approval=ApprovalRules(never=ToolSubset(tool_names=("x",))),
        ),
        McpTool(server_label="t", allowed_tools=("x",), require_approval="never"),
        CatalogTool(tools=("git*",)),
        CatalogTool(),
        ExtensionTool(type="acme:search", options={"depth": 3}),
    )


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"name": "x"}], "tools[0]"),
        ([{"type": "custom", "name": "not a name"}], "tools[0].name"),
        ([{"type": "namespace", "name": "n"}], "tools[0]"),
        ([{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}], "tools[0].tools[0].name"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"type": "mcp"}], "tools[0].server_label"),
        ([ADD, ADD], "tools"),
        ([{"type": "mcp", "server_label": "s"}, {"type": "mcp", "server_label": "s"}], "tools"),
    ],
)
def test_a_tool_that_does_not_fit_is_named_by_its_place(tools: list[Any], param: str) -> None:
    assert refusal(tools=tools).param == param


@requirement("TOOL-choice-string-or-object", "TOOL-choice-forced-type")
@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, "auto"),
        ("required", "required"),
        ({"type": "none"}, "none"),
        ({"type": "function", "name": "add"}, ChosenTool(type="function", name="add")),
        ({"forced_tool": {"type": "function", "name": "add"}}, ChosenTool(type="function", name="add")),
        ({"type": "mcp", "server_label": "s"}, ChosenTool(type="mcp", server_label="s")),
        (
            {"type": "allowed_tools", "tools": [ADD, {"type": "mcp", "server_label": "s", "name": "t"}]},
            AllowedTools(
                mode="auto",
                tools=(
                    ChosenTool(type="function", name="add"),
                    ChosenTool(type="mcp", server_label="s", name="t"),
                ),
            ),
        ),
    ],
)
def test_tool_choice_is_read_in_all_its_forms(given: Any, choice: Any) -> None:
    assert read(tool_choice=given, tools=[ADD]).tool_choice == choice


@pytest.mark.parametrize(
    "given",
    ["sometimes", 3, {"type": "custom"}, {"type": "function"}, {"type": "mcp", "name": "t"}, {"forced_tool": {}}],
)
def test_a_tool_choice_of_no_form_is_refused(given: Any) -> None:
    assert (refusal(tool_choice=given).param or "").startswith("tool_choice")


def test_the_seeds_allowed_tools_narrow_the_choice_and_none_of_them_means_all() -> None:
    only_add = (ChosenTool(type="function", name="add"),)

    assert read(allowed_tools=[]).tool_choice == "auto"
    assert read(allowed_tools=["add"]).tool_choice == AllowedTools(mode="auto", tools=only_add)
    assert read(allowed_tools=["add"], tool_choice="required").tool_choice == AllowedTools(
        mode="required", tools=only_add
    )
    assert read(allowed_tools=["add"], tool_choice="none").tool_choice == "none"
    assert read(allowed_tools=["add"], tool_choice=ADD).tool_choice == only_add[0]
    assert refusal(allowed_tools=["sub"], tool_choice=ADD).param == "tool_choice"


def test_the_echo_of_every_option_is_valid() -> None:
    asked = read(
        tools=[{**ADD, "description": "Add."}],
        tool_choice={"type": "allowed_tools", "tools": [ADD]},
        temperature=0,
        top_p=0.5,
        top_logprobs=3,
        reasoning={"effort": "low"},
        text={"verbosity": "low"},
        truncation="auto",
        metadata={"a": "b"},
        service_tier="auto",
        max_tool_calls=2,
        max_output_tokens=100,
        parallel_tool_calls=False,
        user="ada",
    )
    resource = new_resource(asked, id="resp_1", created_at=1, status="in_progress")
    shown = msgspec.to_builtins(resource)

    check_resource(json.loads(msgspec.json.encode(resource)))
    assert shown["tools"][0] == {
        "type": "function",
        "name": "add",
        "description": "Add.",
        "parameters": None,
        "strict": None,
    }
    assert shown["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "add"}],
    }
    assert (shown["temperature"], shown["presence_penalty"], shown["service_tier"]) == (0, 0, "default")
    assert shown["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert shown["reasoning"] == {"effort": "low", "summary": None}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"max_tool_calls": 0}, "max_tool_calls"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"stream": "yes"}, "stream"),
        ({"input": []}, "input"),
    ],
)
def test_an_option_that_does_not_fit_is_named(body: dict[str, Any], param: str) -> None:
    assert refusal(**body).param == param
