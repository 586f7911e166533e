"""The plain tables of the config: what may stand in each, and what it means when it does not.

Above: `loading.py`. Below: the model's words.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from jackfield.model.large_result import LARGE_RESULT

MAX_BODY = 32 * 1024 * 1024


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`"""

    host: str = "127.0.0.1"
    port: int = 8420
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    max_body: int = MAX_BODY


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`; `keep` is in days, `large_result` in bytes, above which a result is kept apart (0: none is)."""

    url: str | None = None
    keep: float = 30
    large_result: Annotated[int, Meta(ge=0)] = LARGE_RESULT


class ResponsesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[responses]`: how far one response may go; `timeout` is in seconds, for all of it."""

    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    timeout: Annotated[float, Meta(gt=0)] = 600
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    """How often a step is asked again whose model failed before it had said anything."""
    event_names: Literal["openai", "open-responses"] = "openai"
    """Whose names the events of a stream have, unless the request says so."""
    unknown_tools: Literal["ignore", "refuse"] = "ignore"
    """What becomes of tools in a request that another provider would run and this gateway has not."""


class KeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.keys.NAME]`; `tools` limits what the key sees: names, globs or `source:*`, and an empty list is none."""

    key: str
    scopes: tuple[str, ...] = ("call",)
    tools: tuple[str, ...] | None = None
    budget: Annotated[int, Meta(ge=0)] | None = None
    """Points that its calls may cost within an hour: 1 for `low`, 5 for `medium` and `variable`, 25 for `high`."""


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth]`"""

    keys: dict[str, KeySettings] = {}
    admin_key: bool = True
    """Whether the key in the data folder's `admin.key` stays valid beside these."""


class OutgoingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[outgoing]`: addresses that requests to foreign urls may reach although they are not public."""

    allow: tuple[str, ...] = ()


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`: how the catalog is shown to MCP clients."""

    search_tools_above: Annotated[int, Meta(ge=0)] = 0
    """Catalogs with more tools than this are searched, not listed; 0: always listed."""


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[console]`: a folder of JavaScript modules that bring components for tools of one's own."""

    tools: str | None = None
