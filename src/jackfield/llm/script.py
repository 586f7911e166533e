"""The written dialogue that a scripted model plays: its types, and how the file is read. docs/models.md explains it.

Above: `scripted.py`, `models.py`. Below: TOML and JSON.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.llm.base import Finish
from jackfield.model.items import Usage
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


class Turn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    turns: tuple[Turn, ...]
    otherwise: Turn | None = None
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


def _turn(raw: dict[str, Any], *, where: str) -> Turn:
    turn = parse_config(raw, Turn, where=where)
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
