"""A call of an MCP client that waits for a login: the client's person is sent to the link, or the result has it.

Above: `tools_call.py` and `tasks.py`. Below: the pipeline, and `client_requests.py` for how a client is asked. A client
that takes URLs is asked while its request is open, and gets the outcome when the login is done. Whatever becomes of its
request, the call waits on: the link belongs to it.
"""

import asyncio
import secrets
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.calls.pipeline import Pipeline
from jackfield.errors import LoginNeeded, Refused
from jackfield.http.response import encode
from jackfield.mcp.client_requests import takes_urls
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.results import waiting_result
from jackfield.mcp.sessions import Caller
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.model.tool import Tool
from jackfield.protocol.jsonrpc import SERVER_ERROR, RpcError
from jackfield.protocol.mcp import URL_REQUIRED
from jackfield.sources.client import AskClient, CallerClient, ElicitAnswer, ElicitRequest

LOGIN_SECONDS = 600.0
"""How long a request stays open for a person who has opened the link."""
MOST_OPENED = 10_000
_QUESTION = "login"
"""The source that a login's place among the questions of a task has."""


class LoginPrompts:
    """Sends people of MCP clients to the logins that their calls wait for."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._opened: dict[str, None] = {}
        """Questions of tasks that a client has answered: it need not ask its person again."""

    async def until_done(self, call: Call, caller: Caller, exchange: McpExchange, client: CallerClient | None) -> Call:
        """The call when its login is done and it is over; as it is, where the client cannot or will not wait for it."""
        url = self._pipeline.login_url(call, principal=caller.principal)
        if url is None or not takes_urls(caller):
            return call
        message = prompt_of(call)
        if client is None or client.ask is None:
            if caller.is_modern:
                return call
            raise url_required(message, url, call.id)
        exchange.on_cancel = None  # the person may be at the login now, which ends with the call
        question = ElicitRequest(message=message, url=url, id=call.id, key=_QUESTION)
        ended = await self._ask_and_wait(client.ask, question, call, comes_back=caller.is_modern)
        if ended.status.is_final:
            if client.opened is not None:
                client.opened(call.id)
            if exchange.receipt is not None:
                exchange.receipt.late = ended
        return ended

    async def _ask_and_wait(self, ask: AskClient, question: ElicitRequest, call: Call, *, comes_back: bool) -> Call:
        """The call when it is over, or as it is when the person does not want to log in, or takes too long.

        `comes_back`: the client has been answered with the question, and nothing reaches it before it is back.
        """
        over = asyncio.create_task(self._pipeline.wait(call.id, seconds=LOGIN_SECONDS))
        asking = asyncio.ensure_future(ask((question,)))
        try:
            if comes_back:
                await asyncio.wait((asking,), timeout=LOGIN_SECONDS)
            else:
                await asyncio.wait((over, asking), return_when=asyncio.FIRST_COMPLETED)
            is_wanted = asking.done() and _is_accepted(asking.result())
            return await over if is_wanted or over.done() else call
        finally:
            asking.cancel()
            over.cancel()

    def result(self, call: Call, tool: Tool, caller: Caller) -> bytes:
        """The result for a client whose call waits on: where its person logs in, and what to do then."""
        url = self._pipeline.login_url(call, principal=caller.principal)
        told: dict[str, Any] = {"status": call.status.value, "pendingToolCallId": call.id}
        text = instructions_of(call, url)
        told |= {"message": text} | ({} if url is None else {"login_url": url})
        return waiting_result(Raw(encode(told)), text, call.id, tool, revision=caller.revision)

    def question_of(self, call: Call, principal: Principal) -> Call | None:
        """The login as a question of the task that the call is; None: it waits for none, or for somebody else's."""
        url = self._pipeline.login_url(call, principal=principal)
        if url is None or call.login is None:
            return None
        question_id = f"{call.id}-{_QUESTION}-{call.login.times}"
        arguments = Raw(encode({"message": prompt_of(call), "url": url}))
        return msgspec.structs.replace(
            call, id=question_id, source=_QUESTION, tool=_QUESTION, arguments=arguments, status=CallStatus.PENDING
        )

    def is_open(self, question: Call) -> bool:
        return question.id not in self._opened

    def note_opened(self, question: Call) -> None:
        self._opened[question.id] = None
        if len(self._opened) > MOST_OPENED:
            del self._opened[next(iter(self._opened))]


def is_login(question: Call) -> bool:
    """Whether a question of a task is a login."""
    return question.source == _QUESTION


def login_call_of(question: Call) -> str:
    """The call that waits for this login."""
    return question.id.partition(f"-{_QUESTION}-")[0]


def url_required(message: str, url: str, elicitation_id: str | None = None) -> RpcError:
    """-32042 of 2025-11-25: the client shows the url to its person, and asks again."""
    elicitation = {
        "mode": "url",
        "elicitationId": elicitation_id or secrets.token_hex(8),
        "url": url,
        "message": message,
    }
    return RpcError(URL_REQUIRED, message, {"elicitations": [elicitation]})


def refusal_error(refusal: Refused, caller: Caller) -> RpcError:
    """A refusal of something else than a tool. A login that is missing comes with its link."""
    data = {"code": refusal.code}
    if isinstance(refusal, LoginNeeded) and refusal.login_url is not None:
        if takes_urls(caller) and not caller.is_modern:
            return url_required(f"Log in at '{refusal.source}'.", refusal.login_url)
        data |= {"source": refusal.source, "login_url": refusal.login_url}
    return RpcError(SERVER_ERROR, refusal.message, data)


def prompt_of(call: Call) -> str:
    """What the person is told who is to log in."""
    source = call.source if call.login is None else call.login.source
    return f"Log in at '{source}', so that '{call.tool}' can run in your name."


def instructions_of(call: Call, url: str | None) -> str:
    """What a model is told of a call that waits for a login."""
    login = call.login
    source = call.source if login is None else login.source
    if url is not None:
        return (
            f"A login at '{source}' is needed first. Ask the person to open this link and log in: {url}\n"
            "Then call the tool again with the same arguments: the call is kept, runs once when the login is done, "
            "and calling again gets its result. Until then calling again changes nothing."
        )
    who = "an administrator" if login is None or login.principal is None else f"'{login.principal}'"
    return (
        f"The call waits until {who} has logged in at '{source}', and runs then. There is nothing that you can do. "
        "Call the tool again later with the same arguments to get its result."
    )


def _is_accepted(answers: tuple[object, ...]) -> bool:
    return any(isinstance(answer, ElicitAnswer) and answer.action == "accept" for answer in answers)
