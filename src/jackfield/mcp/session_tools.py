"""Sessions as MCP tools: `session_message`, `session_events`, `session_end`, `caller_tool_response`.

Above: `server.py`, which lists them for keys that may call tools, and the pipeline, which executes them. Below: the
session registry; records are those of `sessions/records.py`.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.calls.requests import CallRequest
from jackfield.catalog.merge import named_entry
from jackfield.errors import BadRequest
from jackfield.http.response import encode
from jackfield.model.call import Call, Done, Failed
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import BUILTIN, SESSION_TOOLS, Tool
from jackfield.protocol.json_bodies import bad_value
from jackfield.sessions.caller_tools import CallerDeclaration, read_declared
from jackfield.sessions.records import LONGEST_WAIT, answer_in, events_page, opened_session, taken
from jackfield.sessions.registry import SessionRegistry
from jackfield.sessions.session import AgentSession
from jackfield.sources.base import Invocation
from jackfield.sources.builtin import Handler

LONGEST_MS = 3_600_000
"""A session may take a while to open: what runs in it is installed first."""

_TEXT = {"type": "string"}
_SESSION_ID = {**_TEXT, "description": "The session, as session_message gave it"}
_CALLER_ID = {**_TEXT, "description": "Who lends the tools; the agent sees them as {caller_id}_{name}"}
_CALLER_TOOLS = {
    "type": "array",
    "description": "Tools of your own that the agent may call; all of them, each time",
    "items": {
        "type": "object",
        "properties": {"name": _TEXT, "description": _TEXT, "inputSchema": {"type": "object"}},
        "required": ["name"],
    },
}


class _MessageResult(Struct, frozen=True):
    session_id: str


class _Arguments(Struct, frozen=True, kw_only=True):
    session_id: str | None = None
    agent: str | None = None
    message: str | None = None
    context: dict[str, Any] | None = None
    caller_id: str | None = None
    caller_tools: list[dict[str, Any]] | None = None
    since_index: int = -1
    max_events: int | None = None
    wait: float = 0
    request_id: str | None = None
    tool_call_id: str | None = None
    """Alias of `request_id`, for older clients."""
    result: Any = UNSET
    error: str | UnsetType | None = UNSET
    is_error: bool = False

    @property
    def declared(self) -> CallerDeclaration:
        return read_declared(context=self.context, caller_id=self.caller_id, caller_tools=self.caller_tools)


def _definition(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "inputSchema": schema}


DEFINITIONS = (
    _definition(
        "caller_tool_response",
        "Answer a caller_tool_request of your session's agent, with a result or with an error.",
        {
            "session_id": _SESSION_ID,
            "request_id": {**_TEXT, "description": "The request_id of the caller_tool_request"},
            "result": {"description": "Any JSON; null is a result"},
            "error": {"type": ["string", "null"], "description": "Why there is no result"},
        },
        ["session_id", "request_id"],
    ),
    _definition("session_end", "End a session and everything in it.", {"session_id": _SESSION_ID}, ["session_id"]),
    _definition(
        "session_events",
        "What happened in a session. Ask within 10 s of the last time while you lend tools: requests to run one are "
        "events of type caller_tool_request.",
        {
            "session_id": _SESSION_ID,
            "since_index": {"type": "integer", "description": "Events after this index; -1: all", "default": -1},
            "max_events": {"type": "integer", "minimum": 1},
            "wait": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "description": "Seconds to wait for one"},
        },
        ["session_id"],
    ),
    _definition(
        "session_message",
        "Say something to an agent in a session, and lend it tools of your own. Without session_id one is opened, and "
        "one of yours that was lost with its gateway is opened again (spawned: true; lend your tools anew). With "
        "caller_tools alone they are declared and nothing is said.",
        {
            "message": _TEXT,
            "session_id": _SESSION_ID,
            "agent": {**_TEXT, "description": "Which agent runs in a new session"},
            "context": {
                "type": "object",
                "properties": {"caller_id": _CALLER_ID, "caller_tools": _CALLER_TOOLS},
            },
            "caller_id": _CALLER_ID,
            "caller_tools": _CALLER_TOOLS,
        },
        [],
    ),
)
_ENCODED = {definition["name"]: encode(definition) for definition in DEFINITIONS}
assert _ENCODED.keys() == SESSION_TOOLS, "every tool of ours is one whose name is reserved"


_ENTRIES = {
    name: named_entry(name, Tool(source=BUILTIN, name=name, timeout_ms=LONGEST_MS)) for name in sorted(SESSION_TOOLS)
}
"""As they are called. Their arguments are checked by `_read`, which also takes the spellings of earlier clients."""


def session_request(name: str, arguments: dict[str, Any], *, principal: Principal) -> CallRequest:
    """The call of one of the four. Polls are on record only if they fail."""
    return CallRequest(
        tool=name,
        arguments=arguments,
        principal=principal,
        entry=_ENTRIES[name],
        only_reads=name == "session_events",
    )


class SessionTools:
    """Does what the four tools say."""

    def __init__(self, sessions: SessionRegistry) -> None:
        self._sessions = sessions

    @property
    def builtin_handlers(self) -> dict[str, Handler]:
        return {
            "caller_tool_response": self._respond,
            "session_end": self._end,
            "session_events": self._events,
            "session_message": self._message,
        }

    def listed(self, principal: Principal) -> tuple[bytes, ...]:
        """As they stand before the catalog's."""
        return tuple(encoded for name, encoded in _ENCODED.items() if self.has(name, principal))

    def has(self, name: str, principal: Principal) -> bool:
        """Whether this name is one of them for this key. A session's key has none, and they are in no group."""
        is_theirs = principal.group is None and principal.may(Scope.CALL)
        return name in SESSION_TOOLS and self._sessions.can_be_opened and is_theirs

    def message_target(self, call: Call, principal: Principal) -> AgentSession | None:
        """The session that a completed `session_message` was for."""
        if call.tool != "session_message" or call.result is None:
            return None
        session_id = msgspec.json.decode(call.result, type=_MessageResult).session_id
        return self._sessions.find(session_id, principal) if self._sessions.is_known(session_id) else None

    async def home_of(self, name: str, arguments: object) -> str | None:
        """The gateway in which the session lives that these arguments of a tool name, if it is not this one."""
        if name not in SESSION_TOOLS or not isinstance(arguments, dict):
            return None
        session_id = arguments.get("session_id")
        return await self._sessions.home_of(session_id) if isinstance(session_id, str) else None

    async def _respond(self, invocation: Invocation) -> Done:
        arguments, principal = _read(invocation), _caller(invocation)
        session = self._session(arguments, principal)
        request_id = arguments.request_id or arguments.tool_call_id
        if not request_id:
            raise BadRequest("request_id is required", param="request_id")
        call = await self._sessions.answer(session, request_id, _outcome(arguments), principal=principal)
        return _done(taken(session, call))

    async def _end(self, invocation: Invocation) -> Done:
        session = self._session(_read(invocation), _caller(invocation))
        await self._sessions.end(session)
        return _done({"session_id": session.id, "status": session.status.value, "ended": True})

    async def _message(self, invocation: Invocation) -> Done:
        arguments, principal = _read(invocation), _caller(invocation)
        text, declared = arguments.message, arguments.declared
        if text is None and declared.tools is None:
            raise BadRequest("There is neither a message nor caller_tools in this. Send one of them.", param="message")
        session_id = arguments.session_id or None
        if session_id is None or not self._sessions.is_known(session_id):
            opened = await opened_session(
                self._sessions,
                principal,
                agent=arguments.agent,
                message=text,
                declared=declared,
                session_id=session_id,
            )
            return _done({"session_id": opened.session_id, "spawned": True, "last_event_index": -1})
        session = self._session(arguments, principal)
        before = session.events.last_index
        await self._sessions.message(session, text, declared=declared, principal=principal)
        return _done({"session_id": session.id, "spawned": False, "last_event_index": before})

    async def _events(self, invocation: Invocation) -> Done:
        arguments, principal = _read(invocation), _caller(invocation)
        session = self._session(arguments, principal)
        wait = min(max(arguments.wait, 0), LONGEST_WAIT)
        limit = None if arguments.max_events is None else max(1, arguments.max_events)
        since = max(-1, arguments.since_index)
        return _done(await events_page(session, principal, since=since, limit=limit, wait=wait))

    def _session(self, arguments: _Arguments, principal: Principal) -> AgentSession:
        if not arguments.session_id:
            raise BadRequest("session_id is required", param="session_id")
        return self._sessions.find(arguments.session_id, principal)


def _read(invocation: Invocation) -> _Arguments:
    try:
        return msgspec.convert(invocation.arguments, _Arguments)
    except msgspec.ValidationError as fault:
        said = bad_value(fault, what="The input", into=_Arguments).message
        raise BadRequest(f"{invocation.tool.name} cannot take these arguments: {said}") from None


def _caller(invocation: Invocation) -> Principal:
    assert invocation.caller is not None
    return invocation.caller


def _done(told: Any) -> Done:
    return Done(Raw(encode(told)))


def _outcome(arguments: _Arguments) -> Done | Failed:
    error, is_given = arguments.error, arguments.error is not UNSET
    if arguments.is_error and not isinstance(error, str):
        said = arguments.result
        return answer_in(
            result=UNSET, error=said if isinstance(said, str) else "The caller's tool failed.", is_given=True
        )
    return answer_in(result=arguments.result, error=None if error is UNSET else error, is_given=is_given)
