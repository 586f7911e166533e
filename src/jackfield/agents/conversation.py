"""What was said before, as a model is told it: messages, reasoning, calls and what each came to.

Above: the engine. Below: the records of calls. A server-run call is told as a call and its output, under the name that
its tool has in this request. One that was still open when its response ended is told as it is by now.
"""

from collections.abc import Mapping, Sequence

from jackfield.agents.outputs import told_by_now
from jackfield.agents.speech import record_id
from jackfield.agents.tools import ToolTable
from jackfield.model.call import Call
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    McpToolExecutionError,
)

NO_RECORD = "What became of this call is no longer known."


def open_calls(items: Sequence[Item]) -> list[str]:
    """The records to look up: calls that were pending, or waited for a person, when their response ended."""
    asked = [record_id(item.id) for item in items if isinstance(item, McpApprovalRequest)]
    return asked + [
        record_id(item.id) for item in items if isinstance(item, McpCall) and item.status not in ("completed", "failed")
    ]


def told_to_model(items: Sequence[Item], *, tools: ToolTable, records: Mapping[str, Call]) -> tuple[Item, ...]:
    """The conversation without what a model has no word for."""
    told: list[Item] = []
    ran = {item.approval_request_id for item in items if isinstance(item, McpCall)}
    names = {(tool.label, tool.bare_name): tool.name for tool in tools.values()}
    for item in items:
        if isinstance(item, McpListTools | McpApprovalResponse):
            continue
        if isinstance(item, McpCall):
            told += _call(item, names, output=_output(item, records))
        elif isinstance(item, McpApprovalRequest):
            if item.id not in ran:
                told += _call(item, names, output=_as_it_is(item.id, records))
        else:
            told.append(item)
    return tuple(told)


def _call(item: McpCall | McpApprovalRequest, names: Mapping[tuple[str, str], str], *, output: str) -> list[Item]:
    name = names.get((item.server_label, item.name), item.name)
    return [
        FunctionCall(call_id=item.id, name=name, arguments=item.arguments or "{}"),
        FunctionCallOutput(call_id=item.id, output=output),
    ]


def _output(item: McpCall, records: Mapping[str, Call]) -> str:
    if item.status not in ("completed", "failed"):
        return _as_it_is(item.id, records)
    if item.error is None:
        return item.output or ""
    if isinstance(item.error, McpToolExecutionError):
        blocks = item.error.content if isinstance(item.error.content, list) else []
        return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    return item.error.message


def _as_it_is(item_id: str, records: Mapping[str, Call]) -> str:
    call = records.get(record_id(item_id))
    return NO_RECORD if call is None else told_by_now(call).text
