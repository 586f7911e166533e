"""A server asks for a model's answer (MCP's sampling): given where the operator's config allows that server to.

Above: `connection.py`. Below: the models that the gateway lends. The server chooses neither the model nor the tools:
what it asks for costs the operator's money.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import JackfieldError
from jackfield.model.items import InputImage, InputText, Message, OutputText, Part
from jackfield.sources.base import Surroundings
from jackfield.sources.mcp.errors import INVALID_PARAMS, RpcError
from jackfield.sources.mcp.messages import encoded

Sample = Callable[[Raw], Awaitable[Raw]]
MOST_TOKENS = 16_384
MODEL_FAILED = -32603


class _Said(Struct):
    role: Literal["user", "assistant"]
    content: dict[str, Any] | list[dict[str, Any]]


class _Sampling(Struct):
    messages: list[_Said]
    system_prompt: str | None = msgspec.field(default=None, name="systemPrompt")
    max_tokens: int = msgspec.field(default=1024, name="maxTokens")


def sampler(surroundings: Surroundings, *, model: str | None) -> Sample:
    """How a source's server gets a model's answer."""

    async def sample(params: Raw) -> Raw:
        try:
            asked = msgspec.json.decode(params, type=_Sampling)
        except msgspec.DecodeError as fault:
            raise RpcError(f"The sampling request is not one: {fault}", number=INVALID_PARAMS) from None
        try:
            text = await surroundings.ask_model(
                tuple(_message(said) for said in asked.messages),
                instructions=asked.system_prompt,
                model=model,
                max_output_tokens=max(1, min(asked.max_tokens, MOST_TOKENS)),
            )
        except JackfieldError as fault:
            raise RpcError(fault.message, number=MODEL_FAILED) from None
        content = {"type": "text", "text": text}
        return encoded({"role": "assistant", "content": content, "model": model or "default", "stopReason": "endTurn"})

    return sample


def _message(said: _Said) -> Message:
    blocks = said.content if isinstance(said.content, list) else [said.content]
    return Message(role=said.role, content=tuple(_part(said.role, block) for block in blocks))


def _part(role: str, block: dict[str, Any]) -> Part:
    if block.get("type") == "image":
        return InputImage(image_url=f"data:{block.get('mimeType', 'image/png')};base64,{block.get('data', '')}")
    text = str(block.get("text", ""))
    return OutputText(text=text) if role == "assistant" else InputText(text=text)
