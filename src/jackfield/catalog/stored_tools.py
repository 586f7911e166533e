"""Tools that live in the store: made over the API by an admin, or declared by a tool server.

They are read at the start and after every change, at any gateway, and handed to the sources that list them.
Above: the gateway and `stored_api.py`. Below: the store for the text, settings for its meaning, the sources.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry as AuditedChange
from jackfield.catalog.merge import check
from jackfield.catalog.names import Identity
from jackfield.errors import BadRequest, ConfigError, Conflict, Forbidden, ToolNotFound
from jackfield.model.principal import Principal
from jackfield.model.tool import ExecutionType, Tool, ToolKind
from jackfield.outgoing import Outgoing, OutgoingError
from jackfield.outgoing.urls import named_origin
from jackfield.settings import (
    RESERVED_SOURCES,
    Settings,
    ToolSettings,
    check_connection,
    is_source_name,
    parse_tool,
)
from jackfield.settings.origins import table_for_show
from jackfield.sources import transactions as tool_tx
from jackfield.sources.authorization import SourceLogins
from jackfield.sources.base import Source
from jackfield.sources.external import DeclaredSource, StoredSources
from jackfield.sources.live import SourceBook
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store

log = logging.getLogger("jackfield")

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
MOST_DECLARED = 100
"""Sources that one key may declare: each is kept, and is a label of the figures."""
TEST_SECONDS = 10.0
"""A server that takes no connection in this time cannot be reached, says a test."""
OWN_SOURCES = ("http", "internal", "external", "space")
"""What lists the tools of `[[tools]]` and of the API."""


class TriedTool(Struct, frozen=True, kw_only=True):
    """What came of testing a tool that is not kept."""

    identity: Identity
    server: str | None = None
    """The origin that took a connection."""
    error: str | None = None


class StoredTools:
    """The tools of the config's `[[tools]]` and of the store, by the source that lists them."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        source_registry: SourceRegistry,
        source_book: SourceBook,
        outgoing: Outgoing,
        audit: AuditLog,
        logins: SourceLogins | None = None,
    ) -> None:
        self._know(settings)
        self._audit = audit
        self._source_book = source_book
        self._store = store
        self._source_registry = source_registry
        self._declared: dict[str, DeclaredSource] = {}
        self._passed_over: set[str] = set()
        self._kept: dict[str, ToolSettings] = {}
        try:
            self._sources = StoredSources(self._listed_by, outgoing, logins)
        except ConfigError as fault:
            raise ConfigError(f"{settings.path}: {fault}") from None
        self._loading = asyncio.Lock()

    def _know(self, settings: Settings) -> None:
        self._configured = {tool.name: tool for tool in settings.tools}
        self._services = settings.services.keys()

    def check(self, settings: Settings) -> None:
        """Raise `ConfigError` where a tool of these settings could not be called."""
        try:
            self._sources.require_usable(tools_of(settings.tools, "http"))
        except ConfigError as fault:
            raise ConfigError(f"{settings.path}: {fault}") from None

    async def apply(self, settings: Settings) -> None:
        """Have the tools of these settings besides those of the store."""
        async with self._loading:
            self._know(settings)
            self._list()
        await self.load()

    @property
    def sources(self) -> tuple[Source, ...]:
        return self._sources.all

    @property
    def declared(self) -> frozenset[str]:
        """The sources whose tools a tool server declared."""
        return frozenset(name for name, source in self._declared.items() if self._source_registry.get(name) is source)

    def keeps(self, name: str) -> bool:
        """Whether a tool of this name was made over the API."""
        return name in self._kept

    def definition(self, name: str) -> dict[str, Any]:
        """What a tool was made with, without secrets. Raises `ToolNotFound` where it was not made over the API."""
        self._check_kept(name)
        given = msgspec.to_builtins(self._kept[name])
        return table_for_show({key: value for key, value in given.items() if value is not None})

    async def load(self) -> None:
        """Read everything anew and let the sources list it. One after another, so that the newest reading stands."""
        async with self._loading:
            await self._load()

    async def _load(self) -> None:
        texts = await self._store.read(tool_tx.stored_tools)
        self._kept = {name: tool for name, text in texts.items() for tool in _read([msgspec.json.decode(text)], name)}
        self._list()
        for declaration in await self._store.read(tool_tx.declarations):
            raws = msgspec.json.decode(declaration.definitions)
            await self._list_declared(declaration.source, _read(raws, declaration.source))

    def _list(self) -> None:
        # Stored urls are not the operator's words, so they may not reach private addresses.
        self._sources.replace(self._listed_by, foreign=frozenset(self._kept.keys() - self._configured.keys()))
        for name in OWN_SOURCES:
            self._source_registry.request_refresh(name)

    async def create(self, raw: Mapping[str, Any], *, principal: Principal) -> str:
        """Keep a new tool; its name must be free."""
        tool = self._new(raw)
        if not await self._put(tool, raw, principal, replace=False):
            raise _exists(tool.name)
        return tool.name

    async def test(self, raw: Mapping[str, Any]) -> TriedTool:
        """Judge a new tool as `create` does, and connect to its server. Nothing is called and nothing kept."""
        tool = self._new(raw)
        self._require_usable(tool)
        if self.keeps(tool.name):
            raise _exists(tool.name)
        identity = (source_of(tool), tool.name)
        if identity[0] != "http" or tool.execution is None:
            return TriedTool(identity=identity)
        seconds = TEST_SECONDS if tool.timeout is None else min(tool.timeout / 1000, TEST_SECONDS)
        try:
            server = await self._sources.reach(tool.execution.url, timeout=seconds)
        except OutgoingError as fault:
            return TriedTool(identity=identity, error=fault.message)
        return TriedTool(identity=identity, server=server)

    async def replace(self, name: str, raw: Mapping[str, Any], *, principal: Principal) -> str:
        """Give a kept tool another definition."""
        tool = self._parsed({"name": name, **raw})
        if tool.name != name:
            raise BadRequest(
                f"The body names '{tool.name}', the address '{name}'. A tool keeps its name.", param="name"
            )
        self._check_kept(name)
        await self._put(tool, {"name": name, **raw}, principal, replace=True)
        return name

    async def delete(self, name: str, *, principal: Principal) -> None:
        self._check_kept(name)
        before = self._kept.get(name)
        change = AuditedChange(actor=principal.name, action="tool.deleted", subject=name, before=before)
        await self._store.write(self._audit.noting(partial(tool_tx.delete_tool, name), lambda _: change))
        await self.load()

    async def declare(self, source: str, raws: Sequence[Mapping[str, Any]], *, principal: Principal) -> list[str]:
        """A tool server's tools, all of them, replacing those it declared before."""
        taken = self._is_taken(source)
        if taken or not is_source_name(source):
            why = "is taken by the gateway or its config" if taken else "is not a name for a source"
            raise Conflict(f"'{source}' {why}. Declare under another name of letters, digits, '_' or '-'.")
        tools = [self._parsed({"executionType": "external", **raw}, declared_by=source) for raw in raws]
        twice = [name for name, times in Counter(tool.name for tool in tools).items() if times > 1]
        if twice:
            raise BadRequest(f"Two of the tools are called '{twice[0]}'. Rename one of them.", param="tools")
        for tool in tools:
            if tool.execution_type is not ExecutionType.EXTERNAL or tool.execution is not None:
                raise BadRequest(
                    f"Tool '{tool.name}' must be external and have no url: the server that declares it answers it."
                )
            if tool.expires_in == 0:
                raise BadRequest(
                    f"Tool '{tool.name}': only the operator can let calls wait for ever. Give expiresIn a time."
                )
            if not principal.may_serve(tool.name):
                raise Forbidden(f"Key '{principal.name}' may not serve '{tool.name}'. It needs 'worker:{tool.name}'.")
        text = msgspec.json.encode([{"executionType": "external", **raw} for raw in raws]).decode()
        if not principal.is_admin:
            declared = await self._store.read(tool_tx.declarations)
            own = {one.source for one in declared if one.principal == principal.name}
            if source not in own and len(own) >= MOST_DECLARED:
                raise Conflict(
                    f"Key '{principal.name}' has declared {len(own)} sources, which is the most. Use one of those."
                )
        script = partial(tool_tx.declare, source, text, principal=principal.name, any_owner=principal.is_admin)
        if not await self._store.write(script):
            raise Forbidden(f"Source '{source}' was declared by another key.")
        await self.load()
        return [tool.name for tool in tools]

    def _new(self, raw: Mapping[str, Any]) -> ToolSettings:
        tool = self._parsed(raw)
        if tool.name in self._configured:
            raise Conflict(f"Tool '{tool.name}' stands in the config. Change it there, or choose another name.")
        return tool

    def _require_usable(self, tool: ToolSettings) -> None:
        """A url that cannot be used is refused now."""
        try:
            self._sources.require_usable(tools_of([tool], "http"))
        except ConfigError as fault:
            raise BadRequest(fault.message, param="execution") from None

    def _parsed(self, raw: Mapping[str, Any], *, declared_by: str | None = None) -> ToolSettings:
        """The tool, if it can be offered; whoever brings one that cannot is told now and not by a notice later.

        One that a tool server declares is judged as a foreign one.
        """
        try:
            where = f"Tool '{raw.get('name', '?')}'"
            tool = parse_tool(dict(raw), where=where)
            check_connection(tool, self._source_book.all, where=where)
            self._check_origin(tool, where=where)
        except ConfigError as fault:
            raise BadRequest(fault.message) from None
        if not _NAME.fullmatch(tool.name):
            raise BadRequest("A tool's name has 1 to 255 characters and no control characters.", param="name")
        listed = _tool(tool, source_of(tool)) if declared_by is None else _declared_tool(tool, declared_by)
        for notice in check(listed, None).notices:
            raise BadRequest(notice.message)
        return tool

    def _check_origin(self, tool: ToolSettings, *, where: str) -> None:
        """A tool of the API takes people's logins to the server they are for; any other server needs the config."""
        execution = tool.execution
        if execution is None or execution.connection is None:
            return
        source = next(one for one in self._source_book.all if one.name == execution.connection)
        urls = (source.options.get("url"), source.options.get("base_url"))
        own = {named_origin(url) for url in urls if isinstance(url, str)}
        try:
            is_own = named_origin(execution.url) in own
        except OutgoingError as fault:
            raise ConfigError(f"{where}.execution.url: {fault.message}") from None
        if not is_own:
            raise ConfigError(
                f"{where}.execution.connection takes logins of '{source.name}' to another server than that source's. "
                "Only a tool in the config may do that: add it there as [[tools]]."
            )

    def _check_kept(self, name: str) -> None:
        if name not in self._kept:
            raise ToolNotFound(f"No tool '{name}' was made over the API, so it cannot be changed here.", param="name")

    async def _put(self, tool: ToolSettings, raw: Mapping[str, Any], principal: Principal, *, replace: bool) -> bool:
        self._require_usable(tool)
        text = msgspec.json.encode(raw).decode()
        script = partial(tool_tx.put_tool, tool.name, text, created_by=principal.name, replace=replace)
        change = AuditedChange(
            actor=principal.name,
            action="tool.changed" if replace else "tool.created",
            subject=tool.name,
            before=self._kept.get(tool.name),
            after=raw,
        )
        kept = await self._store.write(self._audit.noting(script, lambda kept: change if kept else None))
        await self.load()
        return kept

    def _is_taken(self, name: str) -> bool:
        """Whether a source of this name is the gateway's or the operator's: no tool server takes its place."""
        if name in RESERVED_SOURCES or name in self._services or name in self._source_book:
            return True
        kept = self._source_registry.get(name)
        return kept is not None and kept is not self._declared.get(name)

    async def _list_declared(self, name: str, tools: Sequence[ToolSettings]) -> None:
        if self._is_taken(name):
            if name not in self._passed_over:
                log.warning("what a tool server declared as '%s' is not offered: another source is called so", name)
            self._passed_over.add(name)
            return
        self._passed_over.discard(name)
        source = self._declared.get(name)
        listed = tuple(_declared_tool(tool, name) for tool in tools)
        if source is None or self._source_registry.get(name) is None:
            self._declared[name] = DeclaredSource(name, listed)
            await self._source_registry.add(self._declared[name])
        else:
            source.replace(listed)
            self._source_registry.request_refresh(name)

    def _listed_by(self, source: str) -> tuple[Tool, ...]:
        """A tool of the config takes the place of a stored one of its name."""
        kept = [tool for name, tool in self._kept.items() if name not in self._configured]
        return tools_of([*self._configured.values(), *kept], source)


def _exists(name: str) -> Conflict:
    return Conflict(f"Tool '{name}' exists. Change it with PUT /api/v1/tools/{name}.")


def _read(raws: Sequence[dict[str, Any]], where: str) -> list[ToolSettings]:
    """Definitions from the store. One that this version cannot read costs that tool alone, not the start."""
    tools: list[ToolSettings] = []
    for raw in raws:
        try:
            tools.append(parse_tool(raw, where=f"A tool kept in the store under '{where}'"))
        except ConfigError as fault:
            log.error("%s Until then it is not offered.", fault)  # noqa: TRY400 - the sentence says it all
    return tools


def tools_of(settings: Sequence[ToolSettings], source: str) -> tuple[Tool, ...]:
    """Those tools that this source lists."""
    return tuple(_tool(tool, source) for tool in settings if source_of(tool) == source)


def source_of(tool: ToolSettings) -> str:
    """Seed 003's decision flow: internal first, then a url whatever the type, else whoever answers."""
    if tool.execution_type is ExecutionType.INTERNAL:
        return "internal"
    if tool.execution is not None:
        return "http"
    return "space" if tool.execution_type is ExecutionType.SPACE else "external"


def _declared_tool(tool: ToolSettings, source: str) -> Tool:
    """A tool server's words about its tool are not the operator's: it is foreign, and has a definition."""
    definition = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return msgspec.structs.replace(_tool(tool, source), definition=Raw(msgspec.json.encode(definition)))


def _tool(tool: ToolSettings, source: str) -> Tool:
    """A tool of seed 003's shape. Only `internal` ones are invisible unless they say otherwise."""
    visible = tool.visible if tool.visible is not None else tool.execution_type is not ExecutionType.INTERNAL
    return Tool(
        source=source,
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        kind=ToolKind.INTERNAL if source in ("http", "internal") else ToolKind.FUNCTION,
        execution_type=tool.execution_type,
        execution=tool.execution if source == "http" else None,
        visible=visible,
        is_async=tool.is_async,
        timeout_ms=tool.timeout,
        expires_in_ms=tool.expires_in,
        category=tool.category,
        metadata=tool.metadata,
    )
