"""The consumer's side of discovery: which tools are on, which ask first, and how their sources are.

A preference belongs to a key, everywhere or in one chat; chat goes before everywhere, everywhere before the tool's own
metadata. What an administrator says for another key, or for everybody, goes before what a key says for itself.
Names and bodies are those of seed 004's consumer.
Below: the store for what is kept, `preferences.py` for what it means.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.preferences import EVERYBODY, EVERYWHERE, Origin, PreferenceBook
from jackfield.catalog.records import Scenario, ToolEntry
from jackfield.catalog.switches_api import SwitchRecord, off_record
from jackfield.catalog.transactions import delete_preference, put_preference
from jackfield.catalog.view import View
from jackfield.errors import BadRequest, Forbidden, NotFound, ToolNotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import Time, iso_time
from jackfield.model.tool import Category
from jackfield.settings import RESERVED_SOURCES, Settings
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceStatus
from jackfield.store import Store

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
Refresh = Callable[[float], Awaitable[bool]]
"""Reads every source anew, within so many seconds; False: one did not answer in time."""
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
    """A tool as it stands for a key in a chat, and where each of the two settings comes from.

    `switched_off`: what an administrator has switched off for everybody: the tool, its source, or the key.
    """

    scenario: str
    tool: ToolEntry
    enabled: bool
    source: Origin
    requires_approval: bool
    approval_source: Origin
    approval_override: Override
    switched_off: SwitchRecord | UnsetType = UNSET


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
    switched_off: SwitchRecord | UnsetType = UNSET


class _ToolSet(Struct, frozen=True, kw_only=True):
    scenarios: list[Scenario]
    tools: list[_Effective]
    categories: tuple[Category, ...]
    generated_at: str


class _Changed(Struct, frozen=True, kw_only=True):
    success: bool = True
    tool: _Effective


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


_enabled = BodyReader(EnabledBody)
_approval = BodyReader(ApprovalBody)


class PreferencesApi:
    """Handlers of the consumer's side of discovery."""

    def __init__(
        self,
        preferences: PreferenceBook,
        *,
        catalog: Catalog,
        store: Store,
        sources: SourceRegistry,
        settings: Settings,
        find_key: Callable[[str], Principal | None],
        refresh: Refresh,
        statuses: Callable[[], list[SourceStatus]],
    ) -> None:
        self._preferences = preferences
        self._catalog = catalog
        self._store = store
        self._sources = sources
        self._settings = settings
        self._find_key = find_key
        self._refresh = refresh
        self._statuses = statuses

    async def show_tool_set(self, request: Request) -> Response:
        """Every tool of the key as it stands in this chat."""
        wanted = request.query(ToolSetQuery)
        whose = self._whose(request, wanted.key)
        view = self._catalog.view(whose)
        tools = [self._effective(entry, whose=whose, chat_id=wanted.chat_id) for entry in view.entries]
        sources = dict.fromkeys(tool.scenario for tool in tools)
        return json_response(
            _ToolSet(
                scenarios=[self._scenario(name) for name in sources],
                tools=tools,
                categories=view.categories,
                generated_at=iso_time(time.time_ns() // 1_000_000),
            )
        )

    async def show_scenarios(self, request: Request) -> Response:
        """The state of each source."""
        sanitizer = request.sanitizer
        return json_response(
            [
                ScenarioState(
                    scenario=status.name,
                    available=status.status.takes_calls,
                    last_checked=None if status.checked_at is None else iso_time(status.checked_at),
                    tool_count=status.tools,
                    error=None if status.error is None else sanitizer.text(status.error),
                )
                for status in self._scenarios()
            ]
        )

    async def set_enabled(self, request: Request) -> Response:
        """Switch a tool on or off. Whether it asks first stays as it was."""
        body = await _enabled.read(request)
        meant = self._meant(request, body.key, body.scope, body.chat_id or EVERYWHERE)
        entry = find_tool(self._catalog.view(meant.whose), body.scenario, body.tool_name)
        await self._store.write(partial(put_preference, **meant.row(entry), enabled=body.enabled))
        return await self._changed(entry, meant)

    async def set_approval(self, request: Request) -> Response:
        """Override whether a tool asks first. Whether it is on stays as it was."""
        body = await _approval.read(request)
        meant = self._meant(request, body.key, body.scope, body.chat_id or EVERYWHERE)
        entry = find_tool(self._catalog.view(meant.whose), body.scenario, body.tool_name)
        await self._store.write(partial(put_preference, **meant.row(entry), approval=body.approval_override or None))
        return await self._changed(entry, meant)

    async def reset_preference(self, request: Request) -> Response:
        """Forget both settings; a key that may not answer cannot take away that somebody is asked.

        For another key an administrator forgets what was said for it and what it said itself.
        """
        wanted = request.query(ResetQuery)
        meant = self._meant(request, wanted.key, wanted.scope, wanted.chat_id)
        entry = find_tool(self._catalog.view(meant.whose), wanted.scenario, wanted.tool_name)
        if not request.principal.may(Scope.ANSWER):
            await self._store.write(partial(put_preference, **meant.row(entry), enabled=None))
            return await self._changed(entry, meant)
        await self._store.write(partial(delete_preference, **meant.row(entry)))
        if meant.by_admin and not meant.for_everybody:
            own = msgspec.structs.replace(meant, by_admin=False)
            await self._store.write(partial(delete_preference, **own.row(entry)))
        return await self._changed(entry, meant)

    async def refresh_tools(self, request: Request) -> Response:
        """Read every source anew, past every cache."""
        in_time = await self._refresh(REFRESH_WITHIN)
        all_up = all(status.status.takes_calls for status in self._sources.statuses())
        return json_response(
            Refreshed(
                success=in_time and all_up,
                scenarios_count=len(self._scenarios()),
                tools_count=len(self._catalog.view(request.principal).entries),
            )
        )

    def _whose(self, request: Request, key: str | None) -> Principal:
        """The key whose preferences are meant: the asking one, or for an administrator the one it names."""
        principal = request.principal
        if key is None or key == principal.name:
            return principal
        if not principal.is_admin:
            raise Forbidden(f"Key '{principal.name}' may not act for key '{key}'. Leave 'key' out.", param="key")
        found = self._find_key(key)
        if found is None:
            raise NotFound(f"There is no key '{key}'. The config's [auth.keys] has those there are.", param="key")
        return found

    def _meant(self, request: Request, key: str | None, scope: str | None, chat_id: str) -> _Meant:
        principal = request.principal
        if scope is None:
            whose = self._whose(request, key)
            return _Meant(whose=whose, chat_id=chat_id, by_admin=whose.name != principal.name)
        if not principal.is_admin:
            raise Forbidden(
                f"Key '{principal.name}' may not say what holds for every key. Leave 'scope' out.", param="scope"
            )
        if key is not None or chat_id:
            other = "key" if key is not None else "chat_id"
            raise BadRequest(f"'scope': \"all\" means every key, everywhere. Leave '{other}' out.", param=other)
        return _Meant(whose=principal, chat_id=EVERYWHERE, by_admin=True, for_everybody=True)

    async def _changed(self, entry: Entry, meant: _Meant) -> Response:
        await self._preferences.reload(self._store)
        return json_response(_Changed(tool=self._effective(entry, whose=meant.whose, chat_id=meant.chat_id)))

    def _effective(self, entry: Entry, *, whose: Principal, chat_id: str) -> _Effective:
        stands = self._preferences.effective(entry, principal=whose.name, chat_id=chat_id or None)
        return _Effective(
            scenario=entry.tool.source,
            tool=Raw(entry.manifest),
            enabled=stands.enabled,
            source=stands.enabled_from,
            requires_approval=stands.requires_approval,
            approval_source=stands.approval_from,
            approval_override=stands.approval_override,
            switched_off=UNSET if stands.off is None else off_record(stands.off),
        )

    def _scenario(self, name: str) -> Scenario:
        settings = self._settings
        about = self._sources.about(name)
        return Scenario(
            name=name,
            version=about.version or settings.scenario.version,
            description=about.description or f"Tools of the source '{name}'",
            base_url=settings.scenario.base_url or settings.url,
        )

    def _scenarios(self) -> list[SourceStatus]:
        """The sources, without those of the gateway's own that have no tools."""
        statuses = self._statuses()
        return [status for status in statuses if status.tools or status.name not in RESERVED_SOURCES]


def find_tool(view: View, scenario: str, tool_name: str) -> Entry:
    """The tool, by its public name or its owner's spelling, as long as the key may see it."""
    known = [entry for entry in view.entries if entry.tool.source == scenario]
    if not known:
        raise NotFound(f"There is no scenario '{scenario[:100]}' with tools for this key.", param="scenario")
    for entry in known:
        if tool_name in (entry.name, entry.tool.name):
            return entry
    raise ToolNotFound(f"Scenario '{scenario}' has no tool '{tool_name[:100]}' for this key.", param="tool_name")


def routes(
    preferences: PreferenceBook,
    *,
    catalog: Catalog,
    store: Store,
    sources: SourceRegistry,
    settings: Settings,
    find_key: Callable[[str], Principal | None],
    refresh: Refresh,
    statuses: Callable[[], list[SourceStatus]],
) -> list[Route]:
    """Every route of preferences."""
    api = PreferencesApi(
        preferences,
        catalog=catalog,
        store=store,
        sources=sources,
        settings=settings,
        find_key=find_key,
        refresh=refresh,
        statuses=statuses,
    )
    return [
        Route(
            method="GET",
            path="/api/v1/tools/set",
            handler=api.show_tool_set,
            tag="Preferences",
            summary="Every tool as it stands for the key, everywhere or in a chat",
            query=ToolSetQuery,
            responses={200: ResponseSpec(description="The effective tools", type=ToolSet)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/tools/scenarios",
            handler=api.show_scenarios,
            tag="Preferences",
            summary="The state of each source",
            responses={200: ResponseSpec(description="One entry per source", type=list[ScenarioState])},
        ),
        Route(
            method="POST",
            path="/api/v1/tools/config",
            handler=api.set_enabled,
            scope=Scope.CALL,
            tag="Preferences",
            summary="Switch a tool on or off for the key",
            body=EnabledBody,
            responses={200: ResponseSpec(description="How the tool stands now", type=Changed)},
            errors=(404,),
        ),
        Route(
            method="DELETE",
            path="/api/v1/tools/config",
            handler=api.reset_preference,
            scope=Scope.CALL,
            tag="Preferences",
            summary="Forget what the key prefers of a tool",
            query=ResetQuery,
            responses={200: ResponseSpec(description="How the tool stands now", type=Changed)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/tools/config/approval",
            handler=api.set_approval,
            scope=Scope.ANSWER,
            tag="Preferences",
            summary="Override whether a tool asks a person first",
            body=ApprovalBody,
            responses={200: ResponseSpec(description="How the tool stands now", type=Changed)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/tools/refresh",
            handler=api.refresh_tools,
            scope=Scope.CALL,
            tag="Preferences",
            summary="Read every source anew",
            responses={200: ResponseSpec(description="What there is now", type=Refreshed)},
        ),
    ]
