"""A call as whoever follows it from outside sees it: its row, what goes on at the tool's owner, its open questions.

Above: tasks of MCP. Below: the store. One read, at any gateway; nothing of it is kept in memory.
"""

from msgspec import Struct

from jackfield.calls.operation_transactions import Operation, operations_among
from jackfield.calls.questions import asked_by
from jackfield.calls.transactions import get_call, questions_of
from jackfield.model.call import Call, CallStatus
from jackfield.store.scripts import Script


class FollowedCall(Struct, frozen=True, kw_only=True):
    """A call and what is known of it beside its row."""

    call: Call
    operation: Operation | None = None
    """The work at the tool's owner, if there is any."""
    questions: tuple[Call, ...] = ()
    """What the call asks and nobody has answered, the oldest first."""

    @property
    def updated_at(self) -> int:
        """When any of it changed last."""
        call = self.call
        times = [call.created_at, *(question.created_at for question in self.questions)]
        later = (call.finished_at, call.decided_at, None if self.operation is None else self.operation.updated_at)
        return max(*times, *(at for at in later if at is not None), 0)


def followed_call(call_id: str) -> Script[FollowedCall | None]:
    """The call as it is now; None: there is none."""
    call = yield from get_call(call_id)
    if call is None:
        return None
    if call.status is not CallStatus.PENDING:
        return FollowedCall(call=call)
    found = yield from operations_among([call_id])
    questions = [question for question in (yield from questions_of(call)) if asked_by(call, question)]
    if not found:
        return FollowedCall(call=call, questions=tuple(questions))
    order = {question.call_id: number for number, question in enumerate(found[0].questions)}
    questions.sort(key=lambda question: order.get(question.id, len(order)))  # as its owner asked them
    return FollowedCall(call=call, operation=found[0], questions=tuple(questions))
