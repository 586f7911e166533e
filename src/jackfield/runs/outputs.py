"""How the outcome of a call is told: to the model as text, and in an `mcp_call` item. Pure.

Above: the loop. Below: the model's words; `media.py` for what a result says.
"""

from msgspec import Struct

from jackfield.calls.messages import waiting
from jackfield.calls.waiting import slot_of
from jackfield.model.call import Call, Done, Failed, Outcome, Pending
from jackfield.model.items import InputImage, InputText, McpCallStatus, McpError, McpToolExecutionError, OutputPart
from jackfield.runs.media import read_result


class Told(Struct, frozen=True):
    """What the model reads as the tool's output, and why the call failed if it did."""

    text: str
    error: McpError | None = None
    waits: bool = False
    """Somebody else still has to answer or allow it."""
    ends: bool = False
    """The model is not asked again after this."""
    images: tuple[InputImage, ...] = ()
    """What the model sees beside the text."""

    @property
    def output(self) -> str | tuple[OutputPart, ...]:
        """As the output of a call."""
        return (InputText(text=self.text), *self.images) if self.images else self.text

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
            reading = read_result(result)
            return Told(reading.text, images=reading.images)
        case Failed():
            return told_failure(outcome)
        case Pending(status=status):
            return Told(bytes(waiting(call.id, status)).decode(), waits=True)


def told_failure(failure: Failed) -> Told:
    if failure.result is None:
        return Told(failure.message, error=_error(failure.message))
    reading = read_result(failure.result)
    return Told(reading.text, error=_error(failure.message), images=reading.images)


def refused(sentence: str) -> Told:
    """A call that was not made, and why, in words for the model."""
    return Told(sentence, error=_error(sentence))


def _error(message: str) -> McpToolExecutionError:
    return McpToolExecutionError(content=[{"type": "text", "text": message}])
