"""The consumer's side of discovery: which tools are on, which ask first, and how their sources are.

A preference belongs to a key, everywhere or in one chat; chat goes before everywhere, everywhere before the tool's own
metadata. What an administrator says for another key, or for everybody, goes before what a key says for itself.
Names and bodies are those of seed 004's consumer.
Above: `routes.py`. Below: the store for what is kept, the catalog's book for what it means.
"""

import time
from functools import partial
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta, Raw, Struct

from jackfield.catalog.api import Scenario, ToolEntry
from jackfield.catalog.catalog import Entry
from jackfield.catalog.preferences import EVERYBODY, EVERYWHERE, Origin
from jackfield.catalog.transactions import delete_preference, put_preference
from jackfield.errors import BadRequest, Forbidden, NotFound, ToolNotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.model.principal import Principal, Scope
from jackfield.model.times import Time, iso_time
from jackfield.model.tool import Category
from jackfield.settings import RESERVED_SOURCES
from jackfield.sources.supervisor import SourceStatus

REFRESH_WITHIN = 10.0
"""Seconds that a refresh waits for slow sources; they are taken when they answer."""
Chat = Annotated[
    str,
    Meta(
        max_length=255,
        pattern="^[^\\u0000-\\u001f\\u007f]*(?![\\s\\S])",
        description="No control characters; empty: everywhere",
    ),
]
Override = Literal["", "require", "skip"]
Reach = Annotated[Literal["all"], Meta(description="For an administrator: what is said holds for every key")]


class ToolSetQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In which chat, and for an administrator whose."""

    chat_id: Chat = EVERYWHERE
    key: Name | None = None


class EnabledBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Switch a tool on or off."""

    chat_id: Chat | None = None
    scenario: str
    tool_name: str
    enabled: bool
    key: Name | None = None
    scope: Reach | None = None


class ApprovalBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a person is asked first: always, never, or (empty) as the tool itself says."""

    chat_id: Chat | None = None
    scenario: str
    tool_name: str
    approval_override: Override
    key: Name | None = None
    scope: Reach | None = None


class ResetQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which preference to forget."""

    scenario: str
    tool_name: str
    chat_id: Chat = EVERYWHERE
    key: Name | None = None
    scope: Reach | None = None


class EffectiveTool(Struct, frozen=True, kw_only=True):
    """A tool as it stands for a key in a chat, and where each of the two settings comes from."""

    scenario: str
    tool: ToolEntry
    enabled: bool
    source: Origin
    requires_approval: bool
    approval_source: Origin
    approval_override: Override


class ToolSet(Struct, frozen=True, kw_only=True):
    """All tools of a key with its preferences applied."""

    scenarios: list[Scenario]
    tools: list[EffectiveTool]
    categories: list[Category]
    generated_at: Time


class Changed(Struct, frozen=True, kw_only=True):
    """The preference is kept, and this is how the tool stands now."""

    success: Literal[True] = True
    tool: EffectiveTool


class ScenarioState(Struct, frozen=True, kw_only=True):
    """How one source is."""

    scenario: str
    available: bool
    last_checked: Time | None
    tool_count: int
    error: str | None


class Refreshed(Struct, frozen=True, kw_only=True):
    """What there is after every source was read anew. Not a success when one of them could not be."""

    success: bool
    scenarios_count: int
    tools_count: int


class _Effective(Struct, frozen=True, kw_only=True):
    scenario: str
    tool: Raw
    enabled: bool
    source: Origin
    requires_approval: bool
    approval_source: Origin
    approval_override: str


class _ToolSet(Struct, frozen=True, kw_only=True):
    scenarios: list[Scenario]
    tools: list[_Effective]
    categories: tuple[Category, ...]
    generated_at: str


class _Changed(Struct, frozen=True, kw_only=True):
    success: bool = True
    tool: _Effective


_enabled = BodyReader(EnabledBody)
_approval = BodyReader(ApprovalBody)


async def show_tool_set(visit: Request) -> Response:
    """Every tool of the key as it stands in this chat."""
    wanted = visit.query(ToolSetQuery)
    whose = _whose(visit, wanted.key)
    view = visit.gateway.catalog.view(whose)
    tools = [_effective(visit, entry, whose=whose, chat_id=wanted.chat_id) for entry in view.entries]
    sources = dict.fromkeys(tool.scenario for tool in tools)
    return json_response(
        _ToolSet(
            scenarios=[_scenario(visit, name) for name in sources],
            tools=tools,
            categories=view.categories,
            generated_at=iso_time(time.time_ns() // 1_000_000),
        )
    )


async def show_scenarios(visit: Request) -> Response:
    """The state of each source."""
    sanitizer = visit.sanitizer
    return json_response(
        [
            ScenarioState(
                scenario=status.name,
                available=status.status.takes_calls,
                last_checked=None if status.checked_at is None else iso_time(status.checked_at),
                tool_count=status.tools,
                error=None if status.error is None else sanitizer.text(status.error),
            )
            for status in _scenarios(visit)
        ]
    )


async def set_enabled(visit: Request) -> Response:
    """Switch a tool on or off. Whether it asks first stays as it was."""
    body = await _enabled.read(visit)
    meant = _meant(visit, body.key, body.scope, body.chat_id or EVERYWHERE)
    entry = find_tool(visit, meant.whose, body.scenario, body.tool_name)
    await visit.gateway.store.write(partial(put_preference, **meant.row(entry), enabled=body.enabled))
    return await _changed(visit, entry, meant)


async def set_approval(visit: Request) -> Response:
    """Override whether a tool asks first. Whether it is on stays as it was."""
    body = await _approval.read(visit)
    meant = _meant(visit, body.key, body.scope, body.chat_id or EVERYWHERE)
    entry = find_tool(visit, meant.whose, body.scenario, body.tool_name)
    await visit.gateway.store.write(
        partial(put_preference, **meant.row(entry), approval=body.approval_override or None)
    )
    return await _changed(visit, entry, meant)


async def reset_preference(visit: Request) -> Response:
    """Forget both settings; a key that may not answer cannot take away that somebody is asked.

    For another key an administrator forgets what was said for it and what it said itself.
    """
    wanted = visit.query(ResetQuery)
    meant = _meant(visit, wanted.key, wanted.scope, wanted.chat_id)
    entry = find_tool(visit, meant.whose, wanted.scenario, wanted.tool_name)
    store = visit.gateway.store
    if not visit.principal.may(Scope.ANSWER):
        await store.write(partial(put_preference, **meant.row(entry), enabled=None))
        return await _changed(visit, entry, meant)
    await store.write(partial(delete_preference, **meant.row(entry)))
    if meant.by_admin and not meant.for_everybody:
        own = msgspec.structs.replace(meant, by_admin=False)
        await store.write(partial(delete_preference, **own.row(entry)))
    return await _changed(visit, entry, meant)


async def refresh_tools(visit: Request) -> Response:
    """Read every source anew, past every cache."""
    in_time = await visit.gateway.refresh(within=REFRESH_WITHIN)
    all_up = all(status.status.takes_calls for status in visit.gateway.panel.statuses())
    return json_response(
        Refreshed(
            success=in_time and all_up,
            scenarios_count=len(_scenarios(visit)),
            tools_count=len(visit.gateway.catalog.view(visit.principal).entries),
        )
    )


def _whose(visit: Request, key: str | None) -> Principal:
    """The key whose preferences are meant: the asking one, or for an administrator the one it names."""
    principal = visit.principal
    if key is None or key == principal.name:
        return principal
    if not principal.is_admin:
        raise Forbidden(f"Key '{principal.name}' may not act for key '{key}'. Leave 'key' out.", param="key")
    found = visit.gateway.keyring.named(key)
    if found is None:
        raise NotFound(f"There is no key '{key}'. The config's [auth.keys] has those there are.", param="key")
    return found


def find_tool(visit: Request, whose: Principal, scenario: str, tool_name: str) -> Entry:
    """The tool, by its public name or its owner's spelling, as long as the key may see it."""
    known = [entry for entry in visit.gateway.catalog.view(whose).entries if entry.tool.source == scenario]
    if not known:
        raise NotFound(f"There is no scenario '{scenario[:100]}' with tools for this key.", param="scenario")
    for entry in known:
        if tool_name in (entry.name, entry.tool.name):
            return entry
    raise ToolNotFound(f"Scenario '{scenario}' has no tool '{tool_name[:100]}' for this key.", param="tool_name")


class _Row(TypedDict):
    """Which row of the preferences is meant."""

    principal: str
    chat_id: str
    scenario: str
    tool: str
    by_admin: bool


class _Meant(Struct, frozen=True, kw_only=True):
    """Whose preferences are meant, and who speaks."""

    whose: Principal
    chat_id: str
    by_admin: bool = False
    for_everybody: bool = False

    def row(self, entry: Entry) -> _Row:
        return {
            "principal": EVERYBODY if self.for_everybody else self.whose.name,
            "chat_id": self.chat_id,
            "scenario": entry.tool.source,
            "tool": entry.tool.name,
            "by_admin": self.by_admin,
        }


def _meant(visit: Request, key: str | None, scope: str | None, chat_id: str) -> _Meant:
    principal = visit.principal
    if scope is None:
        whose = _whose(visit, key)
        return _Meant(whose=whose, chat_id=chat_id, by_admin=whose.name != principal.name)
    if not principal.is_admin:
        raise Forbidden(
            f"Key '{principal.name}' may not say what holds for every key. Leave 'scope' out.", param="scope"
        )
    if key is not None or chat_id:
        other = "key" if key is not None else "chat_id"
        raise BadRequest(f"'scope': \"all\" means every key, everywhere. Leave '{other}' out.", param=other)
    return _Meant(whose=principal, chat_id=EVERYWHERE, by_admin=True, for_everybody=True)


async def _changed(visit: Request, entry: Entry, meant: _Meant) -> Response:
    await visit.gateway.reload_preferences()
    return json_response(_Changed(tool=_effective(visit, entry, whose=meant.whose, chat_id=meant.chat_id)))


def _effective(visit: Request, entry: Entry, *, whose: Principal, chat_id: str) -> _Effective:
    stands = visit.gateway.preferences.effective(entry, principal=whose.name, chat_id=chat_id or None)
    return _Effective(
        scenario=entry.tool.source,
        tool=Raw(entry.manifest),
        enabled=stands.enabled,
        source=stands.enabled_from,
        requires_approval=stands.requires_approval,
        approval_source=stands.approval_from,
        approval_override=stands.approval_override,
    )


def _scenario(visit: Request, name: str) -> Scenario:
    settings = visit.gateway.settings
    about = visit.gateway.panel.about(name)
    return Scenario(
        name=name,
        version=about.version or settings.scenario.version,
        description=about.description or f"Tools of the source '{name}'",
        base_url=settings.scenario.base_url or settings.url,
    )


def _scenarios(visit: Request) -> list[SourceStatus]:
    """The sources, without those of the gateway's own that have no tools."""
    statuses = visit.gateway.source_statuses()
    return [status for status in statuses if status.tools or status.name not in RESERVED_SOURCES]
