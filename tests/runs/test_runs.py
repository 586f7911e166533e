"""Requests carried out on a whole gateway: its own tools, a server brought along, approvals, continuation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import BadRequest, Forbidden, NotFound, Refused
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.llm.types import Model
from jackfield.model.call import CallStatus, Outcome, done
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    Message,
)
from jackfield.model.principal import Principal
from jackfield.model.response_request import (
    CatalogTool,
    CreateResponse,
    ExtensionTool,
    FunctionTool,
    HostedTool,
    McpTool,
)
from jackfield.model.tool import Tool
from jackfield.runs import events
from jackfield.settings import load_settings
from jackfield.sources.base import Invocation
from jackfield.sources.registry import Registry, RegistrySource
from tests.requirement import requirement
from tests.runs.stage import PlayedModel, calls, says
from tests.sources.mcp.scene import HttpServer, http_server

SEARCH = HostedTool(type="web_search")
CALLER = Principal(name="caller", scopes=frozenset({"call"}))
CONFIG = """
[outgoing]
allow = ["127.0.0.1"]

[sources.local]
kind = "files"
path = "tools.py"
tools.pay.metadata = { requires_approval = true }

[[tools]]
name = "ask_person"
description = "Ask"
inputSchema = { type = "object" }
executionType = "external"
isAsync = true
"""
TOOLS = """
def add(a: int, b: int) -> int:
    return a + b

def pay(amount: int) -> str:
    return f"paid {amount}"
"""


class Conversation:
    """Requests that continue each other, as the door would pass them on."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.history: tuple[Item, ...] = ()
        self.told: list[events.LoopEvent] = []
        self.output: list[Item] = []

    async def ask(
        self, model: PlayedModel, *given: Item | str, principal: Principal = ADMIN, **fields: Any
    ) -> events.Ended:
        async def get(_: str) -> Model:
            return model

        setattr(self.gateway.models, "get", get)  # noqa: B010 - the model is the test's own
        said = tuple(_item(one) for one in given)
        self.told = []
        await self.gateway.engine.respond(
            CreateResponse(model="played", input=said, **fields),
            response_id="resp_1",
            principal=principal,
            history=self.history,
            emit=self.told.append,
        )
        done = {event.index: event.item for event in self.told if isinstance(event, events.RunItemDone)}
        self.output = [done[index] for index in sorted(done)]
        assert sorted(done) == list(range(len(done)))
        self.history += (*said, *self.output)
        assert isinstance(self.told[0], events.RunStarted)
        ended = self.told[-1]
        assert isinstance(ended, events.Ended)
        return ended


def _item(given: Item | str) -> Item:
    return Message(id="msg_1", role="user", content=(InputText(text=given),)) if isinstance(given, str) else given


@asynccontextmanager
async def a_gateway(folder: Path, *, more: str = "") -> AsyncIterator[Gateway]:
    (folder / "jackfield.toml").write_text(CONFIG + more, encoding="utf-8")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    settings = load_settings(
        folder, environment={"JACKFIELD_DATA": str(folder / "data")}, overrides={"store": "memory:"}
    )
    async with Gateway(settings) as gateway:
        yield gateway


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Conversation]:
    async with a_gateway(tmp_path) as gateway:
        yield Conversation(gateway)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with http_server(tmp_path_factory.mktemp("docs")) as made:
        yield made


CATALOG = McpTool(server_label="jackfield")


@requirement("CON-resp-catalog", "CON-resp-mcp-items")
async def test_the_catalog_is_listed_once_in_a_conversation_and_its_tools_run(talk: Conversation) -> None:
    model = PlayedModel(calls(("add", {"a": 2, "b": 3})), says("5"))
    ended = await talk.ask(model, "add them", tools=(CATALOG,))
    assert ended.status == "completed"
    listing, call, message = talk.output
    assert isinstance(listing, McpListTools)
    assert {tool.name for tool in listing.tools} >= {"add", "pay", "ask_person"}
    assert isinstance(call, McpCall)
    assert (call.server_label, call.name, call.output) == ("jackfield", "add", "5")
    assert isinstance(message, Message)
    again = PlayedModel(says("yes"))
    await talk.ask(again, "sure?", tools=(CATALOG,))
    assert not any(isinstance(item, McpListTools) for item in talk.output)
    told = [item for item in again.asked[0].items if isinstance(item, FunctionCall | FunctionCallOutput)]
    assert [getattr(item, "name", None) or item.output for item in told] == ["add", "5"]  # type: ignore[union-attr]


async def test_the_catalog_by_names_and_globs(talk: Conversation) -> None:
    model = PlayedModel(says("ok"))
    await talk.ask(model, "hi", tools=(CatalogTool(tools=("a*",)),))
    assert {spec.name for spec in model.asked[0].tools} == {"add", "ask_person"}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tools": (McpTool(server_label="nobody"),)}, BadRequest),
        ({"tool_choice": "required"}, BadRequest),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_before_anything_is_told(
    talk: Conversation, fields: dict[str, Any], error: type[Refused]
) -> None:
    with pytest.raises(error):
        await talk.ask(PlayedModel(), "hi", **fields)
    assert talk.told == []


async def test_an_unknown_model_is_refused(talk: Conversation) -> None:
    request = CreateResponse(model="nobody", input=())
    with pytest.raises(NotFound, match="There is no model 'nobody'"):
        await talk.gateway.engine.respond(
            request, response_id="resp_1", principal=ADMIN, history=(), emit=talk.told.append
        )


@requirement("CON-resp-approval")
async def test_an_approved_call_runs_once_and_the_response_goes_on(talk: Conversation) -> None:
    await talk.ask(PlayedModel(calls(("pay", {"amount": 5}))), "pay", tools=(CATALOG,))
    (request,) = (item for item in talk.output if isinstance(item, McpApprovalRequest))
    model = PlayedModel(says("paid"))
    answer = McpApprovalResponse(id="a", approval_request_id=request.id, approve=True)
    ended = await talk.ask(model, answer, tools=(CATALOG,))
    assert ended.status == "completed"
    call, _ = talk.output
    assert isinstance(call, McpCall)
    assert (call.output, call.status, call.approval_request_id) == ("paid 5", "completed", request.id)
    outputs = [item.output for item in model.asked[0].items if isinstance(item, FunctionCallOutput)]
    assert outputs == ["paid 5"]


async def test_a_rejected_call_does_not_run_and_the_model_reads_why(talk: Conversation) -> None:
    await talk.ask(PlayedModel(calls(("pay", {"amount": 5}))), "pay", tools=(CATALOG,))
    (request,) = (item for item in talk.output if isinstance(item, McpApprovalRequest))
    model = PlayedModel(says("I see"))
    answer = McpApprovalResponse(id="a", approval_request_id=request.id, approve=False, reason="too much")
    await talk.ask(model, answer, tools=(CATALOG,))
    (output,) = (item.output for item in model.asked[0].items if isinstance(item, FunctionCallOutput))
    assert "too much" in str(output)
    assert not any(isinstance(item, McpCall) for item in talk.output)
    record = await talk.gateway.store.read(partial(call_tx.get_call, request.id.removeprefix("mcpr_")))
    assert record is not None
    assert record.status is CallStatus.REJECTED


@requirement("CON-resp-input-string", "CON-resp-approval")
async def test_a_conversation_that_is_sent_whole_each_time_repeats_no_listing_and_no_approved_call(
    talk: Conversation,
) -> None:
    await talk.ask(PlayedModel(calls(("pay", {"amount": 5}))), "pay", tools=(CATALOG,))
    (request,) = (item for item in talk.output if isinstance(item, McpApprovalRequest))
    answer = McpApprovalResponse(id="a", approval_request_id=request.id, approve=True)
    said, talk.history = (*talk.history, answer), ()
    await talk.ask(PlayedModel(says("paid")), *said, tools=(CATALOG,))
    assert [type(item) for item in talk.output] == [McpCall, Message]

    said, talk.history = talk.history, ()
    model = PlayedModel(says("as I said"))
    await talk.ask(model, *said, "really?", tools=(CATALOG,))
    assert [type(item) for item in talk.output] == [Message]
    assert model.outputs(0) == ["paid 5"]


@requirement("CON-resp-approval")
async def test_a_key_without_the_right_to_answer_may_not_allow_its_own_guarded_call(talk: Conversation) -> None:
    await talk.ask(PlayedModel(calls(("pay", {"amount": 5}))), "pay", tools=(CATALOG,), principal=CALLER)
    (request,) = (item for item in talk.output if isinstance(item, McpApprovalRequest))
    answer = McpApprovalResponse(id="a", approval_request_id=request.id, approve=True)
    with pytest.raises(Forbidden, match="may not allow calls of 'pay'"):
        await talk.ask(PlayedModel(), answer, tools=(CATALOG,), principal=CALLER)


async def test_a_pending_call_ends_the_response_and_its_answer_is_told_when_it_goes_on(talk: Conversation) -> None:
    ended = await talk.ask(PlayedModel(calls(("ask_person", {"q": 1}))), "ask", tools=(CATALOG,))
    assert ended.status == "completed"
    (call,) = (item for item in talk.output if isinstance(item, McpCall))
    assert call.status == "incomplete"
    assert msgspec.json.decode(call.output or "")["status"] == "pending"
    still = PlayedModel(says("patience"))
    await talk.ask(still, "and?", tools=(CATALOG,))
    assert "pendingToolCallId" in str(still.outputs(0)[0])
    record_id = call.id.removeprefix("mcp_")
    await talk.gateway.answers.submit(record_id, done("blue"), principal=ADMIN)
    model = PlayedModel(says("blue it is"))
    await talk.ask(model, "and now?", tools=(CATALOG,))
    assert model.outputs(0) == ["blue"]


@requirement("CON-resp-mixed-turn", "TOOL-function-output-follow-up")
async def test_a_mixed_turn_goes_on_with_the_clients_output_and_repeats_nothing(talk: Conversation) -> None:
    tools = (CATALOG, FunctionTool(name="mine", parameters={"type": "object"}))
    ended = await talk.ask(PlayedModel(calls(("add", {"a": 1, "b": 1}), ("mine", {}))), "go", tools=tools)
    assert ended.status == "requires_action"
    (mine,) = (item for item in talk.output if isinstance(item, FunctionCall))
    model = PlayedModel(says("done"))
    await talk.ask(model, FunctionCallOutput(id="o", call_id=mine.call_id, output="yes"), tools=tools)
    assert sorted(model.outputs(0)) == ["2", "yes"]
    page = await talk.gateway.store.read(partial(call_page, CallFilter(), limit=10))
    assert [call.tool for call in page.calls] == ["add"]


@requirement("TOOL-question-mcp-discovery", "CON-resp-approval", "TOOL-mcp-executes")
async def test_a_server_brought_along_is_listed_asked_about_and_called(talk: Conversation, server: HttpServer) -> None:
    tool = McpTool(server_label="docs", server_url=server.url)
    await talk.ask(PlayedModel(calls(("echo", {"text": "hi"}))), "say hi", tools=(tool,), principal=CALLER)
    listing, request = talk.output
    assert isinstance(listing, McpListTools)
    assert listing.error is None
    assert isinstance(request, McpApprovalRequest)
    assert (request.server_label, request.name) == ("docs", "echo")
    answer = McpApprovalResponse(id="a", approval_request_id=request.id, approve=True)
    model = PlayedModel(says("said"))
    await talk.ask(model, answer, tools=(tool,), principal=CALLER)
    call = talk.output[0]
    assert isinstance(call, McpCall)
    assert (call.output, call.status) == ("hi", "completed")
    assert "echo" not in {entry.tool.name for entry in talk.gateway.catalog.view(ADMIN).entries}


async def test_a_server_that_is_down_is_told_and_the_rest_goes_on(talk: Conversation) -> None:
    tool = McpTool(server_label="gone", server_url="http://127.0.0.1:9/mcp", require_approval="never")
    ended = await talk.ask(PlayedModel(says("never mind")), "hi", tools=(tool,))
    assert ended.status == "completed"
    listing = talk.output[0]
    assert isinstance(listing, McpListTools)
    assert listing.error
    assert listing.tools == ()


class AcmeSearch:
    """An internal tool of a type of its own, as another package would bring it."""

    def definition(self) -> Tool:
        return Tool(
            source="acme",
            name="acme_search",
            type="acme:search",
            input_schema={"type": "object"},
            config={"index": "all", "depth": 1},
        )

    async def initialise(self) -> None:
        return

    async def execute(self, invocation: Invocation) -> Outcome:
        return done(["found", invocation.arguments["q"], invocation.config])

    async def shutdown(self) -> None:
        return


@requirement("TOOL-ext-provider-prefixed", "TOOL-internal-execute")
async def test_a_tool_type_with_a_providers_name_goes_to_whoever_registered_it(talk: Conversation) -> None:
    registry = Registry()
    registry.register(AcmeSearch(), owner="acme")
    await talk.gateway.source_registry.add(RegistrySource("acme", registry))
    await talk.gateway.refresh(within=5)
    model = PlayedModel(calls(("acme_search", {"q": "x"})), says("ok"))
    await talk.ask(model, "search", tools=(ExtensionTool(type="acme:search", options={}),))
    assert model.outputs(1) == ['["found","x",{"index":"all","depth":1}]']
    model = PlayedModel(calls(("acme_search", {"q": "x"})), says("ok"))
    options = {"index": "mine", "filters": {"year": 2026}}
    await talk.ask(model, "search", tools=(ExtensionTool(type="acme:search", options=options),))
    assert model.outputs(1)[-1] == '["found","x",{"index":"mine","depth":1,"filters":{"year":2026}}]'
    with pytest.raises(BadRequest, match="Nobody has registered the tool type 'acme:other'"):
        await talk.ask(PlayedModel(), "search", tools=(ExtensionTool(type="acme:other", options={}),))


@requirement("PROG-unknown-tools")
async def test_tools_that_are_not_here_are_left_out_or_refused_as_the_config_says(
    talk: Conversation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = PlayedModel(says("Hello."))
    assert (await talk.ask(model, "Hi", tools=(SEARCH, FunctionTool(name="mine")))).status == "completed"
    assert [tool.name for tool in model.asked[0].tools] == ["mine"]

    refusing = '\n[responses]\nunknown_tools = "refuse"\n'
    async with a_gateway(tmp_path_factory.mktemp("refusing"), more=refusing) as gateway:
        with pytest.raises(BadRequest, match="no tool of the type 'web_search' here"):
            await Conversation(gateway).ask(PlayedModel(says("Hello.")), "Hi", tools=(SEARCH,))
