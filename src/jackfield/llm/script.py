"""The written dialogue that a scripted model plays: its types, and how the file is read. docs/models.md explains it.

Above: `scripted.py`, `models.py`. Below: TOML and JSON.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.llm.chat_request import mcp_text, output_text, rejection_text
from jackfield.llm.types import Finish, ModelFailed, ModelRequest
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    Message,
    Usage,
    text_of,
)
from jackfield.settings.parsing import parse_config

SPEAKING_TOOL = "send_message"
"""The built-in tool by which an agent is heard in a space."""
Seconds = Annotated[float, Meta(ge=0)]
Words = str | tuple[str, ...]
"""A text, streamed word by word; or its pieces, streamed as they are."""


class When(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a turn is played: all that is given must hold. Patterns are regular expressions, in any case of letters."""

    user: str | None = None
    """A person (or an event) spoke last, and said this."""
    result: str | None = None
    """A tool answered last: its whole name. After parallel calls, the last of them."""
    says: str | None = None
    """… and this is in its result."""
    asked: str | None = None
    """In what a person last said, even if tools have answered since."""
    tool: str | None = None
    """This tool is offered: its whole name."""
    instructions: str | None = None
    """In the instructions: one script can play several agents."""


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool to call."""

    tool: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    """The arguments as they are sent, for JSON that is broken on purpose."""
    id: str | None = None


class ScriptedFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure on purpose, after all that the turn says."""

    message: str
    code: str = "model_error"
    status: int | None = None
    retry_after: float | None = None


class ScriptTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of the model: thinks, speaks, refuses, calls, in this order; or fails."""

    when: When | None = None
    """None: played in the order of the file, when no turn with a condition fits."""
    think: Words = ()
    say: Words = ()
    refuse: Words = ()
    calls: tuple[ScriptedCall, ...] = ()
    fail: ScriptedFailure | str | None = None
    finish: Finish | None = None
    """Why it ends; by default `tool_calls` where it calls, else `stop`."""
    wait: Seconds = 0
    """Seconds before the first piece."""
    pace: Seconds | None = None
    """Seconds between two pieces; None: the script's."""
    usage: Usage | None = None
    """None: words are counted."""


class Script(Struct, frozen=True, kw_only=True):
    """A whole dialogue."""

    turns: tuple[ScriptTurn, ...]
    otherwise: ScriptTurn | None = None
    """Played when nothing else fits."""
    pace: float = 0
    repeat: bool = False
    """Whether the turns without a condition begin anew after the last."""
    origin: str = "The script"
    """How it is called in errors."""

    @property
    def talks_to_itself(self) -> bool:
        """Whether it says things, but never by `send_message`: in a space nobody would hear it."""
        turns = [*self.turns, *([] if self.otherwise is None else [self.otherwise])]
        called = {call.tool for turn in turns for call in turn.calls}
        return SPEAKING_TOOL not in called and any(turn.say for turn in turns)


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    turns: tuple[dict[str, Any], ...] = ()
    otherwise: dict[str, Any] | None = None
    pace: Seconds = 0
    repeat: bool = False


def read_script(path: Path, *, named_in: str) -> Script:
    """The dialogue in a file, `.toml` or `.json`. Raises `ConfigError`; `named_in` is the config's key for it."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{named_in}: {path} cannot be read: {fault}. Correct the path, or the file.") from None
    except ValueError as fault:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{path} is not valid {kind}: {fault}. Correct that place.") from None
    file = parse_config(raw, _File, where=f"{path}:")
    return Script(
        turns=tuple(_turn(turn, where=f"{path}: turns[{number}]") for number, turn in enumerate(file.turns)),
        otherwise=None if file.otherwise is None else _turn(file.otherwise, where=f"{path}: otherwise"),
        pace=file.pace,
        repeat=file.repeat,
        origin=path.name,
    )


def _turn(raw: dict[str, Any], *, where: str) -> ScriptTurn:
    turn = parse_config(raw, ScriptTurn, where=where)
    if not (turn.think or turn.say or turn.refuse or turn.calls or turn.fail or turn.finish):
        raise ConfigError(f"{where} does nothing. Give it think, say, refuse, calls or fail.")
    for key in When.__struct_fields__:
        pattern = getattr(turn.when, key, None)
        try:
            re.compile(pattern or "")
        except re.error as fault:
            raise ConfigError(
                f"{where}.when.{key} is not a regular expression: {fault}. Correct it; in TOML, write it in '…'."
            ) from None
    return turn


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
            raise self._error(found[0], "has no value in this conversation")
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


def offered(turn: ScriptTurn, scene: Scene) -> dict[str, str] | None:
    """The groups of a turn with a condition that holds now."""
    return None if turn.when is None else fits(turn.when, scene)
