"""Everything one run needs to know before it begins. Above: whoever starts runs. Below: what it is made of."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from jackfield.llm.types import Model, ModelRequest
from jackfield.model.items import Item
from jackfield.model.principal import Principal
from jackfield.runs.tools import ToolTable

Mode = Literal["auto", "none", "required"]


class Choice(Struct, frozen=True, kw_only=True):
    """What the request allows, by the names the model uses."""

    mode: Mode = "auto"
    forced: frozenset[str] | None = None
    """One of these must be called before anything else is; None: nothing is forced."""
    allowed: frozenset[str] | None = None
    """Nothing but these; None: every tool of the request."""

    @property
    def wants_a_call(self) -> bool:
        return self.mode == "required" or self.forced is not None

    def refusal(self, tool: str, *, known: bool, called: frozenset[str]) -> str | None:
        """Why `tool` may not be called now, in words for the model; None when it may. `called` were called before."""
        if not known:
            return f"There is no tool '{tool}'. Use one of the tools you were given, or answer without one."
        if self.mode == "none":
            return f"Tool '{tool}' was not called: tools may not be used here. Answer without them."
        if self.allowed is not None and tool not in self.allowed:
            return f"Tool '{tool}' is not in the allowed_tools list. Allowed: {_listed(self.allowed)}."
        if self.forced is not None and tool not in self.forced and not (self.forced & called):
            return f"Tool '{tool}' was not called: call {_listed(self.forced)} first."
        return None

    def may_call(self, tool: str) -> bool:
        """Whether `tool` may be called at some time in this run."""
        return self.mode != "none" and (self.allowed is None or tool in self.allowed)

    def split(self, tools: Iterable[str]) -> tuple[list[str], list[str]]:
        """What may be called, and what may be seen: everything may be seen."""
        visible = list(tools)
        return [name for name in visible if self.refusal(name, known=True, called=frozenset()) is None], visible

    def for_model(self, called: frozenset[str]) -> str:
        """What the provider is told for the next step: `auto`, `none`, `required` or `name:TOOL`."""
        if self.mode == "none":
            return "none"
        if self.forced is not None and not (self.forced & called):
            return f"name:{next(iter(self.forced))}" if len(self.forced) == 1 else "required"
        return "required" if self.mode == "required" and not called else "auto"

    def is_honoured(self, called: frozenset[str]) -> bool:
        """Whether what had to be called was called."""
        if self.forced is not None:
            return bool(self.forced & called)
        return self.mode != "required" or bool(called)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


MAX_STEPS = 20


class RunLimits(Struct, frozen=True, kw_only=True):
    """When a run ends though the model would go on."""

    max_steps: int = MAX_STEPS
    """How often the model is asked."""
    max_tool_calls: int | None = None
    """How many calls the gateway runs; the model then has to finish without."""
    timeout: float | None = None
    """Seconds for the whole run."""
    retries: int = 0
    """How often a step is asked again whose model failed before it had said anything."""


class RunPlan(Struct, frozen=True, kw_only=True):
    """One run: who asks which model what, with which tools, how far."""

    run_id: str
    model: Model
    template: ModelRequest
    """What is the same in every step: instructions and how to sample."""
    items: tuple[Item, ...]
    """What was said before, with nothing in it but messages, reasoning, calls and their outputs."""
    tools: ToolTable
    choice: Choice = Choice()
    parallel: bool = True
    limits: RunLimits = RunLimits()
    principal: Principal
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
