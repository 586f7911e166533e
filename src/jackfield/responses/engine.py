"""Runs a Responses request: resolve the model and the tools, build the conversation, run the loop.

Above: `run.py`. Below: the loop. What cannot run is refused before the first event.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
from msgspec import UNSET

from jackfield.agents.mcp_servers import McpServers
from jackfield.calls import transactions as call_tx
from jackfield.calls.permissions import may_see
from jackfield.calls.pipeline import Pipeline
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.errors import BadRequest, Forbidden
from jackfield.llm.chat_request import estimated_tokens
from jackfield.llm.models import Models
from jackfield.llm.types import Model, ModelRequest
from jackfield.model.call import Call
from jackfield.model.ids import new_id
from jackfield.model.items import Item, McpCall, McpListTools
from jackfield.model.principal import Principal, Scope
from jackfield.model.response_request import (
    CatalogTool,
    CreateResponse,
    ExtensionTool,
    HostedTool,
    McpTool,
    NamespaceTool,
)
from jackfield.responses.approvals import Approvals, Verdict
from jackfield.responses.resources import ResourceInputs
from jackfield.responses.run import ResumedRun
from jackfield.runs import events
from jackfield.runs.conversation import items_for_model, open_calls
from jackfield.runs.loop import Loop
from jackfield.runs.model_steps import StepLog, StepLogs
from jackfield.runs.offers import CATALOG, OfferedServer, choice_of, chosen_of, table_of
from jackfield.runs.outputs import with_whole_result
from jackfield.runs.plan import Choice, RunLimits, RunPlan
from jackfield.runs.reading import reading_tools, reading_tools_within
from jackfield.runs.state import LoopJournal
from jackfield.runs.tool_executor import ToolExecutor
from jackfield.runs.tool_search import ShownTools, ToolSearch, with_search
from jackfield.runs.tools import ToolTable
from jackfield.settings import ResponsesSettings
from jackfield.store import Store

log = logging.getLogger("jackfield.agents")


class ResponseEngine:
    """Runs requests, each on its own."""

    def __init__(
        self,
        *,
        models: Models,
        catalog: Catalog,
        pipeline: Pipeline,
        store: Store,
        servers: McpServers,
        approvals: Approvals,
        settings: ResponsesSettings,
        tool_search: ToolSearch,
        step_logs: StepLogs,
    ) -> None:
        self._models = models
        self._catalog = catalog
        self._pipeline = pipeline
        self._store = store
        self._mcp_servers = servers
        self._approvals = approvals
        self._settings = settings
        self._tool_search = tool_search
        self._step_logs = step_logs
        self._resources = ResourceInputs(catalog, pipeline)

    def apply(self, settings: ResponsesSettings) -> None:
        """Runs that begin from now on have these limits."""
        self._settings = settings

    async def respond(
        self,
        request: CreateResponse,
        *,
        response_id: str,
        principal: Principal,
        history: tuple[Item, ...],
        emit: events.Emit,
        journal: LoopJournal | None = None,
        resumed: ResumedRun | None = None,
    ) -> None:
        """Run one request: raise to refuse it, or emit events until `Ended` or `Parked`.

        A `resumed` one goes on where it was.
        """
        model = await self._model_for(request, principal)
        async with self._servers(request, principal) as servers:
            table, choice = self._offer(request, servers)
            if resumed is not None and resumed.past.states:
                index, ran = 0, _allowed_in(resumed.output)
            else:
                output, index = ((), 0) if resumed is None else (resumed.output, resumed.next_index)
                verdicts = await self._approvals.read(history, request.input, principal=principal)
                emit(events.RunStarted())
                index = _tell_listings(servers, (*history, *request.input, *output), emit, index=index)
                ran = await self._act_on(verdicts, index=index, principal=principal, emit=emit)
            said = (*history, *request.input, *ran)
            items = items_for_model(said, tools=table, records=await self._records(said, principal))
            plan = RunPlan(
                run_id=response_id,
                model=model,
                template=_template(request),
                items=items,
                tools=table,
                choice=choice,
                parallel=request.parallel_tool_calls,
                limits=self._limits(request),
                principal=principal,
            )
            with self._tool_search.over(plan):
                executor = ToolExecutor(plan, pipeline=self._pipeline, store=self._store, emit=emit)
                loop = Loop(
                    plan,
                    executor=executor,
                    emit=emit,
                    first_index=index + len(ran),
                    journal=journal,
                    past=None if resumed is None else resumed.past,
                    log=self._step_log(request, plan, items_for_model(history, tools=table, records={})),
                )
                emit(await loop.run())

    def _step_log(self, request: CreateResponse, plan: RunPlan, earlier: Sequence[Item]) -> StepLog | None:
        """Where its steps are kept; what earlier responses said is on record with them."""
        if not request.store:
            return None
        return self._step_logs.of(plan.run_id, model=plan.model.name, known=earlier)

    async def with_resources(
        self, request: CreateResponse, *, response_id: str, principal: Principal
    ) -> CreateResponse:
        """The request with what the resources hold that its input names; refused as `respond` refuses."""
        uris = self._resources.named_in(request.input, principal)
        if not uris:
            return request
        await self._model_for(request, principal)
        items = await self._resources.put_into(request.input, uris, principal=principal, run_id=response_id)
        return msgspec.structs.replace(request, input=items)

    async def check(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> None:
        """Refuse as `respond` does."""
        await self._model_for(request, principal)
        async with self._servers(request, principal) as servers:
            self._offer(request, servers)
            await self._approvals.read(history, request.input, principal=principal)

    async def measure(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> int:
        """About how many tokens its first step would have the model read; refused as `respond` refuses."""
        await self._model_for(request, principal)
        async with self._servers(request, principal) as servers:
            table, _ = self._offer(request, servers)
            await self._approvals.read(history, request.input, principal=principal)
            said = (*history, *request.input)
            items = items_for_model(said, tools=table, records=await self._records(said, principal))
        shown = ShownTools(table, items).definitions
        return estimated_tokens(msgspec.structs.replace(_template(request), items=items, tools=shown))

    def _offer(self, request: CreateResponse, servers: Sequence[OfferedServer]) -> tuple[ToolTable, Choice]:
        """All tools of the request, with a search for those that are not loaded, and which of them may be called."""
        table = table_of(request.tools, servers)
        choice = choice_of(request.tool_choice, table)
        about = {
            tool.server_label: tool.server_description or "" for tool in request.tools if isinstance(tool, McpTool)
        } | {tool.name: tool.description or "" for tool in request.tools if isinstance(tool, NamespaceTool)}
        return with_search(table, above=self._tool_search.above, choice=choice, about=about, is_item=True), choice

    async def _model_for(self, request: CreateResponse, principal: Principal) -> Model:
        if not principal.may(Scope.CALL):
            raise Forbidden(f"Key '{principal.name}' may not use models. Use a key with the scope 'call'.")
        model = await self._models.get(request.model)
        self._check_known(request)
        return model

    @asynccontextmanager
    async def _servers(self, request: CreateResponse, principal: Principal) -> AsyncIterator[list[OfferedServer]]:
        """Every label of the request with the tools behind it, while the block runs."""
        view = self._pipeline.offered(self._catalog.view(principal).entries, principal=principal)
        servers: list[OfferedServer] = []
        async with AsyncExitStack() as stack:
            for tool in request.tools:
                if isinstance(tool, McpTool) and tool.server_url is not None:
                    reached = await stack.enter_async_context(self._mcp_servers.of_request(tool, principal=principal))
                    servers.append(
                        OfferedServer(
                            label=tool.server_label,
                            entries=reached.entries,
                            is_private=True,
                            asked_for=tool,
                            error=reached.error,
                            defers=_defers(tool),
                        )
                    )
                elif isinstance(tool, McpTool):
                    servers.append(self._server(tool, view, principal))
                elif isinstance(tool, CatalogTool):
                    entries = await chosen_of(view, tool.tools)
                    readers = await reading_tools_within(self._catalog, principal, tool.tools, label=CATALOG)
                    servers.append(OfferedServer(label=CATALOG, entries=entries, readers=readers, defers=_defers(tool)))
                elif isinstance(tool, ExtensionTool):
                    label, entries = tool.type.partition(":")[0], _of_type(tool, view)
                    servers.append(OfferedServer(label=label, entries=entries, options=tool.options))
            yield servers

    def _server(self, tool: McpTool, view: Sequence[Entry], principal: Principal) -> OfferedServer:
        """A label without a url: the catalog, or a source of the config."""
        label, entries, within = tool.server_label, tuple(view), None
        if label != CATALOG:
            entries = tuple(entry for entry in view if entry.tool.source == label)
            within = (f"{label}:*",)
        readers = reading_tools(self._catalog, principal, label=label, within=within)
        if label != CATALOG and not entries and not readers:
            said = f"There is no source '{label}' with tools for this key."
            raise BadRequest(f"{said} Give the server's 'server_url', or use the label '{CATALOG}'.", param="tools")
        return OfferedServer(label=label, entries=entries, readers=readers, asked_for=tool, defers=_defers(tool))

    async def _act_on(
        self, verdicts: Sequence[Verdict], *, index: int, principal: Principal, emit: events.Emit
    ) -> list[Item]:
        ran: list[Item] = []
        for verdict in verdicts:
            item = await self._approvals.act_on(verdict, index=index + len(ran), principal=principal, emit=emit)
            if item is not None:
                ran.append(item)
        return ran

    async def _records(self, items: Sequence[Item], principal: Principal) -> dict[str, Call]:
        """What became of open calls, as far as this key may know: their ids come from the client."""
        found = {}
        for call_id in open_calls(items):
            call = await self._store.read(partial(call_tx.get_call, call_id))
            if call is not None and may_see(principal, call):
                found[call_id] = await with_whole_result(self._store, call)
        return found

    def _check_known(self, request: CreateResponse) -> None:
        """Hosted tools are ignored or refused, by config."""
        unknown = [tool.type for tool in request.tools if isinstance(tool, HostedTool)]
        if unknown and self._settings.unknown_tools == "refuse":
            raise BadRequest(
                f"There is no tool of the type '{unknown[0]}' here. Remove it from 'tools', or let such tools be left "
                'out with [responses] unknown_tools = "ignore".',
                param="tools",
            )
        if unknown:
            log.info("left out of a request's tools, since they are not here: %s", ", ".join(unknown))

    def _limits(self, request: CreateResponse) -> RunLimits:
        settings = self._settings
        return RunLimits(
            max_steps=settings.max_steps,
            max_tool_calls=request.max_tool_calls,
            timeout=settings.timeout,
            retries=settings.retries,
        )


def _allowed_in(output: Sequence[Item]) -> list[Item]:
    """The calls that the request itself allowed, in what a response has told."""
    return [item for item in output if isinstance(item, McpCall) and item.approval_request_id]


def _tell_listings(servers: Sequence[OfferedServer], said: Sequence[Item], emit: events.Emit, *, index: int = 0) -> int:
    """Show which tools each server offers, once in a conversation; gives the place of the next item."""
    known = {item.server_label for item in said if isinstance(item, McpListTools) and item.error is None}
    for server in servers:
        if server.label in known:
            continue
        known.add(server.label)
        begun = McpListTools(id=new_id("mcpl"), server_label=server.label)
        emit(events.RunItemAdded(index, begun))
        emit(events.ToolRunning(index))
        listed = McpListTools(id=begun.id, server_label=server.label, tools=server.listed, error=server.error)
        emit(events.RunItemDone(index, listed))
        index += 1
    return index


def _of_type(tool: ExtensionTool, view: Sequence[Entry]) -> tuple[Entry, ...]:
    found = tuple(entry for entry in view if entry.tool.type == tool.type)
    if not found:
        raise BadRequest(f"Nobody has registered the tool type '{tool.type}'. Remove it from 'tools'.", param="tools")
    return found


def _defers(tool: McpTool | CatalogTool) -> bool | None:
    return None if tool.defer_loading is UNSET else tool.defer_loading


def _template(request: CreateResponse) -> ModelRequest:
    return ModelRequest(
        items=(),
        instructions=request.instructions,
        temperature=request.temperature,
        top_p=request.top_p,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        max_output_tokens=request.max_output_tokens,
        top_logprobs=request.top_logprobs,
        reasoning_effort=None if request.reasoning is None else request.reasoning.effort,
        text_format=request.text.format,
        metadata=request.metadata or None,
        user=request.user or request.safety_identifier,
    )
