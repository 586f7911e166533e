"""The content form: what collapses to plain JSON, what stays, and the way back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent
from msgspec import Raw

from jackfield.model.content import (
    SERVER_INFO,
    Content,
    Wrapping,
    collapse,
    content_form,
    expand,
    structured_part,
    text_of,
    without_connection,
    wrapping_of,
)
from tests.requirement import requirement

PIXEL = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
HELLO = {"type": "text", "text": "hello"}

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=12,
)
_annotations = st.fixed_dictionaries({}, optional={"audience": st.just(["user"]), "priority": st.floats(0, 1)})
_blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": _texts}, optional={"annotations": _annotations}),
    st.just(PIXEL),
    st.just({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": st.just("file:///a"), "name": _texts}),
    st.just({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "x/y"}}),
)
_answers = st.builds(
    lambda blocks, structured, meta: made(blocks, structured=structured, meta=meta),
    st.lists(_blocks, max_size=3),
    st.none() | _json,
    st.none() | st.dictionaries(_texts, _json, min_size=1, max_size=2),
)


def made(blocks: list[dict[str, Any]], *, structured: Any = None, meta: dict[str, Any] | None = None) -> Content:
    return Content(
        blocks=raw(blocks),
        structured=None if structured is None else raw(structured),
        meta=None if meta is None else raw(meta),
    )


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def value(json: Raw | None) -> Any:
    return None if json is None else msgspec.json.decode(json)


def test_an_answer_of_one_text_is_a_string() -> None:
    assert value(collapse(made([HELLO]))) == "hello"


def test_several_texts_stay_apart() -> None:
    assert value(collapse(made([HELLO, HELLO]))) == {"content": [HELLO, HELLO]}


@pytest.mark.parametrize("text", ['{"celsius":21.5}', '{\n  "celsius": 21.5\n}'])
def test_a_structured_answer_with_the_same_as_text_is_its_json(text: str) -> None:
    answer = made([{"type": "text", "text": text}], structured={"celsius": 21.5})
    assert value(collapse(answer)) == {"celsius": 21.5}


@requirement("SAFE-mcp-programs")
@pytest.mark.parametrize("said", ["hello", "", "5", 'a "quoted" one', 5, 2.5, True, ["a", "b"], [], {"a": [1]}, [[1]]])
def test_a_wrapped_answer_of_fastmcp_is_told_once_and_comes_back_as_it_was(said: Any) -> None:
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    answer = made([{"type": "text", "text": text}], structured={"result": said})
    assert value(collapse(answer)) == {"result": said}
    assert expand(collapse(answer), wrapping=Wrapping.WHOLE) == answer
    other = made([{"type": "text", "text": "something else"}], structured={"result": said})
    assert value(collapse(other))["content"] == [{"type": "text", "text": "something else"}]


@requirement("SAFE-mcp-programs")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (str, "hello"),
        (int, 5),
        (bool, True),
        (list[str], ["a", "5", ""]),
        (list[str], []),
        (list[int], [1, 2]),
        (list[dict[str, Any]], [{"a": [1, {}]}, {}]),
        (list[list[int]], [[1], [], [2, 3]]),
        (dict[str, int] | None, {"a": 1}),
        (dict[str, int] | None, None),
        (dict[str, int], {"result": 5}),
    ],
)
async def test_what_the_sdks_server_wraps_is_told_once_and_comes_back_as_it_was(kind: Any, said: Any) -> None:
    def tell() -> Any:
        return said

    tell.__annotations__["return"] = kind
    server = MCPServer("a server")
    server.tool()(tell)
    answer = await server.call_tool("tell", {})
    assert isinstance(answer, CallToolResult)
    blocks = [{"type": "text", "text": block.text} for block in answer.content if isinstance(block, TextContent)]
    content = made(blocks, structured=answer.structured_content)
    assert value(collapse(content)) == answer.structured_content
    (tool,) = await server.list_tools()
    again = expand(collapse(content), wrapping=wrapping_of(tool.output_schema))
    assert value(again.structured) == answer.structured_content
    if said != {"result": 5}:
        assert value(again.blocks) == blocks


@pytest.mark.parametrize("said", [5, "five", [5]])
def test_an_object_with_a_result_is_no_wrapped_one(said: Any) -> None:
    text = msgspec.json.encode({"result": said}).decode()
    answer = made([{"type": "text", "text": text}], structured={"result": said})
    assert value(collapse(answer)) == {"result": said}
    assert expand(collapse(answer)) == answer
    assert wrapping_of({"type": "object", "properties": {"result": {"type": "number"}}}) is None


def test_a_structured_answer_without_content_is_its_json() -> None:
    assert value(collapse(made([], structured={"celsius": 21.5}))) == {"celsius": 21.5}


@pytest.mark.parametrize(
    "text", ["It is warm", '{"celsius":22}', '{"celsius":true}', '{"celsius":21.5', "{" * 5000, "\\ud800"]
)
def test_a_structured_answer_with_another_text_keeps_both(text: str) -> None:
    answer = made([{"type": "text", "text": text}], structured={"celsius": 21.5})
    assert value(collapse(answer)) == {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"celsius": 21.5},
    }


@pytest.mark.parametrize(
    "blocks",
    [
        [PIXEL],
        [HELLO, PIXEL],
        [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
        [{"type": "resource_link", "uri": "file:///a", "name": "a"}],
        [{"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}],
        [{**HELLO, "annotations": {"audience": ["user"]}}],
        [{**HELLO, "_meta": {"a": 1}}],
        [],
    ],
)
def test_what_json_alone_cannot_say_stays_as_it_came(blocks: list[dict[str, Any]]) -> None:
    result = collapse(made(blocks))
    assert value(result) == {"content": blocks}
    assert value(expand(result).blocks) == blocks


def test_the_answers_own_meta_is_kept() -> None:
    result = collapse(made([HELLO], meta={"acme/trace": "t1"}))
    assert value(result) == {"content": [HELLO], "_meta": {"acme/trace": "t1"}}
    assert value(expand(result).meta) == {"acme/trace": "t1"}


def test_what_a_server_says_about_itself_is_not_passed_on() -> None:
    assert without_connection({SERVER_INFO: {"name": "inner"}}) is None
    assert value(without_connection({SERVER_INFO: {"name": "inner"}, "acme/trace": 1})) == {"acme/trace": 1}


def test_a_tool_may_return_the_content_form_itself() -> None:
    answer = expand(raw({"content": [HELLO, PIXEL], "structuredContent": {"n": 1}}))
    assert (value(answer.blocks), value(answer.structured), answer.meta) == ([HELLO, PIXEL], {"n": 1}, None)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [HELLO], "role": "user"},
        {"content": [{"type": "paragraph", "text": "x"}]},
        {"content": [{"type": "image"}]},
        {"content": "text"},
        {"content": [HELLO], "_meta": 3},
        {"structuredContent": {}},
    ],
)
def test_an_object_that_only_resembles_the_form_is_plain_json(result: dict[str, Any]) -> None:
    answer = expand(raw(result))
    assert value(answer.structured) == result
    assert msgspec.json.decode(value(answer.blocks)[0]["text"]) == result


def test_plain_json_is_told_as_text_and_structured() -> None:
    assert value(expand(raw("hi")).blocks) == [{"type": "text", "text": "hi"}]
    assert expand(raw("hi")).structured is None
    answer = expand(Raw(b' [1, "\xc3\xa9"] '))
    assert value(answer.blocks) == [{"type": "text", "text": '[1, "é"]'}]
    assert value(answer.structured) == [1, "é"]
    assert not answer.has_object
    assert expand(raw({"a": 1})).has_object
    assert (value(expand(raw(None)).blocks), expand(raw(None)).structured) == ([{"type": "text", "text": "null"}], None)


def test_a_structured_answer_that_looks_like_the_form_is_not_mistaken_for_it() -> None:
    trap = {"content": [PIXEL]}
    answer = made([], structured=trap)
    again = expand(collapse(answer))
    assert (value(again.blocks), value(again.structured)) == ([], trap)


def test_an_output_schema_speaks_about_the_structured_part() -> None:
    assert value(structured_part(raw({"content": [PIXEL], "structuredContent": {"n": 1}}))) == {"n": 1}
    assert value(structured_part(raw({"n": 1}))) == {"n": 1}
    assert value(structured_part(raw([1]))) == [1]


def test_the_words_of_an_error_are_its_texts() -> None:
    assert text_of(made([HELLO, PIXEL, {"type": "text", "text": "again"}])) == "hello\nagain"
    assert text_of(made([{"type": "nonsense"}])) == ""


@given(_json)
def test_every_json_result_comes_back_through_an_mcp_answer(result: Any) -> None:
    answer = expand(raw(result))
    expected = "null" if result is None else result
    if isinstance(result, dict) and answer.structured is None:
        expected = value(collapse(answer))
    assert value(collapse(answer)) == expected


@given(_answers)
def test_every_answer_comes_back_through_a_result(answer: Content) -> None:
    again = expand(collapse(answer))
    assert value(again.structured) == value(answer.structured)
    assert value(again.meta) == value(answer.meta)
    blocks = value(answer.blocks)
    text = msgspec.json.encode(value(answer.structured)).decode()
    assert value(again.blocks) == blocks or (len(blocks) <= 1 and value(again.blocks)[0]["text"] == text)


@given(_answers)
def test_the_content_form_holds_the_whole_answer(answer: Content) -> None:
    again = expand(content_form(answer))
    assert again == answer


@requirement("MCP2-text-as-written")
@pytest.mark.parametrize(
    "text",
    [
        '{"b":1,"a":[1.50,{},"\u00e9\\n"],"c":[]}',
        '{"b": 1, "a": [1.50, {}, "\\u00e9\\n"], "c": []}',
        '{"c":[],"a":[1.50,{},"\u00e9\\n"],"b":1}',
        *(msgspec.json.format('{"b":1,"a":[1.50,{},"\u00e9\\n"],"c":[]}', indent=n) for n in (2, 3, 4, 8)),
    ],
)
def test_the_text_beside_a_structured_answer_comes_back_as_it_was_written(text: str) -> None:
    structured = Raw(b'{"b":1,"a":[1.5,{},"\xc3\xa9\\n"],"c":[]}')
    answer = Content(blocks=raw([{"type": "text", "text": text}]), structured=structured)
    result = collapse(answer)
    again = expand(result)
    assert b"\n" not in bytes(result)
    assert msgspec.json.decode(result) == msgspec.json.decode(structured)
    assert msgspec.json.decode(again.blocks) == [{"type": "text", "text": text}]
    assert again.structured is not None
    assert msgspec.json.decode(again.structured) == msgspec.json.decode(structured)


@pytest.mark.parametrize("text", ['{\n "a":1}', ' {"a":1}', '{"a":1}\n', '{\r"a":1}', '{\n         "a": 1\n}'])
def test_a_text_that_is_spelled_in_no_usual_way_is_spelled_anew(text: str) -> None:
    result = collapse(Content(blocks=raw([{"type": "text", "text": text}]), structured=Raw(b'{"a":1}')))
    assert bytes(result) == b'{"a":1}'
