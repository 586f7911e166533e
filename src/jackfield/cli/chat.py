"""`jackfield chat SPACE`: be in a space. See what happens there, say something, answer what agents ask.

On a terminal it goes on until Ctrl-D. With lines from a pipe each is said or answered in turn, once the agents are done
with the one before; then it ends. Above: `main.py`. Below: the SDK, `chat_screen.py`, `typed_lines.py`.
"""

import asyncio
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from jackfield.cli.chat_screen import Screen
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless
from jackfield.cli.typed_lines import typed_lines
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.errors import JackfieldError
from jackfield.sdk import (
    AgentNotFound,
    AlreadyResolved,
    CallNotFound,
    Client,
    Expired,
    Forbidden,
    NotFound,
    SpaceMessage,
)

DESCRIPTION = """\
Be in a space: see its last messages and everything that happens from now on, and say what you type. When an agent asks
something (a tool like confirmAction), answer with yes or no, or with JSON. Lines from a pipe are taken one by one, each
when the agents are done with the one before."""
EXAMPLES = """\
  jackfield chat lobby                                        (until Ctrl-D)
  echo "Book a hotel in Tokyo" | jackfield chat lobby
  printf 'Book a hotel in Tokyo\\nyes\\n' | jackfield chat lobby --as Ada"""
HISTORY = 20
LOOK_SECONDS = 0.1
QUIET_SECONDS = 0.4
"""How long all agents must be asleep until they count as done: one may be about to be woken by another."""
RECENT = 20
"""Cycles in which a message is looked for."""
YES = frozenset({"y", "yes", "confirm"})
NO = frozenset({"n", "no", "reject"})
WORDS_OF_JSON = frozenset({"true", "false", "null"})


class Question(Struct, frozen=True):
    """A call that somebody in the space is asked to answer."""

    call_id: str
    run_id: str
    tool: str


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("space", help="the space's id; 'jackfield spaces' lists them")
    parser.add_argument("--as", dest="entity", metavar="NAME", help="speak as somebody else; for administrators")
    parser.add_argument("--wait", type=float, default=120, metavar="S", help="seconds for the agents to be done (120)")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if options.wait <= 0:
        raise UsageError("--wait takes a number of seconds greater than 0.")
    asyncio.run(_chat(options))
    return 0


async def _chat(options: Namespace) -> None:
    async with gateway(options) as client:
        chat = Chat(client, options.space, entity=options.entity, live=sys.stdin.isatty() and sys.stdout.isatty())
        await chat.enter()
        await _first_of(chat.watch(), chat.type_live() if sys.stdin.isatty() else chat.type_in_turn(options.wait))


async def _first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends; its fault is ours."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Chat:
    """One person in one space."""

    def __init__(self, client: Client, space: str, *, entity: str | None, live: bool) -> None:
        self._client = client
        self._space = space
        self._entity = entity
        self._is_live = live
        self._screen = Screen(live=live)
        self._seen = 0
        """The number of the last event that was shown."""
        self._questions: list[Question] = []

    async def enter(self) -> None:
        """Who is here, what was said last, and what is asked."""
        members = await self._client.spaces.members(self._space)
        page = await self._client.spaces.messages(self._space, limit=HISTORY)
        for member in members:
            self._screen.know(member.entity_id, member.name)
        self._seen = page.last_seq
        for message in page.messages:
            if self._is_live or is_open(message):
                self._screen.message(message)
            await self._ask_for(message)
        if self._is_live:
            others = ", ".join(f"{harmless(m.name)} ({m.kind})" for m in members) or "nobody"
            self._screen.note(f"In {self._space}: {others}. Type to say something; Ctrl-D ends.")

    async def watch(self) -> None:
        """Show what happens, until the space is gone."""
        async with aclosing(self._client.spaces.follow(self._space, self._seen)) as events:
            async for event in events:
                self._screen.event(event)
                if event.type == "space.message" and event.message is not None:
                    await self._ask_for(event.message)
                elif event.type in ("tool.done", "tool.error"):
                    self._questions = [one for one in self._questions if one.call_id != event.stream_id]
                self._seen = self._seen if event.seq is None else event.seq

    async def type_live(self) -> None:
        """Say what is typed, as it is typed."""
        async with aclosing(typed_lines()) as lines:
            async for line in lines:
                await self._take(line)

    async def type_in_turn(self, seconds: float) -> None:
        """Say each line when the agents are done with the one before."""
        async with aclosing(typed_lines()) as lines:
            async for line in lines:
                heard = await self._take(line)
                if heard:
                    await self._until_idle(heard, seconds)

    async def _take(self, line: str) -> dict[str, str]:
        """Answer, or say it. Gives the event that each agent will find in its inbox for it."""
        text = line.strip()
        if not text:
            return {}
        answer = answer_in(text) if self._questions else None
        return await (self._say(line) if answer is None else self._answer(self._questions.pop(0), answer[0]))

    async def _say(self, text: str) -> dict[str, str]:
        message_id = f"chat_{uuid4().hex}"
        self._screen.typed(message_id)
        said = await self._client.spaces.send(self._space, text, entity=self._entity, id=message_id)
        members = await self._client.spaces.members(self._space)
        return {m.entity_id: message_id for m in members if m.kind == "agent" and m.entity_id != said.entity_id}

    async def _answer(self, question: Question, result: Any) -> dict[str, str]:
        try:
            receipt = await self._client.calls.answer(question.call_id, result, run_id=question.run_id)
        except (AlreadyResolved, Expired, Forbidden) as fault:
            self._screen.note(fault.message)
            return {}
        return {receipt.agent: f"tr:{question.call_id}"} if receipt.agent and receipt.delivery == "inbox" else {}

    async def _ask_for(self, message: SpaceMessage) -> None:
        """If the message shows a call that waits for an answer, and we may give it, do so with what is typed next."""
        call = message.call
        if call is None or not is_open(message):
            return
        try:
            record = await self._client.calls.get(str(call.get("toolCallId")))
        except (CallNotFound, Forbidden):
            return
        if record.status == "pending_approval":
            self._screen.note(f"  It needs permission: jackfield approve {record.id}, or reject")
        elif record.source == "space" and record.status in ("pending", "waiting"):
            self._questions.append(Question(record.id, record.run_id or "", record.tool))
            self._screen.note("  Answer with yes or no, or with JSON.")

    async def _until_idle(self, heard: dict[str, str], seconds: float) -> None:
        """Until every agent has lived the cycle that was about the event, all sleep, and all they did is shown."""
        end = time.monotonic() + seconds
        quiet_since: float | None = None
        while time.monotonic() < end:
            await asyncio.sleep(LOOK_SECONDS)
            if heard:
                heard = {agent: event for agent, event in heard.items() if not await self._is_over(agent, event)}
                continue
            is_quiet = not await self._somebody_is_awake() and await self._all_is_shown()
            quiet_since = (quiet_since or time.monotonic()) if is_quiet else None
            if quiet_since is not None and time.monotonic() - quiet_since >= QUIET_SECONDS:
                return
        raise JackfieldError(
            f"The agents in '{self._space}' were not done after {seconds:g} s. 'jackfield chat {self._space}' shows "
            "what comes, and --wait gives them longer."
        )

    async def _is_over(self, agent: str, event_id: str) -> bool:
        try:
            if not (await self._client.agents.get(agent)).enabled:
                return True
            page = await self._client.agents.cycles(agent, limit=RECENT)
        except (AgentNotFound, Forbidden):
            return True
        return any(event_id in cycle.consumed and cycle.status != "open" for cycle in page.cycles)

    async def _somebody_is_awake(self) -> bool:
        here = {m.entity_id for m in await self._client.spaces.members(self._space) if m.kind == "agent"}
        return any(agent.is_awake and agent.id in here for agent in await self._client.agents.list())

    async def _all_is_shown(self) -> bool:
        try:
            return (await self._client.spaces.get(self._space)).last_seq <= self._seen
        except NotFound:
            return True


def is_open(message: SpaceMessage) -> bool:
    """Whether the message shows a call that waits for somebody."""
    return message.call is not None and message.call.get("status") == "requires_action"


def answer_in(text: str) -> tuple[Any] | None:
    """What a line means as an answer; None: it is none."""
    word = text.casefold()
    if word in YES | NO:
        return ({"confirmed": word in YES},)
    if text[0] not in '{["' and text not in WORDS_OF_JSON:
        return None
    try:
        return (msgspec.json.decode(text),)
    except (msgspec.DecodeError, RecursionError):
        return None
