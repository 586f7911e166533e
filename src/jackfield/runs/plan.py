"""Everything one run needs to know before it begins. Above: whoever starts runs. Below: what it is made of."""

from msgspec import Struct

from jackfield.llm.base import Model, ModelRequest
from jackfield.model.items import Item
from jackfield.model.principal import Principal
from jackfield.runs.choice import Choice
from jackfield.runs.tools import ToolTable

MAX_STEPS = 20


class Limits(Struct, frozen=True, kw_only=True):
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
    limits: Limits = Limits()
    principal: Principal
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
