"""The promise of a source. Above: `supervisor.py` and the catalog. Below: whatever the tools live in.

To add a kind: write a class with these methods, then name its factory in `sources/kinds.py`, or from
another package in the entry-point group `jackfield.sources`.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Raw, Struct, field

from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.items import Item
from jackfield.model.principal import Principal
from jackfield.model.resource import Resource
from jackfield.model.skill import Skill
from jackfield.model.tool import CallKind, Category, Tool, ToolKind
from jackfield.protocol.records import LogNote as LogNote  # noqa: PLC0414 - part of the promise to plug-ins
from jackfield.protocol.records import Progress as Progress  # noqa: PLC0414
from jackfield.sources.authorization import NoLogins, SourceLogins
from jackfield.sources.client import CANCELLED, AskClient, CallerClient
from jackfield.sources.client import ElicitAnswer as ElicitAnswer  # noqa: PLC0414
from jackfield.sources.client import ElicitRequest as ElicitRequest  # noqa: PLC0414
from jackfield.sources.kept_listings import KeptListings
from jackfield.sources.logs import SourceLogs
from jackfield.store.scripts import Script
from jackfield.workers.host import WorkerHost
from jackfield.workers.supervisor import Supervisor


class About(Struct, frozen=True, kw_only=True):
    """What a service says of itself."""

    version: str = ""
    description: str = ""
    instructions: str = ""
    """How its tools are used, for a model."""


class Unoffered(Struct, frozen=True, kw_only=True):
    """Tools that a source knows of and cannot offer, by their names as far as these are known."""

    names: tuple[str, ...] = ()
    why: str
    """For whoever calls one of them: what is wrong, to what, and what to do."""
    is_broken: bool = False
    """Something of the operator's own has to be mended: the source is shown as faulty."""


class Listing(Struct, frozen=True, kw_only=True):
    """What a source offers at one moment, and what is wrong with the parts it cannot offer."""

    tools: tuple[Tool, ...] = ()
    categories: tuple[Category, ...] = ()
    prompts: tuple[Tool, ...] = ()
    """Tools with the operation `prompt`."""
    resources: tuple[Resource, ...] = ()
    templates: tuple[Tool, ...] = ()
    """Tools with the operation `resource`, named by their URI templates."""
    reads_unlisted: bool = False
    """Whether URIs that it does not list can be read too."""
    read_timeout_ms: int | None = None
    """How long one read may take; None: as long as a call."""
    skills: tuple[Skill, ...] = ()
    skills_unlisted: bool = False
    """Whether it can be asked for skills that it does not list, and for those it lists as they are now."""
    reads_directories: bool = False
    """Whether it can be asked what a directory has."""
    login_needed: str | None = None
    """What it offers now is shown after a login only, which there is not: this is its last known list. A sentence."""
    faults: tuple[str, ...] = ()
    """One sentence each: which file or tool, what is wrong, what to do."""
    unoffered: tuple[Unoffered, ...] = ()
    """What calls of tools that are not offered are told; `faults` has the same for people."""
    about: About | None = None
    """Who offers them, where that is a service of its own."""
    accepts_changes: bool = False
    """Whoever declares these tools may declare them anew: a changed definition is not held."""


class TaskUse(Enum):
    """Whether a call may go on as a task: at its owner after the caller was answered."""

    NEVER = "never"
    """The caller gets the result, or an error that says what it lacks."""
    REQUIRED = "required"
    """Only where its owner has no other way; the call is pending then."""
    PREFERRED = "preferred"
    """Wherever its owner wants to: the caller follows tasks."""
    AT_ONCE = "at_once"
    """The caller has asked for a task and does not wait for anything."""

    @property
    def is_followed(self) -> bool:
        """Whether the caller knows tasks, and a call that waits is one."""
        return self in (TaskUse.PREFERRED, TaskUse.AT_ONCE)


def _trace_nothing(_: str) -> None:
    """Where nobody keeps tracebacks."""


def _is_never_followed(_: str) -> bool:
    return False


def _note_nothing(_: LogNote) -> None:
    return


def _no_cluster() -> str:
    return ""


def _hold_nothing(_: float) -> AbstractContextManager[None]:
    return nullcontext()


class Invocation(Struct, frozen=True, kw_only=True):
    """One checked call, as a source is given it."""

    call_id: str
    run_id: str
    tool: Tool
    arguments: dict[str, Any]
    principal: str
    agent: str | None = None
    space_id: str | None = None
    timeout_ms: int
    report: Callable[[Progress], None]
    """Tells whoever follows the call how far it is. Never blocks."""
    is_followed: Callable[[str], bool] = _is_never_followed
    """Whether anybody follows the call of this id now; then its progress is worth some effort."""
    hold: Callable[[float], AbstractContextManager[None]] = _hold_nothing
    """`with hold(seconds)`: the deadline stands still, for at most so long: what happens now is not the tool's work."""
    note: Callable[[LogNote], None] = _note_nothing
    """Tells whoever follows the call what its server says. Never blocks."""
    ask: AskClient | None = None
    """Asks the client behind the call, and for a question somebody, if that client cannot; None: nobody is there."""
    client: CallerClient | None = None
    """The MCP client that made the call, if one did."""
    config: dict[str, Any] = {}
    """Options of this call: the tool's own, and over them those of a request that names the tool's type."""
    trace: Callable[[str], None] = _trace_nothing
    """Takes a traceback of the tool's own code, for the gateway's operator and nobody else. From any thread."""
    caller: Principal | None = None
    """Who calls, with all that the key may do: for the gateway's own tools."""
    tasks: TaskUse = TaskUse.REQUIRED
    """Whether `execute` may answer with `Begun`."""

    async def elicit(self, question: ElicitRequest) -> ElicitAnswer:
        """Ask the person behind the call. Where nobody can be asked, they have closed the form."""
        if self.ask is None:
            return CANCELLED
        (answer,) = await self.ask((question,))
        return answer if isinstance(answer, ElicitAnswer) else CANCELLED


class InTransaction(Struct, frozen=True):
    """The work of a built-in tool, as a script for the transaction that records the call: both happen or neither.

    It is given whatever the step that runs it has to say of itself.
    """

    script: Callable[[Any], Script[Done | Failed]]


class Source(Protocol):
    """One place that tools come from."""

    name: str
    """The key in the config; tools carry it."""
    kind: ClassVar[str]
    """What sort of place: `files`, `http`, …"""
    tool_kind: ClassVar[ToolKind]
    """Seed 001: which kind of tools this source executes."""
    max_concurrency: int | None
    """How many calls it takes at once; None means as many as come."""
    # A source whose requests are made with `SourceContext.logins` has `uses_login = True` besides.

    async def open(self) -> None:
        """Make ready (connect, build an index). Raises to say that the source is down; retried later."""

    async def refresh(self) -> Listing:
        """Read the tools anew."""

    async def execute(self, invocation: Invocation) -> "Outcome | InTransaction | Begun":
        """Run one call. A failing tool is a `Failed`, not an exception; cancellation stops the work.

        A built-in tool of agents may hand back a script for the transaction of the step that made the call. A source
        whose work goes on at its owner (`OperatingSource`) may hand back what finds it again.
        """

    def can_execute(self, tool: Tool) -> bool:
        """Whether `execute` would take a call of this tool."""

    async def close(self) -> None:
        """Free what `open` took. Called once, also after a failed `open`."""


@runtime_checkable
class TalkativeSource(Protocol):
    """A source that can say more of itself than that it is up or down."""

    @property
    def open_seconds(self) -> float:
        """How long its next `open` and first `refresh` may take."""

    def doing(self) -> str | None:
        """What it is busy with while it is not up, in a sentence for its operator."""

    def broken(self) -> tuple[str, ...]:
        """Parts that turned out not to work when they were used, each in a sentence for its operator."""

    def last_words(self) -> tuple[str, ...]:
        """The newest lines that its process said on stderr, or of requests that failed. Without secrets."""


class CompletionRequest(Struct, frozen=True, kw_only=True):
    """Asks for values that an argument of a prompt or of a template may have."""

    operation: CallKind
    name: str
    """The prompt's, or the URI template, as its owner spells it."""
    argument: dict[str, Any]
    """MCP's `argument`: `name` and the `value` so far."""
    context: dict[str, Any] | None = None
    principal: str = ""
    """Who asks."""


NO_COMPLETION = Raw(b'{"completion":{"values":[],"total":0,"hasMore":false}}')


@runtime_checkable
class CompletingSource(Protocol):
    """A source that suggests values for arguments."""

    async def complete(self, request: CompletionRequest) -> Raw:
        """MCP's result: `{"completion": {…}}`. Raises `SourceUnavailable` or `RpcError`."""


Updated = Callable[[str], None]
"""Told the URI, as its source names it, of a resource that changed. Never blocks."""


@runtime_checkable
class SubscribableSource(Protocol):
    """A source whose resources can be followed."""

    async def subscribe(self, uri: str, updated: Updated, *, principal: str) -> None:
        """Have `updated` called when the resource changes, which `principal` may read.

        Raises `SourceUnavailable`, `LoginNeeded` or `RpcError`.
        """

    def unsubscribe(self, uri: str, updated: Updated, *, principal: str) -> None:
        """End that. Never blocks."""


@runtime_checkable
class SkillSource(Protocol):
    """A source that is asked for skills and directories, because it does not list all of them."""

    async def skill(self, uri: str, *, principal: str) -> Skill | None:
        """The skill with this `SKILL.md` as it is now; None: there is none.

        Raises `SourceUnavailable` or `LoginNeeded`.
        """

    async def directory(self, uri: str, cursor: str | None, *, principal: str) -> Raw:
        """MCP's result of `resources/directory/read`. Raises `SourceUnavailable`, `LoginNeeded` or `RpcError`."""


@runtime_checkable
class LoginSource(Protocol):
    """A source that keeps something of its callers' logins, such as a connection for each."""

    def login_changed(self, principal: str | None, *, is_over: bool) -> None:
        """This principal's login there was made anew or has ended; None: the one for all. Never blocks."""


class Begun(Struct, frozen=True):
    """Work was begun and goes on at the tool's owner."""

    reference: Raw
    """What its source needs to ask for it again, in any process."""


class Look(Struct, frozen=True, kw_only=True):
    """How work that goes on elsewhere stands."""

    outcome: Done | Failed | None = None
    """None: it goes on."""
    progress: Progress | None = None
    message: str | None = None
    """How it stands, in its owner's words."""
    questions: tuple[ElicitRequest, ...] = ()
    """What its owner wants to know before it goes on, each under a key of its own."""
    pause: float | None = None
    """Seconds after which its owner wants to be asked again."""


@runtime_checkable
class OperatingSource(Protocol):
    """A source with tools whose calls outlive whoever made them (`Tool.is_operation`).

    Each of these raises `SourceUnavailable` when the owner could not be asked; it is asked again later.
    """

    async def begin(self, invocation: Invocation) -> Done | Failed | Begun:
        """Have the work begun; what is over at once has its outcome."""

    async def look(self, invocation: Invocation, reference: Raw) -> Look:
        """How the work stands. A `JackfieldError` that is no refusal: the owner's answer made no sense."""

    async def halt(self, invocation: Invocation, reference: Raw) -> None:
        """Have the work stopped, where its owner can."""

    def begins_once(self, tool: Tool) -> bool:
        """Whether the same call, begun a second time, is known as the same and not carried out twice."""


@runtime_checkable
class AskingSource(OperatingSource, Protocol):
    """A source whose work may ask questions while it goes on (`Look.questions`)."""

    async def answer(self, invocation: Invocation, reference: Raw, answers: dict[str, ElicitAnswer]) -> None:
        """Give answers to what the work asked, by their keys. The same answer may be given twice."""


class ToolCaller(Protocol):
    """How a tool of a file calls another tool of the catalog, in the name of its own caller.

    `within`: globs of the tools that it may call; None: no limit.
    """

    def __call__(
        self, name: str, arguments: dict[str, Any], *, parent: Invocation, within: tuple[str, ...] | None = None
    ) -> Awaitable[Outcome]: ...


class ModelAsker(Protocol):
    """How tools and servers ask a model: what it says next, as text. Raises what the model's failure says."""

    async def __call__(
        self, items: tuple[Item, ...], *, instructions: str | None, model: str | None, max_output_tokens: int | None
    ) -> str: ...


class SourceContext(Struct, frozen=True, kw_only=True):
    """What the gateway lends to its sources."""

    folder: Path
    """The config's folder: relative paths start here."""
    data: Path
    """The gateway's own folder, for caches and environments."""
    changed: Callable[[str], None]
    """`changed(source_name)`: please refresh me soon. From the event loop only."""
    secret: Callable[[str], str | None]
    """The value of a secret by name: environment, then the secrets file. Asked at execution, never kept."""
    config: Callable[[], dict[str, Any]]
    """The gateway's settings with every secret left out, for in-process tools."""
    registry: Callable[[], list[dict[str, Any]]]
    """The catalog's manifest entries as they are now, for in-process tools."""
    call_tool: ToolCaller
    ask_model: ModelAsker
    outgoing: Any
    """The guarded HTTP client (`outgoing.Outgoing`)."""
    worker_host: WorkerHost
    """Where processes are started and watched."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What sources of one kind have in common, by a name of that kind's own."""
    logs: SourceLogs = field(default_factory=SourceLogs)
    """Takes what servers say outside any call."""
    logins: SourceLogins = field(default_factory=NoLogins)
    """The logins with which sources make their requests."""
    kept: KeptListings = field(default_factory=KeptListings)
    """What sources whose lists are hidden before a login listed last."""
    cluster_id: Callable[[], str] = _no_cluster
    """What other gateways know this one, and all that share its database, by."""

    @property
    def supervisor(self) -> Supervisor:
        return self.worker_host.supervisor


Factory = Callable[[str, dict[str, Any], SourceContext], Source]
"""`factory(name, options, surroundings)`: options are the source's own keys from the config, checked by it."""
