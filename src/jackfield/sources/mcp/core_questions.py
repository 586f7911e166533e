"""What tasks of 2025-11-25 ask. Their server asks by requests of its own, where somebody waits for the result.

So somebody waits for it while a task asks, and its requests are kept open until the answers are there. That takes the
connection on which they came: questions of a gateway that is gone cannot be answered any more.
Above: `source.py`. Below: `connection.py`.
"""

import asyncio
import secrets

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.client import ClientAnswer, ClientRequest, ElicitAnswer, ElicitRequest
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.transport import McpClientError

ASKED_WITHIN = 1.0
"""Seconds in which a task that says it needs input should have asked something."""
MOST_QUESTIONS = 20


class CoreQuestions:
    """Those of all tasks of one server."""

    def __init__(self) -> None:
        self._asking: dict[str, AskingTask] = {}

    async def of(self, connection: Connection, task: str) -> tuple[ElicitRequest, ...]:
        """What the task asks and nobody has answered."""
        asking = self._asking.get(task)
        if asking is None or asking.is_over:
            asking = self._asking[task] = AskingTask(connection, task)
        return await asking.questions()

    def answer(self, task: str, answers: dict[str, ElicitAnswer]) -> None:
        asking = self._asking.get(task)
        if asking is None or asking.is_over:
            raise McpClientError("The connection is gone on which the server asked, so it cannot be answered.")
        asking.answer(answers)

    def end(self, task: str) -> None:
        """The task does not ask any more."""
        asking = self._asking.pop(task, None)
        if asking is not None:
            asking.close()

    def close(self) -> None:
        for task in tuple(self._asking):
            self.end(task)


class AskingTask:
    """One task whose result is waited for because it asks."""

    def __init__(self, connection: Connection, task: str) -> None:
        self._name = secrets.token_hex(4)
        """Keys are never used again, whatever restarts."""
        self._open: dict[str, tuple[ElicitRequest, asyncio.Future[ElicitAnswer]]] = {}
        self._number = 0
        self._asked = asyncio.Event()
        self._waiting = asyncio.create_task(self._wait(connection, task), name=f"result of {task}")

    @property
    def is_over(self) -> bool:
        return self._waiting.done()

    async def questions(self) -> tuple[ElicitRequest, ...]:
        if not self._open and not self.is_over:
            asked = asyncio.ensure_future(self._asked.wait())
            await asyncio.wait((asked, self._waiting), timeout=ASKED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
        return tuple(question for question, answer in self._open.values() if not answer.done())

    def answer(self, answers: dict[str, ElicitAnswer]) -> None:
        for key, given in answers.items():
            if key in self._open and not self._open[key][1].done():
                self._open[key][1].set_result(given)

    def close(self) -> None:
        self._waiting.cancel()

    async def _wait(self, connection: Connection, task: str) -> None:
        try:
            await connection.wait_for_task(task, ask=self._ask)
        except (RpcError, McpClientError):
            return  # the next look says how the task stands

    async def _ask(self, requests: tuple[ClientRequest, ...]) -> tuple[ClientAnswer, ...]:
        return tuple([await self._ask_one(request) for request in requests])

    async def _ask_one(self, request: ClientRequest) -> ClientAnswer:
        if not isinstance(request, ElicitRequest) or len(self._open) >= MOST_QUESTIONS:
            return None
        self._number += 1
        key = f"{self._name}-{self._number}"
        question = ElicitRequest(message=request.message, schema=request.schema, url=request.url, key=key)
        answer: asyncio.Future[ElicitAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = question, answer
        self._asked.set()
        try:
            return await answer
        finally:
            del self._open[key]
            self._asked.clear()
