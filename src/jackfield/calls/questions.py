"""A question that comes up while a tool runs and its caller cannot be asked: a call of its own that somebody answers.

Above: the executor, which lends this to the sources. Below: the store. The question waits like every call that somebody
else answers: it is listed as pending, and answered with `{"action", "content"}`. So is the call that asks it, where its
caller need not be held up.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.calls.messages import question_closed
from jackfield.calls.running import ANSWER_SECONDS, Running
from jackfield.catalog.checking import Checking
from jackfield.errors import BadRequest
from jackfield.model.call import Call, CallStatus, Done
from jackfield.model.ids import new_id
from jackfield.protocol.schemas import RESULT, summarize
from jackfield.sources.client import CANCELLED, ElicitAnswer, ElicitRequest
from jackfield.store import Store

QUESTION = "elicitation"
"""The source, and the tool, that a question's record names. No source of the config may be called so."""
GRACE_SECONDS = 15.0
"""How much longer a question lasts than the call that waits for it, so that it is the call that expires."""


class OpenQuestions:
    """What one running call asks of whoever answers calls. Used on the event loop only.

    A call whose caller can be told so is parked while it waits (T13 of the pending protocol): it is `pending`, held by
    this gateway, and runs again when the last answer is there. Whatever becomes of it, its questions end with it.
    """

    def __init__(self, running: Running, *, store: Store, gateway_id: str, tell: Callable[[Call], None]) -> None:
        self._running = running
        self._store = store
        self._gateway_id = gateway_id
        self._tell = tell
        self._lock = asyncio.Lock()
        self._attempt = running.call.attempt
        self._open: dict[str, asyncio.Event] = {}
        """Of each question, what wakes whoever waits for its answer."""
        self._is_over = False

    async def ask(self, question: ElicitRequest) -> ElicitAnswer:
        """Put the question on record and wait for an answer. Nobody answers in time: as if they had closed the form."""
        running = self._running
        asked = _question_call(question, running.call, owner=self._gateway_id, may_take=_most_ms(running))
        with self._store.bus.listen(asked.id, running.call.id) as written:
            if not await self._put(asked, written):
                return CANCELLED
            try:
                return await self._answer(asked.id, written)
            finally:
                await asyncio.shield(self._close(asked.id))

    async def end(self) -> None:
        """The call is over: nobody needs answers any more. Afterwards its row is as if nothing had been asked."""
        self._is_over = True
        for call_id in tuple(self._open):
            await self._close(call_id)
        async with self._lock:
            await self._go_on()

    async def _put(self, asked: Call, written: asyncio.Event) -> bool:
        """The question goes on record, with what the call becomes by it. False: the call is over."""
        running = self._running
        async with self._lock:
            if self._is_over:
                return False
            if running.takes_pending and running.parked is None:
                moved = await self._store.write(
                    partial(call_tx.park, running.call.id, asked, attempt=running.call.attempt, owner=self._gateway_id)
                )
                if not moved.moved or moved.call is None:
                    running.stop()
                    return False
                self._attempt = running.call.attempt
                running.park(moved.call)
                self._tell(moved.call)
            else:
                await self._store.write(partial(call_tx.start_call, asked))
            self._open[asked.id] = written
        self._tell(asked)
        return True

    async def _answer(self, question_id: str, written: asyncio.Event) -> ElicitAnswer:
        while True:
            written.clear()
            question = await self._store.read(partial(call_tx.get_call, question_id))
            if question is None or question.status.is_final:
                return CANCELLED if question is None else answer_to(question)
            if self._is_over:
                return CANCELLED
            asker = await self._store.read(partial(call_tx.get_call, self._running.call.id))
            if asker is None or asker.status.is_final:  # expired, or cancelled at another gateway
                self._running.stop()
                return CANCELLED
            await written.wait()

    async def _close(self, question_id: str) -> None:
        """It is answered, or nobody needs the answer. The last one lets the call go on."""
        async with self._lock:
            written = self._open.pop(question_id, None)
            if written is None:
                return
            written.set()
            moved = await self._store.write(
                partial(call_tx.settle_cancelled, question_id, question_closed(question_id))
            )
            if moved.moved and moved.call is not None:
                self._tell(moved.call)
            if not self._open:
                await self._go_on()

    async def _go_on(self) -> None:
        running = self._running
        if running.parked is None:
            return
        moved = await self._store.write(
            partial(
                call_tx.resume,
                running.call.id,
                attempt=self._attempt + 1,
                owner=self._gateway_id,
                left_ms=int(running.left_ms),
            )
        )
        running.resume(moved.call if moved.moved else None)
        if moved.moved and moved.call is not None:
            self._tell(moved.call)


def question_of_work(question: ElicitRequest, asked_by: Call) -> Call:
    """The row of a question of work that goes on at its owner: any gateway passes the answer on."""
    return _question_call(question, asked_by, owner=None, may_take=asked_by.longest_wait_ms)


def answer_to(question: Call) -> ElicitAnswer:
    """What somebody said, once the question is settled; else that nobody did."""
    outcome = question.outcome
    return msgspec.json.decode(outcome.result, type=ElicitAnswer) if isinstance(outcome, Done) else CANCELLED


def patience_of(running: Running) -> float:
    """Seconds that people may take to answer: as long as the call may be pending, where its caller takes that."""
    return _most_ms(running) / 1000 + GRACE_SECONDS


def _most_ms(running: Running) -> int:
    return running.call.longest_wait_ms if running.takes_pending else int(ANSWER_SECONDS * 1000)


def is_question(call: Call) -> bool:
    return call.source == QUESTION


def asked_by(call: Call, question: Call) -> bool:
    """Whether this call waits for the answer to that question."""
    return bool(msgspec.json.decode(question.arguments).get("call_id") == call.id)


async def check_answer(call: Call, outcome: Done, *, checking: Checking) -> None:
    """Refuse an answer that the asker could not use; the question stays open."""
    content = msgspec.json.decode(call.arguments).get("schema")
    if content is not None and await asyncio.to_thread(checking.fault_in, content, is_foreign=True) is not None:
        content = None  # the asker's own fault; it has to look at what it gets
    faults = await checking.faults_in_json(call.id, answer_schema(content), outcome.result, whole=RESULT)
    if faults:
        cure = 'Send {"action": "accept", "content": {…}}, {"action": "decline"} or {"action": "cancel"}.'
        raise BadRequest(f"The answer does not fit the question: {summarize(faults)} {cure}", param="result")


def answer_schema(content: dict[str, Any] | None) -> dict[str, Any]:
    """What an answer looks like; only an accepted form has content, and that fits the question.

    What has a default may be left out.
    """
    if content is not None and isinstance(content.get("required"), list):
        fields = content.get("properties")
        known = fields if isinstance(fields, dict) else {}
        content = {**content, "required": [name for name in content["required"] if not _has_default(known, name)]}
    return {
        "type": "object",
        "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "content": {"type": ["object", "null"]}},
        "required": ["action"],
        "additionalProperties": False,
        "if": {"properties": {"action": {"const": "accept"}}},
        "then": {"properties": {"content": content}, "required": ["content"]} if content else {},
    }


def _has_default(fields: dict[str, Any], name: Any) -> bool:
    field = fields.get(name) if isinstance(name, str) else None
    return isinstance(field, dict) and "default" in field


def _question_call(question: ElicitRequest, asked_by: Call, *, owner: str | None, may_take: int) -> Call:
    """The row of a question. One that ends with the gateway that asks has it as its owner."""
    asked = {"message": question.message, "schema": question.schema, "url": question.url}
    asked |= {"tool": asked_by.tool, "call_id": asked_by.id}
    milliseconds = may_take + int(GRACE_SECONDS * 1000)
    return Call(
        id=new_id("call"),
        run_id=asked_by.run_id,
        tool=QUESTION,
        source=QUESTION,
        tool_version="",
        arguments=Raw(msgspec.json.encode({key: value for key, value in asked.items() if value is not None})),
        principal=asked_by.principal,
        status=CallStatus.PENDING,
        owner=owner,
        space_id=asked_by.space_id,
        chat_id=asked_by.chat_id,
        timeout_ms=milliseconds,
        expires_in_ms=milliseconds,
    )
