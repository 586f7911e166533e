"""What may stand under `[models.NAME]`, by provider. Above: `models.py`. Below: nothing; no provider is loaded to
check its options.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
ToolImages = Literal["message", "inline", "none"]
"""Where the images of a tool's result go: a user message after it, the tool message itself, or nowhere."""


class OpenAIOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider = "openai"`: any server that speaks chat completions."""

    base_url: str = "https://api.openai.com/v1"
    model: str
    """What the server calls it."""
    api_key: str | None = None
    """None for servers that want none."""
    headers: dict[str, str] = {}
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
    include_usage: bool = True
    """Asks for token counts; off for servers that refuse `stream_options`."""
    tool_images: ToolImages = "message"
    """How this server takes the images of tools' results."""


class ScriptedOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider = "scripted"`: plays a written dialogue."""

    script: str
    """The file, from the config's folder."""
