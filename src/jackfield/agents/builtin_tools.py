"""The tools that every agent has: their names, schemas and descriptions. Their handlers are in `builtin_handlers.py`.

They are never visible, cannot be configured away, and no other tool takes their name. Above: the cycle. Below: nothing.
"""

from collections.abc import Iterable
from typing import Any

from jackfield.catalog.merge import Entry, named_entry
from jackfield.catalog.names import legal
from jackfield.model.space import LONGEST_MESSAGE
from jackfield.model.tool import BUILTIN, RESERVED_NAMES, Tool
from jackfield.runs.offers import CATALOG
from jackfield.runs.tool_search import SEARCH_ENTRY, SEARCH_TOOLS
from jackfield.runs.tools import OfferedTool, ToolTable

MOST_AT_ONCE = 100
"""Goals, memories or plans in one call."""
MOST_KEPT = 1_000
"""Goals, memories or plans that are not done, of one agent. All are looked at in every cycle."""
LONGEST_VALUE = 20_000


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, "minLength": 1, **more}


def _list(description: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items, "minItems": 1, "maxItems": MOST_AT_ONCE}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


_ID = {"type": "string", "description": "Leave it out to make a new one", "minLength": 1, "maxLength": 100}
_GOAL = _object(
    ("description",),
    id=_ID,
    description=_text("What you want to reach", maxLength=LONGEST_VALUE),
    status=_text("For example active, done, dropped", maxLength=50),
    priority={"type": "integer", "description": "The higher the more important", "minimum": -1000, "maximum": 1000},
)
_MEMORY = _object(
    ("key", "value"),
    key=_text("A short name; an existing one is overwritten", maxLength=200),
    value=_text("What to remember", maxLength=LONGEST_VALUE),
)
_PLAN = _object(
    ("name",),
    id=_ID,
    name=_text("A short name", maxLength=200),
    instruction=_text("What to do then; you will read it in your inbox", maxLength=LONGEST_VALUE),
    runAfter=_text("Once, after '<n> seconds|minutes|hours|days'", maxLength=50),
    scheduledAt=_text("Once, at a time like 2026-01-15T10:30:00Z", maxLength=50),
    cron=_text("Again and again: minute hour day month weekday", maxLength=100),
    timeZone=_text("For cron and for times without a zone, like Europe/Berlin; UTC if left out", maxLength=60),
)

_DEFINITIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "enter_space": (
        "Enter a space of yours, needed before send_message and visible tools. You get its latest messages.",
        _object(("spaceId",), spaceId=_text("The space's id", maxLength=100)),
    ),
    "leave_space": ("Leave the active space.", _object()),
    "send_message": (
        "Say something in the active space. Everybody in it reads it; other agents in it are woken by it.",
        _object(("text",), text=_text("What to say", maxLength=LONGEST_MESSAGE)),
    ),
    "read_messages": (
        "Read messages of a space that you are a member of, by default the active one.",
        _object(
            spaceId=_text("The space's id", maxLength=100),
            limit={"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
            offset={"type": "integer", "minimum": 0, "default": 0, "description": "Skip so many of the newest ones"},
        ),
    ),
    "skip": (
        "End this cycle: there is nothing to do.",
        _object(reason=_text("Why, for your own record", maxLength=400)),
    ),
    "set_goals": ("Create goals, or change them by id.", _object(("goals",), goals=_list("The goals", _GOAL))),
    "delete_goals": (
        "Delete goals by id.",
        _object(("goalIds",), goalIds=_list("Their ids", {"type": "string", "maxLength": 100})),
    ),
    "set_memories": (
        "Remember things for later cycles, by key.",
        _object(("memories",), memories=_list("What to remember", _MEMORY)),
    ),
    "delete_memories": (
        "Forget memories by key.",
        _object(("keys",), keys=_list("Their keys", {"type": "string", "maxLength": 200})),
    ),
    "get_memories": (
        "Read your memories, all or by key.",
        _object(keys=_list("Their keys", {"type": "string", "maxLength": 200})),
    ),
    "set_plans": (
        "Plan something for later, once (runAfter or scheduledAt) or again and again (cron); change plans by id.",
        _object(("plans",), plans=_list("The plans", _PLAN)),
    ),
    "delete_plans": (
        "Delete plans by id.",
        _object(("planIds",), planIds=_list("Their ids", {"type": "string", "maxLength": 100})),
    ),
    "get_plans": (
        "Read your plans.",
        _object(status={"type": "string", "enum": ["active", "done"], "description": "Only those"}),
    ),
    "peek_inbox": (
        "Look at what has arrived in your inbox since this cycle began. It stays there for the next cycle.",
        _object(count={"type": "integer", "minimum": 1, "maximum": 10, "default": 1}),
    ),
}

ENTRIES: dict[str, Entry] = {
    name: named_entry(name, Tool(source=BUILTIN, name=name, description=description, input_schema=schema))
    for name, (description, schema) in _DEFINITIONS.items()
} | {SEARCH_TOOLS: SEARCH_ENTRY}

OFFERED: tuple[OfferedTool, ...] = tuple(
    OfferedTool(
        name=name,
        description=entry.tool.description,
        parameters=entry.tool.input_schema,
        entry=entry,
        label=BUILTIN,
        bare_name=name,
        is_private=True,
        is_own=True,
        searches=name == SEARCH_TOOLS,
    )
    for name, entry in ENTRIES.items()
)


def is_builtin(tool: OfferedTool) -> bool:
    return tool.label == BUILTIN and tool.name in ENTRIES


def agent_tools(
    entries: Iterable[Entry], own: Iterable[tuple[str, Entry]] = (), *, readers: Iterable[OfferedTool] = ()
) -> ToolTable:
    """`entries` are the catalog's for this agent; `own` come from its own servers, each with its server's name.

    `readers` read resources and prompts, where there are any.
    """
    offered = [*OFFERED, *readers]
    taken = {*ENTRIES, *RESERVED_NAMES}
    for entry in entries:
        name = _free(entry.name, entry.tool.source, taken)
        offered.append(_offered(entry, name=name, label=CATALOG, bare_name=entry.name, is_private=False))
    for server, entry in own:
        name = _free(legal(entry.tool.name), server, taken)
        offered.append(_offered(entry, name=name, label=server, bare_name=entry.tool.name, is_private=True))
    return ToolTable(offered)


def _free(wanted: str, owner: str, taken: set[str]) -> str:
    """A name that no other tool of this agent has."""
    name, number = wanted, 1
    while name in taken:
        name = legal(f"{owner}_{wanted}" if number == 1 else f"{owner}_{wanted}_{number}")
        number += 1
    taken.add(name)
    return name


def _offered(entry: Entry, *, name: str, label: str, bare_name: str, is_private: bool) -> OfferedTool:
    return OfferedTool(
        name=name,
        description=entry.tool.description,
        parameters=entry.tool.input_schema,
        entry=entry,
        label=label,
        bare_name=bare_name,
        is_private=is_private,
        is_own=is_private,
    )
