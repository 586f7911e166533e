"""About how many tokens a step asks a model to read, without any model's own tokenizer. Pure.

Above: the engine, for `POST /v1/responses/input_tokens`. Below: `chat_request.py`, so that what is counted is what is
sent: instructions, messages, calls, results, and the tools with their schemas.
"""

from typing import Any

import msgspec

from jackfield.llm.base import ModelRequest
from jackfield.llm.chat_request import chat_body

BYTES_PER_TOKEN = 4
"""Of JSON in UTF-8. English and code are near it; other scripts take fewer bytes a token, so the count is too high."""
TOKENS_PER_IMAGE = 1_000
"""Whatever its size: providers count between 85 and 1,600."""


def estimated_tokens(request: ModelRequest) -> int:
    """The same for every model; at least 1."""
    body = chat_body(request, model="")
    images = 0
    for message in body["messages"]:
        if isinstance(message["content"], list):
            parts: list[dict[str, Any]] = [part for part in message["content"] if part["type"] != "image_url"]
            images += len(message["content"]) - len(parts)
            message["content"] = parts
    size = len(msgspec.json.encode(body["messages"])) + len(msgspec.json.encode(body.get("tools", "")))
    return max(1, -(-size // BYTES_PER_TOKEN)) + images * TOKENS_PER_IMAGE
