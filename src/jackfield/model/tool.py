"""One `Tool`, whatever its source: seed 003's fields, seed 004's metadata, seed 001's kinds.

A tool's identity is (source, name), with the name as its owner spells it. The name that callers use is
given by the catalog, because it must be unique there.
"""

from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field

Seconds = Annotated[float, Meta(gt=0, le=31_622_400)]


class Backoff(Struct, frozen=True, kw_only=True):
    """How the pauses between two looks grow."""

    initial: Seconds = 5
    """Seconds of the first pause."""
    max: Seconds = 30
    """Seconds of the longest pause."""
    multiplier: Annotated[float, Meta(ge=1, le=100)] = 1.5
    """By how much each pause is longer than the one before."""


class StatusPolling(Struct, frozen=True, kw_only=True):
    """Which tool of the same owner says how the work stands, and how often it is asked."""

    status_tool: str
    """The tool that says how the work stands."""
    operation_id_field: str
    """Where the first answer has the work's id."""
    status_tool_id_param: str
    """The argument of the status tool that takes it."""
    poll_interval_seconds: Seconds = 5
    """Seconds between two looks."""
    max_poll_duration_seconds: Seconds = 3600
    """Seconds until the call expires."""
    backoff: Backoff | None = None
    """Pauses that grow, in place of the interval."""

    def pause(self, looks: int) -> float:
        """Seconds to wait after so many looks."""
        if self.backoff is None:
            return self.poll_interval_seconds
        steps = min(looks, 64)  # past that every multiplier above 1 has reached its maximum, and floats end
        return min(self.backoff.initial * self.backoff.multiplier**steps, self.backoff.max)


class CompletionConditions(Struct, frozen=True, kw_only=True):
    """When the work is over, and where its result or its error is."""

    status_field: str
    """Where the status is in the status tool's answer."""
    success_values: tuple[str, ...] = ()
    """Statuses that mean success."""
    failure_values: tuple[str, ...] = ()
    """Statuses that mean failure."""
    pending_values: tuple[str, ...] = ()
    """Statuses that mean that it goes on."""
    error_field: str | None = None
    """Where the error message is."""
    error_details_field: str | None = None
    """Where details of the error are."""
    result_field: str | None = None
    """Where the result is."""


class ProgressTracking(Struct, frozen=True, kw_only=True):
    """Where the status tool's answer says how far the work is."""

    progress_field: str | None = None
    """How far it is."""
    message_field: str | None = None
    """What it does."""
    phase_field: str | None = None
    """Which phase it is in."""
    current_step_field: str | None = None
    """Which step it is at."""
    total_steps_field: str | None = None
    """How many steps there are."""
    estimated_remaining_field: str | None = None
    """How long it may still take."""


class Cancellation(Struct, frozen=True, kw_only=True):
    """Which tool of the same owner stops the work."""

    cancel_tool: str
    """The tool that stops the work."""
    cancel_tool_id_param: str
    """Its argument that takes the work's id."""
    graceful: bool = False
    """Whether the work ends in order."""
    cancel_timeout_seconds: Seconds = 30
    """Seconds that it may take to stop."""


class AsyncBehavior(Struct, frozen=True, kw_only=True):
    """All of it."""

    status_polling: StatusPolling
    """Who is asked how the work stands."""
    completion_conditions: CompletionConditions
    """When it is over."""
    progress_tracking: ProgressTracking | None = None
    """Where its progress is."""
    cancellation: Cancellation | None = None
    """How it is stopped."""


def at_path(value: Any, path: str | None) -> Any:
    """What is at a dotted path; None where there is nothing. An empty path is the value itself."""
    if path is None:
        return None
    for part in path.split(".") if path else ():
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_EXPIRES_IN_MS = 24 * 3_600_000
LONGEST_SECONDS = 366 * 24 * 3600
Milliseconds = Annotated[int, Meta(ge=1, le=LONGEST_SECONDS * 1000)]
"""A time that is set for a tool: more than nothing, and at most a year."""
Expiry = Annotated[int, Meta(ge=0, le=LONGEST_SECONDS * 1000)]
"""How long a call may wait for an answer; 0 means for ever."""

JsonSchema = dict[str, Any]
EMPTY_SCHEMA: JsonSchema = {"type": "object", "properties": {}}

BUILTIN = "builtin"
"""The source of the gateway's own tools."""
CALLER = "caller"
"""The source of tools that the caller of a session lends to its agent."""
PROGRAMS = "programs"
"""The source of `run_program`."""
REQUEST = "request"
"""What the sources of servers that requests bring along begin with; each ends in a digest."""

BUILTIN_NAMES = frozenset(
    {
        "enter_space",
        "leave_space",
        "send_message",
        "read_messages",
        "skip",
        "set_goals",
        "delete_goals",
        "set_memories",
        "delete_memories",
        "set_plans",
        "delete_plans",
        "get_plans",
        "get_memories",
        "peek_inbox",
        "search_tools",
    }
)
"""The tools that every agent has."""

SESSION_TOOLS = frozenset({"session_message", "session_events", "session_end", "caller_tool_response"})
"""The gateway's own tools on `/mcp`, through which callers speak with their sessions."""

READ_RESOURCE = "read_resource"
GET_PROMPT = "get_prompt"

RESERVED_NAMES = BUILTIN_NAMES | SESSION_TOOLS | {READ_RESOURCE, GET_PROMPT}
"""Names that only the gateway's own tools may carry, so that no other tool can stand in for one of them."""


class CallKind(Enum):
    """What a call uses."""

    TOOL = "tool"
    RESOURCE = "resource"
    """A resource is read; the call's `tool` is its URI."""
    PROMPT = "prompt"


class ToolKind(Enum):
    """Who hosts a tool, which decides who runs it (seed 001). Never on the wire."""

    FUNCTION = "function"
    """Handed back to the client that asked; somebody outside executes it."""
    MCP = "mcp"
    """Lives on a connected MCP server; the gateway relays the call."""
    INTERNAL = "internal"
    """Hosted and run by the gateway itself."""

    @property
    def hosted_here(self) -> bool:
        return self is ToolKind.INTERNAL


class ExecutionType(Enum):
    """How a configured tool is answered (seed 003)."""

    GATEWAY = "gateway"
    """An HTTP request to `execution.url`. Without one, a connected tool server answers."""
    EXTERNAL = "external"
    """A connected tool server answers."""
    SPACE = "space"
    """A person answers, in a space."""
    INTERNAL = "internal"
    """Nothing runs; the arguments are the result."""


_ANSWERED_ELSEWHERE = frozenset({ExecutionType.GATEWAY, ExecutionType.EXTERNAL, ExecutionType.SPACE})


class CostEstimate(Enum):
    """Relative cost of one call, for a caller that has to choose."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    VARIABLE = "variable"


class HttpExecution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how a tool's HTTP request goes."""

    url: str
    """Where the request goes."""
    method: str = "POST"
    """GET sends the arguments as the query, others as a JSON body."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    connection: str | None = None
    """The source whose login its requests are made with."""


class Example(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One use of a tool, shown to models and people."""

    description: str = ""
    """What it shows."""
    input: dict[str, Any] = {}
    """The arguments."""
    expected_output: Any = None
    """The result."""


class Metadata(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seed 004's ToolMetadata. Published, and enforced where it limits something."""

    enabled_by_default: bool = True
    """Whether it can be called where no preference says otherwise."""
    requires_approval: bool = False
    """Whether a person has to approve each call."""
    timeout_seconds: Annotated[int, Meta(ge=1, le=LONGEST_SECONDS)] | None = None
    """Seconds that a call may take."""
    rate_limit_per_minute: int | None = None
    """Calls in any 60 seconds; further ones return 429 with `Retry-After`."""
    cost_estimate: CostEstimate | None = None
    """What a call costs of the `budget` of its key."""
    long_running: bool = False
    """Whether a call goes on as `pending` when its timeout is over."""
    idempotent: bool = False
    """Whether a call that was interrupted may be made again."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    examples: tuple[Example, ...] = ()
    """Uses of it, for models and people."""
    modifies_state: bool = False
    """Whether it changes something."""
    sensitive_output: bool = False
    """What it says stays out of logs, events and spaces; only its caller and the record have it."""
    async_behavior: AsyncBehavior | None = None
    """How its work is followed, where a call only starts it."""
    verify: str | None = None
    """The tool that says whether a call of this one took effect, where nobody knows. The operator's to name."""


class Category(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grouping of tools, for people."""

    id: str
    """What tools refer to."""
    name: str
    """What people see."""
    description: str | None = None
    """What its tools do."""
    icon: str | None = None
    """The name of an icon."""


class Tool(Struct, frozen=True, kw_only=True):
    """A named capability with a JSON Schema input."""

    source: str
    name: str
    description: str = ""
    input_schema: JsonSchema = field(default_factory=lambda: dict(EMPTY_SCHEMA))
    output_schema: JsonSchema | None = None
    kind: ToolKind = ToolKind.INTERNAL
    type: str = "function"
    """Seed 001's `type`: `function`, `mcp`, or the name of an internal type."""
    execution_type: ExecutionType | None = None
    execution: HttpExecution | None = None
    visible: bool = False
    is_async: bool = False
    timeout_ms: int | None = None
    expires_in_ms: int | None = None
    category: str | None = None
    metadata: Metadata = Metadata()
    config: dict[str, Any] = {}
    """Options of this tool that its source alone reads (seed 001's `config`)."""
    title: str | None = None
    """A name for people, where its owner gives one."""
    annotations: dict[str, Any] = {}
    """MCP's hints about what it does. Its owner's word, so shown and never trusted."""
    meta: dict[str, Any] = {}
    """What its MCP server says of it in `_meta`, passed on to MCP clients."""
    server: str | None = None
    """Seed 001's `mcp_server`: where a tool of kind `mcp` lives."""
    definition: Raw | None = None
    """A foreign tool's definition exactly as its server gave it."""
    via: tuple[str, ...] = ()
    """The houses that pass it on to us, the nearest first; empty where its owner is no gateway."""
    task_support: Literal["required", "optional", "forbidden"] | None = None
    """Whether its MCP server runs it as a task of 2025-11-25 (`execution.taskSupport`)."""
    is_followable: bool = False
    """Its source can have work begun at its owner and follow it there, whoever began it."""
    operation: CallKind = CallKind.TOOL
    """What a call of it does. Prompts, and resources that are read, go through the pipeline in this shape too."""
    listed: dict[str, Any] = {}
    """A prompt, or a template of resources, as MCP clients are shown it, but for its name. Of a tool only what the
    gateway has no use for and passes on: its icons, for example."""

    @property
    def is_operation(self) -> bool:
        """Whether its calls outlive who made them: begun at its owner, followed by any gateway, pending meanwhile.

        One that a person has to allow is such a call too: where its owner is a gateway, a person there is asked again.
        """
        said = self.metadata
        return self.is_followable and (said.async_behavior is not None or said.long_running or said.requires_approval)

    @property
    def is_for_apps_only(self) -> bool:
        """Whether only an app of its server calls it (MCP Apps), and no model is to see it."""
        visibility = self._ui.get("visibility")
        return isinstance(visibility, list) and "model" not in visibility

    @property
    def is_for_apps(self) -> bool:
        """Whether an app of its server may call it."""
        visibility = self._ui.get("visibility")
        return not isinstance(visibility, list) or "app" in visibility

    @property
    def app_uri(self) -> str | None:
        """The page that shows its calls (MCP Apps): a resource of its own source."""
        uri = self._ui.get("resourceUri", self.meta.get("ui/resourceUri"))
        return uri if isinstance(uri, str) and uri.startswith("ui://") else None

    @property
    def _ui(self) -> dict[str, Any]:
        ui = self.meta.get("ui")
        return ui if isinstance(ui, dict) else {}

    @property
    def answered_by_others(self) -> bool:
        """Whether the result comes later from elsewhere: a tool server, a person in a space, or its owner's work."""
        if self.is_operation or self.source in (CALLER, PROGRAMS):
            return True
        return self.execution is None and self.execution_type in _ANSWERED_ELSEWHERE

    @property
    def is_offered(self) -> bool:
        """Whether somebody takes its calls off the record, and is woken when there is a new one."""
        return self.is_operation or self.is_external or self.source == PROGRAMS

    @property
    def is_external(self) -> bool:
        """Whether connected tool servers answer it. A url answers whatever the type says (seed 003's decision flow)."""
        return self.execution is None and self.execution_type in (ExecutionType.EXTERNAL, ExecutionType.GATEWAY)

    @property
    def deadline_ms(self) -> int:
        """How long one call may take: the tool's own limit, else its metadata's, else 30 s."""
        if self.timeout_ms is not None:
            return self.timeout_ms
        if self.metadata.timeout_seconds is not None:
            return self.metadata.timeout_seconds * 1000
        return DEFAULT_TIMEOUT_MS

    @property
    def pending_ms(self) -> int:
        """How long a call of this tool may wait for somebody's answer before it expires; 0 means for ever."""
        return DEFAULT_EXPIRES_IN_MS if self.expires_in_ms is None else self.expires_in_ms


class ToolDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seed 001's ToolDefinition: how a tool is told to a model. The kind stays inside.

    A model's provider is sent name, description and parameters; `config` and `mcp_server` are for who executes it.
    """

    type: str
    name: str
    description: str = ""
    parameters: JsonSchema | None = None
    """JSON Schema of the arguments; None where it takes none."""
    config: dict[str, Any] = {}
    mcp_server: str | None = None
    strict: bool | None = None


def definition_of(tool: Tool, public_name: str) -> ToolDefinition:
    """The seed-001 form of `tool`, its schema passed on as it is."""
    return ToolDefinition(
        type=tool.type,
        name=public_name,
        description=tool.description,
        parameters=tool.input_schema,
        config=tool.config,
        mcp_server=tool.server,
    )


def openai_function(tool: Tool, public_name: str) -> dict[str, Any]:
    """The form that chat-completions models take."""
    return {
        "type": "function",
        "function": {"name": public_name, "description": tool.description, "parameters": tool.input_schema},
    }
