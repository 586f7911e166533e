"""What a client sees of a server, as JSON: its lists, and what comes of a script of requests.

Above: `cases.py` and `__main__.py`. Below: the SDK's client, whose results are taken as they came over the wire, so
that no field is lost that its types do not know.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp.types as t
from mcp import Client, MCPError
from mcp.client import Transport
from msgspec import Struct
from pydantic import FileUrl, RootModel

Json = dict[str, Any]
MODERN = "2026-07-28"
MAX_PAGES = 50
MAX_ROUNDS = 10
METHOD_NOT_FOUND = -32601
SUBSCRIBE = "resources/subscribe"
UPDATED_WITHIN = 5.0
LISTS = {
    "tools": ("tools/list", "tools", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts/list", "prompts", "name"),
}
"""By what a view calls it: the method, the member that has the list, and what its entries are told apart by."""


class RawRequest(t.Request[dict[str, Any], str]):
    """A request with parameters as they are."""


class RawResult(RootModel[dict[str, Any]]):
    """A result as it came."""


class Step(Struct, frozen=True):
    """One request of a script."""

    label: str
    method: str
    params: Json
    told: tuple[str, ...] = ()
    """What the client is told meanwhile and is looked at: `progress`, `logs`, `updates` of resources, urls `opened`."""


def call(tool: str, /, _as: str = "", *, _told: tuple[str, ...] = (), **arguments: Any) -> Step:
    return Step(f"call {_as or tool}", "tools/call", {"name": tool, "arguments": arguments}, _told)


def subscribe(uri: str) -> Step:
    """At 2026-07-28 the client listens instead."""
    return Step(f"subscribe {uri}", SUBSCRIBE, {"uri": uri})


def read(uri: str) -> Step:
    return Step(f"read {uri}", "resources/read", {"uri": uri})


def get(prompt: str, **arguments: str) -> Step:
    return Step(f"get {prompt}", "prompts/get", {"name": prompt, "arguments": arguments})


def complete(ref: Json, argument: str, value: str, **context: str) -> Step:
    params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
    more: Json = {"context": {"arguments": context}} if context else {}
    named = ref.get("name") or ref.get("uri")
    return Step(f"complete {named} {argument}={value}", "completion/complete", {**params, **more})


class Answers(Struct, frozen=True, kw_only=True):
    """What the person, the model and the machine behind the client say."""

    form: Json = {}
    text: str = "A model's answer."
    roots: tuple[str, ...] = ()


class Watched:
    """The client's side: gives the answers, and keeps what it was told and asked."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.logs: list[Json] = []
        self.asked: list[Json] = []
        self.updates: list[Json] = []
        self.updated = asyncio.Event()
        self.opened: list[Json] = []

    async def on_message(self, message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            self.updates.append({"uri": message.params.uri})
            self.updated.set()
        elif isinstance(message, t.ElicitCompleteNotification):
            self.opened.append(_plain(message.params))

    async def on_log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.logs.append(_plain(params))

    async def elicit(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:  # noqa: ARG002 - the SDK's promise
        self.asked.append({"method": "elicitation/create", "params": _plain(params)})
        if not isinstance(params, t.ElicitRequestFormParams):
            return t.ElicitResult(action="accept")
        fields = params.requested_schema.get("properties", {})
        defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
        return t.ElicitResult(action="accept", content={**defaults, **self._answers.form})

    async def sample(self, context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:  # noqa: ARG002 - the SDK's promise
        self.asked.append({"method": "sampling/createMessage", "params": _plain(params)})
        said = t.TextContent(text=self._answers.text)
        return t.CreateMessageResult(role="assistant", content=said, model="scripted", stop_reason="endTurn")

    async def list_roots(self, context: Any) -> t.ListRootsResult:  # noqa: ARG002 - the SDK's promise
        """Not kept: many servers ask as soon as they are connected, whatever the client asks of them."""
        return t.ListRootsResult(roots=[t.Root(uri=FileUrl(uri), name="root") for uri in self._answers.roots])

    async def answer(self, asked: Json) -> Json:
        """The answer to a question that came as a result, which is the newer revision's way."""
        params = asked.get("params") or {}
        match asked["method"]:
            case "elicitation/create" if "url" in params:
                return _whole(await self.elicit(None, t.ElicitRequestURLParams.model_validate(params)))
            case "elicitation/create":
                return _whole(await self.elicit(None, t.ElicitRequestFormParams.model_validate(params)))
            case "sampling/createMessage":
                return _whole(await self.sample(None, t.CreateMessageRequestParams.model_validate(params)))
        return _whole(await self.list_roots(None))


class Viewer:
    """Looks at one server over one connection."""

    def __init__(self, client: Client, watched: Watched, listening: AsyncExitStack) -> None:
        self._client = client
        self._watched = watched
        self._listening = listening
        """What stays open until the connection ends."""

    async def view(self, script: Sequence[Step]) -> Json:
        """The lists, then the script's requests in their order."""
        found: Json = {name: await self._listed(*how) for name, how in LISTS.items()}
        for step in script:
            found[step.label] = await self._made(step)
        return found

    async def _listed(self, method: str, member: str, key: str) -> Json:
        entries: list[Json] = []
        params: Json = {}
        for _ in range(MAX_PAGES):
            try:
                page = await self._ask(method, params)
            except MCPError as fault:
                if fault.error.code == METHOD_NOT_FOUND:
                    break
                raise
            entries += page[member]
            if not page.get("nextCursor"):
                break
            params = {"cursor": page["nextCursor"]}
        return {str(entry[key]): entry for entry in entries}

    async def _made(self, step: Step) -> Json:
        watched = self._watched
        for kept in (watched.logs, watched.asked, watched.updates, watched.opened):
            kept.clear()
        watched.updated.clear()
        progress: list[Json] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            progress.append({"progress": done, "total": total, "message": message})

        try:
            made: Json = {"result": await self._answered(step, on_progress if "progress" in step.told else None)}
        except MCPError as fault:
            made = {"error": _plain(fault.error)}
        if "updates" in step.told:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UPDATED_WITHIN):
                    await watched.updated.wait()
        told: Json = {"progress": progress, "logs": list(watched.logs), "updates": watched.updates[:1]}
        told["opened"] = list(watched.opened)
        return {**made, **{name: told[name] for name in step.told}, "asked": list(watched.asked)}

    async def _answered(self, step: Step, on_progress: Any) -> Json:
        """The result, after all that was asked back."""
        if step.method == SUBSCRIBE and self._client.protocol_version == MODERN:
            await self._listening.enter_async_context(self._client.listen(resource_subscriptions=[step.params["uri"]]))
            return {}
        result = await self._ask(step.method, step.params, on_progress)
        for _ in range(MAX_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            requests = result.get("inputRequests") or {}
            again: Json = {
                "inputResponses": {key: await self._watched.answer(asked) for key, asked in requests.items()}
            }
            if "requestState" in result:
                again["requestState"] = result["requestState"]
            result = await self._ask(step.method, {**step.params, **again}, on_progress)
        return result

    async def _ask(self, method: str, params: Json, on_progress: Any = None) -> Json:
        request = RawRequest(method=method, params=params)
        return (await self._client.session.send_request(request, RawResult, progress_callback=on_progress)).root


@asynccontextmanager
async def viewing(
    transport: Transport, answers: Answers, *, revision: str, seconds: float = 60.0
) -> AsyncIterator[Viewer]:
    """A client of this revision that declares everything a client can."""
    watched = Watched(answers)
    modern = revision == MODERN
    async with Client(
        transport,
        mode="auto" if modern else "legacy",
        read_timeout_seconds=seconds,
        elicitation_callback=watched.elicit,
        sampling_callback=watched.sample,
        list_roots_callback=watched.list_roots,
        logging_callback=watched.on_log,
        message_handler=watched.on_message,
        log_level="debug" if modern else None,
        cache=None,
    ) as client:
        if not modern and client.server_capabilities.logging is not None:
            await client.set_logging_level("debug")
        async with AsyncExitStack() as listening:
            yield Viewer(client, watched, listening)


def _whole(model: Any) -> Json:
    found: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _plain(model: Any) -> Json:
    """As it came over the wire."""
    found: Json = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found
