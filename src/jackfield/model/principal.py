"""Who asks, and what they may do.

A key names a principal; its scopes say what the key is good for (contract §3, §14). Checks are pure
functions of the scopes, so every route asks the same question in the same words.
"""

from enum import Enum
from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import Struct


class Scope(Enum):
    """The plain scopes. `worker:`, `agent:` and `session:` carry a name and are parsed apart."""

    ADMIN = "admin"
    """Everything."""
    CALL = "call"
    """Calls tools; holds `read`."""
    READ = "read"
    """Lists tools, reads the records of calls."""
    ANSWER = "answer"
    """Approves, rejects and answers pending calls."""


PERSON = "user:"
"""What the names of people begin with."""
NAMED_SCOPES = ("worker", "agent", "session")


def is_scope(text: str) -> bool:
    """Whether `text` is a scope that a key may carry."""
    kind, _, name = text.partition(":")
    return (kind in NAMED_SCOPES and bool(name)) or text in {scope.value for scope in Scope}


class GroupBook(Protocol):
    """Knows what is in each group of tools now."""

    def patterns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The patterns of all these groups together; of a group that does not exist, none."""
        ...


class GroupLimit(Struct, frozen=True):
    """A limit to what is in these groups, as they are whenever it is asked for: groups change while keys are in use."""

    names: tuple[str, ...]
    book: GroupBook

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.book.patterns(self.names)


class Principal(Struct, frozen=True, kw_only=True):
    """A key's bearer: its name, its scopes, and the tools it is limited to."""

    name: str
    scopes: frozenset[str]
    tools: tuple[str, ...] | None = None
    """Names, globs or `source:*`. None: no limit; an empty list: no tool at all."""
    groups: GroupLimit | None = None
    """The groups of tools that it is limited to, besides `tools`. None: no limit."""
    group: GroupLimit | None = None
    """The one group that this request is about, as at `/mcp/NAME`."""
    agents: tuple[str, ...] | None = None
    """Names and globs of the agents that it may see, trigger and act as. None: no limit."""
    spaces: tuple[str, ...] | None = None
    """Names and globs of the spaces that it may see and speak in. None: no limit."""
    budget: int | None = None
    """Points that its calls may cost within an hour; None: any."""
    title: str | None = None
    """How others are shown it, where that is not by its name: a person's own name."""
    grant: str | None = None
    """The OAuth grant under which it acts, where it does so by a token."""
    owner: str | None = None
    """In whose name its calls are on record, where that is not its own: a session's key acts for who opened it."""

    @property
    def is_limited(self) -> bool:
        """Whether it may use some tools only."""
        return self.tools is not None or self.groups is not None or self.group is not None

    @property
    def limits(self) -> tuple[tuple[str, ...], ...]:
        """Lists of patterns; what it may see and use matches each of them."""
        if not self.is_limited:
            return ()
        groups = (limit.patterns for limit in (self.groups, self.group) if limit is not None)
        return (*(() if self.tools is None else (self.tools,)), *groups)

    def reaches_agent(self, agent: str) -> bool:
        """Whether its `agents` let it have to do with this agent."""
        return self.agents is None or any(fnmatchcase(agent, glob) for glob in self.agents)

    def reaches_space(self, space_id: str) -> bool:
        """Whether its `spaces` let it see this space."""
        return self.spaces is None or any(fnmatchcase(space_id, glob) for glob in self.spaces)

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN.value in self.scopes

    def may(self, scope: Scope) -> bool:
        """Whether the plain scope is held, directly or by a wider one."""
        if scope.value in self.scopes or Scope.ADMIN.value in self.scopes:
            return True
        if scope is Scope.READ:
            return Scope.CALL.value in self.scopes or bool(self.named("agent") or self.named("worker"))
        return scope is Scope.CALL and bool(self.named("agent"))

    def named(self, kind: str) -> tuple[str, ...]:
        """The names behind this principal's `kind:` scopes."""
        prefix = f"{kind}:"
        return tuple(sorted(scope[len(prefix) :] for scope in self.scopes if scope.startswith(prefix)))

    @property
    def session(self) -> str | None:
        """The session whose own key this is, good for nothing else. All its calls are of one run, the session."""
        return next(iter(self.named("session")), None) if len(self.scopes) == 1 else None

    @property
    def on_record(self) -> str:
        """Whose its calls are."""
        return self.owner or self.name

    def may_act_as(self, agent: str) -> bool:
        """Whether a call may be made in this agent's name. A key of one agent acts as that one only."""
        if not self.reaches_agent(agent):
            return False
        agents = self.named("agent")
        return self.is_admin or agent in agents or (not agents and Scope.CALL.value in self.scopes)

    def may_serve(self, tool: str) -> bool:
        """Whether this principal may answer calls of `tool` as a tool server."""
        return self.is_admin or any(fnmatchcase(tool, glob) for glob in self.named("worker"))

    @property
    def only_serves(self) -> bool:
        """A tool server's key: it sees the tools it serves and nothing else."""
        return bool(self.scopes) and all(scope.startswith("worker:") for scope in self.scopes)
