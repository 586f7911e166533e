"""Agents that answer each other: how long that has gone on without a person, and what people are told then. Pure.

An agent that lives here counts by the messages that woke it (`agents/inbox.py`). One that speaks through the HTTP route
has no cycle to count in, so the space's own end is looked at. Above: the handler. Below: the model's messages.
"""

from collections.abc import Sequence

import msgspec

from jackfield.model.space import SpaceMessage
from jackfield.model.text import counted

WINDOW_MS = 600_000
"""Messages that are older than this belong to another conversation: a program that reports now and then is heard."""
LOOKED_AT = 100
STOPPED = "exchange_stopped"


def notice(agent: str, *, most: int) -> tuple[str, dict[str, str]]:
    """What people are told when agents no longer wake each other, and the metadata that it goes by."""
    text = (
        f"The agents here have sent {counted(most, 'message')} in a row without a person. "
        "They do not wake each other any further; write something to go on."
    )
    return text, {"type": STOPPED, "agent": agent}


def answers_before(messages: Sequence[SpaceMessage], *, sender: str, now: int) -> int:
    """How many messages other agents have sent lately, up to the last word of a person. `messages` in their order."""
    count = 0
    for message in reversed(messages):
        if message.sender_type == "person" or now - message.created_at > WINDOW_MS:
            break
        count += message.sender_type == "agent" and message.entity_id != sender and _type(message) != "tool_call"
    return count


def is_told(messages: Sequence[SpaceMessage]) -> bool:
    """Whether people were told already, since one of them last said something."""
    for message in reversed(messages):
        if message.sender_type == "person":
            return False
        if _type(message) == STOPPED:
            return True
    return False


def _type(message: SpaceMessage) -> object:
    return msgspec.json.decode(message.metadata).get("type")
