"""Skills (`io.modelcontextprotocol/skills`, SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`.

Above: `server.py`. Below: the catalog's view of resources for what is listed, the sources for what is not. Files of
skills are read by `resources/read`, as every resource is.
"""

import asyncio
import mimetypes
import time
from typing import Any

import msgspec

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.resource_view import ResourceView
from jackfield.catalog.skills import OfferedSkill, offered_skill
from jackfield.errors import LoginNeeded, Refused, SourceUnavailable
from jackfield.http.response import encode
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.reading import FRESH_MS, after_cursor, list_page
from jackfield.mcp.results import caching, stamped
from jackfield.mcp.sessions import Caller
from jackfield.model.principal import Principal
from jackfield.model.resource import SCHEME, unqualified
from jackfield.model.skill import DIRECTORY, EXTENSION, SKILL_FILE
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RpcError, RpcRequest, text_param
from jackfield.sources.foreign import shown
from jackfield.sources.source_registry import SourceRegistry

PAGE = 50
"""Skills in one answer: an entry has all files of its skill."""
PAGE_OF_DIRECTORY = 1_000
ASK_SECONDS = 10.0
LOOK_SECONDS = 60.0
"""Seconds. An older list is still returned, and refreshed in the background."""
MOST_ASKED = 10
"""Sources that are asked for one skill that nobody lists."""
_MARKDOWN = "text/markdown"


class SkillMethods:
    """The methods of skills."""

    def __init__(self, catalog: Catalog, sources: SourceRegistry) -> None:
        self._catalog = catalog
        self._sources = sources
        self._looked: dict[str, float] = {}
        """By source: when its skills were last asked for anew."""
        self.methods = {
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "resources/directory/read": self.read_directory,
        }

    def extension(self, principal: Principal) -> dict[str, Any]:
        """How the extension is declared: always, and with directories where there is a skill that has one."""
        view = self._catalog.resources(principal)
        return {EXTENSION: {"directoryRead": True} if view.skills or view.skill_readers("") else {}}

    async def list_skills(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        after = after_cursor(request)
        if after is None:
            self._look_again(caller.principal)
        skills = [one for one in self._catalog.resources(caller.principal).skills if after is None or one.uri > after]
        last = skills[PAGE - 1].uri if len(skills) > PAGE else None
        return list_page(b"skills", [one.json for one in skills[:PAGE]], last, caller)

    def _look_again(self, principal: Principal) -> None:
        """Have servers list their skills anew, now and then: nothing tells when a skill has changed."""
        now = time.monotonic()
        for source in self._catalog.resources(principal).skill_readers(""):
            if now - self._looked.get(source, 0.0) > LOOK_SECONDS:
                self._looked[source] = now
                self._sources.request_refresh(source)

    async def get_skill(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        uri = text_param(request.params, "uri")
        found = await self._found(uri, caller.principal)
        if found is None:
            raise RpcError(INVALID_PARAMS, f"There is no skill at {shown(uri)}. List the skills.", {"uri": uri})
        members = b'"skill":%b' % found.json
        if caller.is_modern:
            members += b"," + caching(FRESH_MS)
        return stamped(members, revision=caller.revision)

    async def _found(self, uri: str, principal: Principal) -> OfferedSkill | None:
        """The skill as its source describes it now, or else as it listed it."""
        view = self._catalog.resources(principal)
        listed = view.skill(uri)
        if listed is not None:
            if listed.source not in view.skill_readers(listed.skill.uri):
                return listed
            is_taken = listed.uri != listed.skill.uri
            return await self._asked(listed.source, listed.skill.uri, principal, is_taken=is_taken) or listed
        named = unqualified(uri)
        source, own_uri = (None, uri) if named is None else named
        if not own_uri.endswith(f"/{SKILL_FILE}"):
            return None
        for reader in view.skill_readers(own_uri)[:MOST_ASKED]:
            if source in (None, reader):
                is_taken = source is not None or not _is_read_from(reader, own_uri, view)
                found = await self._asked(reader, own_uri, principal, is_taken=is_taken)
                if found is not None:
                    return found
        return None

    async def _asked(self, source: str, uri: str, principal: Principal, *, is_taken: bool) -> OfferedSkill | None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                skill = await self._sources.skill(source, uri, principal=principal.on_record)
        except (SourceUnavailable, LoginNeeded, TimeoutError):
            return None
        return None if skill is None else offered_skill(skill, is_taken=is_taken)

    async def read_directory(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        uri = text_param(request.params, "uri")
        view = self._catalog.resources(caller.principal)
        source = self._reader_of(uri, view)
        if source is not None:
            return await self._passed_on(uri, source, request, caller, view)
        children = view.directories.children(uri)
        if children is None:
            raise _no_directory(uri)
        after = after_cursor(request)
        listed = [one for one in children if after is None or one["uri"] > after]
        last = listed[PAGE_OF_DIRECTORY - 1]["uri"] if len(listed) > PAGE_OF_DIRECTORY else None
        page = [_described(one, view) for one in listed[:PAGE_OF_DIRECTORY]]
        return list_page(b"resources", page, last, caller)

    def _reader_of(self, uri: str, view: ResourceView) -> str | None:
        """The source that is asked what this directory has; None: the manifests say it, or nobody does."""
        asked = view.snapshot.skills.directories
        known = view.directories.source_of(uri)
        if known is not None:
            return known if known in asked and not uri.startswith(SCHEME) else None
        candidates = [source for source in sorted(asked) if view.sees(source, uri)]
        return candidates[0] if len(candidates) == 1 else None

    async def _passed_on(self, uri: str, source: str, request: RpcRequest, caller: Caller, view: ResourceView) -> bytes:
        """A page of the directory as its server gives it, without what the key may not see."""
        cursor = after_cursor(request)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer: dict[str, Any] = msgspec.json.decode(
                    await self._sources.directory(source, uri, cursor, principal=caller.principal.on_record)
                )
        except TimeoutError:
            raise SourceUnavailable(f"Source '{source}' did not answer within {ASK_SECONDS:g} s.") from None
        children = [encode(child) for child in answer["resources"] if view.sees(source, child["uri"])]
        return list_page(b"resources", children, answer.get("nextCursor"), caller)


def _is_read_from(source: str, uri: str, view: ResourceView) -> bool:
    """Whether a read of this URI goes to this source, and not to another that may have it too."""
    try:
        return view.find(uri).tool.source == source
    except Refused:
        return False


def _described(child: dict[str, Any], view: ResourceView) -> bytes:
    """A member of a directory as it is listed, else with what its name tells."""
    listed = view.snapshot.by_uri.get(child["uri"])
    if listed is not None and view.sees(listed.source, listed.own_uri):
        return listed.json
    if "mimeType" in child:
        return encode(child)
    name = child["name"]
    guessed = _MARKDOWN if name.endswith(".md") else mimetypes.guess_type(name)[0]
    return encode(child if guessed is None else {**child, "mimeType": guessed})


def _no_directory(uri: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"{shown(uri)} is not a directory ('{DIRECTORY}') here.", {"uri": uri})
