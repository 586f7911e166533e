"""`ctx`: the gateway as a tool file's function sees it while it runs in the gateway's process.

A function with a parameter named `ctx` gets one `Context` per call:

    from jackfield.sources.context import Context

    async def forecast(city: str, ctx: Context) -> str: ...

Above: `inprocess.py`, which makes it. Below: the surroundings that the gateway lends to its sources.
"""

import asyncio
import copy
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.model.call import Done, Failed, Outcome, Pending
from jackfield.model.items import InputText, Message
from jackfield.sources.base import Invocation, Progress, SourceContext

logger = logging.getLogger("jackfield.tools")


class ToolFailed(JackfieldError):
    """A tool that another tool called gave no result. `code` says why, `result` is what an agent would see."""

    def __init__(self, message: str, *, code: str, result: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result


class Lent(Struct, frozen=True, kw_only=True):
    """What one source lends to the contexts of its calls."""

    source: str
    config: dict[str, Any]
    secrets: frozenset[str]
    source_context: SourceContext
    calls: tuple[str, ...] | None = None
    """Globs of the tools that its own may call; None: no limit."""


class Context(Struct, frozen=True, eq=False):
    """One call's view of the gateway. May be used from the function's own thread."""

    _invocation: Invocation
    _lent: Lent
    _loop: asyncio.AbstractEventLoop

    def __repr__(self) -> str:
        return f"Context(tool={self._invocation.tool.name!r}, call_id={self.call_id!r})"

    @property
    def call_id(self) -> str:
        return self._invocation.call_id

    @property
    def run_id(self) -> str:
        return self._invocation.run_id

    @property
    def agent(self) -> str | None:
        """The agent in whose name the call was made, if one was."""
        return self._invocation.agent

    @property
    def config(self) -> dict[str, Any]:
        """This source's `config` from the gateway's configuration; a copy, yours to change."""
        return copy.deepcopy(self._lent.config)

    @property
    def settings(self) -> dict[str, Any]:
        """The gateway's settings, without secrets."""
        return self._lent.source_context.config()

    @property
    def registry(self) -> list[dict[str, Any]]:
        """Every tool of the gateway as its manifest shows it, as of now."""
        return self._lent.source_context.registry()

    def secret(self, name: str) -> str | None:
        """The secret's value; None when it is not set, or not among this source's `secrets`."""
        if name in self._lent.secrets:
            return self._lent.source_context.secret(name)
        logger.warning("Secret %r is not in sources.%s.secrets, so no tool of it gets it.", name, self._lent.source)
        return None

    async def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """Another tool's result, by the same road as every call. Raises `ToolFailed`, or the refusal."""
        lent = self._lent
        outcome = await lent.source_context.call_tool(name, arguments, parent=self._invocation, within=lent.calls)
        return _result(name, outcome)

    def call_tool_sync(self, name: str, /, **arguments: Any) -> Any:
        """`call_tool` for a plain `def`, which runs in a thread. The called tool's own deadline bounds the wait."""
        if _on_event_loop():
            raise RuntimeError("call_tool_sync would stop the event loop here. In an async def, await ctx.call_tool.")
        return asyncio.run_coroutine_threadsafe(self.call_tool(name, **arguments), self._loop).result()

    @property
    def model(self) -> "LentModel":
        """A model of the gateway's configuration, to be asked."""
        return LentModel(self._lent.source_context, self._loop)

    @property
    def tools(self) -> "LentTools":
        """The gateway's tools, to be called in the name of this call's caller."""
        return LentTools(self)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever follows this call how far it is."""
        self._in_loop(self._invocation.report, Progress(progress=progress, total=total, message=message))

    def log(self, message: str, *, level: int = logging.INFO, **fields: Any) -> None:
        """A line in the gateway's log that names the tool and the call; `fields` are kept apart in JSON logs."""
        said = " ".join([message, *(f"{key}={value!r}" for key, value in fields.items())])
        extra = {"tool": self._invocation.tool.name, "call_id": self.call_id, "run_id": self.run_id, "fields": fields}
        logger.log(level, "%s [%s] %s", self._invocation.tool.name, self.call_id, said, extra=extra)

    def _in_loop(self, act: Callable[[Progress], None], argument: Progress) -> None:
        if _on_event_loop():
            act(argument)
        else:
            self._loop.call_soon_threadsafe(act, argument)


class LentModel(Struct, frozen=True, eq=False):
    """`await ctx.model.ask("…")`; in a plain `def`, which runs in a thread, `ctx.model.ask_sync("…")`."""

    _source_context: SourceContext
    _loop: asyncio.AbstractEventLoop

    async def ask(
        self,
        prompt: str,
        *,
        instructions: str | None = None,
        model: str | None = None,
        max_output_tokens: int | None = None,
    ) -> str:
        """The model's answer as text. `model` is a name under `[models]`; without it `default`, or the first."""
        said = (Message(role="user", content=(InputText(text=prompt),)),)
        return await self._source_context.ask_model(
            said, instructions=instructions, model=model, max_output_tokens=max_output_tokens
        )

    def ask_sync(self, prompt: str, **options: Any) -> str:
        if _on_event_loop():
            raise RuntimeError("ask_sync would stop the event loop here. In an async def, await ctx.model.ask.")
        return asyncio.run_coroutine_threadsafe(self.ask(prompt, **options), self._loop).result()


class LentTools(Struct, frozen=True, eq=False):
    """`await ctx.tools.call("add", a=1)`, and what there is to call."""

    _context: Context

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """As `ctx.call_tool`."""
        return await self._context.call_tool(name, **arguments)

    def list(self) -> list[dict[str, Any]]:
        """As `ctx.registry`."""
        return self._context.registry


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _result(name: str, outcome: Outcome) -> Any:
    match outcome:
        case Done(result=result):
            return msgspec.json.decode(result)
        case Failed(code=code, message=message, result=result):
            raise ToolFailed(message, code=code, result=msgspec.json.decode(result) if result else None)
        case Pending(status=status):
            said = (
                f"Tool '{name}' is answered later ({status.value}), and a tool cannot wait for that. Call it yourself."
            )
            raise ToolFailed(said, code=status.value)
