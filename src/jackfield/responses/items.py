"""The items of a request's `input`, from every spelling that clients use into the one of `model/items.py`. Pure.

Above: `request.py`. Below: the items. Null and left out are the same here; what has no id gets one.
"""

from typing import Any

import msgspec

from jackfield.errors import BadRequest
from jackfield.model.ids import new_id
from jackfield.model.items import ID_PREFIX, InputText, Item, ItemReference, Message
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
