"""The items of a request's `input`: parsing, references, compaction, and whether every call has its output. Pure.

Above: `request.py` and `service.py`. Below: `model/items.py`. Null means absent; items without an id get one.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from jackfield.errors import BadRequest
from jackfield.model.ids import new_id
from jackfield.model.items import (
    ID_PREFIX,
    ClientCall,
    ClientOutput,
    Compaction,
    InputText,
    Item,
    ItemReference,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    Message,
    ToolSearchCall,
)
from jackfield.protocol.json_bodies import bad_value

_PREFIXES = {msgspec.inspect.type_info(kind).tag: prefix for kind, prefix in ID_PREFIX.items()}  # type: ignore[attr-defined]
KINDS = (*_PREFIXES, "item_reference")


def read_input(value: str | list[Any]) -> tuple[Item, ...]:
    """A string is what the user says; a list is items."""
    if isinstance(value, str):
        return (Message(id=new_id(ID_PREFIX[Message]), role="user", content=(InputText(text=value),)),)
    return tuple(_item(number, raw) for number, raw in enumerate(value))


def _item(number: int, raw: Any) -> Item:
    where = f"input[{number}]"
    if not isinstance(raw, dict):
        raise BadRequest(f"'{where}' is not an object. Items are objects with a type.", param=where)
    item = _without_null(raw)
    kind = item.setdefault("type", _kind_of(item))
    if not isinstance(kind, str) or kind not in KINDS:
        given = f"the type {str(kind)[:60]!r}" if kind else "no type"
        raise BadRequest(f"'{where}' has {given}. Known: {', '.join(KINDS)}.", param=f"{where}.type")
    if kind in _PREFIXES and not item.get("id"):
        item["id"] = new_id(_PREFIXES[kind])
    _in_one_form(item)
    try:
        read: Item = msgspec.convert(item, Item)
    except msgspec.ValidationError as fault:
        refusal = bad_value(fault, what=f"'{where}'", into=ItemReference)
        raise BadRequest(refusal.message, param=f"{where}.{refusal.param}" if refusal.param else where) from None
    return read


def _kind_of(item: dict[str, Any]) -> str | None:
    """What an item without a type is: OpenAI's clients leave it out for messages and references."""
    if "role" in item:
        return "message"
    return "item_reference" if set(item) == {"id"} else None


def _in_one_form(item: dict[str, Any]) -> None:
    """A message's text becomes its only part, an error that is a string becomes an object."""
    if item["type"] == "message" and isinstance(item.get("content"), str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        item["content"] = [{"type": part, "text": item["content"]}]
    if item["type"] == "mcp_call" and isinstance(item.get("error"), str):
        item["error"] = {"type": "mcp_tool_execution_error", "content": item["error"]}
    if item["type"] in ("tool_search_call", "tool_search_output"):
        item.setdefault("execution", "server")
    for name in ("content", "output", "summary"):
        if isinstance(item.get(name), list):
            item[name] = [_without_null(part) if isinstance(part, dict) else part for part in item[name]]


def _without_null(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if value is not None}


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
            f"The function call '{output.call_id}' already has its output. Send each output once.", param="input"
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
                f"The approval '{item.approval_request_id}' has already been answered. Send each answer once.",
                param="input",
            )
        settled.add(item.approval_request_id)


MARK = "jackfield-1:"
SAID_BEFORE = "What was said before, summed up:\n"


def sealed(summary: str) -> Compaction:
    """A summary as an item."""
    content = base64.urlsafe_b64encode(f"{MARK}{summary}".encode()).decode()
    return Compaction(id=new_id(ID_PREFIX[Compaction]), encrypted_content=content)


def opened(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items with each summary as a message; raises `BadRequest` for one that is not ours."""
    return tuple(_message(item) if isinstance(item, Compaction) else item for item in items)


def _message(item: Compaction) -> Message:
    try:
        text = base64.b64decode(item.encrypted_content, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not text.startswith(MARK):
        raise BadRequest(
            f"The compaction item '{item.id}' was not made here. Send the conversation instead.", param="input"
        )
    return Message(id=item.id, role="developer", content=(InputText(text=SAID_BEFORE + text.removeprefix(MARK)),))
