"""Whether what a client answers is what was asked: outputs of its functions, and its word on approvals. Pure.

Above: the door, before anything runs. Below: the items. A conversation in which a call has no output, or two, or an
output no call, cannot be told to a model; so it is refused here, with the call's id.
"""

from collections.abc import Mapping, Sequence

from jackfield.errors import BadRequest
from jackfield.model.items import (
    ClientCall,
    ClientOutput,
    Item,
    ItemReference,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    ToolSearchCall,
)


def unknown_references(history: Sequence[Item], given: Sequence[Item]) -> list[str]:
    """The ids of items that this conversation does not have so far."""
    known = {item.id for item in (*history, *given) if not isinstance(item, ItemReference)}
    return list(dict.fromkeys(item.id for item in given if isinstance(item, ItemReference) and item.id not in known))


def resolve_references(history: Sequence[Item], given: Sequence[Item], *, kept: Mapping[str, Item]) -> tuple[Item, ...]:
    """The input with every reference replaced by the item it names: one that came before it, or that is kept."""
    earlier = {item.id: item for item in history}
    known: dict[str, Item] = {**kept, **earlier}
    found: list[Item] = []
    for item in given:
        if isinstance(item, ItemReference):
            if item.id not in known:
                raise BadRequest(
                    f"There is no item '{item.id}' in this conversation or among the responses of this key. It may "
                    "have been deleted, or made with 'store': false. Send the item itself.",
                    param="input",
                )
            # What the previous response brings is there already.
            if item.id not in earlier:
                found.append(known[item.id])
        else:
            known[item.id] = item
            found.append(item)
    return tuple(found)


def check_answers(history: Sequence[Item], given: Sequence[Item]) -> None:
    """Raise `BadRequest` unless every call that the client runs has one output, and every approval its request."""
    open_calls: dict[str, ClientCall] = {}
    answered: set[str] = set()
    for item in (*history, *given):
        if isinstance(item, ClientCall) and item.call_id:
            if item.call_id in open_calls or item.call_id in answered:
                raise _twice(item)
            open_calls[item.call_id] = item
        elif isinstance(item, ClientOutput) and item.call_id:
            _check_wanted(item, open_calls, answered)
            del open_calls[item.call_id]
            answered.add(item.call_id)
    if open_calls:
        names = ", ".join(f"'{call.call_id}' ({_name(call)})" for call in open_calls.values())
        raise BadRequest(
            f"No function_call_output was given for {names}. Add one for each call to 'input'.", param="input"
        )
    _check_approvals(history, given)


def _name(call: ClientCall) -> str:
    return "tool_search" if isinstance(call, ToolSearchCall) else call.name


def _twice(call: ClientCall) -> BadRequest:
    return BadRequest(f"Two function calls have the call_id '{call.call_id}'. Give each its own.", param="input")


def _check_wanted(output: ClientOutput, open_calls: dict[str, ClientCall], answered: set[str]) -> None:
    if output.call_id in answered:
        raise BadRequest(
            f"The function call '{output.call_id}' has its output already. Send each output once.", param="input"
        )
    if output.call_id not in open_calls:
        raise BadRequest(
            f"No function call '{output.call_id}' waits for an output. Send the call before it, or continue with "
            "'previous_response_id'.",
            param="input",
        )


def _check_approvals(history: Sequence[Item], given: Sequence[Item]) -> None:
    items = (*history, *given)
    asked = {item.id for item in items if isinstance(item, McpApprovalRequest)}
    settled = {item.approval_request_id for item in history if isinstance(item, McpApprovalResponse | McpCall)}
    for item in given:
        if not isinstance(item, McpApprovalResponse):
            continue
        if item.approval_request_id not in asked:
            raise BadRequest(
                f"No approval was asked for as '{item.approval_request_id}'. Continue the response that asked.",
                param="input",
            )
        if item.approval_request_id in settled:
            raise BadRequest(
                f"The approval '{item.approval_request_id}' has its answer already. Send each answer once.",
                param="input",
            )
        settled.add(item.approval_request_id)
