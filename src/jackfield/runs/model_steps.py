"""What each step of a run asked its model, what the model said, when, and what it cost: for people who read it later.

No run stands on it: a run goes on from its journal. A step is written once its model has answered, and nobody waits for
that. Of the conversation only what is new in a step is kept, so that a run's messages are those of its steps put
together. Above: the loop. Below: the store.
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import JackfieldError
from jackfield.llm.types import ModelRequest, Price
from jackfield.model.items import Item, Usage
from jackfield.runs.step import ToolCallDraft
from jackfield.store import Store
from jackfield.store.scripts import RUN_TOPIC, Row, Script, json_list, wake

log = logging.getLogger("jackfield.runs")

LONGEST_ITEM = 64 * 1024
"""Bytes of one item that are kept."""
LONGEST_STEP = 512 * 1024
"""Bytes of what is new in a step that are kept, before they are compressed: the newest."""
ASIDE = 64 * 1024
"""Bytes from which they are compressed in a thread."""
SMALL_WINDOW = 12, 5
"""How far back zlib looks (4 kB, as a power of two), and how much memory it takes beside that."""
_OPTIONS = ("temperature", "top_p", "max_output_tokens", "reasoning_effort", "text_format")

_encode = msgspec.json.Encoder().encode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class StepMessages(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model was sent in a step and what it said.

    It was sent the first `kept` items of the conversation as it was after the step before, then `sent`. Afterwards the
    conversation also has what it `said`.
    """

    kept: int = 0
    sent: list[Any] = []
    said: list[Any] = []
    calls: list[str] = []
    """The records of the calls that it asked for, as far as they are run here."""
    instructions: str | None = None
    """None: as in the step before."""
    tools: list[str] | None = None
    """Names of the tools it was shown; None: as in the step before."""
    tool_choice: str = "auto"
    options: dict[str, Any] = {}
    """How it was to answer, as far as the request says so."""
    left_out: int = 0
    """The oldest of `sent` that are not kept, because there were too many."""


class ModelStep(Struct, frozen=True, kw_only=True):
    """One answer of a model, or why there was none. Times are milliseconds since 1970 by the database's clock."""

    run_id: str
    n: int
    model: str
    asked_at: int
    first_at: int | None
    """When the first of the answer came."""
    answered_at: int
    retries: int
    """How often it was asked in vain before, without having said anything."""
    finish: str | None
    error_code: str | None
    error_message: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    messages: StepMessages


class StepTotals(Struct, frozen=True, kw_only=True):
    """What the steps of one run came to."""

    steps: int
    model: str
    """The one that was asked, or one of them."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    model_ms: int


class AskedStep:
    """One step while its model is asked."""

    def __init__(self, steps: "StepLog | None", *, n: int, request: ModelRequest, retries: int) -> None:
        self._steps = steps
        self._n = n
        self._request = request
        self._retries = retries
        self._asked = time.monotonic()
        self._first: float | None = None

    def hear(self) -> None:
        """Something of its answer has come."""
        if self._first is None:
            self._first = time.monotonic()

    def answered(
        self, said: Sequence[Item], calls: Sequence[ToolCallDraft], *, finish: str, usage: Usage | None
    ) -> None:
        made = [call.function_call for call in calls]
        records = [record for call in calls if (record := call.named()) is not None]
        self._end((*said, *made), records=records, finish=finish, usage=usage)

    def failed(self, said: Sequence[Item], *, code: str, message: str) -> None:
        self._end(tuple(said), error=(code, message))

    def _end(
        self,
        said: Sequence[Item],
        *,
        records: Sequence[str] = (),
        finish: str | None = None,
        usage: Usage | None = None,
        error: tuple[str, str] | None = None,
    ) -> None:
        if self._steps is None:
            return
        self._steps.add(
            _Answer(
                n=self._n,
                asked=self._asked,
                first=self._first,
                answered=time.monotonic(),
                retries=self._retries,
                finish=finish,
                usage=usage,
                error=error,
            ),
            self._request,
            said,
            records,
        )


class StepLog:
    """The steps of one run as they are kept. `known` is how the conversation begins that is on record elsewhere."""

    def __init__(
        self, logs: "StepLogs", run_id: str, *, model: str, price: Price | None, before: int, known: Sequence[Item]
    ) -> None:
        self._logs = logs
        self._run_id = run_id
        self._model = model
        self._price = price
        self._before = before
        self._conversation: tuple[Item, ...] = tuple(known)
        self._instructions: str | None = None
        self._tools: list[str] | None = None

    def ask(self, n: int, request: ModelRequest, *, retries: int) -> AskedStep:
        """The model is asked for the `n`th step of this turn now."""
        return AskedStep(self, n=self._before + n, request=request, retries=retries)

    def add(self, answer: "_Answer", request: ModelRequest, said: Sequence[Item], records: Sequence[str]) -> None:
        """Keep a step, once that is possible."""
        kept = _common(self._conversation, request.items)
        tools = [tool.name for tool in request.tools]
        messages = StepMessages(
            kept=kept,
            sent=list(request.items[kept:]),
            said=list(said),
            calls=list(records),
            instructions=request.instructions if request.instructions != self._instructions else None,
            tools=tools if tools != self._tools else None,
            tool_choice=request.tool_choice,
            options=_options(request),
        )
        self._conversation = (*request.items, *said)
        self._instructions, self._tools = request.instructions, tools
        self._logs.keep(self._run_id, self._model, answer, messages, cost=_cost(self._price, answer.usage))


class StepLogs:
    """Where the runs of a gateway keep their steps. `redact` takes secrets out of JSON."""

    def __init__(self, store: Store, *, redact: Callable[[Raw], Raw], price_of: Callable[[str], Price | None]) -> None:
        self._store = store
        self._redact = redact
        self._price_of = price_of
        self._aside: set[asyncio.Task[None]] = set()

    def of(self, run_id: str, *, model: str, before: int = 0, known: Sequence[Item] = ()) -> StepLog:
        """For a run. `before`: how many steps it has; `known`: the first items of its conversation, which other runs
        have on record.
        """
        return StepLog(self, run_id, model=model, price=self._price_of(model), before=before, known=known)

    def keep(self, run_id: str, model: str, answer: "_Answer", messages: StepMessages, *, cost: float | None) -> None:
        """Returns at once; what goes wrong is logged."""
        body = _encode(messages)
        write = partial(self._write, run_id, model, answer, cost)
        if len(body) < ASIDE:
            write(self._packed(body))
            return
        task = asyncio.create_task(self._keep_aside(body, write), name=f"messages of {run_id}")
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _keep_aside(self, body: bytes, write: Callable[[bytes], None]) -> None:
        write(await asyncio.to_thread(self._packed, body))

    def _packed(self, body: bytes) -> bytes:
        return packed(bounded(bytes(self._redact(Raw(body)))))

    def _write(self, run_id: str, model: str, answer: "_Answer", cost: float | None, messages: bytes) -> None:
        usage = answer.usage
        values = {
            "run_id": run_id,
            "n": answer.n,
            "model": model,
            "retries": answer.retries,
            "finish": answer.finish,
            "error_code": None if answer.error is None else answer.error[0],
            "error_message": None if answer.error is None else answer.error[1],
            "input_tokens": None if usage is None else usage.input_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
            "cached_tokens": None if usage is None else usage.input_tokens_details.cached_tokens,
            "cost": cost,
            "messages": messages,
        }
        try:
            self._store.write(partial(_put, answer, values)).add_done_callback(_log_fault)
        except JackfieldError as fault:
            log.warning("step %d of run %s is not kept: %s", answer.n, run_id, fault)


def packed(body: bytes) -> bytes:
    """Compressed. For the usual few kilobytes zlib's own window would cost more to allocate than all the rest."""
    window, memory = SMALL_WINDOW if len(body) < ASIDE else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    compressor = zlib.compressobj(1, zlib.DEFLATED, window, memory)
    return compressor.compress(body) + compressor.flush()


def bounded(body: bytes) -> bytes:
    """The same messages with long items cut, and the oldest left out where there are too many."""
    if len(body) <= LONGEST_ITEM:
        return body
    message = msgspec.json.decode(body, type=dict[str, Raw])
    if "said" in message:
        message["said"] = Raw(_encode([_cut(item) for item in _decode_list(message["said"])]))
    sent = [_cut(item) for item in _decode_list(message["sent"])] if "sent" in message else []
    room = LONGEST_STEP
    first = len(sent)
    while first > 0 and (room := room - len(bytes(sent[first - 1]))) >= 0:
        first -= 1
    if sent:
        message["sent"] = Raw(_encode(sent[first:]))
    if first:
        message["left_out"] = Raw(str(first).encode())
    return _encode(message)


def _cut(item: Raw) -> Raw:
    """An item, or its beginning as text in an item of the type `cut`."""
    size = len(bytes(item))
    if size <= LONGEST_ITEM:
        return item
    fields = msgspec.json.decode(item, type=dict[str, Raw])
    kept = {name: fields[name] for name in ("role", "call_id", "name") if name in fields}
    text = bytes(item)[: LONGEST_ITEM // 2].decode(errors="ignore")
    return Raw(_encode({"type": "cut", "of": fields.get("type"), **kept, "bytes": size, "text": text}))


def insert_values(values: dict[str, Any], *, asked_ms: int, first_ms: int | None, answered_ms: int) -> dict[str, Any]:
    """A row's values; times are so many milliseconds ago."""
    return values | {"asked_ms": asked_ms, "first_ms": first_ms, "answered_ms": answered_ms}


def _put(answer: "_Answer", values: dict[str, Any]) -> Script[None]:
    now = time.monotonic()

    def ago(moment: float) -> int:
        return round((now - moment) * 1000)

    first = None if answer.first is None else ago(answer.first)
    timed = insert_values(values, asked_ms=ago(answer.asked), first_ms=first, answered_ms=ago(answer.answered))
    yield "put_model_step", timed
    yield wake(RUN_TOPIC + values["run_id"])


def steps_of(run_id: str) -> Script[list[ModelStep]]:
    """The steps of a run, the first first."""
    rows = yield "model_steps_of", {"run_id": run_id}
    return [_step_from(row) for row in rows]


def last_step(run_id: str) -> Script[int]:
    """The number of a run's last step; 0: it has none."""
    rows = yield "last_model_step", {"run_id": run_id}
    return int(rows[0]["n"] or 0)


def totals_of(run_ids: Sequence[str]) -> Script[dict[str, StepTotals]]:
    """What the steps of these runs came to, by run."""
    if not run_ids:
        return {}
    rows = yield "model_step_totals", {"ids": json_list(run_ids)}
    return {
        row["run_id"]: StepTotals(
            steps=int(row["steps"]),
            model=row["model"],
            input_tokens=_maybe_int(row["input_tokens"]),
            output_tokens=_maybe_int(row["output_tokens"]),
            cached_tokens=_maybe_int(row["cached_tokens"]),
            cost=row["cost"],
            model_ms=int(row["model_ms"]),
        )
        for row in rows
    }


def forget(run_ids: Sequence[str]) -> Script[None]:
    """Delete what is kept of these runs."""
    if run_ids:
        yield "delete_model_steps", {"ids": json_list(run_ids)}


class _Answer(Struct, frozen=True, kw_only=True):
    """When a model was asked and answered, by the monotonic clock, and how."""

    n: int
    asked: float
    first: float | None
    answered: float
    retries: int
    finish: str | None
    usage: Usage | None
    error: tuple[str, str] | None


def _options(request: ModelRequest) -> dict[str, Any]:
    given = {name: getattr(request, name) for name in _OPTIONS}
    return {name: value for name, value in given.items() if value is not None and value != {"type": "text"}}


def _common(before: Sequence[Item], now: Sequence[Item]) -> int:
    """How many items both begin with."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        count += 1
    return count


def _cost(price: Price | None, usage: Usage | None) -> float | None:
    return None if price is None or usage is None else price.of(usage)


def _step_from(row: Row) -> ModelStep:
    names = [name for name in ModelStep.__struct_fields__ if name != "messages"]
    messages = msgspec.json.decode(zlib.decompress(row["messages"]), type=StepMessages)
    return ModelStep(**{name: row[name] for name in names}, messages=messages)


def _maybe_int(value: Any) -> int | None:
    return None if value is None else int(value)


def _log_fault(written: "asyncio.Future[None]") -> None:
    if not written.cancelled() and (fault := written.exception()) is not None:
        log.warning("a step of a run is not kept: %s", fault)
