"""Cycles of agents: from a message in a space to the agent's reply there, with a model that takes no time."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from bench.budget import Bench
from bench.figures import MILLISECONDS, RATE, Bar, Figure, Line, Sample, percentile, take_turns
from bench.inprocess import gateway_here, runner
from bench.processes import BenchError
from bench.subjects import write_echo_project
from jackfield.gateway.gateway import Gateway
from jackfield.llm.types import CallArguments, CallBegun, Delta, ModelRequest, StepEnd, TextDelta
from jackfield.model.ids import new_id
from jackfield.model.items import Message, Usage, text_of
from jackfield.model.space import Sender
from jackfield.spaces import transactions as space_tx

AGENTS = 32
"""That work at the same time, each in a space of its own."""
MESSAGES = 40
PAST_TOKENS = 4_000
"""What each agent remembers of its earlier cycles. It is read and written in every cycle."""
REPLY_MS = 6.0
CYCLES_A_SECOND = 300.0
WITHIN_SECONDS = 30.0
CONFIG = """
[models.mind]
provider = "scripted"
script = "mind.toml"
"""
AGENT = """
[agents.agent{n}]
instructions = "Greet whoever writes."
spaces = ["space{n}"]
context_tokens = {past}
"""
_SPACE = re.compile(r"spaceId: (space\d+),")
USAGE = Usage(input_tokens=1000, output_tokens=10, total_tokens=1010)
ANN = Sender(entity_id="ann", name="Ann", kind="person")


def measure(bench: Bench) -> list[Line]:
    """One agent at a time, then all of them, on each store."""
    lines: list[Line] = []
    with runner() as loop:
        for name, store in (("memory store", "memory:"), ("SQLite", "sqlite:///cycles.db")):
            folder = _project(bench.folder / f"cycles-{name[:6]}")
            with gateway_here(loop, folder, store=store) as gateway:
                model = loop.run(gateway.models.get("mind"))
                model.stream = _answer  # type: ignore[method-assign]
                lines += _on(bench, loop, gateway, name)
    return lines


async def _answer(request: ModelRequest) -> AsyncGenerator[Delta]:
    """A model that takes no time: it greets in the space of the last message, and is done."""
    last = request.items[-1]
    found = _SPACE.search(text_of(last)) if isinstance(last, Message) else None
    if found is None:
        yield TextDelta("Done.")
        yield StepEnd("stop", USAGE)
        return
    yield CallBegun(0, new_id("call"), "enter_space")
    yield CallArguments(0, f'{{"spaceId": "{found[1]}"}}')
    yield CallBegun(1, new_id("call"), "send_message")
    yield CallArguments(1, '{"text": "Hello to you."}')
    yield StepEnd("tool_calls", USAGE)


def _on(bench: Bench, loop: asyncio.Runner, gateway: Gateway, name: str) -> list[Line]:
    alone, many = take_turns(
        bench.budget.rounds, lambda: loop.run(_one_by_one(gateway)), lambda: loop.run(_all_at_once(gateway))
    )
    return [
        Line(
            says=f"a message to an agent's reply, one at a time, p50, {name}",
            ours=Figure(unit=MILLISECONDS, samples=alone),
            bar=Bar(limit=REPLY_MS, of_ratio=False),
            note="from the message's write to the reply in the space's stream: the agent wakes, its model enters the "
            "space and answers; each step is on disk before anything follows from it",
        ),
        Line(
            says=f"cycles for a second of processor time, {AGENTS} agents at once, {name}",
            ours=Figure(unit=RATE, samples=many),
            bar=Bar(limit=CYCLES_A_SECOND, at_least=True, of_ratio=False),
            note="all threads of the gateway, those who write and read the messages included; each agent remembers "
            f"{PAST_TOKENS:,} tokens of its earlier cycles",
        ),
    ]


async def _one_by_one(gateway: Gateway) -> Sample:
    cpu = time.process_time()
    took = sorted(await _talk(gateway, 0))
    return Sample(value=percentile(took, 0.5) * 1000, cpu_us=(time.process_time() - cpu) / MESSAGES * 1e6)


async def _all_at_once(gateway: Gateway) -> Sample:
    cpu = time.process_time()
    await asyncio.gather(*(_talk(gateway, n) for n in range(AGENTS)))
    cpu_us = (time.process_time() - cpu) / (MESSAGES * AGENTS) * 1e6
    return Sample(value=1e6 / cpu_us, cpu_us=cpu_us)


async def _talk(gateway: Gateway, n: int) -> list[float]:
    """Seconds from each message to its reply; the next is written when the agent sleeps again."""
    took: list[float] = []
    frames = gateway.spaces.follow(f"space{n}")
    await anext(frames)
    for _ in range(MESSAGES):
        began = time.perf_counter()
        said = partial(space_tx.post_message, f"space{n}", sender=ANN, content="Good morning.")
        if await gateway.store.write(said) is None:
            raise BenchError(f"There is no space{n}.")
        async with asyncio.timeout(WITHIN_SECONDS):
            frame = await _with(f'"entityId":"agent{n}"'.encode(), frames)
            took.append(time.perf_counter() - began)
            await _with(b'"agent.inactive"', frames, frame)
    await frames.aclose()
    return took


async def _with(mark: bytes, frames: AsyncGenerator[bytes], frame: bytes = b"") -> bytes:
    """The first frame that has it."""
    while mark not in frame:
        frame = await anext(frames)
    return frame


def _project(folder: Path) -> Path:
    write_echo_project(folder)
    with (folder / "jackfield.toml").open("a", encoding="utf-8") as config:
        config.write(CONFIG + "".join(AGENT.format(n=n, past=PAST_TOKENS) for n in range(AGENTS)))
    (folder / "mind.toml").write_text('[otherwise]\nsay = "Done."\n', encoding="utf-8")
    return folder
