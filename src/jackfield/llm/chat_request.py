"""A step as chat completions asks for it: `ModelRequest` in, the JSON body out. Pure.

Above: `openai.py`. Below: the items of `model/items.py`. The body only grows at its end while a conversation goes on,
so a server's prompt cache keeps what it has.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from jackfield.llm.types import ModelFailed, ModelRequest, ToolImages
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    Message,
    Part,
    Reasoning,
    Refusal,
    ToolImage,
    text_of,
)
from jackfield.model.tool import ToolDefinition

NO_RESULT = "This call has no result: it was not run, or its result was not kept."
NOT_APPROVED_YET = "This call has not run: it waits for a person's approval."


def output_text(item: FunctionCallOutput) -> str:
    """The words of what a client's function gave back."""
    if isinstance(item.output, str):
        return item.output
    return "\n".join(part.text for part in item.output if not isinstance(part, InputImage | InputFile))


def output_media(item: FunctionCallOutput) -> tuple[InputImage | InputFile, ...]:
    """Its images and files."""
    if isinstance(item.output, str):
        return ()
    return tuple(part for part in item.output if isinstance(part, InputImage | InputFile))


def has_tool_images(items: Sequence[Item]) -> bool:
    """Whether any result in a conversation has images or files, wherever it is told."""
    return any(
        output_media(item)
        if isinstance(item, FunctionCallOutput)
        else isinstance(item, Message) and any(isinstance(part, ToolImage) for part in item.content)
        for item in items
    )


def mcp_text(item: McpCall) -> str:
    if item.output or item.error is None:
        return NO_RESULT if item.output is None else item.output
    words = getattr(item.error, "message", None)
    return f"Error: {words if words is not None else _block_text(getattr(item.error, 'content', ''))}"


def rejection_text(answer: McpApprovalResponse) -> str:
    return "A person did not allow this call." + (f" Reason: {answer.reason}" if answer.reason else "")


def _block_text(content: Any) -> str:
    """The words of MCP content blocks, or of whatever else a tool said when it failed."""
    if isinstance(content, list | tuple):
        return "\n".join(_block_text(block) for block in content)
    return str(content.get("text", content)) if isinstance(content, dict) else str(content)


Json = dict[str, Any]
NOT_SHOWN = "(The images of this result cannot be shown to you: say so if you need them.)"


def chat_body(
    request: ModelRequest, *, model: str, limit_key: str = "max_tokens", tool_images: ToolImages = "message"
) -> Json:
    """The body of `POST /chat/completions`. `limit_key` is how that server spells `max_output_tokens`."""
    body: Json = {"model": model, "messages": chat_messages(request, tool_images=tool_images), "stream": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice)
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    wishes = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        limit_key: request.max_output_tokens,
        "reasoning_effort": request.reasoning_effort,
        "response_format": _response_format(request.text_format),
        "user": request.user,
    }
    return body | {key: value for key, value in wishes.items() if value is not None}


def chat_messages(request: ModelRequest, *, tool_images: ToolImages = "message") -> list[Json]:
    """The conversation as chat messages. Every tool call in them is followed by its result, as servers demand."""
    writer = _Writer(request, tool_images)
    for item in request.items:
        writer.add(item)
    writer.close_turn()
    return writer.messages


class _Writer:
    """Puts items together to messages: what the assistant says and calls at one time is one message."""

    def __init__(self, request: ModelRequest, tool_images: ToolImages) -> None:
        self._tool_images = tool_images
        self.messages: list[Json] = []
        self._opening: Json = {}
        if request.instructions:
            self._instruct(request.instructions)
        self._tools = {tool.name for tool in request.tools}
        items = request.items
        self._outputs = {item.call_id: item for item in items if isinstance(item, FunctionCallOutput)}
        self._called = {item.call_id for item in items if isinstance(item, FunctionCall)}
        self._answers = {item.approval_request_id: item for item in items if isinstance(item, McpApprovalResponse)}
        self._approved_calls = {item.approval_request_id for item in items if isinstance(item, McpCall)}
        self._said: str | None = None
        self._calls: list[tuple[Json, Json, list[Json]]] = []

    def add(self, item: Item) -> None:
        match item:
            case Message(role="assistant"):
                self.close_turn()
                self._said = text_of(item)
            case Message(role="user"):
                self.close_turn()
                self.messages.append({"role": "user", "content": self._content_of(item)})
            case Message():
                self.close_turn()
                self._instruct(text_of(item))
            case FunctionCall():
                self._call(item.call_id, item.name, item.arguments, result=self._output_of(item.call_id))
            case FunctionCallOutput():
                self._add_output(item)
            case McpCall():
                # Its result comes with it, so the turn is over: the next call is a message of its own, and
                # nothing that was sent before changes.
                self._call(item.id, self._shown_name(item), item.arguments, result=(mcp_text(item), []))
                self.close_turn()
            case McpApprovalRequest():
                self._add_unapproved(item)
            case Reasoning() | McpListTools() | McpApprovalResponse():
                pass  # not for the model: its own thoughts are not sent back, the tools are in the body
            case _:
                raise ModelFailed(
                    f"An item of type '{type(item).__struct_config__.tag}' reached the model; it cannot read those. "
                    "Send the items that it stands for.",
                    code="unsupported_input",
                )

    def _content_of(self, item: Message) -> str | list[Json]:
        if self._tool_images != "none":
            return _content(item.content)
        return _content(tuple(part for part in item.content if not isinstance(part, ToolImage)))

    def _instruct(self, text: str) -> None:
        if self.messages and self.messages[-1] is self._opening:
            self._opening["content"] += f"\n\n{text}"  # many templates take one system message, at the beginning
            return
        message: Json = {"role": "system", "content": text}
        if not self.messages:
            self._opening = message
        self.messages.append(message)

    def close_turn(self) -> None:
        """Write down what the assistant said and called since the last message, and the results after it."""
        if self._said is None and not self._calls:
            return
        message: Json = {"role": "assistant", "content": self._said}
        if self._calls:
            message["tool_calls"] = [call for call, _, _ in self._calls]
        self.messages.append(message)
        self.messages += [result for _, result, _ in self._calls]
        for _, result, images in self._calls:
            if images:  # OpenAI's chat completions have no images in tool messages
                words = {"type": "text", "text": f"The images in the result of {result['tool_call_id']}:"}
                self.messages.append({"role": "user", "content": [words, *images]})
        self._said, self._calls = None, []

    def _call(self, call_id: str, name: str, arguments: str, *, result: tuple[str, list[Json]]) -> None:
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
        text, images = result
        content: str | list[Json] = text
        if images and self._tool_images == "none":
            content, images = f"{text}\n{NOT_SHOWN}", []
        elif images and self._tool_images == "inline":
            content, images = [{"type": "text", "text": text}, *images], []
        self._calls.append((call, {"role": "tool", "tool_call_id": call_id, "content": content}, images))

    def _output_of(self, call_id: str) -> tuple[str, list[Json]]:
        output = self._outputs.get(call_id)
        return (NO_RESULT, []) if output is None else _tool_result(output)

    def _add_output(self, item: FunctionCallOutput) -> None:
        if item.call_id in self._called:
            self.close_turn()  # its text stands after the call
            return
        text, images = _tool_result(item)
        words = {"type": "text", "text": f"Result of call {item.call_id}: {text}"}
        self.close_turn()
        self.messages.append({"role": "user", "content": [words, *([] if self._tool_images == "none" else images)]})

    def _add_unapproved(self, item: McpApprovalRequest) -> None:
        answer = self._answers.get(item.id)
        if item.id in self._approved_calls or (answer is not None and answer.approve):
            return  # the call itself is, or will be, another item
        text = NOT_APPROVED_YET if answer is None else rejection_text(answer)
        self._call(item.id, self._shown_name(item), item.arguments, result=(text, []))
        self.close_turn()

    def _shown_name(self, item: McpCall | McpApprovalRequest) -> str:
        """Items carry the bare name; where two servers have a tool of that name, the model knows it by another."""
        labelled = f"{item.server_label}_{item.name}"
        return labelled if item.name not in self._tools and labelled in self._tools else item.name


def _content(parts: tuple[Part, ...]) -> str | list[Json]:
    """Plain text where it is nothing else: not every server takes parts."""
    if not any(isinstance(part, InputImage | InputFile) for part in parts):
        return "\n".join(_words(part) for part in parts)
    return [_chat_part(part) for part in parts]


def _chat_part(part: Part) -> Json:
    match part:
        case InputImage(image_url=str(url)):
            detail = {} if part.detail == "auto" else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
        case InputFile() if part.file_data is not UNSET:
            return {"type": "file", "file": _given(filename=part.filename, file_data=part.file_data)}
        case InputFile() if part.file_id is not UNSET:
            return {"type": "file", "file": {"file_id": part.file_id}}
        case InputImage() | InputFile():
            raise ModelFailed(
                "This model takes images as image_url (an address or a data: url) and files as file_data. "
                "Send the content in that form.",
                code="unsupported_input",
            )
        case _:
            return {"type": "text", "text": _words(part)}


def _words(part: Part) -> str:
    if isinstance(part, Refusal):
        return part.refusal
    return "" if isinstance(part, InputImage | InputFile) else part.text


def _given(**values: object) -> Json:
    return {key: value for key, value in values.items() if value is not UNSET}


def _tool_result(item: FunctionCallOutput) -> tuple[str, list[Json]]:
    return output_text(item), [_chat_part(part) for part in output_media(item)]


def _tool(tool: ToolDefinition) -> Json:
    function: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | Json:
    kind, _, name = choice.partition(":")
    return {"type": "function", "function": {"name": name}} if kind == "name" else choice


def _response_format(text_format: Json | None) -> Json | None:
    if text_format is None or text_format.get("type", "text") == "text":
        return None
    if text_format["type"] != "json_schema":
        return {"type": text_format["type"]}
    schema = {key: text_format[key] for key in ("name", "description", "schema", "strict") if text_format.get(key)}
    return {"type": "json_schema", "json_schema": schema}


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
