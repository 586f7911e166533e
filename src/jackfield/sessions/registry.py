"""All sessions of one gateway: opened, messaged, read, answered and ended here.

Above: `api.py` and `mcp/session_tools.py`. Below: one session's parts, and the relay. The owner is the key that opened
a session; an administrator may read and end it; nobody else sees it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers
from jackfield.calls.pipeline import Pipeline
from jackfield.catalog.catalog import Catalog
from jackfield.errors import (
    BadRequest,
    Conflict,
    CouldNotStart,
    Forbidden,
    NotFound,
    NotReady,
    SessionNotFound,
    Unavailable,
)
from jackfield.identity.keys import Keyring
from jackfield.llm.models import Models
from jackfield.model.call import Call, Done, Failed
from jackfield.model.ids import new_id, secret_of
from jackfield.model.principal import Principal
from jackfield.model.text import counted, nearest
from jackfield.runs.model_steps import StepLogs
from jackfield.runs.tool_search import ToolSearch
from jackfield.sessions import transactions as session_tx
from jackfield.sessions.agent import ConfiguredAgent, OwnTools
from jackfield.sessions.caller_tools import CallerDeclaration, CallerPresence, CallerTools
from jackfield.sessions.program import Program
from jackfield.sessions.relay import ENDED, Relay
from jackfield.sessions.relay_socket import RelaySocket, sweep
from jackfield.sessions.session import COMPLETION, ERROR, AgentSession, SessionLimits, SessionRunner, SessionStatus
from jackfield.settings import Settings
from jackfield.store import Store
from jackfield.workers.host import WorkerHost

log = logging.getLogger("jackfield.sessions")

MOST_SESSIONS = 1_000
MOST_OF_AN_AGENT = 100
KEPT_AFTER_END = 600.0
"""Seconds for which what happened in an ended session can still be read."""
MOST_ENDED = 200
CLOSE_WITHIN = 2.0
DELIVER_WITHIN = 1.0
"""Seconds for followers to receive the last event at shutdown."""


class SessionRegistry:
    """Every session of this gateway, and for a while those that are over."""

    def __init__(
        self,
        settings: Settings,
        *,
        models: Models,
        catalog: Catalog,
        pipeline: Pipeline,
        answers: Answers,
        store: Store,
        own_tools: OwnTools,
        tool_search: ToolSearch,
        step_logs: StepLogs,
        worker_host: WorkerHost,
        redact: Callable[[str], str],
        keyring: Keyring,
        gateway_id: str,
    ) -> None:
        self._settings = settings
        self._folder = settings.data / "sessions"
        self._models = models
        self._catalog = catalog
        self._pipeline = pipeline
        self._store = store
        self._own_tools = own_tools
        self._tool_search = tool_search
        self._step_logs = step_logs
        self._worker_host = worker_host
        self._redact = redact
        self._keyring = keyring
        self._gateway_id = gateway_id
        self._sessions: dict[str, AgentSession] = {}
        self._sockets: dict[str, RelaySocket] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_open = True
        self._sweeping: asyncio.Task[None] | None = None
        self._relay = Relay(store=store, pipeline=pipeline, answers=answers, find=self._sessions.get)

    def apply(self, settings: Settings) -> None:
        """Sessions that are opened from now on follow these settings; open ones go on as they are."""
        self._settings = settings

    @property
    def can_be_opened(self) -> bool:
        """Whether the config has an agent or a program."""
        return bool(self._settings.agents or self._settings.sessions)

    def is_live(self, session_id: str | None) -> bool:
        """Whether the session is open."""
        session = self._sessions.get(session_id or "")
        return session is not None and not session.status.is_over

    def is_known(self, session_id: str) -> bool:
        """Whether this gateway has the session, open or recently ended."""
        return session_id in self._sessions

    async def home_of(self, session_id: str) -> str | None:
        """The gateway in which an open session lives that is not known here."""
        if session_id in self._sessions:
            return None
        kept = await self._store.read(partial(session_tx.find_session, session_id))
        return None if kept is None else kept.gateway

    async def open(
        self, owner: Principal, *, agent: str | None, declared: CallerDeclaration, session_id: str | None = None
    ) -> AgentSession:
        """Open a session of this key and start what runs in it.

        With `session_id`, reopen one that ended or was lost with its gateway; its agent stays unless another is named.
        """
        if not self._is_open:
            raise NotReady("The gateway is stopping and opens no more sessions. Try again when it is back.")
        if session_id is not None:
            agent = await self._agent_before(session_id, owner, asked=agent)
        name = self.agent_called(agent)
        if not owner.reaches_agent(name):
            raise Forbidden(f"Key '{owner.name}' may not open sessions with '{name}'. Use another key.")
        self._check_room(name)
        session = self._made(owner, name, session_id=session_id)
        session.caller_tools = await self._caller_tools(declared, caller_id=declared.caller_id or owner.name)
        session.presence.give_sign()
        await self._keep(session, is_new=session_id is None)
        self._sessions[session.id] = session
        try:
            await self._start(session)
        except CouldNotStart as fault:
            await self._end(session, SessionStatus.FAILED, str(fault))
            raise Unavailable(f"The session could not be opened: {fault}") from None
        except BaseException as fault:
            await self._end(session, SessionStatus.FAILED, str(fault))
            raise
        return session

    async def message(
        self, session: AgentSession, text: str | None, *, declared: CallerDeclaration, principal: Principal
    ) -> None:
        """The owner's message, or a new declaration of its tools."""
        self._require_owner(session, principal, declared)
        if session.status.is_over:
            raise Conflict(f"Session '{session.id}' is over: it is {session.status.value}. Open another.")
        session.presence.give_sign()
        session.touch()
        if declared.tools is not None:
            caller_tools = await self._caller_tools(
                declared, caller_id=declared.caller_id or session.caller_tools.caller_id
            )
            self._replace_caller_tools(session, caller_tools)
        if text:
            assert session.runner is not None
            session.runner.tell(text)

    def find(self, session_id: str, principal: Principal) -> AgentSession:
        """A session that this key may read."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(
                f"There is no session '{session_id[:100]}' here: it never was, or ended with its gateway. "
                'If it was yours, open it again: POST /api/sessions {"session_id": "…"}, or session_message with it.',
                param="session_id",
            )
        if principal.name != session.owner.name and not principal.is_admin:
            raise Forbidden(f"Session '{session.id}' belongs to another key.", param="session_id")
        return session

    def listed(self, principal: Principal) -> list[AgentSession]:
        """Those that this key may read, the newest first."""
        return [
            session
            for session in reversed(self._sessions.values())
            if principal.is_admin or principal.name == session.owner.name
        ]

    async def answer(
        self, session: AgentSession, request_id: str, outcome: Done | Failed, *, principal: Principal
    ) -> Call:
        """The caller's answer to a tool request."""
        return await self._relay.answer(session, request_id, outcome, principal=principal)

    async def end(self, session: AgentSession) -> None:
        """End it on request of the owner or an administrator."""
        await self._end(session, SessionStatus.COMPLETED, None)

    def end_of(self, owners: AbstractSet[str]) -> None:
        """End the sessions of principals who may not go on."""
        for session in tuple(self._sessions.values()):
            if session.owner.name in owners and not session.status.is_over:
                self._begin_end(session, SessionStatus.FAILED, "Its owner was signed out, or the key was revoked.")

    async def tend(self) -> None:
        """Expire overdue sessions, forget old ones, fail requests of lost ones."""
        await self._give_up_lost()
        for session in tuple(self._sessions.values()):
            if not session.status.is_over and (why := session.overdue) is not None:
                await self._end(session, SessionStatus.TIMED_OUT, why)
        over = [session for session in self._sessions.values() if session.ended is not None]
        before = time.monotonic() - KEPT_AFTER_END
        for place, session in enumerate(over):
            if (session.ended or 0) < before or place < len(over) - MOST_ENDED:
                del self._sessions[session.id]

    async def _give_up_lost(self) -> None:
        for call_id in await self._store.read(partial(call_tx.ids_in, "lost_requests", limit=500)):
            await self._relay.give_up(call_id)

    async def close(self) -> None:
        """Shutdown: end every session and notify its followers."""
        self._is_open = False
        live = [session for session in self._sessions.values() if not session.status.is_over]
        await asyncio.gather(*(self._end(one, SessionStatus.FAILED, "The gateway stopped.") for one in live))
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_WITHIN)
        await asyncio.gather(*(one.events.delivered(within=DELIVER_WITHIN) for one in live))
        await self._relay.close(within=CLOSE_WITHIN)

    async def _keep(self, session: AgentSession, *, is_new: bool) -> None:
        """Persist that the session belongs to this gateway."""
        store = self._store
        values = {"owner": session.owner.name, "agent": session.agent, "gateway": self._gateway_id}
        if is_new:
            await store.write(partial(session_tx.begin_session, session.id, **values))
            return
        await self._give_up_lost()  # before it lives here: what was asked in its earlier life stays unanswered
        if await store.write(partial(session_tx.reopen_session, session.id, **values)):
            return
        where = "" if self.is_live(session.id) else " in another gateway, which you were not led to"
        raise Conflict(f"Session '{session.id}' is open{where}. Speak in it, or end it first.", param="session_id")

    async def _agent_before(self, session_id: str, owner: Principal, *, asked: str | None) -> str | None:
        """The agent of a session that is reopened."""
        before = await self._store.read(partial(session_tx.find_session, session_id))
        if before is None:
            raise SessionNotFound(
                f"There never was a session '{session_id[:100]}'. Open one without an id.", param="session_id"
            )
        if before.owner != owner.name:
            raise Forbidden(f"Session '{session_id}' belongs to another key.", param="session_id")
        return asked or before.agent

    def _made(self, owner: Principal, name: str, *, session_id: str | None) -> AgentSession:
        program = self._settings.sessions.get(name)
        limits = (
            SessionLimits()
            if program is None
            else SessionLimits(timeout=program.timeout, idle_timeout=program.idle_timeout)
        )
        session: AgentSession
        presence = CallerPresence(grace=self._settings.relay.grace, on_change=lambda: self._relay.look_after(session))
        session = AgentSession(
            session_id or new_id("ses"),
            owner=owner,
            agent=name,
            kind="agent" if program is None else "program",
            token=f"jfs_{secret_of(self._gateway_id)}",
            presence=presence,
            limits=limits,
        )
        return session

    async def _start(self, session: AgentSession) -> None:
        """Create the session's key and socket before its program starts."""
        await self._swept()
        self._keyring.lend(session.token, session.principal)
        self._catalog.lend_to(session.id, session.caller_tools.entries)
        socket = RelaySocket(session, relay=self._relay, folder=self._folder)
        self._sockets[session.id] = socket
        session.socket = await socket.open()
        session.runner = self._runner_for(session)
        await session.runner.start()

    async def _swept(self) -> None:
        """Once, before the first socket: remove leftovers of killed gateways."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(asyncio.to_thread(sweep, self._folder))
        try:
            await asyncio.shield(self._sweeping)
        except OSError as fault:
            log.warning("the files of an earlier gateway's sessions could not be removed: %s", fault)

    def _runner_for(self, session: AgentSession) -> SessionRunner:
        agent = self._settings.agents.get(session.agent)
        if agent is not None:
            return ConfiguredAgent(
                session,
                agent,
                models=self._models,
                catalog=self._catalog,
                pipeline=self._pipeline,
                store=self._store,
                own_tools=self._own_tools,
                tool_search=self._tool_search,
                step_logs=self._step_logs,
            )

        def over(status: SessionStatus, error: str | None) -> None:
            self._begin_end(session, status, error)

        return Program(
            session,
            self._settings.sessions[session.agent],
            worker_host=self._worker_host,
            config_folder=self._settings.folder,
            gateway_url=self._settings.url,
            redact=self._redact,
            on_end=over,
        )

    def _replace_caller_tools(self, session: AgentSession, caller_tools: CallerTools) -> None:
        session.caller_tools = caller_tools
        self._catalog.lend_to(session.id, caller_tools.entries)
        if (socket := self._sockets.get(session.id)) is not None:
            socket.tell_config()

    async def _caller_tools(self, declared: CallerDeclaration, *, caller_id: str) -> CallerTools:
        """In a thread: a caller may declare hundreds of tools, and schemas that take long to read."""
        timeout_ms = max(1, round(self._settings.relay.timeout * 1000))
        if not declared.tools:
            return CallerTools(caller_id, timeout_ms=timeout_ms)
        judge = self._catalog.checking.fault_in
        return await asyncio.to_thread(CallerTools, caller_id, declared.tools, timeout_ms=timeout_ms, judge=judge)

    def _begin_end(self, session: AgentSession, status: SessionStatus, error: str | None) -> None:
        task = asyncio.create_task(self._end(session, status, error))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session: AgentSession, status: SessionStatus, error: str | None) -> None:
        """End once: release everything, keep the events readable."""
        if session.status.is_over:
            return
        session.error = error
        if error is not None:
            session.events.add(ERROR, error=error)
        else:
            session.events.add(COMPLETION)
        session.move_to(status)
        session.ended = time.monotonic()
        self._relay.fail_all(session, Failed(ENDED, "The session ended before the caller answered."))
        self._keyring.take_back(session.token)
        self._catalog.end_lending_to(session.id)
        if session.runner is not None:
            await session.runner.stop()
        if (socket := self._sockets.pop(session.id, None)) is not None:
            await socket.close()
        session.socket = None
        session.events.close()
        with suppress(Unavailable):  # then it counts as over when this gateway is gone
            await self._store.write(partial(session_tx.end_session, session.id, gateway=self._gateway_id))

    def _require_owner(self, session: AgentSession, principal: Principal, declared: CallerDeclaration) -> None:
        if principal.name != session.owner.name:
            raise Forbidden(f"Session '{session.id}' belongs to another key, and only its owner speaks in it.")
        if declared.caller_id not in (None, session.caller_tools.caller_id):
            raise Forbidden(
                f"Session '{session.id}' is the caller '{session.caller_tools.caller_id}''s. Open another session.",
                param="caller_id",
            )

    def agent_called(self, agent: str | None) -> str:
        """The agent to run; optional where there is only one. Raises `NotFound`."""
        known = [*self._settings.agents, *self._settings.sessions]
        if agent is None and len(known) == 1:
            return known[0]
        if not known:
            raise NotFound("Nothing can run in a session. Add [agents.NAME] or [sessions.NAME] to the config.")
        if agent is None:
            raise BadRequest(f"Which agent is to run in the session? Name one of: {', '.join(known)}.", param="agent")
        if agent not in known:
            raise NotFound(
                f"There is no agent '{agent[:100]}'.{nearest(agent, known)} Known: {', '.join(known) or 'none'}.",
                param="agent",
            )
        return agent

    def _check_room(self, name: str) -> None:
        live = [session for session in self._sessions.values() if not session.status.is_over]
        program = self._settings.sessions.get(name)
        most = MOST_OF_AN_AGENT if program is None else program.max_sessions
        if sum(session.agent == name for session in live) >= most:
            raise Unavailable(
                f"{counted(most, 'session')} of '{name}': that is the most at once. End one, or try again later."
            )
        if len(live) >= MOST_SESSIONS:
            raise Unavailable(f"{MOST_SESSIONS:,} sessions are open, which is the most. Try again later.")
