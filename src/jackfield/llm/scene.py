"""What a script sees of a conversation: who spoke last, what tools answered, and the blanks it fills from that. Pure.

Above: `scripted.py`. Below: the items.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.llm.base import ModelFailed, ModelRequest
from jackfield.llm.results import mcp_text, output_text, rejection_text
from jackfield.llm.script import Turn, When
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    Message,
    text_of,
)

_BLANK = re.compile(
    r"\{\{(?P<literal>[\w.:|-]+)\}\}|\{(?P<path>[A-Za-z_][\w.-]*)(?::(?P<kind>int|number|json))?(?:\|(?P<default>[^{}]*))?\}"
)
_MISSING = object()


class Scene(Struct, frozen=True, kw_only=True):
    """A conversation at the moment of a step."""

    instructions: str
    tools: frozenset[str]
    user: str
    """What a person, or whoever speaks for one, last said."""
    user_spoke_last: bool
    last_result: tuple[str, str] | None
    """Tool and text, where a tool answered last."""
    results: dict[str, str]
    """The newest result of each tool."""


def scene_of(request: ModelRequest) -> Scene:
    """Read once per step; the model itself remembers nothing, so any gateway plays on where another stopped."""
    tools_of_calls = {item.call_id: item.name for item in request.items if isinstance(item, FunctionCall)}
    tools_of_calls |= {item.id: item.name for item in request.items if isinstance(item, McpApprovalRequest)}
    user = ""
    last: Item | None = None
    results: dict[str, str] = {}
    for item in request.items:
        if isinstance(item, Message) and item.role != "assistant":
            user, last = text_of(item), item
        elif (result := _result(item, tools_of_calls)) is not None:
            tool, text = result
            results[tool], last = text, item
        elif isinstance(item, Message):
            last = item
    return Scene(
        instructions=request.instructions or "",
        tools=frozenset(tool.name for tool in request.tools),
        user=user,
        user_spoke_last=isinstance(last, Message) and last.role != "assistant",
        last_result=None if last is None else _result(last, tools_of_calls),
        results=results,
    )


def _result(item: Item, tools: dict[str, str]) -> tuple[str, str] | None:
    match item:
        case FunctionCallOutput():
            return tools.get(item.call_id, item.call_id), output_text(item)
        case McpCall():
            return item.name, mcp_text(item)
        case McpApprovalResponse(approve=False):
            return tools.get(item.approval_request_id, item.approval_request_id), rejection_text(item)
    return None


def fits(when: When, scene: Scene) -> dict[str, str] | None:
    """The named groups of the patterns if all conditions hold; None if one does not."""
    tool, text = scene.last_result or (None, None)
    groups: dict[str, str] = {}
    for pattern, subject, is_whole in (
        (when.user, scene.user if scene.user_spoke_last else None, False),
        (when.result, tool, True),
        (when.says, text, False),
        (when.asked, scene.user, False),
        (when.instructions, scene.instructions, False),
    ):
        if pattern is None:
            continue
        found = None if subject is None else _found(pattern, subject, is_whole=is_whole)
        if found is None:
            return None
        groups |= {name: value or "" for name, value in found.groupdict().items()}
    if when.tool is not None and not any(re.fullmatch(when.tool, offered) for offered in scene.tools):
        return None
    return groups


def _found(pattern: str, subject: str, *, is_whole: bool) -> re.Match[str] | None:
    return re.fullmatch(pattern, subject) if is_whole else re.search(pattern, subject, re.IGNORECASE | re.DOTALL)


class Blanks:
    """Fills `{…}` in a turn's words and arguments: groups of its patterns, `{user}`, `{result.a.0.b}`,
    `{results.TOOL.a}`; `{x:int}`, `{x:number}`, `{x:json}` turn text into a value, `{x|else}` has a default.
    """

    def __init__(self, scene: Scene, groups: dict[str, str], *, origin: str) -> None:
        last = scene.last_result
        self._known: dict[str, Any] = {
            "user": scene.user,
            "result": None if last is None else _value(last[1]),
            "results": {tool: _value(text) for tool, text in scene.results.items()},
            **groups,
        }
        self._origin = origin

    def text(self, template: str) -> str:
        return _BLANK.sub(lambda found: _as_text(self._blank(found)), template)

    def value(self, template: Any) -> Any:
        """The same for arguments: a string that is one blank and nothing else becomes the value itself."""
        if isinstance(template, dict):
            return {key: self.value(inner) for key, inner in template.items()}
        if isinstance(template, list):
            return [self.value(inner) for inner in template]
        if not isinstance(template, str):
            return template
        whole = _BLANK.fullmatch(template)
        return self.text(template) if whole is None else self._blank(whole)

    def _blank(self, found: re.Match[str]) -> Any:
        if found["literal"]:
            return f"{{{found['literal']}}}"
        value = self._look_up(found["path"].split("."))
        if (value is _MISSING or value in ("", None)) and found["default"] is not None:
            value = found["default"]
        if value is _MISSING:
            raise self._error(found[0], "stands for nothing that was said")
        try:
            return _converted(value, found["kind"])
        except ValueError:
            raise self._error(found[0], f"is {str(value)[:60]!r}, which is not of that kind") from None

    def _look_up(self, path: list[str]) -> Any:
        value: Any = self._known
        for step in path:
            if isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, dict) and step in value:
                value = value[step]
            else:
                return _MISSING
        return value

    def _error(self, blank: str, what: str) -> ModelFailed:
        return ModelFailed(
            f"{self._origin}: the blank {blank} {what}. Correct the script, or give a default: {{name|default}}.",
            code="script_error",
        )


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _converted(value: Any, kind: str | None) -> Any:
    match kind:
        case "int":
            return int(value)
        case "number":
            return float(value)
        case "json" if isinstance(value, str):
            return msgspec.json.decode(value)
    return value


def counted(request: ModelRequest, turn_pieces: int) -> tuple[int, int]:
    """Words in, pieces out: what a script has in place of tokens."""
    said = sum(len(text_of(item).split()) for item in request.items if isinstance(item, Message))
    return said + len((request.instructions or "").split()), turn_pieces


def offered(turn: Turn, scene: Scene) -> dict[str, str] | None:
    """The groups of a turn with a condition that holds now."""
    return None if turn.when is None else fits(turn.when, scene)
