"""How the outcome of a call is told: to the model as text, and in an `mcp_call` item. Pure.

Above: the loop. Below: the model's words. A text result is not quoted again; other JSON is its own text.
"""

import msgspec
from msgspec import Raw, Struct

from jackfield.calls import texts
from jackfield.calls.slots import slot_of
from jackfield.model.call import Call, Done, Failed, Outcome, Pending
from jackfield.model.content import expand, text_of
from jackfield.model.items import McpCallStatus, McpError, McpToolExecutionError


class Told(Struct, frozen=True):
    """What the model reads as the tool's output, and why the call failed if it did."""

    text: str
    error: McpError | None = None
    waits: bool = False
    """Somebody else still has to answer or allow it."""
    ends: bool = False
    """The model is not asked again after this."""

    @property
    def status(self) -> McpCallStatus:
        if self.waits:
            return "incomplete"
        return "completed" if self.error is None else "failed"


def told_of(call: Call) -> Told:
    """What whoever made the call is told: its slot."""
    slot = slot_of(call)
    return _told(call, call.outcome if slot is None else slot.outcome)


def told_by_now(call: Call) -> Told:
    """What became of the call since, also if that went another way than to whoever made it."""
    return _told(call, call.outcome) if call.status.is_final else told_of(call)


def _told(call: Call, outcome: Outcome) -> Told:
    match outcome:
        case Done(result=result):
            return Told(text_of_result(result))
        case Failed():
            return told_failure(outcome)
        case Pending(status=status):
            return Told(bytes(texts.waiting(call.id, status)).decode(), waits=True)


def told_failure(failure: Failed) -> Told:
    said = text_of_result(failure.result) if failure.result is not None else failure.message
    return Told(said, error=_error(failure.message))


def refused(sentence: str) -> Told:
    """A call that was not made, and why, in words for the model."""
    return Told(sentence, error=_error(sentence))


def text_of_result(result: Raw) -> str:
    """A result as one text: a string as it is, the texts of MCP content, other JSON as it stands."""
    if bytes(memoryview(result)[:1]) == b'"':
        text: str = msgspec.json.decode(result)
        return text
    content = expand(result)
    if content.structured is None and (said := text_of(content)):
        return said
    return bytes(content.structured or result).decode()


def _error(message: str) -> McpToolExecutionError:
    return McpToolExecutionError(content=[{"type": "text", "text": message}])
