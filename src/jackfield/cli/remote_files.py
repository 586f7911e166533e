"""Tool files as the tools of a tool server: the files source of a gateway, without the gateway around it.

Above: `work.py`. Below: `sources/files.py` reads the files, has them run in their environments and sandboxes, and
follows their changes; `sdk/serving.py` takes the calls.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import UNSET

from jackfield.calls.messages import timed_out
from jackfield.calls.redaction import Redactor
from jackfield.catalog.globs import compiled
from jackfield.catalog.overrides import apply_override, assign
from jackfield.errors import JackfieldError, SourceUnavailable, ToolNotFound
from jackfield.model.call import Done, Failed, Outcome, done
from jackfield.model.tool import Metadata, Tool
from jackfield.outgoing import Outgoing
from jackfield.protocol.functions import ToolAnswer
from jackfield.sdk import Client
from jackfield.sdk.errors import CallPending, ToolFailed
from jackfield.sdk.offers import CallOffer
from jackfield.sdk.progress import ProgressReporter
from jackfield.settings import ToolOverride, ToolSource
from jackfield.sources.base import Begun, InTransaction, Invocation, SourceContext
from jackfield.sources.files import FilesSource, files_source
from jackfield.sources.supervisor import SourceSupervisor
from jackfield.workers.host import WorkerHost

log = logging.getLogger("jackfield.work")

NO_MODEL = "This tool runs on another machine than the gateway ('jackfield work'), which has no models. Use an SDK."
_NOT_CALLED = "sources.{source}.calls does not let its tools call '{name}'. Add it there."


class RemoteFiles:
    """The tools of one files source. `on_change` is called when there are others than before."""

    def __init__(
        self, name: str, options: dict[str, Any], place: ToolSource, client: Client, *, on_change: Callable[[], None]
    ) -> None:
        self._client = client
        self._overrides: dict[str, ToolOverride] = {} if place.settings is None else place.settings.tools
        redactor = self._redactor = Redactor(lambda: place.secrets.used, place.secrets.tokens)
        hidden = [path for path in (place.data, place.path) if path is not None]
        self._worker_host = WorkerHost(place.data / "workers", redact=redactor.text, base=place.folder, hidden=hidden)
        self._outgoing = Outgoing(())
        self._source = files_source(name, options, self._context(place))
        self._supervisor: SourceSupervisor | None = None
        self._on_change = on_change
        self._tools: dict[str, RemoteTool] = {}

    async def open(self) -> None:
        """Read the files. Raises `SourceUnavailable` where that fails."""
        self._supervisor = SourceSupervisor(self._source, on_listing=self._listed, redact=self._redactor.text)
        await self._supervisor.settled.wait()
        if self._supervisor.error is not None:
            raise SourceUnavailable(self._supervisor.error)

    async def close(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.close()
        await self._worker_host.close()
        await self._outgoing.close()

    def reload(self) -> None:
        """Read the files anew."""
        if self._supervisor is not None:
            self._supervisor.request_refresh()

    @property
    def tools(self) -> dict[str, "RemoteTool"]:
        return self._tools

    def _listed(self) -> None:
        assert self._supervisor is not None
        before = {name: tool.definition() for name, tool in self._tools.items()}
        listing = self._supervisor.listing
        meant, notices = assign(self._source.name, [tool.name for tool in listing.tools], self._overrides)
        for notice in notices:
            log.warning("%s", notice.message)
        overridden = [apply_override(tool, meant[tool.name]) if tool.name in meant else tool for tool in listing.tools]
        self._tools = {tool.name: RemoteTool(tool, self._source, self._redactor) for tool in overridden}
        if before and {name: tool.definition() for name, tool in self._tools.items()} != before:
            self._on_change()

    def _context(self, place: ToolSource) -> SourceContext:
        return SourceContext(
            folder=place.folder,
            data=place.data,
            changed=lambda _: self.reload(),
            secret=place.secrets.get,
            config=dict,
            registry=list,
            call_tool=self._call_tool,
            ask_model=_no_model,
            outgoing=self._outgoing,
            worker_host=self._worker_host,
        )

    async def _call_tool(
        self, name: str, arguments: dict[str, object], *, parent: Invocation, within: tuple[str, ...] | None = None
    ) -> Outcome:
        """A tool calls another one, at the gateway and in the name of this server's key."""
        if within is not None and not compiled(within).match(name, source="", foreign=name):
            return Failed("forbidden", _NOT_CALLED.format(source=self._source.name, name=name))
        try:
            return done(await self._client.tools.call(name, arguments, run_id=None))
        except ToolFailed as fault:
            return Failed(fault.code, fault.message)
        except CallPending as pending:
            said = f"Tool '{name}' is answered later ({pending.status}), and a tool cannot wait for that."
            return Failed(pending.status, f"{said} Call it yourself.")
        except JackfieldError as fault:
            return Failed(fault.code, f"{parent.tool.name} could not call '{name}': {fault.message}")


class RemoteTool:
    """One function of a tool file."""

    def __init__(self, tool: Tool, source: FilesSource, redactor: Redactor) -> None:
        self.name = tool.name
        self._tool = tool
        self._source = source
        self._redactor = redactor

    @property
    def is_idempotent(self) -> bool:
        return self._tool.metadata.idempotent

    def definition(self) -> dict[str, Any]:
        """As `PUT /api/v1/sources/{name}/tools` takes it."""
        tool = self._tool
        shown: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "isAsync": tool.is_async,
            "visible": tool.visible,
            "timeout": tool.timeout_ms,
            "expiresIn": tool.expires_in_ms,
            "category": tool.category,
            "metadata": _given(tool.metadata),
        }
        return {key: value for key, value in shown.items() if value is not None}

    async def answer(self, offer: CallOffer, reporter: ProgressReporter) -> ToolAnswer:
        """The outcome of one call, within the tool's time."""
        timeout_ms = self._tool.deadline_ms
        invocation = Invocation(
            call_id=offer.tool_call_id,
            run_id=offer.run_id,
            tool=self._tool,
            arguments=offer.args,
            principal="",
            agent=offer.agent_entity_id,
            timeout_ms=timeout_ms,
            report=reporter.report,
            hold=(deadline := _Deadline(timeout_ms / 1000)).hold,
            trace=lambda trace: log.warning("%s failed.\n%s", self.name, self._redactor.text(trace)),
        )
        try:
            async with deadline.timeout:
                outcome = await self._source.execute(invocation)
        except TimeoutError:
            outcome = timed_out(offer.tool_call_id, timeout_ms)
        except JackfieldError as fault:
            outcome = Failed(fault.code, fault.message)
        return self._told(outcome)

    def _told(self, outcome: Outcome | InTransaction | Begun) -> ToolAnswer:
        if not isinstance(outcome, (Done, Failed)):
            raise ToolNotFound(f"'{self.name}' cannot be run here.")
        clean = self._redactor.outcome(outcome)
        return ToolAnswer(result=clean.result) if isinstance(clean, Done) else ToolAnswer(error=clean.message)


class _Deadline:
    """The time of one call, which stands still while its environment is made."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout = asyncio.timeout(seconds)

    @contextmanager
    def hold(self, seconds: float) -> Generator[None]:
        now, until = self._loop.time(), self.timeout.when()
        if until is None or self.timeout.expired():
            yield
            return
        self.timeout.reschedule(now + seconds)
        try:
            yield
        finally:
            if not self.timeout.expired():
                self.timeout.reschedule(self._loop.time() + until - now)


def _given(metadata: Metadata) -> dict[str, Any]:
    """What differs from the default."""
    defaults = Metadata()
    return {
        field: msgspec.to_builtins(value)
        for field in metadata.__struct_fields__
        if (value := getattr(metadata, field)) != getattr(defaults, field) and value is not UNSET
    }


async def _no_model(*_: object, **__: object) -> str:
    raise SourceUnavailable(NO_MODEL)
