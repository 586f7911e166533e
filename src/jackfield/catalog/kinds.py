"""Prompts and templates are pinned, and prompts named, in the same tables as tools, under keys of their own. Pure.

Above: `catalog.py`, `pinning.py` and the handlers. A mark that no listed name may hold keeps the keys apart.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

import msgspec

from jackfield.catalog.merge import Entry
from jackfield.catalog.names import Identity, KeptName, KeptNames
from jackfield.catalog.pins import Pins
from jackfield.model.tool import CallKind, Tool

T = TypeVar("T")
PROMPT = "\x1fprompt:"
TEMPLATE = "\x1ftemplate:"
_MARKS = {CallKind.TOOL: "", CallKind.PROMPT: PROMPT, CallKind.RESOURCE: TEMPLATE}
PinnedKind = Literal["tool", "prompt", "template"]
_KINDS: dict[CallKind, PinnedKind] = {
    CallKind.TOOL: "tool",
    CallKind.PROMPT: "prompt",
    CallKind.RESOURCE: "template",
}


def identity_of(tool: Tool) -> Identity:
    """What a tool, prompt or template is pinned and named by."""
    return tool.source, _MARKS[tool.operation] + tool.name


def kind_of(tool: Tool) -> PinnedKind:
    """How it is called where what is pinned is shown."""
    return _KINDS[tool.operation]


def pin_key(entry: Entry) -> str:
    """What its change is accepted by, among those of its source: a tool's name, `prompt:NAME`, `template:TEMPLATE`."""
    kind = kind_of(entry.tool)
    return entry.name if kind == "tool" else f"{kind}:{entry.name}"


def narrowed(these: Mapping[Identity, T], mark: str) -> dict[Identity, T]:
    """Those of one kind, without the mark."""
    return {(source, name[len(mark) :]): one for (source, name), one in these.items() if name.startswith(mark)}


def pins_of(pins: Pins, mark: str) -> Pins:
    """The pins of one kind. A source that has any pin has been listed before."""
    return msgspec.structs.replace(
        pins,
        stored=None if pins.stored is None else narrowed(pins.stored, mark),
        unwritten=narrowed(pins.unwritten, mark),
        refused=narrowed(pins.refused, mark),
        waiting=frozenset((source, name[len(mark) :]) for source, name in pins.waiting if name.startswith(mark)),
    )


def prompt_names(kept: KeptNames) -> KeptNames:
    """The names that are kept for prompts."""
    return {
        identity: KeptName(name=known.name.removeprefix(PROMPT), wish=known.wish, is_foreign=known.is_foreign)
        for identity, known in narrowed(kept, PROMPT).items()
    }


def marked(identities: Iterable[Identity], mark: str) -> set[Identity]:
    return {(source, mark + name) for source, name in identities}
