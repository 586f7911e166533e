"""May this call be made? One pure function, asked once per call, closed unless everything is clear.

Above: the pipeline. Below: nothing. The order of refusals goes from what the key may not do at all to what waiting or
a person can settle. The answer does not depend on the arguments.
"""

import math
from functools import lru_cache

from msgspec import Struct

from jackfield.catalog.globs import compiled
from jackfield.catalog.limits import HOUR, MINUTE, points_of
from jackfield.catalog.merge import Entry
from jackfield.errors import Forbidden, RateLimited, Refused, ToolDisabled
from jackfield.model.call import Failed, done
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import counted
from jackfield.model.tool import BUILTIN, CALLER, CallKind


class Allow(Struct, frozen=True):
    """Run it."""


class Ask(Struct, frozen=True):
    """A person must allow it first."""

    reason: str


class Deny(Struct, frozen=True):
    """Not carried out; the handler answers with this error."""

    error: Refused


class Refuse(Struct, frozen=True):
    """Not carried out, and the agent is told as the tool's result: it can do something about it and go on."""

    outcome: Failed


Decision = Allow | Ask | Deny | Refuse


def decide(
    entry: Entry,
    *,
    principal: Principal,
    agent: str | None,
    space_id: str | None,
    enabled: bool,
    requires_approval: bool,
    retry_after: float = 0.0,
    affordable_after: float = 0.0,
    is_own: bool = False,
    needs: Scope | None = Scope.CALL,
    off: str | None = None,
) -> Decision:
    """What to do with a call of `entry`.

    `enabled` and `requires_approval` are as they stand for this caller, its preferences applied.
    `retry_after` is what `Limits.take` says of the tool, `affordable_after` what it says of the key's budget; they are
    asked when the decision would be `Allow` or `Ask` without them, so that a refused call costs nothing.
    `is_own`: the tool is the caller's own, so no list of tools has to name it. `needs`: what the key must be allowed.
    `off`: why the tool is off for everybody.
    """
    is_builtin = entry.tool.source == BUILTIN
    acting = agent if is_builtin else acting_agent(principal, agent)
    if entry.tool.operation is not CallKind.TOOL:
        refusal = _reading_refusal(entry, principal=principal, needs=needs, off=off)
    elif is_builtin and agent is None:
        refusal = _builtin_refusal(entry, principal=principal, enabled=enabled, needs=needs, off=off)
    else:
        refusal = _refusal(entry, principal=principal, agent=acting, enabled=enabled, is_own=is_own, off=off)
    if refusal is not None:
        return Deny(refusal)
    if entry.tool.visible and acting is not None and not space_id:
        return Refuse(_no_space(entry.name))
    if not retry_after <= 0:  # also true of NaN, which must not open anything
        return Deny(_too_many(entry, retry_after))
    if not affordable_after <= 0:
        return Deny(_too_dear(entry, principal, affordable_after))
    if requires_approval:
        return Ask(f"Tool '{entry.name}' needs a person's approval before each call.")
    return Allow()


@lru_cache(maxsize=4096)
def acting_agent(principal: Principal, agent: str | None) -> str | None:
    """The agent in whose name a call is made: the one that is named, else the only one that the key can be.

    A key of one agent is that agent whether it says so or not; otherwise leaving `agent` out would be a way around
    the space rule.
    """
    if agent is not None or _calls_as_itself(principal):
        return agent
    agents = principal.named("agent")
    return agents[0] if len(agents) == 1 else None


@lru_cache(maxsize=1024)
def _may_call(principal: Principal) -> bool:
    return principal.may(Scope.CALL)


@lru_cache(maxsize=1024)
def _calls_as_itself(principal: Principal) -> bool:
    return principal.is_admin or Scope.CALL.value in principal.scopes or principal.session is not None


def _refusal(
    entry: Entry,
    *,
    principal: Principal,
    agent: str | None,
    enabled: bool,
    is_own: bool,
    off: str | None,
) -> Refused | None:
    name, tool = entry.name, entry.tool
    if not _may_call(principal) and not (tool.source == CALLER and principal.session is not None):
        return Forbidden(
            f"Key '{principal.name}' may not call tools. Use a key with the scope 'call', or give this one that scope."
        )
    if agent is not None and not principal.may_act_as(agent):
        return Forbidden(
            f"Key '{principal.name}' may not act as agent '{agent}'. Use that agent's own key, or leave the agent out."
        )
    if agent is None and not _calls_as_itself(principal):
        return Forbidden(f"Key '{principal.name}' can act as several agents, so a call has to name one. Add 'agent'.")
    if principal.is_limited and not is_own and (why := _outside(entry, principal)) is not None:
        return Forbidden(why)
    if not enabled:
        return ToolDisabled(off or f"Tool '{name}' is switched off. Enable it before calling it.")
    return None


def _reading_refusal(entry: Entry, *, principal: Principal, needs: Scope | None, off: str | None) -> Refused | None:
    """Of a resource that is to be read, or a prompt."""
    if needs is not None and not principal.may(needs):
        said = f"Key '{principal.name}' may not read resources or prompts."
        return Forbidden(f"{said} Use a key with the scope '{needs.value}'.")
    why = _outside(entry, principal) if principal.is_limited else None
    if why is not None:
        return Forbidden(why)
    return None if off is None else ToolDisabled(off)


def _outside(entry: Entry, principal: Principal) -> str | None:
    """Why this is outside what the key, or this request, is limited to; None where it is inside.

    Plain names in a key's `tools` and in groups mean tools and prompts; a resource is meant by `source:*`.
    """
    key, source, operation = principal.name, entry.tool.source, entry.tool.operation
    name = "" if operation is CallKind.RESOURCE else entry.name

    def has(patterns: tuple[str, ...]) -> bool:
        return compiled(patterns).match(name, source=source, foreign=entry.tool.name)

    verb = "call" if operation is CallKind.TOOL else "read"
    said = f"Key '{key}' may not {verb} '{entry.name}'"
    if principal.tools is not None and not has(principal.tools):
        what = "the tool" if operation is CallKind.TOOL else f"'{source}:*'"
        return f"{said}. Add {what} to auth.keys.{key}.tools."
    if principal.groups is not None and not has(principal.groups.patterns):
        return f"{said}: no group in auth.keys.{key}.groups has it. Add one that has."
    if principal.group is not None and not has(principal.group.patterns):
        return f"'{entry.name}' is not in the group '{principal.group.names[0]}'. Use /mcp, or add it to the group."
    return None


def _builtin_refusal(
    entry: Entry, *, principal: Principal, enabled: bool, needs: Scope | None, off: str | None
) -> Refused | None:
    """Of a key that uses one of the gateway's own tools itself."""
    if needs is not None and not principal.may(needs):
        said = f"Key '{principal.name}' may not use '{entry.name}'."
        return Forbidden(f"{said} Use a key with the scope '{needs.value}'.")
    if enabled:
        return None
    return ToolDisabled(off or f"Tool '{entry.name}' is switched off. Enable it before calling it.")


def _no_space(name: str) -> Failed:
    text = f'Tool "{name}" is visible but you are not in a space. Call enter_space first.'
    return Failed(code="no_space", message=text, result=done({"error": text}).result)


def _too_dear(entry: Entry, principal: Principal, affordable_after: float) -> RateLimited:
    cost = entry.tool.metadata.cost_estimate
    seconds = min(affordable_after, HOUR)
    cure = (
        f"Try again in {math.ceil(seconds)} s, or raise" if affordable_after <= HOUR else "No hour has so much. Raise"
    )
    return RateLimited(
        f"Tool '{entry.name}' costs {points_of(cost)} points ({cost.value if cost else 'none'}), more than is left of "
        f"the {principal.budget} that key '{principal.name}' has an hour. {cure} auth.keys.{principal.name}.budget.",
        retry_after=seconds,
    )


def _too_many(entry: Entry, retry_after: float) -> RateLimited:
    seconds = min(retry_after, MINUTE) if retry_after > 0 else MINUTE
    if entry.tool.operation is not CallKind.TOOL:
        return RateLimited(
            f"Source '{entry.tool.source}' takes no more reads this minute. Try again in {math.ceil(seconds)} s, or "
            f"raise sources.{entry.tool.source}.rate_limit_per_minute.",
            retry_after=seconds,
        )
    return RateLimited(
        f"Tool '{entry.name}' takes {counted(entry.tool.metadata.rate_limit_per_minute or 0, 'call')} a minute. "
        f"Try again in {math.ceil(seconds)} s.",
        retry_after=seconds,
    )
