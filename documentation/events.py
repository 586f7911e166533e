"""`reference/events.md`: every event of every stream, and what notifications and the audit log tell of."""

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from documentation.fields import fields_of, strings_below, summary_of
from documentation.markdown import page, table
from jackfield.calls import events as call_events
from jackfield.calls.tool_server_api import ToolCall, ToolServerConnected
from jackfield.catalog.api import CatalogChanged, Connected
from jackfield.model.event import WHEN
from jackfield.model.space import DURABLE_EVENTS
from jackfield.responses import wire
from jackfield.runs.api import RUN_EVENTS
from jackfield.sessions import session
from jackfield.spaces.frames import MessageFailed, MessageStreaming, SpaceConnected, ToolStreaming

SESSION_EVENTS = (
    "CALLER_TOOL_REQUEST",
    "CALLER_TOOL_SETTLED",
    "MESSAGE",
    "DELTA",
    "TOOL_CALL",
    "TOOL_RESULT",
    "COMPLETION",
    "ERROR",
    "STATUS",
)
CALL_EVENTS = ("PENDING", "APPROVED", "LOGGED_IN", "STARTED", "PROGRESS", "LOG", "SETTLED")
HEAD = ("type", "meaning")


def events_page() -> str:
    """The whole page."""
    return page(
        "Event reference",
        "Streams are server-sent events. `data:` is JSON with a `type`; comments keep idle connections open. Streams "
        "whose events have an `id:` resume after the `Last-Event-ID` that a client sends.",
        "## Calls",
        "`GET /api/v1/calls/stream`, and `POST /api/v1/tools/{name}/execute` with `Accept: text/event-stream`, which "
        "ends with `call.result`: the response of a plain execute. See [life of a call](../life-of-a-call.md).",
        table(HEAD, _constants(call_events, CALL_EVENTS)),
        "## Runs",
        "`GET /api/runs/{id}/stream`. See [runs](../runs.md).",
        table(HEAD, _named(RUN_EVENTS.items())),
        "## Spaces",
        "`GET /api/spaces/{id}/stream`. Events with a `seq` are stored, numbered without gaps, and come once each; the "
        "others are fragments. [Spaces](../spaces.md#the-stream) has the rule by which fragments are put together.",
        table(HEAD, _named(DURABLE_EVENTS.items())),
        table(
            ("type", "fields", "meaning"),
            (_frame(one) for one in (SpaceConnected, MessageStreaming, MessageFailed, ToolStreaming)),
        ),
        "## Sessions",
        "`GET /api/sessions/{id}/events`. See [sessions](../relay.md).",
        table(HEAD, _constants(session, SESSION_EVENTS)),
        "## Tool servers",
        "`GET /api/tools/stream`. See [pending calls](../pending-calls.md).",
        table(("type", "fields", "meaning"), (_frame(one) for one in (ToolServerConnected, ToolCall))),
        "## The catalog",
        "`GET /api/v1/tools/changes`. See [discovery](../discovery.md).",
        table(("type", "fields", "meaning"), (_frame(one) for one in (Connected, CatalogChanged))),
        "## Responses",
        "`POST /v1/responses` with `stream`, and over WebSocket. See [responses](../responses.md).",
        table(("type", "fields"), _responses()),
        "## Notifications",
        "What `on` of `[notify.NAME]` may list; with a webhook, the `type` of the message. See "
        "[notifications](../notifications.md).",
        table(("type", "when"), _named(WHEN.items())),
        "## Audit log",
        "The `action` of an entry. See [audit log](../audit.md).",
        table(("action", "made in"), ((f"`{action}`", f"`{where}/`") for action, where in audit_actions())),
    )


def audit_actions() -> list[tuple[str, str]]:
    """Every action that the code records, and the package that does."""
    root = Path(call_events.__file__).parents[1]
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for action in _actions_in(node):
                found.setdefault(action, path.relative_to(root).parts[0])
    return sorted(found.items())


def _actions_in(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg == "action":
            for part in ast.walk(keyword.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and "." in part.value:
                    yield part.value


def response_events() -> list[type[Struct]]:
    """Every event of the Responses API that has a type of its own."""
    found = [one for _, one in inspect.getmembers(wire, inspect.isclass) if issubclass(one, wire.Event)]
    return sorted((one for one in found if _tag(one)), key=_tag)


def _tag(event: type[Struct]) -> str:
    tag = event.__struct_config__.tag
    return tag if isinstance(tag, str) and (":" in tag or "." in tag or tag == "error") else ""


def _responses() -> Iterator[tuple[str, str]]:
    for event in response_events():
        names = [field.name for field in fields_of(event) if field.name not in ("type", "sequence_number")]
        yield f"`{_tag(event)}`", ", ".join(f"`{name}`" for name in names)


def _frame(frame: type[Struct]) -> tuple[str, str, str]:
    fields = {field.name: field for field in fields_of(frame)}
    kind = str(fields.pop("type").default)
    return f"`{kind}`", ", ".join(f"`{name}`" for name in fields), summary_of(frame)


def _named(events: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((f"`{name}`", says) for name, says in events)


def _constants(module: ModuleType, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    says = strings_below(ast.parse(inspect.getsource(module)).body)
    return ((f"`{getattr(module, name)}`", says[name]) for name in names)
