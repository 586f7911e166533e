"""What was said before, as a model is told it: messages, reasoning, calls and what each came to.

Above: the engine. Below: the records of calls. A server-run call is told as a call and its output, under the name that
its tool has in this request. One that was still open when its response ended is told as it is by now.
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from jackfield.model.call import Call
from jackfield.model.items import (
    ClientCall,
    ClientOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    McpToolExecutionError,
    OutputPart,
    ToolSearchCall,
    ToolSearchOutput,
)
from jackfield.runs.outputs import latest_output
from jackfield.runs.search_items import SearchHistory
from jackfield.runs.step import record_id
from jackfield.runs.tools import ToolTable, call_for_model, output_for_model

NO_RECORD = "What became of this call is no longer known."
MOST_SEEN_AGAIN = 10
"""Earlier calls of a conversation whose images are given to the model again; of older ones it reads the words."""


def open_calls(items: Sequence[Item]) -> list[str]:
    """The records to look up: calls that were pending, or waited for a person, when their response ended, and the
    newest of those whose images the model is to see again.
    """
    asked = [record_id(item.id) for item in items if isinstance(item, McpApprovalRequest)]
    calls = [item for item in items if isinstance(item, McpCall)]
    asked += [record_id(item.id) for item in calls if item.status not in ("completed", "failed")]
    with_images = [item for item in calls if item.images is not UNSET and item.images > 0]
    return asked + [record_id(item.id) for item in with_images[-MOST_SEEN_AGAIN:]]


def items_for_model(items: Sequence[Item], *, tools: ToolTable, records: Mapping[str, Call]) -> tuple[Item, ...]:
    """The conversation without what a model has no word for. Calls of one step stand together, before their outputs."""
    ran = {item.approval_request_id for item in items if isinstance(item, McpCall)}
    names = {(tool.label, tool.bare_name): tool.name for tool in tools.values() if tool.runs_here}
    own_names = {(tool.namespace, tool.bare_name): tool.name for tool in tools.values() if not tool.runs_here}
    searches = SearchHistory(items, tools)
    told: list[Item] = []
    for calls in _by_step(items):
        first = calls[0]
        if isinstance(first, McpListTools | McpApprovalResponse):
            continue
        if isinstance(first, ToolSearchCall | ToolSearchOutput) and first.execution == "server":
            told += searches.told(first)
            continue
        if isinstance(first, McpCall | McpApprovalRequest):
            shown = [item for item in calls if isinstance(item, McpCall) or item.id not in ran]
            told += [_call(item, names) for item in shown if isinstance(item, McpCall | McpApprovalRequest)]
            told += [FunctionCallOutput(call_id=item.id, output=_output(item, records)) for item in shown]
        elif isinstance(first, ClientCall):
            told.append(call_for_model(first, own_names))
        elif isinstance(first, ClientOutput):
            told.append(output_for_model(first))
        else:
            told.append(first)
    return tuple(told)


def _by_step(items: Sequence[Item]) -> list[list[Item]]:
    """Server-run calls of one step together, every other item alone."""
    groups: list[list[Item]] = []
    for item in items:
        last = groups[-1][-1] if groups else None
        if isinstance(item, McpCall) and isinstance(last, McpCall) and item.step == last.step != UNSET:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _call(item: McpCall | McpApprovalRequest, names: Mapping[tuple[str, str], str]) -> FunctionCall:
    name = names.get((item.server_label, item.name), item.name)
    return FunctionCall(call_id=item.id, name=name, arguments=item.arguments or "{}")


def _output(item: Item, records: Mapping[str, Call]) -> str | tuple[OutputPart, ...]:
    if not isinstance(item, McpCall) or item.status not in ("completed", "failed"):
        call = records.get(record_id(item.id))
        return NO_RECORD if call is None else latest_output(call).output
    if item.images is not UNSET and (call := records.get(record_id(item.id))) is not None:
        return latest_output(call).output
    if item.error is None:
        return item.output or ""
    if isinstance(item.error, McpToolExecutionError):
        blocks = item.error.content if isinstance(item.error.content, list) else []
        return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    return item.error.message
