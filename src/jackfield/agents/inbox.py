"""What an agent finds in its inbox when it wakes, in the order of its weight and in words for its model. Pure.

Above: the cycle. Below: the store's events. What somebody else wrote stays inside quotes or JSON, on one line of its
own, so that no message can pass for a tool's result.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from jackfield.model.items import InputText, Message
from jackfield.model.times import iso_time
from jackfield.store.inboxes import InboxEvent

PEOPLE, RESULTS, APPOINTMENTS, AGENTS = range(4)
_WEIGHTS = {"tool_result": RESULTS, "cycle_failed": RESULTS, "plan": APPOINTMENTS, "service": APPOINTMENTS}
LONGEST = 20_000
"""Characters of one event; more is read with a tool."""
LONGEST_TEXT = 8_000
"""Characters of what somebody said; quoted, they may take twice the room."""
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Line ends that JSON leaves as they are."""
_encode = msgspec.json.Encoder().encode


def in_order(events: Sequence[InboxEvent]) -> list[InboxEvent]:
    """People first, then results of tools, then plans and services, then other agents; each as they came."""
    return sorted(events, key=lambda event: (weight_of(event), event.seq))


def weight_of(event: InboxEvent) -> int:
    if event.type == "space_message":
        return AGENTS if data_of(event).get("senderType") == "agent" else PEOPLE
    return _WEIGHTS.get(event.type, APPOINTMENTS)


def inbox_message(events: Sequence[InboxEvent], *, now: int) -> Message:
    """The message that opens a cycle. `now` is in milliseconds since 1970."""
    lines = [f"INBOX ({len(events)} events, now={iso_time(now)}):"]
    lines += [line_of(event, now=now) for event in in_order(events)]
    return Message(role="user", content=(InputText(text="\n".join(lines)),))


def line_of(event: InboxEvent, *, now: int) -> str:
    """One event, on one line."""
    line = _line(event, data_of(event), _ago(now - event.created_at))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}… ({len(line) - LONGEST} characters more)"


def data_of(event: InboxEvent) -> dict[str, Any]:
    """The event's own fields."""
    data = msgspec.json.decode(event.data)
    return data if isinstance(data, dict) else {"value": data}


def hops_of(events: Sequence[InboxEvent], *, before: int) -> int:
    """How many messages agents have sent each other up to now without anybody else.

    A person, a plan or a service begins anew. A result only goes on with what the agent was at `before`.
    """
    if any(weight_of(event) in (PEOPLE, APPOINTMENTS) for event in events):
        return 0
    hops = [int(data_of(event).get("hops") or 0) for event in events if event.type == "space_message"]
    return max([*hops, before if len(hops) < len(events) else 0])


def _line(event: InboxEvent, data: dict[str, Any], ago: str) -> str:
    match event.type:
        case "space_message":
            where = f"{_quoted(data.get('spaceName') or '')}, spaceId: {data.get('spaceId')}, {ago}"
            return f"[{_name(data.get('senderName'))}: {_quoted(_short(data.get('content') or ''))}] ({where})"
        case "tool_result":
            head = f"[Tool Result: {_name(data.get('toolName'))}] (callId: {data.get('toolCallId')})"
            return f"{head} {_json(data.get('result'))}"
        case "plan":
            head = f"[Plan: {_name(data.get('planName'))}] (planId: {data.get('planId')})"
            return f"{head} {_quoted(data.get('instruction') or '')}"
        case "service":
            return f"[Service: {_name(data.get('serviceName'))}] ({ago}) {_json(data.get('payload'))}"
        case "cycle_failed":
            called = data.get("calls") or []
            what = f"It had called: {_json(called)}. Do not repeat these." if called else "It had called nothing."
            return f"[Cycle Failed] ({data.get('cycleId')}) {_quoted(data.get('reason') or '')} {what}"
        case _:
            return f"[{_name(event.type)}] ({ago}) {_json(data)}"


def _name(value: object) -> str:
    """A name that somebody else chose: without what would end the bracket or the line."""
    return " ".join(str(value or "somebody").replace("[", "(").replace("]", ")").split())[:200]


def _short(text: object) -> str:
    """So much of a message that what follows it, where it was said, has its place on the line."""
    words = str(text)
    return words if len(words) <= LONGEST_TEXT else f"{words[:LONGEST_TEXT]}… ({len(words) - LONGEST_TEXT} more)"


def _quoted(text: object) -> str:
    return _json(str(text))


def _json(value: object) -> str:
    """On one line, whatever is in it."""
    return _encode(value).decode().translate(_LINE_ENDS)


def _ago(milliseconds: int) -> str:
    seconds = max(0, milliseconds // 1000)
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
