"""What an agent finds in its inbox when it wakes, in the order of its weight and in words for its model. Pure.

Above: the cycle. Below: the store's events. What somebody else wrote stays inside quotes or JSON, on one line of its
own, so that no message can pass for a tool's result.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.agents.cycle_transactions import InboxEvent
from jackfield.model.items import InputText, Message, ToolImage
from jackfield.model.text import counted, iso_time
from jackfield.runs.outputs import MOST_IMAGES, Reading, read_result

PEOPLE, RESULTS, APPOINTMENTS, AGENTS = range(4)
_WEIGHTS = {"tool_result": RESULTS, "cycle_failed": RESULTS, "plan": APPOINTMENTS, "service": APPOINTMENTS}
LONGEST = 20_000
"""Characters of one event; more is read with a tool."""
ROOM = 120_000
"""Characters of a whole inbox. The more events there are, the shorter is each; a model has to be able to read it."""
MOST = 600
"""Events that are told one by one."""
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
    told = in_order(events) if len(events) <= MOST else in_order(_most_telling(events))
    longest = min(LONGEST, ROOM // max(1, len(told)))
    lines = [f"INBOX ({len(events)} events, now={iso_time(now)}):"]
    lines += [line_of(event, now=now, longest=longest) for event in told]
    if len(told) < len(events):
        lines.append(f"[… and {len(events) - len(told)} older messages] Read them with read_messages.")
    images = [image for event in told if event.type == "tool_result" for image in _reading(event).images]
    shown = [ToolImage(image_url=image.image_url) for image in images[:MOST_IMAGES]]
    return Message(role="user", content=(InputText(text="\n".join(lines)), *shown))


def line_of(event: InboxEvent, *, now: int, longest: int = LONGEST) -> str:
    """One event, on one line of about so many characters."""
    line = _line(event, data_of(event), _ago(now - event.created_at), longest)
    return line if len(line) <= longest else f"{line[:longest]}… ({counted(len(line) - longest, 'character')} more)"


def _most_telling(events: Sequence[InboxEvent]) -> list[InboxEvent]:
    """So many as can be told one by one: what can be read nowhere else, then the newest messages."""
    ranked = sorted(events, key=lambda event: (event.type == "space_message", weight_of(event), -event.seq))
    return ranked[:MOST]


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


def _line(event: InboxEvent, data: dict[str, Any], ago: str, longest: int) -> str:
    match event.type:
        case "space_message":
            where = f"{_quoted(data.get('spaceName') or '')}, spaceId: {data.get('spaceId')}, {ago}"
            return f"[{_name(data.get('senderName'))}: {_said(data.get('content') or '', longest)}] ({where})"
        case "tool_result":
            head = f"[Tool Result: {_name(data.get('toolName'))}] (callId: {data.get('toolCallId')})"
            return f"{head} {_result(event, data)}"
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


def _result(event: InboxEvent, data: dict[str, Any]) -> str:
    """Plain JSON as it is; content with images and resources in words, the images follow the inbox."""
    result = data.get("result")
    is_content = isinstance(result, dict) and isinstance(result.get("content"), list)
    return _quoted(_reading(event).text) if is_content else _json(result)


def _reading(event: InboxEvent) -> Reading:
    result = data_of(event).get("result")
    return Reading("") if result is None else read_result(Raw(_encode(result)))


def _name(value: object) -> str:
    """A name that somebody else chose: without what would end the bracket or the line."""
    return " ".join(str(value or "somebody").replace("[", "(").replace("]", ")").split())[:200]


def _said(text: object, longest: int) -> str:
    """A message in quotes, so much of it that what follows, where it was said, has its place on the line."""
    words, most = str(text), longest // 2
    return _quoted(words if len(words) <= most else f"{words[:most]}… ({len(words) - most} more)")


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
