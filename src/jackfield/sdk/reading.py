"""`client.resources` and `client.prompts`: what the gateway's sources offer to be read, and their prompts."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, segment, send_json
from jackfield.sdk.errors import GatewayFault, outcome_of
from jackfield.sdk.tools import merge_arguments
from jackfield.sdk.types import CallAnswer

T = TypeVar("T")
PAGE_SIZE = 1_000
PENDING = 202


class ResourceInfo(Struct, frozen=True, kw_only=True):
    """Something that can be read."""

    uri: str
    source: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = field(default=None, name="mimeType")
    size: int | float | None = None
    """In bytes, where its source says so."""
    annotations: dict[str, Any] | None = None


class ResourceTemplateInfo(Struct, frozen=True, kw_only=True):
    """A template (RFC 6570) of URIs that can be read."""

    uri_template: str = field(name="uriTemplate")
    source: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = field(default=None, name="mimeType")


class ResourceContents(Struct, frozen=True, kw_only=True):
    """One part of what was read: text, or bytes in base64."""

    uri: str = ""
    mime_type: str | None = field(default=None, name="mimeType")
    text: str | None = None
    blob: str | None = None

    @property
    def data(self) -> bytes:
        """The part as bytes; text in UTF-8. Raises `GatewayFault` for a blob that is not base64."""
        if self.text is not None:
            return self.text.encode()
        try:
            return base64.b64decode(self.blob or "", validate=True)
        except binascii.Error as fault:
            raise GatewayFault(f"The resource '{self.uri}' is not valid base64: {fault}. Ask its owner.") from None


class PromptArgument(Struct, frozen=True, kw_only=True):
    """An argument of a prompt. Its value is a string."""

    name: str
    description: str | None = None
    required: bool = False


class PromptInfo(Struct, frozen=True, kw_only=True):
    """A prompt with the arguments that it takes."""

    name: str
    source: str = ""
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(Struct, frozen=True, kw_only=True):
    """One message of a prompt. `content` is MCP's: text, an image, audio, a resource or a link."""

    role: str
    content: dict[str, Any]

    @property
    def text(self) -> str:
        """Its text; empty for content of another type."""
        return str(self.content.get("text", "")) if self.content.get("type") == "text" else ""


class PromptResult(Struct, frozen=True, kw_only=True):
    """A prompt with its arguments filled in."""

    messages: tuple[PromptMessage, ...]
    description: str | None = None


class _Page(Struct, frozen=True, kw_only=True):
    resources: tuple[ResourceInfo, ...]
    next_cursor: str | None = None


class Resources:
    """The resources that this key may read."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self, *, group: str | None = None) -> tuple[ResourceInfo, ...]:
        """Every resource, by URI, page after page; with `group`, those of one group."""
        found: list[ResourceInfo] = []
        cursor: str | None = None
        while True:
            params = {"limit": PAGE_SIZE, "cursor": cursor, "group": group}
            page = await self._connection.fetch(get("/api/v1/resources", params), _Page)
            found += page.resources
            if page.next_cursor is None or page.next_cursor == cursor:
                return tuple(found)
            cursor = page.next_cursor

    async def templates(self, *, group: str | None = None) -> tuple[ResourceTemplateInfo, ...]:
        """Every template of resources."""
        request = get("/api/v1/resources/templates", {"group": group})
        return await self._connection.fetch(request, tuple[ResourceTemplateInfo, ...], "resourceTemplates")

    async def read(
        self, uri: str, *, group: str | None = None, timeout: float | None = None
    ) -> tuple[ResourceContents, ...]:
        """What a resource holds, whole. Raises `ResourceNotFound`, or `UpstreamFailed` in its server's words.

        `timeout` (seconds) ends the waiting, not the read.
        """
        request = get("/api/v1/resources/read", {"uri": uri, "group": group})
        return await _read(self._connection, request, uri, tuple[ResourceContents, ...], "contents", timeout)


class Prompts:
    """The prompts that this key may get."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self, *, group: str | None = None) -> tuple[PromptInfo, ...]:
        """Every prompt, by name; with `group`, those of one group."""
        request = get("/api/v1/prompts", {"group": group})
        return await self._connection.fetch(request, tuple[PromptInfo, ...], "prompts")

    async def get(self, name: str, /, arguments: Mapping[str, str] | None = None, **kwargs: str) -> PromptResult:
        """A prompt with its arguments, as a mapping, keywords, or both.

        Raises `PromptNotFound`, `InvalidArguments`, or `UpstreamFailed` in its server's words.
        """
        body = {"arguments": merge_arguments(arguments, kwargs)}
        request = send_json("POST", f"/api/v1/prompts/{segment(name)}", given(body))
        return await _read(self._connection, request, name, PromptResult, None, None)


async def _read(  # noqa: PLR0917 - one request, and how its response is read
    connection: GatewayConnection, request: ApiRequest, name: str, into: type[T], key: str | None, timeout: float | None
) -> T:
    """The response; a call that waits for somebody's answer raises `CallPending`."""
    response = await connection.send_long(request, timeout=timeout)
    if response.status_code == PENDING:
        outcome_of(name, connection.decode(response.content, CallAnswer))
    return connection.decode(response.content, into, key)
