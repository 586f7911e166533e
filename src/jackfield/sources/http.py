"""Tools that are an HTTP request to a url in the config: `[[tools]]` with `executionType = "gateway"`.

Above: the keeper. Below: `http_requests.py` says which request, `outgoing` sends it, and here its answer becomes
an outcome. The config's url names its own host, so it may be on this machine or in a private network; where it
redirects to may not.
"""

from http import HTTPStatus
from typing import ClassVar

import msgspec
from msgspec import Raw

from jackfield.errors import ConfigError
from jackfield.model.call import NULL, Done, Failed, Outcome
from jackfield.model.redaction import CUT, cut
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation, Listing
from jackfield.sources.http_requests import HttpTemplate, Unfillable, message_of, template_of
from jackfield.sources.outgoing import Outgoing, OutgoingError, OutgoingResponse, OutgoingTimedOut

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class HttpSource:
    """The config's HTTP tools."""

    kind: ClassVar[str] = "http"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, tools: tuple[Tool, ...], outgoing: Outgoing) -> None:
        self.name = "http"
        self.max_concurrency: int | None = None
        self._outgoing = outgoing
        self.replace(tools)

    def replace(self, tools: tuple[Tool, ...], *, foreign: frozenset[str] = frozenset()) -> None:
        """From the next refresh on, these are all. `foreign` names those whose url the operator did not write."""
        templates: dict[str, HttpTemplate] = {}
        for tool in tools:
            if tool.name in templates:
                raise ConfigError(f"Two of the [[tools]] are called '{tool.name}'. Rename one of them.")
            templates[tool.name] = template_of(tool)
        self._tools, self._templates, self._foreign = tools, templates, foreign

    async def open(self) -> None:
        """Nothing to do: connections are made when they are needed."""

    async def refresh(self) -> Listing:
        return Listing(tools=self._tools)

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._templates

    async def execute(self, invocation: Invocation) -> Outcome:
        template = self._templates.get(invocation.tool.name)
        if template is None:
            return Failed("tool_not_found", f"There is no HTTP tool '{invocation.tool.name}' in the config.")
        try:
            message = message_of(template, invocation.arguments)
            answer = await self._outgoing.request(
                template.method,
                message.url,
                headers=template.headers,
                params=message.params,
                json=message.json,
                timeout=invocation.timeout_ms / 1000,
                named_by=None if invocation.tool.name in self._foreign else template.url,
            )
        except OutgoingTimedOut:
            return timed_out(invocation)
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, fault.message)
        return outcome_of(answer)

    async def close(self) -> None:
        """Nothing to do: the connections are `Outgoing`'s."""


def outcome_of(answer: OutgoingResponse) -> Outcome:
    """What an HTTP answer means for the call: its JSON, or a failure that says what came instead."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        message = f"HTTP {answer.status}: {_excerpt(answer.content, 200) or phrase_of(answer.status)}"
        return Failed("http_error", message, _error(message))
    return json_outcome(answer)


def json_outcome(answer: OutgoingResponse) -> Done | Failed:
    """The JSON of an answer that says all is well."""
    content = answer.content.removeprefix(_BYTE_ORDER_MARK)
    if not content.strip():
        return Done(NULL)
    try:
        # Into Python values and not into Raw, because only that looks at every string and number.
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = answer.headers.get("content-type", "none")[:80]
        message = f"The answer is not JSON (content type: {kind}); it begins: {_excerpt(content, 80)}"
        return Failed("bad_response", message)
    # On one line, because results travel in formats where a line break ends the message.
    return Done(Raw(msgspec.json.format(content, indent=-1) if b"\n" in content or b"\r" in content else content))


def timed_out(invocation: Invocation) -> Failed:
    """What a call comes to whose answer did not come in time."""
    message = f"Tool timed out after {invocation.timeout_ms}ms"
    return Failed("timeout", message, _error(message, toolCallId=invocation.call_id))


def _error(message: str, **more: str) -> Raw:
    return Raw(msgspec.json.encode({"error": message, **more}))


def _excerpt(content: bytes, length: int) -> str:
    """The beginning of a body as one line of text."""
    beginning = content[: length * 8].decode("utf-8", "replace") + (CUT if len(content) > length * 8 else "")
    return cut(" ".join(beginning.split()), length)


def phrase_of(status: int) -> str:
    """What HTTP calls a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no text"
