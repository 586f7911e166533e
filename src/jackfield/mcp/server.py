"""The MCP server: one function per method, for both eras and any transport.

Above: `api.py`. Below: `tools_call.py` and the catalog. A method takes the request, its caller and the exchange, and
returns the result's bytes or raises `RpcError`.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.redaction import Redactor
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.groups import Groups
from jackfield.errors import Forbidden, Refused, ResourceNotFound
from jackfield.http.response import encode
from jackfield.mcp.client_requests import ClientRequests
from jackfield.mcp.core_tasks import CAPABILITIES as TASK_CAPABILITIES
from jackfield.mcp.core_tasks import CoreTasks
from jackfield.mcp.exchange import McpExchange, RpcOutcome
from jackfield.mcp.log_messages import LogMessages
from jackfield.mcp.logins import refusal_error
from jackfield.mcp.notifications import ResourceFollowers
from jackfield.mcp.reading import CAPABILITIES, FRESH_MS, Reading, not_found
from jackfield.mcp.results import SERVER, caching, error_result, found_result, object_result, refusal_result, stamped
from jackfield.mcp.session_tools import SessionTools, session_request
from jackfield.mcp.sessions import Caller, McpSession, McpSessions
from jackfield.mcp.skills import SkillMethods
from jackfield.mcp.tasks import Tasks
from jackfield.mcp.tools_call import ToolCalls
from jackfield.mcp.tools_list import (
    SEARCH_TOOLS,
    Definitions,
    among,
    found_in,
    is_searched,
    search_definition,
    search_request,
    stub_search_definition,
    stubs_of,
)
from jackfield.model.principal import Scope
from jackfield.model.tool import PROGRAMS, SESSION_TOOLS
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    RpcRequest,
    object_param,
    text_param,
)
from jackfield.protocol.manifest import ScenarioInfo
from jackfield.protocol.mcp import LOG_LEVELS, MODERN, TASKS, WITH_CORE_TASKS, negotiated
from jackfield.sources.logs import SourceLogs
from jackfield.sources.source_registry import SourceRegistry

log = logging.getLogger(__name__)

FORBIDDEN = -32003
EXTENSIONS: dict[str, Any] = {**CAPABILITIES["extensions"], TASKS: {}}
"""Of MCP, from 2026-07-28 on."""

LONGEST_INSTRUCTIONS = 20_000

Method = Callable[[RpcRequest, Caller, McpExchange], Awaitable[bytes]]


class McpServer:
    """One gateway as an MCP server, with its sessions."""

    def __init__(
        self,
        *,
        gateway_id: str,
        catalog: Catalog,
        pipeline: Pipeline,
        sources: SourceRegistry,
        session_tools: SessionTools,
        tasks: Tasks,
        core_tasks: CoreTasks,
        scenario: ScenarioInfo,
        url: str,
        logs: SourceLogs,
        redactor: Redactor,
        groups: Groups | None = None,
        code_mode: bool = False,
    ) -> None:
        self.code_mode = code_mode
        self.sessions = McpSessions(gateway_id)
        self._groups = groups or Groups()
        self._log_messages = LogMessages(self.sessions, catalog, logs)
        self._catalog = catalog
        self._pipeline = pipeline
        self._sources = sources
        self._scenario = scenario
        self._definitions = Definitions()
        self.tasks = tasks
        self.core_tasks = core_tasks
        self.client_requests = ClientRequests(gateway_id)
        self._calling = ToolCalls(
            catalog, pipeline, client_requests=self.client_requests, tasks=tasks, core_tasks=core_tasks, url=url
        )
        self._session_tools = session_tools
        self.followers = ResourceFollowers(catalog, sources)
        self._redactor = redactor
        self._reading = Reading(catalog, pipeline, sources, self._calling, redactor=redactor)
        self._skills = SkillMethods(catalog, sources)
        self._handshake: dict[str, Method] = {
            **self._reading.methods,
            **self._skills.methods,
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "tasks/get": core_tasks.get,
            "tasks/result": core_tasks.result,
            "tasks/list": core_tasks.list,
            "tasks/cancel": core_tasks.cancel,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }
        self._modern: dict[str, Method] = {
            **self._reading.methods,
            **self._skills.methods,
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "server/discover": self._discover,
            "tasks/get": tasks.get,
            "tasks/update": tasks.update,
            "tasks/cancel": tasks.cancel,
        }

    async def answer(self, caller: Caller, exchange: McpExchange) -> RpcOutcome:
        """The outcome of a request. Every error becomes an `RpcError`; nothing is raised."""
        request = exchange.request
        methods = self._modern if caller.is_modern else self._handshake
        method = methods.get(request.method)
        if method is None:
            return RpcError(METHOD_NOT_FOUND, f"There is no method '{request.method[:100]}' here.")
        try:
            return await method(request, caller, exchange)
        except RpcError as error:
            self._redactor.clean(error)
            return error
        except Refused as refusal:
            self._redactor.clean(refusal)
            return refusal_error(refusal, caller)
        except Exception:
            reference = secrets.token_hex(6)
            log.exception("MCP request %s failed (reference %s)", request.method[:100], reference)
            return RpcError(
                INTERNAL_ERROR,
                f"Something went wrong inside the gateway. Its log has the details under reference {reference}.",
            )

    async def home_of(self, request: RpcRequest) -> str | None:
        """The gateway in which the session lives that a tool is called for, if it is not this one."""
        if request.method != "tools/call":
            return None
        return await self._session_tools.home_of(str(request.params.get("name")), request.params.get("arguments"))

    def initialize(self, request: RpcRequest, caller: Caller) -> tuple[bytes, McpSession]:
        """`initialize`: agree on a revision and open a session."""
        revision = negotiated(text_param(request.params, "protocolVersion"))
        capabilities = object_param(request.params, "capabilities")
        session = self.sessions.open(caller.principal, revision=revision, capabilities=capabilities)
        result = {
            "protocolVersion": revision,
            "capabilities": {
                "tools": {"listChanged": True},
                "logging": {},
                **CAPABILITIES,
                "extensions": {**CAPABILITIES["extensions"], **self._skills.extension(caller.principal)},
                **(TASK_CAPABILITIES if revision == WITH_CORE_TASKS else {}),
            },
            "serverInfo": self._server_info(),
            "instructions": self._instructions(caller),
        }
        return encode(result), session

    def _instructions(self, caller: Caller) -> str:
        """The group's own; else those of the gateway and of each source visible to this key."""
        if of_group := self._groups.instructions_for(caller.principal):
            return of_group[:LONGEST_INSTRUCTIONS]
        catalog, principal = self._catalog, caller.principal
        seen = dict.fromkeys(entry.tool.source for entry in catalog.view(principal).entries)
        seen |= dict.fromkeys(sorted(catalog.prompts(principal).sources | catalog.resources(principal).sources))
        said = {source: self._sources.about(source).instructions for source in seen}
        parts = [f"## {source}\n{instructions}" for source, instructions in said.items() if instructions]
        own = self._scenario.description
        return "\n\n".join([*([own] if own else []), *parts])[:LONGEST_INSTRUCTIONS]

    async def _discover(self, _request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        result = {
            "supportedVersions": [MODERN],
            "capabilities": {
                "tools": {"listChanged": True},
                **CAPABILITIES,
                "extensions": {**EXTENSIONS, **self._skills.extension(caller.principal)},
            },
            "instructions": self._instructions(caller),
            "ttlMs": FRESH_MS,
            "cacheScope": "private",
        }
        return stamped(encode(result)[1:-1], revision=MODERN)

    async def _ping(self, _request: RpcRequest, _caller: Caller, _exchange: McpExchange) -> bytes:
        return b"{}"

    async def _set_level(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """Set the log level of the session."""
        level = text_param(request.params, "level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"'params.level' must be one of {', '.join(LOG_LEVELS)}.")
        if caller.session is not None:
            self._log_messages.set_level(caller.session, level)
        return b"{}"

    async def _subscribe(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        uri = text_param(request.params, "uri")
        if caller.session is not None:
            try:
                await self.followers.subscribe(caller.session, uri, caller.principal)
            except ResourceNotFound as refusal:
                raise not_found(refusal.message, uri, caller) from None
        return b"{}"

    async def _unsubscribe(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        uri = text_param(request.params, "uri")
        if caller.session is not None:
            self.followers.unsubscribe(caller.session, uri)
        return b"{}"

    async def _list_tools(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        view = self._catalog.view(caller.principal)
        cursor = text_param(request.params, "cursor") if request.params.get("cursor") is not None else None
        following = None
        first = self._session_tools.listed(caller.principal) if cursor is None else ()
        if self.code_mode:
            programs = tuple(entry for entry in view.entries if entry.tool.source == PROGRAMS)
            search = encode(stub_search_definition(len(view.entries) - len(programs)))
            tools = self._definitions.array(programs, first=(search, *first), modern=caller.is_modern)
        elif is_searched(view, caller.search_above):
            found = among(view, caller.session.found) if caller.session is not None else ()
            found = self._pipeline.switched_on(found, principal=caller.principal)
            search = encode(search_definition(len(view.entries)))
            tools = self._definitions.array(found, first=(search, *first), modern=caller.is_modern)
        else:
            offered = self._pipeline.switched_on if caller.shows_apps else self._pipeline.offered
            tools, following = self._definitions.page(
                view,
                cursor,
                offered=partial(offered, principal=caller.principal),
                first=first,
                modern=caller.is_modern,
                renamed=self._catalog.resources(caller.principal).snapshot.renamed,
            )
        members = [b'"tools":%b' % tools]
        if following is not None:
            members.append(b'"nextCursor":%b' % encode(following))
        if caller.is_modern:
            members.append(caching(FRESH_MS))
        return stamped(b",".join(members), revision=caller.revision)

    async def _call_tool(self, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        name = text_param(request.params, "name")
        if name == SEARCH_TOOLS:
            return await self._search_tools(request, caller)
        if not caller.principal.may(Scope.CALL) and caller.principal.session is None:
            lacks = Forbidden(f"Key '{caller.principal.name}' may not call tools. Use a key with the scope 'call'.")
            await self._calling.refused(name, object_param(request.params, "arguments"), lacks, caller)
            raise RpcError(FORBIDDEN, lacks.message, status=403)
        if name in SESSION_TOOLS and self._session_tools.has(name, caller.principal):
            return await self._call_session_tool(name, request, caller)
        return await self._calling.call(name, request, caller, exchange)

    async def _call_session_tool(self, name: str, request: RpcRequest, caller: Caller) -> bytes:
        arguments = object_param(request.params, "arguments")
        try:
            call = await self._pipeline.call(session_request(name, arguments, principal=caller.principal))
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        if call.error is not None:
            return error_result(call.error.message, revision=caller.revision)
        message_target = self._session_tools.message_target(call, caller.principal)
        if caller.session is not None and message_target is not None:
            caller.session.push.bind(message_target)  # pushed on its stream; later eras poll
        assert call.result is not None
        return object_result(call.result, revision=caller.revision)

    async def _search_tools(self, request: RpcRequest, caller: Caller) -> bytes:
        """Reads the catalog, as `GET /api/v1/tools/search` does."""
        try:
            sought = search_request(object_param(request.params, "arguments"), principal=caller.principal)
            call = await self._pipeline.call(sought)
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        if call.error is not None:
            return error_result(call.error.message, revision=caller.revision)
        view = self._catalog.view(caller.principal)
        found = self._pipeline.switched_on(found_in(call, view), principal=caller.principal)
        if self.code_mode:
            return object_result(stubs_of(found), revision=caller.revision)
        session = caller.session
        if session is not None and session.remember([entry.name for entry in found]):
            session.announce_found()
        return found_result(self._definitions.array(found, modern=caller.is_modern), revision=caller.revision)

    def _server_info(self) -> dict[str, str]:
        return {**SERVER, "title": self._scenario.name}
