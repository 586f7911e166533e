"""`jackfield chat SPACE`: follow a space, send messages, answer the calls of agents.

On a terminal with a prompt, until Ctrl-D. Lines from a pipe are sent one at a time, each when the agents have finished
with the one before.
"""

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import Coroutine
from contextlib import aclosing, nullcontext
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from jackfield.cli.chat_screen import Screen
from jackfield.cli.line_editor import LineEditor
from jackfield.cli.options import GATEWAY, UsageError, argument, command
from jackfield.cli.output import escape, table
from jackfield.cli.prompt import Prompt
from jackfield.cli.stdin_lines import stdin_lines
from jackfield.cli.target import connect
from jackfield.cli.typed_lines import TypedLines, history_path
from jackfield.errors import JackfieldError, Refused
from jackfield.model.text import nearest
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

HISTORY = 20
POLL_SECONDS = 0.1
QUIET_SECONDS = 0.4
"""How long all agents must be idle before they count as finished: one may be about to wake another."""
RECENT_CYCLES = 20
"""Cycles that are searched for a message."""
YES = frozenset({"y", "yes", "confirm"})
NO = frozenset({"n", "no", "reject"})
JSON_WORDS = frozenset({"true", "false", "null"})
COMMANDS = {
    "/help": "show this",
    "/members": "list who is in the space",
    "/questions": "list the questions that wait for an answer here; yes, no or JSON answers the first",
    "/quit": "leave, as Ctrl-D does",
}
KEYS = "Tab completes names and commands; the arrow keys move in the line and through what you typed before."


class Question(Struct, frozen=True):
    """A pending call that a person in the space can answer."""

    call_id: str
    run_id: str
    tool: str


@command(
    """\
Join a space: show its last messages and everything new, and send what you type. When an agent asks a question (with a
tool such as confirmAction), answer yes, no, or JSON. '/help' lists what else can be typed. What you type is kept for
the arrow keys, in chat_history in the state folder ($XDG_STATE_HOME/jackfield), except lines that begin with a space.

Lines from a pipe are sent one at a time, each when the agents have finished with the one before.""",
    argument("space", help="the space's id; 'jackfield spaces' lists them"),
    argument("--as", dest="entity", metavar="NAME", help="send as somebody else; needs an admin key"),
    argument("--wait", type=float, default=120, metavar="S", help="seconds to wait for the agents to finish (120)"),
    *GATEWAY,
    examples="""\
  jackfield chat lobby                                        (until /quit or Ctrl-D)
  echo "Book a hotel in Tokyo" | jackfield chat lobby
  printf 'Book a hotel in Tokyo\\nyes\\n' | jackfield chat lobby --as Ada""",
)
async def chat(options: Namespace) -> int:
    if options.wait <= 0:
        raise UsageError("--wait takes a number of seconds greater than 0.")
    async with connect(options) as client:
        is_live = sys.stdin.isatty() and sys.stdout.isatty()
        session = Chat(client, options.space, entity=options.entity, live=is_live)
        with session.prompt or nullcontext():
            await session.enter()
            await _first_of(
                session.watch(), session.send_live() if sys.stdin.isatty() else session.send_in_turn(options.wait)
            )
    return 0


async def _first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, and raise its error."""
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
    """One user in one space."""

    def __init__(self, client: Client, space: str, *, entity: str | None, live: bool) -> None:
        self._client = client
        self._space = space
        self._entity = entity
        self._is_live = live
        self._typed_lines = TypedLines(history_path())
        self.prompt = self._make_prompt() if live and os.environ.get("TERM") != "dumb" else None
        self._screen = Screen(live=live, write=self.prompt.write if self.prompt else None)
        self._seen = 0
        """Sequence number of the last event shown."""
        self._questions: list[Question] = []

    def _make_prompt(self) -> Prompt:
        return Prompt(f"{self._space}> ", LineEditor(self._typed_lines.read(), complete=self._completions))

    def _completions(self, word: str, is_first: bool) -> list[str]:  # noqa: FBT001 - as `Complete` has it
        known = [*self._screen.names, *(COMMANDS if is_first else ())]
        return [name for name in known if word and name.casefold().startswith(word.casefold())]

    async def enter(self) -> None:
        """Show members, last messages and open questions."""
        members = await self._client.spaces.members(self._space)
        page = await self._client.spaces.messages(self._space, limit=HISTORY)
        for member in members:
            self._screen.add_member(member.entity_id, member.name)
        self._seen = page.last_seq
        for message in page.messages:
            if self._is_live or is_open(message):
                self._screen.message(message)
            await self._note_question(message)
        if self._is_live:
            others = ", ".join(f"{escape(m.name)} ({m.kind})" for m in members) or "nobody"
            more = "/help lists commands, Ctrl-D ends." if self.prompt else "Ctrl-D ends."
            self._screen.note(f"In {self._space}: {others}. Type a message; {more}")

    async def watch(self) -> None:
        """Show events until the space is deleted."""
        async with aclosing(self._client.spaces.follow(self._space, self._seen)) as events:
            async for event in events:
                self._screen.event(event)
                if event.type == "space.message" and event.message is not None:
                    await self._note_question(event.message)
                elif event.type in ("tool.done", "tool.error"):
                    self._questions = [one for one in self._questions if one.call_id != event.stream_id]
                self._seen = self._seen if event.seq is None else event.seq

    async def send_live(self) -> None:
        """Send each line as it is typed."""
        async with aclosing(self.prompt.lines() if self.prompt else stdin_lines()) as lines:
            async for line in lines:
                try:
                    if not await self._handle_typed(line):
                        return
                except Refused as fault:
                    self._screen.note(fault.message)

    async def _handle_typed(self, line: str) -> bool:
        """A line from the prompt: a command, or something to send. False: it was the last."""
        if self.prompt is None:
            await self._handle(line)
            return True
        self._typed_lines.add(line)
        text = line.strip()
        if text.startswith("//"):
            await self._send(text[1:])
        elif text.startswith("/"):
            return await self._command(text.split()[0].casefold())
        else:
            await self._handle(line)
        return True

    async def _command(self, name: str) -> bool:
        if name in ("/quit", "/exit"):
            return False
        if name == "/help":
            rows = [*COMMANDS.items(), ("//…", "send a message that begins with a slash")]
            lines = [*table(rows, indent="  "), f"  {KEYS}"]
        elif name == "/members":
            members = await self._client.spaces.members(self._space)
            lines = [f"  {escape(member.name)} ({member.kind})" for member in members] or ["  Nobody."]
        elif name == "/questions":
            lines = [f"  {escape(one.tool)}  {one.call_id}" for one in self._questions] or ["  None."]
        else:
            hint = nearest(name, [*COMMANDS]) or " To send it as a message, begin with two slashes."
            lines = [f"There is no command '{escape(name)}'.{hint} See /help."]
        for line in lines:
            self._screen.note(line)
        return True

    async def send_in_turn(self, seconds: float) -> None:
        """Send each line when the agents have finished with the one before."""
        async with aclosing(stdin_lines()) as lines:
            async for line in lines:
                delivered = await self._handle(line)
                if delivered:
                    await self._wait_until_idle(delivered, seconds)

    async def _handle(self, line: str) -> dict[str, str]:
        """Send a line as an answer or a message. Returns the inbox event that each agent gets for it."""
        text = line.strip()
        if not text:
            return {}
        answer = parse_answer(text) if self._questions else None
        return await (self._send(line) if answer is None else self._answer(self._questions.pop(0), answer[0]))

    async def _send(self, text: str) -> dict[str, str]:
        message_id = f"chat_{uuid4().hex}"
        self._screen.typed(message_id)
        message = await self._client.spaces.send(self._space, text, entity=self._entity, id=message_id)
        members = await self._client.spaces.members(self._space)
        return {m.entity_id: message_id for m in members if m.kind == "agent" and m.entity_id != message.entity_id}

    async def _answer(self, question: Question, result: Any) -> dict[str, str]:
        try:
            receipt = await self._client.calls.answer(question.call_id, result, run_id=question.run_id)
        except (AlreadyResolved, Expired, Forbidden) as fault:
            self._screen.note(fault.message)
            return {}
        return {receipt.agent: f"tr:{question.call_id}"} if receipt.agent and receipt.delivery == "inbox" else {}

    async def _note_question(self, message: SpaceMessage) -> None:
        """If the message shows a pending call that we may answer, the next answer is for it."""
        call = message.call
        if call is None or not is_open(message):
            return
        try:
            record = await self._client.calls.get(str(call.get("toolCallId")))
        except (CallNotFound, Forbidden):
            return
        if record.status == "pending_approval":
            self._screen.note(f"  Needs approval: jackfield approve {record.id} (or reject)")
        elif record.login_url is not None:
            self._screen.note(f"  Needs a login: open {record.login_url}")
        elif record.source == "space" and record.status in ("pending", "waiting"):
            self._questions.append(Question(record.id, record.run_id or "", record.tool))
            self._screen.note("  Answer yes, no, or JSON.")

    async def _wait_until_idle(self, delivered: dict[str, str], seconds: float) -> None:
        """Wait until every agent has handled its event, all are idle, and everything is shown."""
        end = time.monotonic() + seconds
        quiet_since: float | None = None
        while time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)
            if delivered:
                delivered = {
                    agent: event for agent, event in delivered.items() if not await self._is_handled(agent, event)
                }
                continue
            is_quiet = not await self._is_any_awake() and await self._is_all_shown()
            quiet_since = (quiet_since or time.monotonic()) if is_quiet else None
            if quiet_since is not None and time.monotonic() - quiet_since >= QUIET_SECONDS:
                return
        raise JackfieldError(
            f"The agents in '{self._space}' did not finish within {seconds:g} s. Follow them with "
            f"'jackfield chat {self._space}', or pass a longer --wait."
        )

    async def _is_handled(self, agent: str, event_id: str) -> bool:
        try:
            if not (await self._client.agents.get(agent)).enabled:
                return True
            page = await self._client.agents.cycles(agent, limit=RECENT_CYCLES)
        except (AgentNotFound, Forbidden):
            return True
        return any(event_id in cycle.consumed and cycle.status != "open" for cycle in page.cycles)

    async def _is_any_awake(self) -> bool:
        members = {m.entity_id for m in await self._client.spaces.members(self._space) if m.kind == "agent"}
        return any(agent.is_awake and agent.id in members for agent in await self._client.agents.list())

    async def _is_all_shown(self) -> bool:
        try:
            return (await self._client.spaces.get(self._space)).last_seq <= self._seen
        except NotFound:
            return True


def is_open(message: SpaceMessage) -> bool:
    """Whether the message shows a pending call."""
    return message.call is not None and message.call.get("status") == "requires_action"


def parse_answer(text: str) -> tuple[Any] | None:
    """A line as an answer, in a tuple; None if it is a message."""
    word = text.casefold()
    if word in YES | NO:
        return ({"confirmed": word in YES},)
    if text[0] not in '{["' and text not in JSON_WORDS:
        return None
    try:
        return (msgspec.json.decode(text),)
    except (msgspec.DecodeError, RecursionError):
        return None
