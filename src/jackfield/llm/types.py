"""The promise of a model: items in, deltas out. Above: `agents/`, which asks step by step, and in-process tools.
Below: `openai.py`, `scripted.py` and whoever else answers.

One request is one step: the model speaks, thinks, calls tools, and ends. What a provider's own messages look like
is known to its file alone.
"""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from jackfield.errors import JackfieldError
from jackfield.model.items import Item, Usage
from jackfield.model.tool import ToolDefinition

Finish = Literal["stop", "tool_calls", "length", "content_filter"]
"""Why a step ended: all was said, tools are to be called, the limit of tokens was reached, or a filter cut it off."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One step asked of a model: all that was said so far, and how to go on."""

    items: tuple[Item, ...]
    instructions: str | None = None
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required` or `name:<tool>`. A wish: whoever runs the calls holds the model to it."""
    parallel_tool_calls: bool = True
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    text_format: dict[str, Any] | None = None
    """Open Responses' `text.format`: `{"type": "text" | "json_object" | "json_schema", …}`."""
    metadata: dict[str, str] | None = None
    user: str | None = None


class TextDelta(Struct, frozen=True):
    text: str
    logprobs: tuple[dict[str, Any], ...] = ()
    """As chat completions spells them, where `top_logprobs` asked for them."""


class ReasoningDelta(Struct, frozen=True):
    text: str


class RefusalDelta(Struct, frozen=True):
    text: str


class CallBegun(Struct, frozen=True):
    """The model begins to call a tool. Comes once for each `index`, counted from 0, before its `CallArguments`."""

    index: int
    call_id: str
    name: str


class CallArguments(Struct, frozen=True):
    """A piece of the arguments, a JSON text that is whole when the step has ended."""

    index: int
    delta: str


class StepEnd(Struct, frozen=True):
    """Always the last delta."""

    finish: Finish
    usage: Usage | None = None
    """None where the provider does not count."""


Delta = TextDelta | ReasoningDelta | RefusalDelta | CallBegun | CallArguments | StepEnd


class TokenCount:
    """What a model has read and written since the gateway started, as far as its provider says so."""

    __slots__ = ("input", "output")

    def __init__(self) -> None:
        self.input = 0
        self.output = 0

    def add(self, usage: Usage | None) -> None:
        if usage is not None:
            self.input += usage.input_tokens
            self.output += usage.output_tokens


class Model(Protocol):
    """Something that answers. Steps may run side by side."""

    name: str
    """Its key under `[models]`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """One step. Raises `ModelFailed`. Closing the generator stops the request to the provider at once."""

    async def close(self) -> None:
        """Free what it holds. Steps that still run are stopped first, by whoever asked."""


class ModelFailed(JackfieldError):
    """A model gave no answer, or only a part of one. The sentence names the model and the cure, never a key."""

    code = "model_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "model_error",
        status: int | None = None,
        retry_after: float | None = None,
        before_first_token: bool = True,
    ) -> None:
        super().__init__(message)
        self.code = code
        """`model_error`, `rate_limited`, `context_length_exceeded`, `model_timeout`, `model_unavailable`, …"""
        self.status = status
        """What the provider's server answered; None where it did not."""
        self.retry_after = retry_after
        """Seconds after which another try makes sense."""
        self.before_first_token = before_first_token
        """Whether nothing had been said yet, so that asking again repeats nothing."""


Amount = Annotated[float, Meta(ge=0)]


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`price` of a model: what a million tokens cost, in whatever currency."""

    input: Amount
    """For tokens that the model reads."""
    output: Amount
    """For tokens that it writes."""
    cached: Amount | None = None
    """For input that the provider had cached; None: as for any input."""

    def of(self, usage: Usage) -> float:
        """What this many tokens cost."""
        cached = min(usage.input_tokens_details.cached_tokens, usage.input_tokens)
        rest = usage.input_tokens - cached
        of_cached = self.input if self.cached is None else self.cached
        return (rest * self.input + cached * of_cached + usage.output_tokens * self.output) / 1_000_000


Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
ToolImages = Literal["message", "inline", "none"]
"""Where the images of a tool's result go: a user message after it, the tool message itself, or nowhere."""


class OpenAIOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider = "openai"`: any server that speaks chat completions."""

    base_url: str = "https://api.openai.com/v1"
    """The server. It may be on this machine or in a private network."""
    model: str
    """What the server calls it."""
    api_key: str | None = None
    """None for servers that want none."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    body: dict[str, Any] = {}
    """Put into every request's body, over what we say: what only that server understands."""
    timeout: Seconds = 300
    """The longest silence, before the first token and between two."""
    max_retries: Count = 2
    """How often a request that failed before the first token is made again."""
    retry_delay: Seconds = 0.5
    """Before the first retry, in seconds; each further one waits twice as long, give or take."""
    max_retry_delay: Seconds = 30
    """The longest wait. A server that asks for more (`Retry-After`) is not asked again."""
    breaker_failures: Count = 5
    """So many failures in a row, and the model is left alone for a while; 0: never."""
    breaker_seconds: Seconds = 30
    """How long it is left alone; then one request is let through, and success ends it."""
    include_usage: bool = True
    """Asks for token counts; off for servers that refuse `stream_options`."""
    tool_images: ToolImages = "message"
    """How this server takes the images of tools' results."""


class ScriptedOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider = "scripted"`: plays a written dialogue."""

    script: str
    """The file, from the config's folder."""
